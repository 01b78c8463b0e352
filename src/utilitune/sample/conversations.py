"""Conversations: a walk over linked facts, in which every later turn leans on what was said before."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from utilitune.sample.entity import Entity, Fact, Group
from utilitune.sample.frames import phrases
from utilitune.sample.prose import sentence, slots
from utilitune.sample.questions import question

TURNS = (3, 5)
SWITCH, GO_BACK, ELLIPSIS, NOUN = 0.75, 0.3, 0.25, 0.4  # chances, where the move is possible

BARE = ("And in which year?", "And when was that?", "And by whom?", "And where?")
ACTS = ("founded", "founder", "built", "maker", "year", "born", "birthplace")


@dataclass(frozen=True)
class Exchange:
    """One turn with its answer.

    Attributes:
        entity: Asked about.
        attribute: Asked for.
        text: The question as typed.
        rewrite: The same, stand-alone.
        reply: What the assistant says.
        move: ``start``, ``stay``, ``ellipsis``, ``switch`` or ``back``.
    """

    entity: Entity
    attribute: str
    text: str
    rewrite: str
    reply: str
    move: str

    @property
    def fact(self) -> Fact:
        """The fact that answers."""
        return self.entity.facts[self.attribute]


@dataclass
class _Talk:
    group: Group
    free: dict[str, list[str]]  # entity key -> attributes not yet asked
    rng: Random
    said: list[Exchange] = field(default_factory=list)

    def take(self, entity: Entity, *, linking: bool = False) -> str:
        """Choose an attribute of the entity that was not asked yet; rather one that leads on, if ``linking``."""
        names = self.free[entity.key]
        onward = [name for name in names if self.free.get(entity.facts[name].target)]
        name = self.rng.choice(onward if linking and onward else names)
        names.remove(name)
        return name

    def move(self) -> tuple[str, Entity]:
        """Choose where the talk goes next."""
        last = self.said[-1]
        target = last.fact.target
        if target and self.free.get(target) and self.rng.random() < SWITCH:
            return "switch", self.group.entities[target]
        earlier = self._earlier(last.entity)
        if earlier and (not self.free[last.entity.key] or self.rng.random() < GO_BACK):
            return "back", self.rng.choice(earlier)
        if target and self.free.get(target) and not self.free[last.entity.key]:
            return "switch", self.group.entities[target]
        return ("ellipsis" if self.rng.random() < ELLIPSIS else "stay"), last.entity

    def _earlier(self, current: Entity) -> list[Entity]:
        """Entities talked about before that "the <noun>" picks out."""
        seen = {turn.entity.key: turn.entity for turn in self.said}
        nouns = [entity.noun for entity in seen.values()]
        return [
            entity
            for entity in seen.values()
            if entity is not current and nouns.count(entity.noun) == 1 and self.free[entity.key]
        ]

    def ask(self, move: str, entity: Entity, attribute: str) -> tuple[str, str]:
        """Word the question and its stand-alone form."""
        bank = phrases(entity.kind)[attribute]
        frame = self.rng.choice(bank.ask)
        rewrite = question(entity, frame, "name")
        if move == "start":
            return rewrite, rewrite
        if move == "ellipsis":
            return sentence(self._brief(bank.brief).format(**slots(entity, "pronoun"))), rewrite
        if move == "back":
            if self.rng.random() < 0.5 and not frame.says(entity.noun):
                return question(entity, frame, "noun"), rewrite
            text = question(entity, frame, "pronoun")
            return f"Going back to the {entity.noun}: {text[0].lower()}{text[1:]}", rewrite
        how = self._mention(move, entity)
        if how != "pronoun" and frame.says(entity.noun):
            how = "pronoun"
        text = question(entity, frame, how)
        if move == "switch" and self.rng.random() < 0.25:
            text = f"And {text[0].lower()}{text[1:]}"
        return text, rewrite

    def _brief(self, forms: tuple[str, ...]) -> str:
        """Choose an elliptic form; the barest make sense only after a question about the same act."""
        if self.said[-1].attribute not in ACTS:
            forms = tuple(form for form in forms if form not in BARE)
        return self.rng.choice(forms)

    def _mention(self, move: str, entity: Entity) -> str:
        if move == "switch":
            return "pronoun" if self.rng.random() < (0.6 if entity.gender else 0.4) else "that"
        clash = bool(entity.gender) and self.said[-1].fact.gender == entity.gender
        return "noun" if clash or self.rng.random() < NOUN else "pronoun"

    def reply(self, entity: Entity, attribute: str) -> str:
        """Answer shortly: the value alone or a short sentence."""
        fact = entity.facts[attribute]
        if self.rng.random() < 0.5:
            return sentence(fact.value)
        tail = self.rng.choice(phrases(entity.kind)[attribute].tail)
        filled = slots(entity, "pronoun", fact)
        return sentence(f"{filled['it']} {tail.format(**filled)}")


def converse(group: Group, facts: list[tuple[Entity, str]], start: Entity, rng: Random) -> list[Exchange]:
    """Walk through the facts of a group.

    Args:
        group: The group.
        facts: What may be asked (``questions.askable``).
        start: Entity of the first turn.
        rng: Source of all choices.

    Returns:
        Three to five exchanges; no fact is asked twice.
    """
    free: dict[str, list[str]] = {}
    for entity, attribute in facts:
        free.setdefault(entity.key, []).append(attribute)
    talk = _Talk(group, free, rng)
    move, entity = "start", start
    for _ in range(rng.randint(*TURNS)):
        if talk.said:
            move, entity = talk.move()
        if not free[entity.key]:
            break
        attribute = talk.take(entity, linking=rng.random() < 0.6)
        text, rewrite = talk.ask(move, entity, attribute)
        talk.said.append(Exchange(entity, attribute, text, rewrite, talk.reply(entity, attribute), move))
    return talk.said
