"""Facts into prose: tone, order, joined and embedded clauses, who is named when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from utilitune.sample.entity import PRONOUNS, Entity, Fact
from utilitune.sample.frames import Frame, Tone, fillers, leads, phrases, sections, tones
from utilitune.sample.names import package_yaml, phonologies

FEWEST, MOST = (61, 74), 118  # words: the least a passage aims at is drawn from the first; the promise is 60 to 120
ASIDE_STEP, MOST_ASIDES = 11, 8
_MENTION = re.compile(r"\{(?:S|P|O)\}")


@dataclass
class _Writer:
    """Keeps track of how the entity was last mentioned, so that pronouns stay clear."""

    entity: Entity
    rng: Random
    mentioned: bool = False
    blocked: bool = False  # the last sentence ended on another name: no pronoun now

    def refer(self) -> str:
        """Choose how to mention the entity: ``name``, ``noun`` or ``pronoun``."""
        if not self.mentioned:
            return "name"
        draw = self.rng.random()
        if draw < 0.5 and not self.blocked:
            return "pronoun"
        return "noun" if draw < 0.8 else "name"

    def slots(self, how: str, fact: Fact | None = None) -> dict[str, str]:
        """Return the values of the placeholders for this mention."""
        return slots(self.entity, how, fact)

    def after(self, fact: Fact | None) -> None:
        """Note what the sentence just written did."""
        self.mentioned = True
        self.blocked = fact is not None and bool(fact.target or fact.gender)


def article(noun: str) -> str:
    """Return ``noun`` with a or an."""
    return ("an " if noun[0] in "aeiouAEIOU" and not noun.startswith(("uni", "one")) else "a ") + noun


def slots(entity: Entity, how: str, fact: Fact | None = None) -> dict[str, str]:
    """Return placeholder values.

    Args:
        entity: The entity spoken of.
        how: ``name``, ``noun`` (the bridge), ``that`` (that bridge) or ``pronoun``.
        fact: The fact stated, for ``{v}`` and ``{av}``.

    Returns:
        Values of ``S P O it its him v av noun role spouse name``.
    """
    it, its, him = PRONOUNS[entity.gender]
    if how == "pronoun":
        subject, owner, other = it, its, him
    else:
        subject = other = {"name": entity.name, "that": f"that {entity.noun}"}.get(how, f"the {entity.noun}")
        owner = subject + "'s"
    value = fact.value if fact else ""
    spouse = "husband" if entity.gender == "female" else "wife"
    return {
        "S": subject, "P": owner, "O": other, "it": it, "its": its, "him": him, "v": value,
        "av": article(value) if value else "", "noun": entity.noun, "role": entity.noun, "spouse": spouse,
        "name": entity.title,
    }  # fmt: skip


def sentence(text: str) -> str:
    """Capitalise the first letter and close with a full stop if there is no end mark."""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?!" else text + "."


def write(entity: Entity, section: int, rng: Random, turn: int) -> tuple[str, str, str, dict[str, Fact]]:
    """Write one passage.

    Args:
        entity: What it is about.
        section: Which of the entity's passages.
        rng: Source of all choices.
        turn: Number of the passage; asides go by turns.

    Returns:
        Title, text, tone name, and the facts that it states.
    """
    facts = {name: entity.facts[name] for name in sections(entity.kind)[section] if name in entity.facts}
    order = list(facts)
    rng.shuffle(order)
    choices = tones(entity.kind)
    tone = choices[0] if rng.random() < 0.2 else rng.choice(choices)
    if tone.name == "obituary" and entity.birth < 1750:
        tone = choices[0]
    extra = _extra(entity, rng)
    writer = _Writer(entity, rng)
    told = _tell(writer, order, facts, opening=_opening(writer, tone, extra))
    text = _fit(told, tone, entity, rng, extra, turn)
    title = rng.choice(tone.titles).format(**extra)
    return title, text, tone.name, facts


def _extra(entity: Entity, rng: Random) -> dict[str, str]:
    pool = rng.choice(phonologies())
    more = {
        "friend": rng.choice(pool.given["female"] if rng.random() < 0.5 else pool.given["male"]),
        "a_day": rng.choice(package_yaml("values.yaml")["weekdays"]),
        "room": str(rng.randint(2, 29)),
        "a_role": article(entity.noun),
    }
    return slots(entity, "name") | more


def _opening(writer: _Writer, tone: Tone, extra: dict[str, str]) -> list[str]:
    if not tone.open:
        return []
    writer.after(None)
    return [sentence(writer.rng.choice(tone.open).format(**extra))]


def _tell(writer: _Writer, order: list[str], facts: dict[str, Fact], opening: list[str]) -> list[str]:
    told = list(opening)
    kind, rng = writer.entity.kind, writer.rng
    bank = phrases(kind)
    rest = list(order)
    while rest:
        first = rest.pop(0)
        draw = rng.random()
        if rest and draw < 0.2:
            second = rest.pop(0)
            told.append(_joined(writer, draw, first, second, facts))
            writer.after(facts[second])
            continue
        told.append(_single(writer, _frame(writer, bank[first].say), facts[first]))
        writer.after(facts[first])
    return told


def _joined(writer: _Writer, draw: float, first: str, second: str, facts: dict[str, Fact]) -> str:
    """Two facts in one sentence: two predicates, a phrase set in, or a phrase set in front."""
    rng, bank = writer.rng, phrases(writer.entity.kind)
    one, two = facts[first], facts[second]
    how = writer.refer()
    if draw < 0.08:
        subject = writer.slots(how, one)
        start = rng.choice(bank[first].tail).format(**subject)
        end = rng.choice(bank[second].tail).format(**writer.slots("pronoun", two))
        return sentence(f"{subject['S']} {start} and {end}")
    phrase = rng.choice(bank[first].phrase).format(**writer.slots("pronoun", one))
    if draw < 0.14:
        how = "name" if how == "pronoun" else how
        subject = writer.slots(how, two)
        return sentence(f"{subject['S']}, {phrase}, {rng.choice(bank[second].tail).format(**subject)}")
    subject = writer.slots(how, two)
    return sentence(f"{phrase}, {subject['S']} {rng.choice(bank[second].tail).format(**subject)}")


def _frame(writer: _Writer, frames: tuple[Frame, ...]) -> Frame:
    """Choose a frame; the first sentence must name the entity."""
    frame = writer.rng.choice(frames)
    while not writer.mentioned and not _MENTION.search(frame.named):
        frame = writer.rng.choice(frames)
    return frame


def _single(writer: _Writer, frame: Frame, fact: Fact) -> str:
    how = writer.refer()
    if how == "pronoun" and not frame.pronoun_reads_well:
        how = "noun"
    if how == "noun" and frame.says(writer.entity.noun):
        how = "name"
    text = (frame.pronoun if how == "pronoun" else frame.named).format(**writer.slots(how, fact))
    if frame.leads and writer.mentioned and writer.rng.random() < 0.22:
        text = writer.rng.choice(leads()).format(x=text)
    return sentence(text)


def _fit(told: list[str], tone: Tone, entity: Entity, rng: Random, extra: dict[str, str], turn: int) -> str:
    """Add a closing and asides until the passage is long enough, and drop what makes it too long."""
    stock = fillers(entity.kind)
    start = turn * ASIDE_STEP % len(stock)  # by turns, not by chance: none is used much more often than another
    asides = [stock[(start + i * ASIDE_STEP) % len(stock)] for i in range(MOST_ASIDES)]
    words = sum(len(part.split()) for part in told)
    fewest = rng.randint(*FEWEST)
    if rng.random() < 0.45:
        closing = sentence(rng.choice(tone.close).format(**extra))
        told.append(closing)
        words += len(closing.split())
    while words < fewest and asides:
        aside = asides.pop(0)
        told.insert(rng.randint(1, len(told) - 1) if len(told) > 1 else 1, aside)
        words += len(aside.split())
    while words > MOST and len(told) > 1:
        words -= len(told.pop().split())
    return " ".join(told)
