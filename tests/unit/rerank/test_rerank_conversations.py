"""What a hold-out keeps together: conversations, and no questions whose ids only look like turns."""

from __future__ import annotations

import pytest

from utilitune.records import Dataset, Labels, Passage, Query, Run, Turn, UtilityLabel
from utilitune.rerank import build_groups
from utilitune.rerank.conversations import find_conversations
from utilitune.rerank.split import hold_out
from utilitune.rerank.student.teacher import groups_of_run

SAID = (Turn("user", "who?"),)


def test_by_hand():
    queries = [
        *(Query("nq_1", "a"), Query("nq_2", "b")),  # share a name, and nothing tells of a conversation
        *(Query("c1_1", "a"), Query("c1_2", "b", SAID)),  # the second turn tells
        *(Query("t_1", "a", metadata={"conversation": "talk"}), Query("t_2", "b", metadata={"conversation": "talk"})),
        Query("c7_1", "a"),  # alone: as ever
        Query("plain", "a"),
    ]
    assert find_conversations(queries) == {
        "nq_1": "nq_1",
        "nq_2": "nq_2",
        "c1_1": "c1",
        "c1_2": "c1",
        "t_1": "talk",
        "t_2": "talk",
        "c7_1": "c7",
        "plain": "plain",
    }
    assert find_conversations([]) == {}


def test_of_conversations_every_name_stays():
    turns = [Query(f"c{talk}_{turn}", "x", SAID * turn) for talk in range(9) for turn in range(talk % 3 + 1)]
    assert find_conversations(turns) == {turn.id: turn.conversation for turn in turns}


class Reader:
    def score_pairs(self, pairs):
        return [float(len(passage)) for _, passage in pairs]


CORPUS = [Passage("p0", "short"), Passage("p1", "a longer one")]
ALONE = [Query(f"nq_{number}", f"question {number}") for number in range(12)]
TALK = [Query("c1_1", "who?"), Query("c1_2", "and her?", SAID)]


@pytest.mark.parametrize("source", ["labels", "run"])
@pytest.mark.parametrize("others", [[], TALK])
def test_stand_alone_questions_of_one_prefix_can_be_held_out(source, others):
    dataset = Dataset(CORPUS, [*ALONE, *others])
    if source == "labels":
        rows = [UtilityLabel(one.id, (f"p{at}",), float(at), "ok", "u@0") for one in dataset.queries for at in (0, 1)]
        groups = build_groups(Labels(rows), dataset)
    else:
        run = Run({one.id: [("p0", 2.0), ("p1", 1.0)] for one in dataset.queries})
        groups = groups_of_run(run, dataset, Reader())
    train, dev = hold_out(groups, 0.3, 13)
    assert train and dev
    places = [{one.query_id.startswith("c1") for one in side if one.conversation == "c1"} for side in (train, dev)]
    assert sum(map(bool, places)) == bool(others), "the turns of a conversation are on one side"
