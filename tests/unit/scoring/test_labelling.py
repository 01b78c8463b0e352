"""The labelling loop against a plain reimplementation, and what must not change a number."""

from collections import Counter
from dataclasses import replace
from math import nan

import pytest
from small_world import small_world
from tiny_generator import Counted, TinyGenerator

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.generator import load_prompt
from utilitune.generator.prompt_template import PROMPT_FOLDER
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.scoring import Force, Value, label, label_file, label_sets

ALL = [
    "information-gain",
    "entropy-drop",
    "grogu:mean-entropy",
    "grogu:max-entropy",
    "grogu:first-token-entropy",
    "grogu:mean-logprob",
    "grogu:perplexity",
    "grogu:key-entropy,tau=0.5",
    "abstention",
]


def short(specs):
    """The same utilities with answers of at most four tokens, to be quick."""
    return [spec if spec.startswith("abstention") else f"{spec},max_new_tokens=4" for spec in specs]


def plain_reference(tiny, query, passages):
    """All utilities in the most direct way: ask, score, average."""
    import math

    template = load_prompt("answer")
    with_d = template.render(question=query.text, passages=passages, history=query.history)
    without = template.render(question=query.text, history=query.history)
    g, u = (tiny.greedy(prompt, 4, template.stop) for prompt in (with_d, without))
    g_without, u_with = tiny.scored(without, g.token_ids), tiny.scored(with_d, u.token_ids)

    def average(numbers):
        return sum(numbers) / len(numbers)

    def key(own, other):
        kept = [h for h, a, b in zip(own.entropies, own.logprobs, other.logprobs, strict=True) if abs(a - b) >= 0.5]
        return average(kept or own.entropies)

    asked = load_prompt("answer-abstain").render(question=query.text, passages=passages, history=query.history)
    abstain = tiny.scored(asked, " NO-RESPONSE").logprobs[0]
    return {
        "information-gain": average(g.logprobs) - average(g_without.logprobs),
        "entropy-drop": average(g_without.entropies) - average(g.entropies),
        "grogu:mean-entropy": average(u.entropies) - average(g.entropies),
        "grogu:max-entropy": max(u.entropies) - max(g.entropies),
        "grogu:first-token-entropy": u.entropies[0] - g.entropies[0],
        "grogu:mean-logprob": average(g.logprobs) - average(u.logprobs),
        "grogu:perplexity": math.exp(-average(u.logprobs)) - math.exp(-average(g.logprobs)),
        "grogu:key-entropy,tau=0.5": key(u, u_with) - key(g, g_without),
        "abstention": 1 - math.exp(abstain),
    }


def test_labels_equal_the_plain_way(world, tiny, counted):
    dataset, run = world
    labels = label(dataset, run, short(ALL), counted, k=3)
    corpus = dataset.passages()
    assert len(labels) == 6 * 3 * len(ALL)
    found = {(row.query_id, row.passage_ids, row.name): row.utility for row in labels}
    for query in dataset.queries[2:]:
        for passage_id, _ in run[query.id]:
            expected = plain_reference(tiny, query, [corpus[passage_id]])
            for spec, long_name in zip(ALL, short(ALL), strict=True):
                assert found[query.id, (passage_id,), long_name] == pytest.approx(expected[spec], abs=1e-9), spec
    assert len({round(row.utility, 9) for row in labels}) > 100, "a test on constant numbers shows nothing"


def test_order_of_rows_and_the_manifest(world, counted):
    dataset, run = world
    labels = label(dataset, run, short(ALL[:2]), counted, k=2)
    expected = [
        (query.id, (passage_id,), name)
        for query in dataset.queries
        for passage_id, _ in run[query.id][:2]
        for name in short(ALL[:2])
    ]
    assert [(row.query_id, row.passage_ids, row.name) for row in labels] == expected
    counts = labels.manifest["counts"]
    # Gain and drop ask the same: a grounded answer and its rescoring for each of 12 pairs.
    assert counts["requests"] == 48
    assert counts["unique_requests"] == counts["store_misses"] == 24
    assert counts["labels"] == counts["ok"] == 24 and counts["store_hits"] == counts["failed"] == 0
    assert set(labels.manifest["label_sets"]) == {row.label_set for row in labels}
    spelled = labels.manifest["label_sets"][labels[0].label_set]
    assert spelled["utility"] == labels[0].name and spelled["parameters"]["prompt_hash"]
    assert labels.manifest["generator"]["revision"] == "seed-1"


def test_every_response_is_computed_once_and_prompts_are_fused(world, counted):
    label(*world, short(ALL), counted, k=3)
    assert max(Counter(counted.computed).values()) == 1
    first, second, last = counted.calls  # one chunk: bare answers, everything with passages, grounded answers bare
    for tasks in counted.calls:
        assert len(tasks) == len({task.prompt for task in tasks}), "one prefill a prompt"
    assert len(first) == len(last) == 6 and not any("lies on" in task.prompt.plain for task in first + last)
    assert len(second) == 2 * 18 and all("lies on" in task.prompt.plain for task in second)
    answers = [task for task in second if task.max_new_tokens]
    assert len(answers) == 18 and all(len(task.continuations) == 1 for task in answers)
    assert sum(len(task.continuations) for task in last) >= 12, "all answers of a query share its bare prefill"


def test_second_run_a_new_gamma_and_a_new_tau_need_no_model(world, tiny, tmp_path):
    first = label(*world, short(["grogu:key-entropy,tau=0.5"]), Counted(tiny), store=tmp_path / "s")
    again = Counted(tiny)
    more = label(
        *world, short(["grogu:key-entropy,tau=0.5", "grogu:key-entropy,tau=2", "grogu:max-entropy",
                       "information-gain", "entropy-drop"]), again, store=tmp_path / "s",
    )  # fmt: skip
    assert again.calls == [] and more.manifest["counts"]["store_misses"] == 0
    assert more.manifest["counts"]["store_hits"] == first.manifest["counts"]["store_misses"]
    assert more.rows[::5] == first.rows
    assert [row.evidence for row in more.rows[::5]] == [row.evidence for row in first.rows]


def test_another_model_never_hits(world, tiny, tmp_path):
    label(*world, short(ALL), tiny, store=tmp_path / "s", k=1)
    other = label(*world, short(ALL), TinyGenerator(seed=2), store=tmp_path / "s", k=1)
    assert other.manifest["counts"]["store_hits"] == 0
    back = label(*world, short(ALL), tiny, store=tmp_path / "s", k=1)
    assert back.manifest["counts"]["store_misses"] == 0
    assert not {row.label_set for row in other} & {row.label_set for row in back}
    assert any(a.utility != b.utility for a, b in zip(other, back, strict=True))


def test_an_edited_prompt_never_hits(world, tiny, tmp_path):
    prompt = tmp_path / "mine.yaml"
    text = (PROMPT_FOLDER / "answer.yaml").read_text()
    prompt.write_text(text)
    spec = f"grogu:key-entropy,max_new_tokens=3,prompt={prompt}"
    first = label(*world, [spec], tiny, store=tmp_path / "s", k=1)
    prompt.write_text(text.replace("Question:", "Q:"))
    edited = label(*world, [spec], tiny, store=tmp_path / "s", k=1)
    assert edited.manifest["counts"]["store_hits"] == 0
    assert edited[0].label_set != first[0].label_set
    prompt.write_text(text.replace('stop: ["\\n"]', 'stop: ["zq"]'))
    stopped = label(*world, [spec], tiny, store=tmp_path / "s", k=1)
    assert stopped[0].label_set not in {first[0].label_set, edited[0].label_set}


def by_pair(labels):
    return {(row.query_id, row.passage_ids, row.name): row.utility for row in labels}


def test_chunks_order_and_ids_do_not_change_a_number(world, tiny):
    dataset, run = world
    specs = short(["grogu:key-entropy,tau=0.5", "information-gain"])
    base = by_pair(label(dataset, run, specs, tiny, k=2))
    small = by_pair(label(dataset, run, specs, tiny, k=2, chunk_items=1))
    assert small == base
    turned = replace(dataset, queries=dataset.queries[::-1], corpus=dataset.corpus[::-1])
    assert by_pair(label(turned, run, specs[::-1], tiny, k=2)) == base
    renamed = Dataset(
        [replace(passage, id=f"z{passage.id}") for passage in dataset.corpus],
        [replace(query, id=f"y{query.id}") for query in dataset.queries],
    )
    other = Run({f"y{q}": [(f"z{p}", s) for p, s in ranking] for q, ranking in run.items()})
    assert by_pair(label(renamed, other, specs, tiny, k=2)) == {
        (f"y{q}", tuple(f"z{p}" for p in ps), name): number for (q, ps, name), number in base.items()
    }


def test_equal_texts_share_their_responses(tiny):
    corpus = [Passage("a", "Same text."), Passage("b", "Same text."), Passage("c", "Same text.", "Title")]
    run = Run({"q1": [("a", 1.0), ("b", 1.0), ("c", 1.0)], "q2": [("a", 1.0)]})
    dataset = Dataset(corpus, [Query("q1", "Who?"), Query("q2", "Who?")])
    labels = label(dataset, run, ["information-gain,max_new_tokens=2"], tiny)
    assert labels.manifest["counts"]["requests"] == 8
    assert labels.manifest["counts"]["unique_requests"] == 4
    assert labels[0].utility == labels[1].utility == labels[3].utility != labels[2].utility


@pytest.mark.parametrize("spec", [*ALL[:8], "grogu:key-entropy,tau=0", "grogu:key-entropy,selector=question-overlap"])
def test_no_passages_is_exactly_zero(spec, world, counted):
    dataset, _ = world
    labels = label_sets([(query, ()) for query in dataset.queries[-2:]], short([spec]), counted)
    assert [row.utility for row in labels] == [0.0, 0.0]
    assert [row.passage_ids for row in labels] == [(), ()]
    assert len(counted.computed) == 2, "the bare answer is all that is needed"


def test_a_set_is_one_prompt_in_rank_order(world, counted):
    dataset, run = world
    labels = label(dataset, run, ["information-gain,max_new_tokens=2"], counted, k=3, sets=True)
    assert [row.passage_ids for row in labels] == [
        tuple(passage_id for passage_id, _ in run[query.id]) for query in dataset.queries
    ]
    prompt = counted.calls[0][1].prompt.plain
    places = [prompt.index(dataset.passages()[passage_id].text) for passage_id in labels[1].passage_ids]
    assert places == sorted(places)
    corpus = dataset.passages()
    sets = [(query, tuple(corpus[p] for p, _ in run[query.id])) for query in dataset.queries]
    assert label_sets(sets, ["information-gain,max_new_tokens=2"], counted).rows == labels.rows


def test_what_the_run_and_the_data_do_not_share_is_counted(world, tiny, capsys):
    dataset, run = world
    odd = Run(run)
    odd["q0"] = [("gone", 2.0), ("p0", 1.0), ("p0", 0.5)]
    odd["q1"] = []
    odd["stranger"] = [("p0", 1.0)]
    del odd["q2"]
    labels = label(dataset, odd, ["abstention"], tiny, k=3)
    counts = labels.manifest["counts"]
    assert counts["passages_not_in_corpus"] == 1 and counts["queries_without_passages"] == 1
    assert counts["queries_not_in_run"] == 1 and counts["run_queries_not_in_dataset"] == 1
    assert [row.passage_ids for row in labels if row.query_id == "q0"] == [("p0",)]
    assert "1 queries not in run" in capsys.readouterr().err


def test_nothing_in_common_is_a_clear_error(world, tiny):
    dataset, run = world
    with pytest.raises(DataError, match=r"share no query: the run has 1 \(such as x\)"):
        label(dataset, Run({"x": [("p0", 1.0)]}), ["abstention"], tiny)
    with pytest.raises(DataError, match="share no passage: the run names doc9"):
        label(dataset, Run({"q0": [("doc9", 1.0)]}), ["abstention"], tiny)
    with pytest.raises(DataError, match="retrieve first"):
        label(dataset, Run({query.id: [] for query in dataset.queries}), ["abstention"], tiny)
    for broken in ({"k": 0}, {"chunk_items": 0}):
        with pytest.raises(ConfigError, match="at least 1"):
            label(dataset, run, ["abstention"], tiny, **broken)
    with pytest.raises(ConfigError, match="no utility given"):
        label(dataset, run, [], tiny)


class Broken:
    """A user's utility whose numbers are what the test wants."""

    needs_answers = False
    parameters = {}  # noqa: RUF012

    def __init__(self, number, name="broken", needs_answers=False):
        self.number, self.name, self.needs_answers = number, name, needs_answers

    def requests(self, query, passages):
        return {"r": Force(load_prompt("answer").render(question=query.text, passages=passages), "x")}

    def value(self, query, passages, responses):
        return Value(self.number(passages[0].id), {"odd": nan, "more": [1.0, nan]})


def test_a_non_finite_number_is_invalid_and_files_stay_json(world, tiny, tmp_path):
    from utilitune.records.labels import read_labels

    utility = Broken(lambda passage_id: nan if passage_id == "p3" else 0.5)
    labels = label_file(tmp_path / "l.jsonl", *world, [utility], tiny, max_failed=0.5)
    bad = [row for row in labels if row.status == "invalid"]
    assert bad and all(row.utility is None and row.passage_ids == ("p3",) for row in bad)
    assert labels.manifest["counts"]["invalid"] == len(bad)
    assert labels[0].evidence["odd"] is None and labels[0].evidence["more"] == [1.0, None]
    back = read_labels(tmp_path / "l.jsonl")
    assert back.rows == labels.rows
    assert back.manifest["counts"]["invalid"] == len(bad)
    with pytest.raises(ThresholdError, match="invalid"):
        label(*world, [utility], tiny)


def test_queries_without_answers_are_skipped_where_answers_are_needed(world, tiny):
    dataset, run = world
    queries = [replace(dataset.queries[0], answers=("x",)), *dataset.queries[1:]]
    labels = label(replace(dataset, queries=queries), run, [Broken(lambda _: 1.0, needs_answers=True)], tiny, k=1)
    assert [row.status for row in labels] == ["ok", *["skipped"] * 5]
    assert labels.manifest["counts"]["skipped"] == 5


def with_a_giant(world):
    dataset, run = world
    giant = Passage("giant", "long " * 500)
    odd = Run({**run, "q1": [("p0", 2.0), ("giant", 1.5), ("p1", 1.0)]})
    return replace(dataset, corpus=[*dataset.corpus, giant]), odd


def test_a_refused_prompt_fails_its_own_rows_alone(world, tmp_path):
    narrow = TinyGenerator(seed=1, window=900)
    counted = Counted(narrow)
    specs = short(["information-gain", "abstention"])
    labels = label(*with_a_giant(world), specs, counted, k=3, store=tmp_path / "s", max_failed=0.2)
    failed = [row for row in labels if row.status == "failed"]
    assert [(row.query_id, row.passage_ids, row.utility) for row in failed] == [("q1", ("giant",), None)] * 2
    assert "window 900" in failed[0].evidence["reason"]
    assert labels.manifest["counts"]["failed"] == 2
    good = label(*world, specs, narrow, k=3)
    known = by_pair(good)
    assert all(known[key] == number for key, number in by_pair(labels).items() if key in known)
    again = label(*with_a_giant(world), specs, Counted(narrow), k=3, store=tmp_path / "s", max_failed=0.2)
    assert again.rows == labels.rows
    assert again.manifest["counts"]["store_misses"] == 2, "failures are asked again, nothing else"


def test_too_many_failures_stop_the_run_but_write_what_there_is(world, tmp_path):
    from utilitune.records.labels import read_labels

    counted = Counted(TinyGenerator(seed=1, window=40))
    with pytest.raises(ThresholdError, match="failed"):
        label_file(tmp_path / "l.jsonl", *world, ["information-gain"], counted, chunk_items=1, max_failed=0.05)
    rows = read_labels(tmp_path / "l.jsonl").rows
    assert 0 < len(rows) < 18, "stopped early"
    assert {row.status for row in rows} == {"failed"}


def test_truncation_is_counted(world, tiny):
    class Cutting(Counted):
        def run(self, tasks):
            return [
                replace(result, continuations=tuple(replace(each, truncated=True) for each in result.continuations))
                for result in super().run(tasks)
            ]

    labels = label(*world, ["abstention"], Cutting(tiny), k=2)
    assert labels.manifest["counts"]["truncated"] == 12
    assert all(row.evidence["truncated"] for row in labels)


def test_a_constant_utility_is_pointed_out(capsys):
    from utilitune.scoring.label_row import constant_sets

    tiny = TinyGenerator(seed=1)
    labels = label(*small_world(30, 2), [Broken(lambda _: 0.99), Broken(len, "other")], tiny)
    assert list(labels.manifest["warnings"]) == [labels[0].label_set, labels[1].label_set]
    assert "hardly tells passages apart" in capsys.readouterr().err
    assert constant_sets(labels.rows[:98]) == {}, "49 rows are too few to say"
    varied = [replace(row, utility=0.05 * (n % 2)) for n, row in enumerate(labels.rows[::2])]
    assert constant_sets(varied) == {}


def test_two_utilities_of_one_name_are_refused(world, tiny):
    one, two = Broken(len), Broken(len)
    two.parameters = {"x": 1}
    with pytest.raises(ConfigError, match="two calls"):
        label(*world, [one, two], tiny)
    twice = label(*world, ["abstention", "abstention"], tiny, k=1)
    assert len(twice) == 6
