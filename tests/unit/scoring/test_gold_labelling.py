"""Labels with gold answers against a second, deliberately plain computation on a float64 model."""

from collections import Counter
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from tiny_generator import Counted, encode

from utilitune.evaluation import contains, f1
from utilitune.generator import load_prompt
from utilitune.scoring import label, label_sets

GOLDS = ("nelrO", "the river nelrO", "4 mills")
SPECS = [
    "erag",
    "answer-likelihood",
    "loop",
    "dig",
    "llm-relevance",
    "sper,n=3,judge=F1,max_new_tokens=3",
    "contrastive-ppl",
]


@pytest.fixture(scope="module")
def questions(world, tiny):
    """Every query has one more gold answer, which the random model is known to draw now and then."""
    dataset, run = world
    queries = []
    for query in dataset.queries[:3]:
        passages = [dataset.passages()[run[query.id][0][0]]]
        prompt = load_prompt("answer").render(question=query.text, passages=passages, history=query.history)
        drawn = [tiny.sampled(prompt, 3, ("\n",), 1.0, 0, number).text for number in range(3)]
        queries.append(replace(query, answers=(*GOLDS, next(text for text in drawn if text.strip()))))
    return replace(dataset, queries=queries), run


@pytest.fixture(scope="module")
def items(questions):
    dataset, run = questions
    corpus = dataset.passages()
    ids = {query.id: [passage for passage, _ in run[query.id]] for query in dataset.queries}
    return [
        (query, tuple(corpus[each] for each in ids[query.id][:size]))
        for query in dataset.queries[:2]
        for size in (1, 2)
    ]


class Plain:
    """One forward pass a number; nothing is shared with the package but prompts and tokens."""

    def __init__(self, model):
        self.model = model

    def token_logprobs(self, prompt, text):
        start, ids = self.model.prompt_ids(prompt), encode(text)
        rows = self.model.log_softmax(start + ids)
        return [rows[len(start) - 1 + place][token] for place, token in enumerate(ids)]

    def prompt(self, query, passages, name="answer", **given):
        return load_prompt(name).render(question=query.text, passages=passages, history=query.history, **given)

    def spelled(self, golds):
        return [start + gold for gold in golds for start in ("", " ")]

    def likelihood(self, query, passages):
        prompt = self.prompt(query, passages)
        return {text: np.mean(self.token_logprobs(prompt, text)) for text in self.spelled(query.answers)}

    def confidence(self, query, passages):
        prompt = self.prompt(query, passages)
        numbers = {}
        for text in self.spelled(query.answers):
            every = np.array(self.token_logprobs(prompt, text))
            weights = np.full(len(every), 0.2 / max(len(every) - 3, 1))
            weights[:3] = 0.8 / min(len(every), 3)
            numbers[text] = exp((weights * every).sum() / weights.sum())
        return numbers

    def erag(self, query, passages):
        prompt = load_prompt("answer")
        text = self.model.greedy(self.prompt(query, passages), prompt.max_new_tokens, prompt.stop).text
        return max(f1(text, gold) for gold in query.answers)

    def answer_likelihood(self, query, passages):
        return max(self.likelihood(query, passages).values())

    def loop(self, query, passages):
        whole = self.likelihood(query, passages)
        best = max(whole, key=whole.get)
        rest = [[other for other in passages if other is not gone] for gone in passages]
        return np.mean([whole[best] - self.likelihood(query, left)[best] for left in rest])

    def dig(self, query, passages):
        ours, bare = self.confidence(query, passages), self.confidence(query, ())
        best = max(ours, key=ours.get)
        return ours[best] - bare[best]

    def contrastive_ppl(self, query, passages):
        start, bare = self.model.prompt_ids(self.prompt(query, passages)), self.model.prompt_ids(self.prompt(query, ()))
        means = []
        for text in self.spelled(query.answers):
            ids = encode(text)
            ours, theirs = (self.model.log_softmax(each + ids)[len(each) - 1 : -1] for each in (start, bare))
            rows = 1.5 * ours - 0.5 * theirs
            means.append(np.mean([row[token] - np.logaddexp.reduce(row) for row, token in zip(rows, ids, strict=True)]))
        return max(means)

    def llm_relevance(self, query, passages):
        prompt = self.prompt(query, passages, "relevance", answers=query.answers)
        yes, no = (
            max(exp(sum(self.token_logprobs(prompt, start + word))) for start in ("", " "))
            for word in ("RELEVANT", "IRRELEVANT")
        )
        return yes / (yes + no)

    def sper(self, query, passages):
        def belief(passages):
            prompt = self.prompt(query, passages)
            answers = [self.model.sampled(prompt, 3, ("\n",), 1.0, 0, number) for number in range(3)]
            weights = np.exp([np.mean(each.logprobs) for each in answers])
            scores = [
                sum(weight * f1(each.text, gold) for weight, each in zip(weights, answers, strict=True))
                for gold in query.answers
            ]
            return max(scores) / weights.sum()

        return belief(passages) - belief(())


def test_labels_equal_the_plain_computation(items, tiny):
    labels = label_sets(items, SPECS, tiny)
    assert len(labels) == len(items) * len(SPECS)
    plain, seen = Plain(tiny), Counter()
    for row, (query, passages) in zip(labels, [item for item in items for _ in SPECS], strict=True):
        own = getattr(plain, row.name.partition(",")[0].replace("-", "_"))
        assert row.status == "ok"
        assert row.utility == pytest.approx(own(query, passages), rel=1e-9, abs=1e-15), row.name
        seen[row.name.partition(",")[0], round(row.utility, 9) != 0] += 1
    assert all(seen[name, True] for name in ("answer-likelihood", "loop", "dig", "llm-relevance", "sper"))


@pytest.mark.parametrize("spec", ["loop", "dig", "sper,n=2,max_new_tokens=2", "llm-relevance"])
def test_no_passages_is_exactly_zero_with_golds(spec, items, tiny):
    (row,) = label_sets([(items[0][0], ())], [spec], tiny)
    assert (row.status, row.utility) == ("ok", 0.0)


def test_no_passages_is_the_bare_question_for_the_others(items, tiny):
    query = items[0][0]
    labels = label_sets([(query, ())], ["answer-likelihood", "erag"], tiny)
    assert labels[0].utility == pytest.approx(Plain(tiny).answer_likelihood(query, ()))
    assert labels[1].utility == pytest.approx(Plain(tiny).erag(query, ()))


def test_contrast_without_weight_or_without_passages_is_the_likelihood(items, tiny):
    query, passages = items[1]
    plain, unweighted = label_sets([(query, passages)], ["answer-likelihood", "contrastive-ppl,alpha=0"], tiny)
    assert unweighted.utility == pytest.approx(plain.utility, abs=1e-12)
    bare, contrasted = label_sets([(query, ())], ["answer-likelihood", "contrastive-ppl"], tiny)
    assert contrasted.utility == pytest.approx(bare.utility, abs=1e-12)


@pytest.mark.parametrize("golds", [(), ("",), (" ", "\t")])
def test_queries_with_no_or_blank_golds_are_skipped(golds, items, tiny):
    query, passages = items[0]
    counted = Counted(tiny)
    labels = label_sets([(replace(query, answers=golds), passages)], SPECS, counted)
    assert [row.status for row in labels] == ["skipped", "skipped", "skipped", "skipped", "ok", "skipped", "skipped"]
    assert not counted.sampled
    assert len(counted.computed) == 4, "the judge's two words, each in two spellings"
    assert all(row.utility is None for row in labels if row.status == "skipped")


def test_the_order_of_the_golds_does_not_matter(items, tiny):
    query, passages = items[1]
    turned = replace(query, answers=query.answers[::-1])
    specs = [spec for spec in SPECS if spec != "llm-relevance"]  # its prompt lists them in the order given
    there, back = (label_sets([(each, passages)], specs, tiny) for each in (query, turned))
    assert [row.utility for row in there] == [row.utility for row in back]


def test_more_golds_never_lower_a_best_over_golds(items, tiny):
    query, passages = items[0]
    specs = ["answer-likelihood", "erag"]
    for count in (1, 2):
        few = label_sets([(replace(query, answers=GOLDS[:count]), passages)], specs, tiny)
        more = label_sets([(replace(query, answers=GOLDS[: count + 1]), passages)], specs, tiny)
        assert all(a.utility <= b.utility for a, b in zip(few, more, strict=True))


def test_gold_utilities_share_their_requests(questions):
    from tiny_generator import TinyGenerator

    counted = Counted(TinyGenerator(seed=1))
    labels = label(*questions, ["answer-likelihood", "dig", "loop", "erag", "information-gain"], counted, k=2)
    counts = labels.manifest["counts"]
    # A query: 8 spellings after each of 2 passages and once bare, 2 greedy answers, 2 rescored.
    assert counts["unique_requests"] == 3 * (8 * 2 + 8 + 2 + 2)
    assert len(counted.computed) == len(set(counted.computed)) == counts["unique_requests"]


def test_a_second_run_with_samples_needs_no_model(questions, tiny, tmp_path):
    counted = Counted(tiny)
    settings = {"k": 2, "store": tmp_path / "s.sqlite"}
    first = label(*questions, SPECS, counted, **settings)
    calls = (len(counted.computed), len(counted.sampled))
    again = label(*questions, SPECS, counted, **settings)
    assert [row.utility for row in first] == [row.utility for row in again]
    assert (len(counted.computed), len(counted.sampled)) == calls
    other_judge = label(*questions, ["sper,n=3,judge=contains,max_new_tokens=3"], counted, **settings)
    assert (len(counted.computed), len(counted.sampled)) == calls, "another judge reads the same answers"
    for row in other_judge:
        golds = row.evidence["golds"]
        held = [sum(a["weight"] * contains(a["text"], gold) for a in row.evidence["grounded"]) for gold in golds]
        assert row.evidence["belief"]["grounded"] == pytest.approx(max(held))
