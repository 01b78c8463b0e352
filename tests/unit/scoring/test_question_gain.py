"""The question as the text to be explained: by hand, against a plain forward pass, and what must not matter."""

from math import fsum

import pytest

from utilitune.generator.protocol import Continuation, Generation
from utilitune.records.passage import Passage
from utilitune.records.query import Query, Turn
from utilitune.scoring import Force, label_sets, make_utility

QUERY = Query("q", "Who led Orlen?")
PASSAGE = Passage("p", "Mira led Orlen.")


def numbers(text, logprobs, kind=Continuation):
    tokens = tuple(f"t{place}" for place in range(len(logprobs)))
    return kind(text, tokens, tuple(range(len(logprobs))), tuple(logprobs), None)


SPACED = {
    "question:Who led Orlen?": numbers("Who led Orlen?", [-1.0, -1.0]),
    "question_bare:Who led Orlen?": numbers("Who led Orlen?", [-9.0, -9.0]),
    "question: Who led Orlen?": numbers(" Who led Orlen?", [-2.0, -1.0, -0.5]),
    "question_bare: Who led Orlen?": numbers(" Who led Orlen?", [-4.0, -2.0, -3.5]),
}
ANSWER = {
    "grounded": numbers("Mira", [-0.5, -0.25], Generation),
    "bare": numbers("Tal is", [-3.5, -0.75, -1.0], Generation),
}


def test_by_hand_with_the_spelling_that_is_likelier_without_passages():
    value = make_utility("question-gain").value(QUERY, [PASSAGE], SPACED)
    assert value.utility == pytest.approx((2.0 + 1.0 + 3.0) / 3, abs=1e-12)
    assert value.evidence["question"]["text"] == " Who led Orlen?"
    assert value.evidence["question_bare"]["logprobs"] == [-4.0, -2.0, -3.5]


def test_joint_gain_adds_question_and_confidence():
    value = make_utility("joint-gain").value(QUERY, [PASSAGE], {**SPACED, **ANSWER})
    assert value.utility == pytest.approx(2.0 + (-0.375 + 1.75), abs=1e-12)
    assert value.evidence["gain"] == {"question": pytest.approx(2.0), "answer": pytest.approx(1.375)}
    assert value.evidence["answer"] == "Mira"


def test_joint_gain_tells_of_a_cut_in_either_context():
    cut = {**SPACED, "question: Who led Orlen?": Continuation(" W", ("t",), (1,), (-1.0,), None, truncated=True)}
    cut["question_bare: Who led Orlen?"] = numbers(" W", [-2.0])
    assert make_utility("joint-gain").value(QUERY, [PASSAGE], {**cut, **ANSWER}).evidence["truncated"]


def test_what_is_asked():
    talk = Query("c_2", "And then?", (Turn("user", "Who led Orlen?"), Turn("assistant", "Mira.")))
    asked = make_utility("question-gain").requests(talk, [PASSAGE])
    assert all(isinstance(each, Force) for each in asked.values())
    words = "Who led Orlen? And then?"
    assert {each.text for each in asked.values()} == {words, f" {words}"}, (
        "first and last question, nothing of the answers"
    )
    after, alone = asked[f"question:{words}"].prompt.plain, asked[f"question_bare:{words}"].prompt.plain
    assert PASSAGE.text in after and PASSAGE.text not in alone
    assert "led Orlen?" not in after, "the question is scored, never shown"
    shared = make_utility("joint-gain").requests(talk, [PASSAGE])
    assert asked.items() <= shared.items()
    assert make_utility("grogu").requests(talk, [PASSAGE]).items() <= shared.items()


@pytest.mark.parametrize("spec", ["question-gain", "joint-gain"])
@pytest.mark.parametrize("passages", [(), (Passage("w", " \n "),)])
def test_nothing_to_read_is_exactly_zero(tiny, spec, passages):
    (row,) = label_sets([(QUERY, passages)], [spec], tiny).rows
    assert row.status == "ok" and row.utility == 0.0


@pytest.mark.parametrize("spec", ["question-gain", "joint-gain"])
def test_sets_and_single_passages_against_one_plain_forward_pass(tiny, spec):
    pool = (PASSAGE, Passage("o", "The river Dun is long."), Passage("z", "Orlen is a town."))
    for passages in ((pool[0],), pool):
        (row,) = label_sets([(QUERY, passages)], [spec], tiny).rows
        head = "\n".join(f"Document: {each.full_text}" for each in passages)
        best = max(
            (tiny.score(["Question:"], [text])[0] for text in ("Who led Orlen?", " Who led Orlen?")),
            key=lambda each: fsum(each.logprobs) / len(each.logprobs),
        )
        with_passages = tiny.score([f"{head}\nQuestion:"], [best.text])[0]
        gains = [ours - theirs for ours, theirs in zip(with_passages.logprobs, best.logprobs, strict=True)]
        expected = fsum(gains) / len(gains)
        if spec == "joint-gain":
            expected += label_sets([(QUERY, passages)], ["grogu:mean-logprob"], tiny).rows[0].utility
        assert row.utility == pytest.approx(expected, abs=1e-9)
