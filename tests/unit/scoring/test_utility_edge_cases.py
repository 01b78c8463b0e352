"""What could become a plausible wrong number: empty and odd answers, golds and passages, NaN, missing numbers."""

from dataclasses import replace
from math import inf, nan

import pytest
from tiny_generator import END, Counted, TinyNumpy

from utilitune.generator.protocol import Continuation, Generation, TaskResult
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring import UTILITIES, label_sets, make_utility
from utilitune.scoring.confidence import CONFIDENCES
from utilitune.scoring.key_tokens import question_overlap, token_spans

NAMES = [name for name in UTILITIES if name != "grogu"]
SPECS = [name if name != "sper" else "sper,n=2,max_new_tokens=3" for name in NAMES]
GAINS = ["information-gain", "entropy-drop", "grogu:mean-entropy", "grogu:key-entropy", "loop", "dig", "llm-relevance"]
QUERY = Query("q", "On which river is Orlen?", answers=("nelrO",))
PASSAGE = Passage("p", "Orlen lies on the river nelrO.")
BLANK = [Passage("b1", ""), Passage("b2", " \n\t\u00a0\u3000")]


@pytest.fixture(scope="module")
def model():
    return TinyNumpy(seed=1)


class Changed(Counted):
    """A generator whose every response is changed on its way."""

    def __init__(self, inner, change):
        super().__init__(inner)
        self.change = change

    def run(self, tasks):
        results = self.inner.run(tasks)
        return [
            TaskResult(each.answer and self.change(each.answer), tuple(map(self.change, each.continuations)))
            for each in results
        ]

    def generate(self, prompts, **settings):
        return [[self.change(each) for each in answers] for answers in self.inner.generate(prompts, **settings)]

    def contrast(self, *lists, alpha):
        return [self.change(each) for each in self.inner.contrast(*lists, alpha=alpha)]


def rows_of(generator, specs=SPECS, query=QUERY, passages=(PASSAGE,), max_failed=1.0):
    return label_sets([(query, tuple(passages))], specs, generator, max_failed=max_failed).rows


# Blank passages


@pytest.mark.parametrize("blank", BLANK, ids=["empty", "white space"])
def test_a_blank_passage_is_as_good_as_none(blank, model):
    nothing, given = (rows_of(model, passages=passages) for passages in ((), (blank,)))
    assert [row.utility for row in given] == [row.utility for row in nothing]
    assert all(row.utility == 0.0 for row in given if row.name in GAINS)
    assert all(row.passage_ids == (blank.id,) for row in given)


def test_a_blank_passage_among_others_changes_nothing(model):
    specs = [spec for spec in SPECS if spec != "loop"]
    alone = rows_of(model, specs)
    among = rows_of(model, specs, passages=(BLANK[0], PASSAGE, BLANK[1]))
    assert [row.utility for row in among] == [row.utility for row in alone]
    (row,) = rows_of(model, ["loop"], passages=(BLANK[0], PASSAGE, BLANK[1]))
    assert [drop == 0.0 for drop in row.evidence["drops"]] == [True, False, True]


def test_a_title_without_text_is_no_blank_passage(model):
    (row,) = rows_of(model, ["information-gain"], passages=(Passage("t", " ", title="The river nelrO"),))
    assert row.utility != 0.0


# Answers


def ended(answer):
    """The answer of a model that stops at once: the end token alone, no text."""
    if not isinstance(answer, Generation):
        return answer
    return replace(answer, text="", tokens=("</s>",), token_ids=(END,), logprobs=(-0.5,), entropies=(0.7,))


def test_an_answer_that_ends_at_once_has_the_numbers_of_its_end_token(model):
    found = {row.name: row for row in rows_of(Changed(model, ended))}
    assert all(row.status == "ok" for row in found.values()), {row.name: row.evidence for row in found.values()}
    for gamma in ("mean-entropy", "max-entropy", "first-token-entropy", "mean-logprob", "key-entropy"):
        assert found[f"grogu:{gamma}"].utility == 0.0, "the same end in both contexts"
    assert found["erag"].utility == 0.0
    assert found["sper,n=2,max_new_tokens=3"].utility == 0.0
    assert found["grogu:mean-entropy"].evidence["answer"] == ""


def test_all_confidences_of_one_token_agree():
    one = Continuation("x", ("x",), (1,), (-0.25,), (0.5,))
    assert {CONFIDENCES[name](one) for name in CONFIDENCES if "entropy" in name} == {-0.5}
    assert CONFIDENCES["mean-logprob"](one) == -0.25


def test_an_answer_without_tokens_has_no_number():
    none = Generation("", (), (), (), ())
    for name, gamma in CONFIDENCES.items():
        with pytest.raises((ValueError, IndexError)):
            gamma(none)
            pytest.fail(name)


def silent(answer):
    return replace(answer, tokens=(), token_ids=(), logprobs=(), entropies=() if answer.entropies is not None else None)


def test_missing_numbers_fail_the_row_and_are_never_zero(model):
    """B17: the best possible log-probability is not what a missing one means."""
    specs = [spec for spec in SPECS if spec != "contrastive-ppl"]
    rows = rows_of(Changed(model, silent), specs)
    assert {row.status for row in rows} == {"failed"}
    assert all(row.utility is None and "no token" in row.evidence["reason"] for row in rows)


def test_bounds_are_no_entropies(model):
    """B16: neither what a top-k sum gives nor its bounds rank passages."""

    def bounded(answer):
        if answer.entropies is None:
            return answer
        bounds = tuple((each / 2, each * 2) for each in answer.entropies)
        return replace(answer, entropies=None, entropy_bounds=bounds, covered_mass=(0.4,) * len(bounds))

    found = {row.name: row for row in rows_of(Changed(model, bounded))}
    need = {name for name in found if "entropy" in name}
    assert need >= {"entropy-drop", "grogu:mean-entropy", "grogu:max-entropy", "grogu:key-entropy"}
    for name, row in found.items():
        assert row.status == ("failed" if name in need else "ok"), name
        assert name not in need or "no exact entropies" in row.evidence["reason"]


@pytest.mark.parametrize("where", ["first", "last"])
def test_nan_is_never_hidden_by_a_maximum(where, model):
    """B06: a NaN in one token makes the row invalid, wherever it stands."""

    def broken(answer):
        numbers = list(answer.logprobs)
        numbers[0 if where == "first" else -1] = nan
        return replace(answer, logprobs=tuple(numbers))

    rows = rows_of(Changed(model, broken))
    assert {row.status for row in rows} == {"invalid"}
    assert all(row.utility is None and "NaN" in row.evidence["reason"] for row in rows)


def test_impossible_answers_have_no_weights(model):
    def impossible(answer):
        return replace(answer, logprobs=(-inf,) * len(answer.logprobs)) if isinstance(answer, Generation) else answer

    (row,) = rows_of(Changed(model, impossible), ["sper,n=2,max_new_tokens=3"])
    assert row.status == "failed" and "probability 0" in row.evidence["reason"]


def test_every_utility_tells_of_a_shortened_passage(model):
    """B19: the flag reaches the row, whichever of a utility's responses carries it."""
    for number, row in enumerate(rows_of(Changed(model, lambda answer: replace(answer, truncated=True)))):
        assert row.evidence["truncated"] is True, SPECS[number]
    assert not any(row.evidence["truncated"] for row in rows_of(model))


# Gold answers


def test_sixty_golds_and_their_repeats(model):
    golds = (*(f"the river {number}" for number in range(59)), "nelrO")
    once = replace(QUERY, answers=golds)
    repeated = replace(QUERY, answers=(*golds, *(f" {gold}\n" for gold in golds), "", "  "))
    specs = ["answer-likelihood", "dig", "erag", "contrastive-ppl"]
    first, second = rows_of(model, specs, once), rows_of(model, specs, repeated)
    assert [row.utility for row in first] == [row.utility for row in second]
    assert len(make_utility("answer-likelihood").requests(repeated, [PASSAGE])) == 120
    # The best over the golds is the best of one gold at a time.
    singles = [rows_of(model, ["answer-likelihood"], replace(QUERY, answers=(gold,)))[0].utility for gold in golds[-9:]]
    few = rows_of(model, ["answer-likelihood"], replace(QUERY, answers=golds[-9:]))[0]
    assert few.utility == max(singles)


def test_golds_inside_other_golds_are_golds_of_their_own(model):
    golds = ("1961", "19", "in 1961", "9")
    asked = make_utility("answer-likelihood").requests(replace(QUERY, answers=golds), [PASSAGE])
    assert [request.text for request in asked.values()] == [start + gold for gold in golds for start in ("", " ")]
    said = {"grounded": Generation("In 1961", ("x",), (1,), (-1.0,), None)}
    for answers, expected in ((("19",), 0.0), (("9",), 0.0), (("1961",), 1.0), (("61", "196"), 0.0)):
        value = make_utility("erag,metric=contains").value(replace(QUERY, answers=answers), [PASSAGE], said)
        assert value.utility == expected, answers


def test_a_gold_that_does_not_fit_fails_its_rows_alone():
    """B19, B21: no answer is scored in part, and the other utilities keep their numbers."""
    narrow = TinyNumpy(seed=1, window=400)
    long = replace(QUERY, answers=("nelrO", "x" * 500))
    found = {row.name: row for row in rows_of(narrow, ["answer-likelihood", "dig", "information-gain", "erag"], long)}
    assert {name: row.status for name, row in found.items()} == {
        "answer-likelihood": "failed",
        "dig": "failed",
        "information-gain": "ok",
        "erag": "ok",
    }
    assert "window 400" in found["dig"].evidence["reason"]


# Other scripts


def spelled(text, *tokens):
    return Continuation(text, tokens, tuple(range(len(tokens))), (-1.0,) * len(tokens), (0.5,) * len(tokens))


def kept(question, answer):
    mask = question_overlap(Query("q", question), answer, answer, 1.0)
    return [token for token, each in zip(answer.tokens, mask, strict=True) if each]


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        # Vowel signs are parts of words: दिल्ली is one word, and नदी is not the word नद.
        ("दिल्ली कहाँ है?", spelled("दिल्ली यमुना है", "दिल्ली", " यमुना", " है"), [" यमुना"]),
        ("नदी", spelled("नद", "नद"), ["नद"]),
        ("ما هي عاصمة مصر؟", spelled("عاصمة مصر القاهرة", "عاصمة", " مصر", " القاهرة"), [" القاهرة"]),
        ("แม่น้ำ", spelled("แม่น้ำปิง", "แม่น้ำ", "ปิง"), ["ปิง"]),
        ("Где Орлен?", spelled("ОРЛЕН на реке", "ОРЛЕН", " на", " реке"), [" на", " реке"]),
        ("東京の人口は", spelled("東京の川", "東京", "の", "川"), ["川"]),
        # Tokens that hold some bytes of a character.
        ("東京の人口は", spelled("東京の川", "東", "\ufffd", "\ufffd", "の", "\ufffd", "\ufffd"), ["\ufffd"] * 2),
        ("Где Орлен?", spelled("Орлен, Мер", "Орлен", ",", " \ufffd", "\ufffd", "ер"), [" \ufffd", "\ufffd", "ер"]),
        # A tokenizer whose single tokens lose their leading space.
        ("Where is Orlen?", spelled("Orlen is north", "Orlen", "is", "north"), ["north"]),
        # The vocabulary's own mark for a space; and the letter that looks like one.
        ("Where is Orlen?", spelled("Orlen north", "Orlen", "\u0120north"), ["\u0120north"]),
        ("Fejn hu?", spelled("\u0120or\u0121", "\u0120", "or\u0121"), ["\u0120", "or\u0121"]),
    ],
)
def test_key_tokens_in_other_scripts(question, answer, expected):
    assert kept(question, answer) == expected


def test_tokens_that_are_no_text_lie_nowhere():
    spans = token_spans(spelled("Orlen", "<s>", "Or", "len", "</s>"))
    assert spans == [(0, 0), (0, 2), (2, 5), (5, 5)]
    assert token_spans(spelled("", "</s>")) == [(0, 0)]
    assert token_spans(spelled("Orlen", "Or", "len.\n\nNext")) == [(0, 2), (2, 5)], "cut at a stop string"


def test_tokens_of_another_text_are_refused():
    with pytest.raises(ValueError, match="do not make up its text"):
        token_spans(spelled("Orlen is north", "Orlen", "was", "north"))


def test_a_question_in_another_script_is_labelled_with_all():
    query = Query("q", "ओर्लेन किस नदी पर है? 東京の川は？", answers=("नेलर", "川"))
    rows = rows_of(TinyNumpy(seed=2), query=query, passages=(Passage("p", "ओर्लेन नेलर नदी पर है। 東京"),), max_failed=0.0)
    assert {row.status for row in rows} == {"ok"}
