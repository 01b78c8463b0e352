"""Stand-alone questions: one fact of one entity, named."""

from __future__ import annotations

from random import Random

from utilitune.sample.entity import Entity, Group
from utilitune.sample.frames import Frame, phrases
from utilitune.sample.layout import number_of
from utilitune.sample.prose import sentence, slots

MOST_ANSWER_WORDS = 4


def askable(group: Group, passages: int) -> list[tuple[Entity, str]]:
    """List the facts of a group that can be asked about.

    Args:
        group: The group.
        passages: Size of the corpus; facts of passages beyond it are left out.

    Returns:
        (entity, attribute) pairs whose answer has at most ``MOST_ANSWER_WORDS`` words.
    """
    return [
        (entity, attribute)
        for entity in group.entities.values()
        for attribute, fact in entity.facts.items()
        if len(fact.answers[0].split()) <= MOST_ANSWER_WORDS and number_of(group, entity, attribute) < passages
    ]


def question(entity: Entity, frame: Frame, how: str) -> str:
    """Fill a question frame, the entity mentioned as ``how`` says (see ``prose.slots``)."""
    text = frame.pronoun if how == "pronoun" else frame.named
    return sentence(text.format(**slots(entity, how, entity.facts[next(iter(entity.facts))])))


def stand_alone(entity: Entity, attribute: str, rng: Random) -> str:
    """Return one wording of the question for an attribute."""
    return question(entity, rng.choice(phrases(entity.kind)[attribute].ask), "name")
