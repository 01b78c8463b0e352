"""Every utility on sets of 0, 1 and 3 passages: formulas written anew, in float64, one plain forward pass a text."""

from math import exp, log2

import numpy as np
import pytest
from tiny_generator import END, TinyNumpy, encode, surface

from utilitune.evaluation import f1
from utilitune.generator import load_prompt
from utilitune.records.query import Query
from utilitune.scoring import UTILITIES, label_sets, make_utility

LIMIT = 4
SIZES = (0, 1, 3)
SHORT = f",max_new_tokens={LIMIT}"
NO_LIMIT = ("question-gain", "abstention", "answer-likelihood", "loop", "dig", "contrastive-ppl", "llm-relevance")


class PlainWay:
    """One (question, passage set); every method is one utility, named after it."""

    def __init__(self, model, query, passages):
        self.model, self.query, self.passages = model, query, passages
        self.with_, self.without = self.prompt(passages), self.prompt(())

    def prompt(self, passages, name="answer", answers=()):
        given = load_prompt(name).render(question=self.query.text, passages=passages, answers=answers)
        return encode(given.plain)

    def rows(self, prompt, ids):
        """Log-probabilities of all tokens before each of ``ids``."""
        return self.model.log_softmax(prompt + ids)[len(prompt) - 1 : -1]

    def logprobs(self, prompt, ids):
        return np.array([row[token] for row, token in zip(self.rows(prompt, ids), ids, strict=True)])

    def entropies(self, prompt, ids):
        return np.array([-np.sum(np.exp(row) * row) for row in self.rows(prompt, ids)])

    def greedy(self, prompt):
        ids = []
        while len(ids) < LIMIT:
            token = int(np.argmax(self.model.log_softmax(prompt + ids)[-1]))
            if token == END or surface(token) == "\n":
                return ids or [token]
            ids.append(token)
        return ids

    def answers(self):
        return self.greedy(self.with_), self.greedy(self.without)

    def information_gain(self):
        ids, _ = self.answers()
        return np.mean(self.logprobs(self.with_, ids) - self.logprobs(self.without, ids))

    def entropy_drop(self):
        ids, _ = self.answers()
        return np.mean(self.entropies(self.without, ids) - self.entropies(self.with_, ids))

    def grogu(self, gamma, with_=None):
        ours, theirs = self.answers()
        return gamma(self.with_, ours, self.without) - gamma(self.without, theirs, self.with_)

    def grogu_mean_entropy(self):
        return self.grogu(lambda c, y, _: -np.mean(self.entropies(c, y)))

    def grogu_max_entropy(self):
        return self.grogu(lambda c, y, _: -np.max(self.entropies(c, y)))

    def grogu_first_token_entropy(self):
        return self.grogu(lambda c, y, _: -self.entropies(c, y)[0])

    def grogu_mean_logprob(self):
        return self.grogu(lambda c, y, _: np.mean(self.logprobs(c, y)))

    def grogu_perplexity(self):
        return self.grogu(lambda c, y, _: -np.exp(-np.mean(self.logprobs(c, y))))

    def grogu_key_entropy(self):
        def gamma(context, ids, other):
            moved = np.abs(self.logprobs(context, ids) - self.logprobs(other, ids))
            kept = moved >= 1.0
            return -np.mean(self.entropies(context, ids)[kept if kept.any() else slice(None)])

        return self.grogu(gamma)

    def question_gains(self):
        ours, theirs = (
            encode(load_prompt("question").render(question="", passages=passages).plain)
            for passages in (self.passages, ())
        )
        spelled = [encode(start + self.query.text) for start in ("", " ")]
        ids = max(spelled, key=lambda each: np.mean(self.logprobs(theirs, each)))
        return self.logprobs(ours, ids) - self.logprobs(theirs, ids)

    def question_gain(self):
        return np.mean(self.question_gains())

    def joint_gain(self):
        return self.question_gain() + self.grogu_mean_logprob()

    def abstention(self):
        prompt = self.prompt(self.passages, "answer-abstain")
        return 1 - exp(self.logprobs(prompt, encode(" NO-RESPONSE"))[0])

    def abstention_mass(self):
        prompt = self.prompt(self.passages, "answer-abstain")
        forms = [start + word for word in ("NO-RESPONSE", "No-Response", "NO RESPONSE") for start in ("", " ")]
        return 1 - sum(exp(sum(self.logprobs(prompt, encode(form)))) for form in forms)

    def said(self, passages):
        return "".join(map(surface, self.greedy(self.prompt(passages)))).strip()

    def erag(self):
        return max(f1(self.said(self.passages), gold) for gold in self.query.answers)

    def gains(self):
        return [max(f1(self.said([each]), gold) for gold in self.query.answers) for each in self.passages]

    def erag_precision(self):
        return np.mean(self.gains()) if self.passages else 0

    def erag_success(self):
        return max(self.gains(), default=0)

    def erag_ndcg(self):
        def dcg(gains):
            return sum(gain / log2(rank + 2) for rank, gain in enumerate(gains))

        best = dcg(sorted(self.gains())[::-1])
        return dcg(self.gains()) / best if best else 0

    def spellings(self):
        return [encode(start + gold) for gold in self.query.answers for start in ("", " ")]

    def mean_loglik(self, passages, ids):
        return np.mean(self.logprobs(self.prompt(passages), ids))

    def answer_likelihood(self):
        return max(self.mean_loglik(self.passages, ids) for ids in self.spellings())

    def loop(self):
        ids = max(self.spellings(), key=lambda each: self.mean_loglik(self.passages, each))
        left_out = [[d for d in self.passages if d is not gone] for gone in self.passages]
        whole = self.mean_loglik(self.passages, ids)
        return np.mean([whole - self.mean_loglik(rest, ids) for rest in left_out]) if left_out else 0

    def dig(self):
        def weighted(context, ids):
            numbers = self.logprobs(context, ids)
            if len(numbers) <= 3:
                return exp(np.mean(numbers))
            return exp(0.8 * np.mean(numbers[:3]) + 0.2 * np.mean(numbers[3:]))

        ids = max(self.spellings(), key=lambda each: weighted(self.with_, each))
        return weighted(self.with_, ids) - weighted(self.without, ids)

    def contrastive_ppl(self):
        def one(ids):
            z = 1.5 * self.rows(self.with_, ids) - 0.5 * self.rows(self.without, ids)
            p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            return np.mean([np.log(row[token]) for row, token in zip(p, ids, strict=True)])

        return max(map(one, self.spellings()))

    def llm_relevance(self, show=True):
        if not self.passages:
            return 0
        prompt = self.prompt(self.passages, "relevance", self.query.answers if show else ())
        yes, no = (
            max(exp(sum(self.logprobs(prompt, encode(start + word)))) for start in ("", " "))
            for word in ("RELEVANT", "IRRELEVANT")
        )
        return yes / (yes + no)

    def llm_relevance_false(self):
        return self.llm_relevance(show=False)

    def sper(self):
        def belief(passages):
            prompt = load_prompt("answer").render(question=self.query.text, passages=passages)
            drawn = [self.model.sampled(prompt, LIMIT, ("\n",), 1.0, 0, number) for number in range(3)]
            weights = [exp(np.mean(self.logprobs(self.prompt(passages), list(each.token_ids)))) for each in drawn]
            total = sum(weights)
            return max(
                sum(weight / total * f1(each.text, gold) for weight, each in zip(weights, drawn, strict=True))
                for gold in self.query.answers
            )

        return belief(self.passages) - belief(())


VARIANTS = {
    "abstention,reading=mass": "abstention_mass",
    "erag,over=precision": "erag_precision",
    "erag,over=success": "erag_success",
    "erag,over=ndcg": "erag_ndcg",
    "llm-relevance,answers=false": "llm_relevance_false",
}
METHODS = {name: name.replace("-", "_").replace(":", "_") for name in UTILITIES}
SPECS = {**{name: method for name, method in METHODS.items() if callable(getattr(PlainWay, method, None))}, **VARIANTS}
SPECS.pop("grogu")  # another name of grogu:mean-entropy


def spec_of(name):
    if name.startswith(NO_LIMIT):
        return name
    return name + (",n=3,judge=F1" if name == "sper" else "") + SHORT


@pytest.fixture(scope="module")
def tiny():
    """A model with one layer of attention: quick, and each text is a forward pass of its own."""
    return TinyNumpy(seed=1)


@pytest.fixture(scope="module")
def query(world, tiny):
    """Two gold answers are what the random model says of the first passage, so that answer metrics are not all 0."""
    bare, first = Query("q", world[0].queries[0].text), world[0].corpus[:1]
    prompt = load_prompt("answer").render(question=bare.text, passages=first)
    drawn = [tiny.sampled(prompt, LIMIT, ("\n",), 1.0, 0, number).text for number in range(3)]
    said = [PlainWay(tiny, bare, ()).said(first), next(text for text in drawn if text.strip())]
    assert all(said)
    return Query("q", bare.text, answers=("4 mills", *said))


@pytest.fixture(scope="module")
def rows(world, tiny, query):
    items = [(query, tuple(world[0].corpus[:size])) for size in SIZES]
    labels = iter(label_sets(items, [spec_of(name) for name in SPECS], tiny))
    return {(name, size): next(labels) for size in SIZES for name in SPECS}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SPECS)
def test_the_number_is_that_of_the_formula(name, size, rows, world, tiny, query):
    plain = PlainWay(tiny, query, tuple(world[0].corpus[:size]))
    row = rows[name, size]
    assert row.status == "ok", row.evidence
    assert len(row.passage_ids) == size
    assert row.utility == pytest.approx(float(getattr(plain, SPECS[name])()), abs=1e-9)


@pytest.mark.parametrize("name", SPECS)
def test_no_passages_does_what_the_docstring_says(name, rows):
    text = make_utility(spec_of(name)).__class__.__doc__
    if "No passages: exactly 0" in text or "over=" in name:
        assert rows[name, 0].utility == 0.0
    else:
        assert "No passages: " in text


def test_the_numbers_say_something(rows):
    """A set is worth something else than its first passage, and no utility is 0 throughout."""
    for name in SPECS:
        numbers = [rows[name, size].utility for size in SIZES]
        assert any(numbers), name
        # The random model says the same of one passage and of three, and never abstains in so many letters.
        assert len(set(numbers)) > 1 or name.startswith(("erag", "sper", "abstention,reading=mass")), name


@pytest.mark.parametrize("name", ["information-gain", "abstention", "dig"])
def test_sharing_forward_passes_changes_no_number(name, world, tiny, query, rows):
    (alone,) = label_sets([(query, tuple(world[0].corpus[:1]))], [spec_of(name)], tiny)
    assert alone == rows[name, 1]
