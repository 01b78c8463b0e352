"""Utilities that read gold answers, on numbers that can be worked out by hand."""

from math import exp, log

import pytest

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation, Generation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring import Draw, Force, Greedy, Sample, make_utility
from utilitune.scoring.dig import weighted_probability
from utilitune.scoring.entailment import make_judge
from utilitune.scoring.sper import belief, likelihood_weights

ONE, TWO = Passage("p", "Veltra is the capital of Lubana."), Passage("r", "Lubana is green.")
QUERY = Query("q", "What is the capital of Lubana?", answers=("Veltra", "  ", "Veltra City", "Veltra "))
FORMS = ["Veltra", " Veltra", "Veltra City", " Veltra City"]
GOLDEN = ["erag", "sper", "answer-likelihood", "loop", "dig", "contrastive-ppl"]


def scored(*logprobs, truncated=False):
    return Continuation("", ("t",) * len(logprobs), tuple(range(len(logprobs))), logprobs, None, truncated=truncated)


def said(text, *logprobs):
    return Generation(text, ("t",) * len(logprobs), tuple(range(len(logprobs))), logprobs, None)


def context(name, numbers):
    return {f"{name}:{form}": scored(*logprobs) for form, logprobs in zip(FORMS, numbers, strict=True)}


# Best is " Veltra City": mean -0.4. A sum would prefer "Veltra" (-0.9).
GROUNDED = context("grounded", [(-0.9,), (-5.0,), (-2.0, -2.0), (-0.2, -0.2, -0.2, -1.0)])
BARE = context("bare", [(-1.0,), (-1.0,), (-1.0, -1.0), (-2.0, -3.0, -1.0, -4.0)])


@pytest.mark.parametrize("name", GOLDEN)
def test_gold_answers_are_needed(name):
    utility = make_utility(name)
    assert utility.needs_answers
    responses = {f"{context}-{number}": said("x", -1.0) for context in ("grounded", "bare") for number in range(10)}
    responses["grounded"] = said("x", -1.0)
    for answers in ((), ("",), (" ", "\n")):
        with pytest.raises(ValueError, match="no gold answer"):
            utility.requests(Query("q", "Who?", answers=answers), [ONE])
            utility.value(Query("q", "Who?", answers=answers), [ONE], responses)


def test_answer_likelihood():
    utility = make_utility("answer-likelihood")
    asked = utility.requests(QUERY, [ONE, TWO])
    assert [request.text for request in asked.values()] == FORMS, "blank and repeated golds are left out"
    assert all(isinstance(request, Force) and "green" in request.prompt.plain for request in asked.values())
    value = utility.value(QUERY, [ONE, TWO], GROUNDED)
    assert value.utility == pytest.approx(-0.4, abs=1e-12)
    assert value.evidence["gold"] == " Veltra City"
    assert value.evidence["grounded"]["Veltra"] == [-0.9]
    assert value.evidence["truncated"] is False
    cut = {**GROUNDED, "grounded:Veltra": scored(-0.9, truncated=True)}
    assert utility.value(QUERY, [ONE], cut).evidence["truncated"] is True


def test_dig():
    utility = make_utility("dig")
    assert list(utility.requests(QUERY, [ONE])) == [*GROUNDED, *BARE]
    value = utility.value(QUERY, [ONE], {**GROUNDED, **BARE})
    # " Veltra City" has the highest weighted probability; the bare side is of the same spelling.
    with_passage = exp(0.8 * -0.2 + 0.2 * -1.0)
    without = exp(0.8 * (-2.0 - 3.0 - 1.0) / 3 + 0.2 * -4.0)
    assert value.utility == pytest.approx(with_passage - without, abs=1e-12)
    assert value.evidence["probability"] == pytest.approx({"grounded": with_passage, "bare": without})


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([-1.0], exp(-1)),
        ([-1.0, -3.0], exp(-2)),
        ([-1.0, -1.0, -1.0], exp(-1)),
        ([-1.0, -1.0, -1.0, -6.0], exp(-0.8 - 1.2)),
        ([-1.0] * 9, exp(-1)),
        ([0.0] * 5, 1.0),
        ([-1e6] * 5, 0.0),
    ],
)
def test_first_three_tokens_weigh_most(logprobs, expected):
    assert weighted_probability(scored(*logprobs)) == pytest.approx(expected, abs=1e-15)


def test_contrastive_ppl():
    utility = make_utility("contrastive-ppl,alpha=0.25")
    asked = utility.requests(QUERY, [ONE])
    assert [(each.text, each.alpha) for each in asked.values()] == [(form, 0.25) for form in FORMS]
    likelihood = make_utility("answer-likelihood")
    assert [each.prompt for each in asked.values()] == [e.prompt for e in likelihood.requests(QUERY, [ONE]).values()]
    assert [each.other for each in asked.values()] == [e.prompt for e in likelihood.requests(QUERY, []).values()]
    responses = context("contrast", [(-0.9,), (-5.0,), (-2.0, -2.0), (-0.2, -0.2, -0.2, -1.0)])
    assert utility.value(QUERY, [ONE], responses).utility == pytest.approx(-0.4, abs=1e-12)
    assert utility.name == "contrastive-ppl,alpha=0.25"
    assert make_utility("contrastive-ppl").parameters["alpha"] == 0.5


def test_loop_over_a_set():
    utility = make_utility("loop")
    asked = utility.requests(QUERY, [ONE, TWO])
    plain = {name.partition(":")[0]: request.prompt.plain for name, request in asked.items()}
    assert list(plain) == ["all", "without 0", "without 1"]
    assert "Veltra is" not in plain["without 0"] and "green" in plain["without 0"]
    assert "Veltra is" in plain["without 1"] and "green" not in plain["without 1"]
    responses = {
        **context("all", [(-0.9,), (-5.0,), (-2.0, -2.0), (-0.2, -0.6)]),
        **context("without 0", [(0.0,), (0.0,), (0.0, 0.0), (-3.0, -1.4)]),
        **context("without 1", [(0.0,), (0.0,), (0.0, 0.0), (-0.1, -0.1)]),
    }
    value = utility.value(QUERY, [ONE, TWO], responses)
    assert value.evidence["drops"] == pytest.approx([-0.4 + 2.2, -0.4 + 0.1])
    assert value.utility == pytest.approx((1.8 - 0.3) / 2)


def test_loop_of_one_passage_is_against_the_bare_question():
    loop, dig = make_utility("loop"), make_utility("dig")
    asked = loop.requests(QUERY, [ONE])
    assert {each.prompt for name, each in asked.items() if name.startswith("without 0")} == {
        each.prompt for name, each in dig.requests(QUERY, [ONE]).items() if name.startswith("bare")
    }
    responses = {
        **{name.replace("grounded", "all"): each for name, each in GROUNDED.items()},
        **{name.replace("bare", "without 0"): each for name, each in BARE.items()},
    }
    assert loop.value(QUERY, [ONE], responses).utility == pytest.approx(-0.4 + 2.5)


@pytest.mark.parametrize(
    ("metric", "text", "expected"),
    [
        ("F1", "the VELTRA city!", 1.0),
        ("F1", "Veltra of Lubana", 0.5),
        ("EM", "veltra.", 1.0),
        ("EM", "It is Veltra", 0.0),
        ("contains", "It is Veltra", 1.0),
        ("contains", "Veltran", 0.0),
        ("F1", "", 0.0),
    ],
)
def test_erag(metric, text, expected):
    utility = make_utility({"name": "erag", "metric": metric})
    assert utility.name == ("erag" if metric == "F1" else f"erag,metric={metric}")
    (asked,) = utility.requests(QUERY, [ONE]).values()
    assert asked == make_utility("information-gain").requests(QUERY, [ONE])["grounded"]
    assert isinstance(asked, Greedy)
    value = utility.value(QUERY, [ONE], {"grounded": said(text, -0.3)})
    assert value.utility == pytest.approx(expected)
    assert value.evidence["answer"] == text
    assert value.evidence["golds"] == ["Veltra", "Veltra City"]


def test_sper():
    utility = make_utility("sper,n=3")
    asked = utility.requests(QUERY, [ONE])
    sample = asked["grounded-0"].of
    assert sample == Sample(sample.prompt, 3, 1.0, 0, 16, ("\n",)) and "Veltra is" in sample.prompt.plain
    assert [asked[f"grounded-{number}"] for number in range(3)] == [Draw(sample, number) for number in range(3)]
    assert "Veltra is" not in asked["bare-0"].prompt.plain
    responses = {
        "grounded-0": said("Veltra", log(0.5)),
        "grounded-1": said("Orlen", log(0.25), log(0.25)),
        "grounded-2": said("Veltra City", log(0.25)),
        "bare-0": said("Orlen", log(0.9)),
        "bare-1": said("Orlen", log(0.9)),
        "bare-2": said("It is Veltra", log(0.2)),
    }
    # Weights .5 : .25 : .25 with the passage, .9 : .9 : .2 without.
    value = utility.value(QUERY, [ONE], responses)
    assert value.utility == pytest.approx(0.75 - 0.1, abs=1e-12)
    assert value.evidence["belief"] == pytest.approx({"grounded": 0.75, "bare": 0.1})
    assert [each["weight"] for each in value.evidence["grounded"]] == pytest.approx([0.5, 0.25, 0.25])
    exact = make_utility("sper,n=3,judge=EM")
    assert exact.parameters["judge"] == "string-match:EM"
    # "Veltra" alone has .5, "Veltra City" .25: the best gold counts, not their sum.
    assert exact.value(QUERY, [ONE], responses).utility == pytest.approx(0.5 - 0.0, abs=1e-12)


def test_weights_stay_with_their_answers():
    answers = [said("a1", -0.1), said("b2", -3.0), said("c3", -1.0)]
    weights = likelihood_weights(answers)
    assert sum(weights) == pytest.approx(1.0)

    def believed(answers, golds):
        entailed = make_judge("EM").entailed("?", [answer.text for answer in answers], golds)
        return belief(likelihood_weights(answers), entailed)

    for answer, weight in zip(answers, weights, strict=True):
        assert believed(answers, [answer.text]) == (0, pytest.approx(weight))
        assert believed(answers, ["zz", answer.text]) == (1, pytest.approx(weight))
    assert believed(answers, ["b2", "a1", "c3"]) == (1, pytest.approx(max(weights)))
    assert believed(answers[::-1], ["b2"]) == believed(answers, ["b2"])
    far = likelihood_weights([said("a", -1e5), said("b", -1e5)])
    assert far == [0.5, 0.5], "unlikely answers do not underflow"


def test_llm_relevance():
    utility = make_utility("llm-relevance")
    assert not utility.needs_answers
    asked = utility.requests(QUERY, [ONE, TWO])
    assert list(asked) == ["RELEVANT", " RELEVANT", "IRRELEVANT", " IRRELEVANT"]
    prompt = asked["RELEVANT"].prompt
    for text in (prompt.plain, prompt.messages[-1][1]):
        assert "Right answer: Veltra or Veltra City\n" in text
        assert "Veltra is the capital" in text and "green" in text
    responses = {
        "RELEVANT": scored(log(0.1), log(0.5)),
        " RELEVANT": scored(log(0.3)),
        "IRRELEVANT": scored(log(0.2), log(0.5)),
        " IRRELEVANT": scored(log(0.01)),
    }
    value = utility.value(QUERY, [ONE, TWO], responses)
    assert value.utility == pytest.approx(0.3 / (0.3 + 0.1), abs=1e-12)
    assert value.evidence["forms"]["RELEVANT"] == [log(0.1), log(0.5)]


def test_llm_relevance_without_answers_without_passages_and_far_out():
    shown, hidden = make_utility("llm-relevance"), make_utility("llm-relevance,answers=false")
    assert hidden.name == "llm-relevance,answers=false"
    without = Query("q", QUERY.text)
    assert hidden.requests(QUERY, [ONE]) == hidden.requests(without, [ONE]) == shown.requests(without, [ONE])
    assert "Right answer" not in shown.requests(without, [ONE])["RELEVANT"].prompt.plain
    assert shown.requests(QUERY, []) == {}
    assert shown.value(QUERY, [], {}).utility == 0.0
    for relevant, irrelevant, expected in ((-2000.0, -2001.0, 1 / (1 + exp(-1))), (-1e4, -1.0, 0.0), (-1.0, -1e4, 1.0)):
        responses = {
            "RELEVANT": scored(relevant),
            " RELEVANT": scored(relevant - 1),
            "IRRELEVANT": scored(irrelevant),
            " IRRELEVANT": scored(irrelevant - 1),
        }
        assert shown.value(QUERY, [ONE], responses).utility == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("erag,metric=bleu", "EM, F1, contains"),
        ("erag,metric=1", "EM, F1, contains"),
        ("sper,n=0", "at least 1"),
        ("sper,n=2.5", "whole number"),
        ("sper,temperature=0", "above 0"),
        ("sper,temperature=hot", "above 0"),
        ("sper,seed=x", "whole number"),
        ("sper,judge=nli", "EM, F1, contains, nli:MODEL"),
        ("sper,judge=3", "EM, F1, contains, nli:MODEL"),
        ("erag,over=map", "precision, success, ndcg"),
        ("llm-relevance,answers=maybe", "true or false"),
        ("contrastive-ppl,alpha=-1", "at least 0"),
        ("contrastive-ppl,alpha=much", "finite number"),
        ("dig,max_new_tokens=3", "no parameter"),
    ],
)
def test_bad_parameters_of_gold_utilities(spec, message):
    with pytest.raises(ConfigError, match=message):
        make_utility(spec)


def test_names_spell_what_is_not_default():
    spec = "sper,n=4,temperature=0.7,seed=3,judge=EM,max_new_tokens=5"
    assert make_utility(spec).name == spec
    assert make_utility("sper,n=10,temperature=1").name == "sper"
