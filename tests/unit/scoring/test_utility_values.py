"""Every utility on numbers that can be worked out by hand."""

from math import exp, log

import pytest

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation, Generation
from utilitune.records.passage import Passage
from utilitune.records.query import Query, Turn
from utilitune.scoring import UTILITIES, Force, Greedy, Rescore, make_utility

QUERY = Query("q", "What is the capital of Lubana?")
PASSAGE = Passage("p", "Veltra is the capital of Lubana.")
TOKENS = ("The", " capital", " is", " Veltra")


def numbers(logprobs, entropies, tokens=TOKENS, kind=Continuation):
    return kind("".join(tokens), tuple(tokens), tuple(range(len(tokens))), tuple(logprobs), tuple(entropies))


RESPONSES = {
    "grounded": numbers([-0.1, -0.1, -0.1, -0.1], [0.4, 0.3, 0.2, 0.1], kind=Generation),
    "grounded_under_bare": numbers([-0.2, -0.1, -0.3, -4.1], [0.8, 0.7, 0.2, 5.1]),
    "bare": numbers([-0.5, -0.7], [1.0, 3.0], ("The", " Orlen"), kind=Generation),
    "bare_under_grounded": numbers([-0.6, -2.7], [0.5, 0.6], ("The", " Orlen")),
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("information-gain", (0.1 + 0.0 + 0.2 + 4.0) / 4),
        ("entropy-drop", (0.4 + 0.4 + 0.0 + 5.0) / 4),
        ("grogu", -0.25 + 2.0),
        ("grogu:mean-entropy", -0.25 + 2.0),
        ("grogu:max-entropy", -0.4 + 3.0),
        ("grogu:first-token-entropy", -0.4 + 1.0),
        ("grogu:mean-logprob", -0.1 + 0.6),
        ("grogu:perplexity", -exp(0.1) + exp(0.6)),
        # Only " Veltra" moves by 1 nat or more; of the bare answer only " Orlen".
        ("grogu:key-entropy", -0.1 + 3.0),
        ("grogu:key-entropy,tau=0.19", -(0.2 + 0.1) / 2 + 3.0),
        ("grogu:key-entropy,tau=100", -0.25 + 2.0),
        ("grogu:key-entropy,selector=all", -0.25 + 2.0),
        ("grogu:key-entropy,selector=question-overlap", -0.1 + 3.0),
    ],
)
def test_by_hand(spec, expected):
    utility = make_utility(spec)
    asked = utility.requests(QUERY, [PASSAGE])
    value = utility.value(QUERY, [PASSAGE], {name: RESPONSES[name] for name in asked})
    assert value.utility == pytest.approx(expected, abs=1e-12)
    assert value.evidence["prompt"] == "answer"
    assert value.evidence["answer"] == "The capital is Veltra"
    assert value.evidence["grounded"]["logprobs"] == [-0.1] * 4
    assert not value.evidence["truncated"]


def test_all_selector_equals_mean_entropy_exactly():
    values = []
    for spec in ("grogu:mean-entropy", "grogu:key-entropy,selector=all"):
        values.append(make_utility(spec).value(QUERY, [PASSAGE], RESPONSES).utility)
    assert values[0] == values[1]


def test_what_is_asked_and_what_is_shared():
    gain, drop, key = map(make_utility, ("information-gain", "entropy-drop", "grogu:key-entropy"))
    asked = gain.requests(QUERY, [PASSAGE])
    grounded = asked["grounded"]
    assert isinstance(grounded, Greedy) and "Veltra" in grounded.prompt.plain
    assert isinstance(asked["grounded_under_bare"], Rescore)
    assert "Veltra" not in asked["grounded_under_bare"].prompt.plain
    assert drop.requests(QUERY, [PASSAGE]) == asked
    assert asked.items() <= key.requests(QUERY, [PASSAGE]).items()
    other = key.requests(QUERY, [Passage("z", "Other.")])
    assert other["bare"] == key.requests(QUERY, [PASSAGE])["bare"], "one bare answer a query"


@pytest.mark.parametrize("spec", UTILITIES)
def test_the_conversation_is_read(spec):
    """In the prompt, or in the text that is scored after it."""
    history = (Turn("user", "Where is Quillon?"), Turn("assistant", "By the sea."))
    query = Query("q", "And its mayor?", history, answers=("Ada Fenn",))
    for request in make_utility(spec).requests(query, [PASSAGE]).values():
        scored = getattr(request, "text", "")
        assert "Quillon" in request.prompt.plain + scored
        assert "Quillon" in " ".join([*(content for _, content in request.prompt.messages), scored])


def force(logprobs, ids):
    return Continuation("", ("t",) * len(logprobs), ids, tuple(logprobs), None)


def test_abstention_by_hand():
    responses = {"NO-RESPONSE": force([log(0.25), log(0.5)], (1, 2))}
    first = make_utility("abstention")
    asked = first.requests(QUERY, [PASSAGE])
    assert list(asked.values()) == [Force(asked["NO-RESPONSE"].prompt, "NO-RESPONSE")]
    assert asked["NO-RESPONSE"].prompt.plain.endswith("Answer: "), "after a plain prompt the word follows a space"
    plain = asked["NO-RESPONSE"].prompt.plain
    assert plain.index("Veltra is") < plain.index(QUERY.text), "document before question"
    assert first.value(QUERY, [PASSAGE], responses).utility == pytest.approx(0.75)
    assert make_utility("abstention,reading=sequence").value(QUERY, [PASSAGE], responses).utility == pytest.approx(
        0.875
    )


def test_abstention_in_the_likelier_spelling():
    responses = {
        "NO-RESPONSE": force([log(1e-9)], (1,)),
        " NO-RESPONSE": force([log(0.6), log(0.5)], (9, 2)),
    }
    likelier = make_utility("abstention,spelling=likelier")
    assert likelier.name == "abstention,spelling=likelier"
    asked = likelier.requests(QUERY, [PASSAGE])
    assert list(asked) == list(responses)
    assert {request.prompt.plain[-7:] for request in asked.values()} == {"Answer:"}
    assert likelier.value(QUERY, [PASSAGE], responses).utility == pytest.approx(0.4)
    whole = make_utility("abstention,reading=sequence,spelling=likelier")
    assert whole.value(QUERY, [PASSAGE], responses).utility == pytest.approx(0.7)


def test_abstention_mass_does_not_count_twice():
    mass = make_utility("abstention,reading=mass")
    asked = list(mass.requests(QUERY, [PASSAGE]))
    responses = dict.fromkeys(asked, force([log(0.1)], (1,)))  # all spellings are one and the same token
    assert mass.value(QUERY, [PASSAGE], responses).utility == pytest.approx(0.9)
    responses[asked[1]] = force([log(0.1), log(0.5)], (1, 7))  # extends the first: part of it
    responses[asked[2]] = force([log(0.2), log(0.5)], (3, 7))  # another one
    assert mass.value(QUERY, [PASSAGE], responses).utility == pytest.approx(0.8)


def test_udcg_reference_numbers():
    # u of the reference's own example: no-response probabilities of two relevant passages.
    for probability in (2.086162567138672e-06, 1.341104507446289e-05, 0.1318359375):
        value = make_utility("abstention").value(
            QUERY,
            [PASSAGE],
            {"NO-RESPONSE": force([log(probability)], (1,))},
        )
        assert value.utility == pytest.approx(1 - probability, abs=1e-15)


def test_missing_entropies_leave_logprob_utilities_alone():
    bare = {
        name: Continuation(each.text, each.tokens, each.token_ids, each.logprobs, None)
        for name, each in RESPONSES.items()
    }
    for spec in ("information-gain", "grogu:mean-logprob", "grogu:perplexity"):
        assert make_utility(spec).value(QUERY, [PASSAGE], bare).utility
    for spec in ("entropy-drop", "grogu", "grogu:key-entropy"):
        with pytest.raises(ValueError, match="no exact entropies"):
            make_utility(spec).value(QUERY, [PASSAGE], bare)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grogu:key-entropy,tau=-1", "at least 0"),
        ("grogu:key-entropy,tau=nan", "at least 0"),
        ("grogu:key-entropy,tau=big", "number of nats"),
        ("grogu:key-entropy,selector=best", "question-overlap"),
        ("grogu:key-entropy,selector=all,tau=1", "no meaning"),
        ("abstention,reading=loud", "first-token, sequence, mass"),
        ("abstention,spelling=odd", "reference, likelier"),
        ("abstention,reading=mass,spelling=likelier", "no meaning"),
        ("information-gain,max_new_tokens=0", "at least 1"),
        ("information-gain,max_new_tokens=true", "at least 1"),
    ],
)
def test_bad_parameters(spec, message):
    with pytest.raises(ConfigError, match=message):
        make_utility(spec)
