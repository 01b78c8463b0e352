import math
import statistics

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.rewrite.aggregate import AGGREGATES, SCALES, discounted, pooled


def test_aggregates_by_hand():
    values = [1.0, 4.0, 2.0]
    assert AGGREGATES["mean"](values) == pytest.approx(7 / 3)
    assert AGGREGATES["max"](values) == 4.0
    assert AGGREGATES["top-1"](values) == 1.0
    # 1/log2(2) + 4/log2(3) + 2/log2(4)
    assert discounted(values) == pytest.approx(1 + 4 / math.log2(3) + 1)


def test_pooled_scale_by_hand():
    # centred: -1 1 | -3 3; root mean square sqrt((1+1+9+9)/4) = sqrt 5
    scaled = pooled({"a": [0.0, 2.0], "b": [10.0, 16.0]})
    assert scaled["a"] == pytest.approx([-1 / math.sqrt(5), 1 / math.sqrt(5)])
    assert scaled["b"] == pytest.approx([-3 / math.sqrt(5), 3 / math.sqrt(5)])
    # A lone candidate neither gets a value nor changes the unit.
    assert pooled({"a": [0.0, 2.0], "b": [10.0, 16.0], "c": [99.0]}) == {**scaled, "c": [0.0]}


def test_pooled_scale_is_free_of_unit_and_offset():
    groups = {"a": [0.3, 0.1, 0.9], "b": [5.0, 5.5]}
    moved = {key: [1000 * value - 7 for value in values] for key, values in groups.items()}
    for key, values in pooled(groups).items():
        assert pooled(moved)[key] == pytest.approx(values)


def test_pooled_keeps_small_differences_small_and_z_score_does_not():
    groups = {"noise": [0.0, 1e-6], "signal": [0.0, 1.0]}
    spread = {name: {k: max(v) - min(v) for k, v in scale(groups).items()} for name, scale in SCALES.items()}
    assert spread["pooled"]["noise"] == pytest.approx(1e-6 * spread["pooled"]["signal"])
    assert spread["z-score"]["noise"] == pytest.approx(spread["z-score"]["signal"]) == pytest.approx(2.0)


def test_z_score_agrees_with_statistics():
    values = [0.2, 0.9, -3.0, 4.0]
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    assert SCALES["z-score"]({"q": values})["q"] == pytest.approx([(v - mean) / deviation for v in values])


def test_rank_scale_and_ties():
    assert SCALES["rank"]({"q": [5.0, 1.0, 3.0]})["q"] == [1.0, -1.0, 0.0]
    assert SCALES["rank"]({"q": [2.0, 2.0, 0.0]})["q"] == [0.5, 0.5, -1.0]
    assert SCALES["rank"]({"q": [2.0]})["q"] == [0.0]


@pytest.mark.parametrize("scale", [name for name in SCALES if name != "raw"])
def test_equal_values_scale_to_zero(scale):
    assert SCALES[scale]({"q": [0.7, 0.7, 0.7]})["q"] == pytest.approx([0.0, 0.0, 0.0])


class Named:
    """A utility of which the stand-in for the labelling loop reads the name alone."""

    def __init__(self, name, needs_answers=False):
        self.name, self.needs_answers, self.parameters = name, needs_answers, {}

    def requests(self, query, passages):
        raise AssertionError("never asked here")

    value = requests


class Shelf:
    """A retriever that finds passages by the first word of the text."""

    def __init__(self, found):
        self.found = found

    def search_texts(self, texts, k=10):
        from utilitune.records import Run

        return Run(
            {
                key: [(one, 1.0 / (rank + 1)) for rank, one in enumerate(self.found.get(text.split()[0], []))][:k]
                for key, text in texts.items()
            }
        )


@pytest.fixture
def labels(monkeypatch):
    """Stand in for the labelling loop: utility of a set = sum of what each passage is worth to each question."""
    import utilitune.scoring
    from utilitune.records import UtilityLabel

    worth, asked = {}, []

    def label_sets(items, utilities, generator, *, store=None, max_failed=0.05):
        rows = []
        for query, passages in items:
            asked.append((query, tuple(p.id for p in passages)))
            for utility in utilities:
                value = sum(worth[query.id, p.id] for p in passages)
                status = "ok" if math.isfinite(value) else "invalid"
                rows.append(
                    UtilityLabel(
                        query.id,
                        tuple(p.id for p in passages),
                        value * (10 if utility.name == "drop" else 1) if status == "ok" else None,
                        status,
                        f"{utility.name}@0000",
                    )
                )
        return rows

    monkeypatch.setattr(utilitune.scoring, "label_sets", label_sets)
    return worth, asked


def make(labels_fixture, **options):
    from utilitune.records import Passage, Query, Turn
    from utilitune.rewrite import Candidate, reward_candidates

    worth, _ = labels_fixture
    worth.update({("q", "p1"): 1.0, ("q", "p2"): 3.0, ("q", "p3"): 0.0, ("q", "bad"): math.nan})
    candidates = [Candidate("q", text, "sample") for text in options.pop("texts", ["one", "two", "none"])]
    bm25 = Shelf({"one": ["p1", "p2"], "two": ["p3"], "broken": ["p1", "bad"]})
    dense = Shelf({"one": ["p2"], "two": ["p2", "p1"], "broken": ["p2"]})
    defaults = {"retrievers": {"bm25": bm25, "dense": dense}, "utilities": [Named("gain")], "k": 2, "generator": "some"}
    corpus = [Passage(one, f"text {one}") for one in ("p1", "p2", "p3", "bad")]
    query = Query("q", "and she?", history=(Turn("user", "who is mira"),))
    return reward_candidates(candidates, queries=[query], corpus=corpus, **{**defaults, **options})


def test_parts_by_hand_and_empty_retrieval_is_worth_nothing(labels):
    rows = make(labels, aggregate="mean", scale="raw")
    assert rows[0].parts == {"bm25/gain": 2.0, "dense/gain": 3.0}
    assert rows[1].parts == {"bm25/gain": 0.0, "dense/gain": 2.0}
    assert rows[2].parts == {"bm25/gain": 0.0, "dense/gain": 0.0}
    assert [row.utility for row in rows] == [2.5, 1.0, 0.0]
    assert rows.counts["empty"] == 2
    assert rows[0].passages == {"bm25": ("p1", "p2"), "dense": ("p2",)}


def test_labels_are_for_the_conversational_question_and_asked_once(labels):
    make(labels)
    _, asked = labels
    assert len(asked) == len(set(asked)) == 3
    assert all(query.text == "and she?" and query.history for query, _ in asked)


def test_set_aggregate_labels_the_passages_together(labels):
    rows = make(labels, aggregate="set", scale="raw")
    assert rows[0].parts["bm25/gain"] == 4.0
    assert ("p1", "p2") in {ids for _, ids in labels[1]}


def test_expected_mrr_reads_the_ranking_by_what_all_candidates_found(labels):
    rows = make(labels, aggregate="expected-mrr", scale="raw", k=1)
    # k=1 labels p1 (bm25 one), p2 (dense one, dense two) and p3 (bm25 two): 1, 3, 0; below k they still count.
    # 1 / rank over all rankings: p1 1 + 1/2, p2 1/2 + 1 + 1, p3 1.
    spread = statistics.pstdev([1, 3, 0])
    weights = [found * math.exp(value / spread) for value, found in ((1, 1.5), (3, 2.5), (0, 1.0))]
    p1, p2, p3 = (weight / sum(weights) for weight in weights)
    assert rows[0].parts == pytest.approx({"bm25/gain": p1 + p2 / 2, "dense/gain": p2})
    assert rows[1].parts == pytest.approx({"bm25/gain": p3, "dense/gain": p2 + p1 / 2})
    assert rows[2].parts == {"bm25/gain": 0.0, "dense/gain": 0.0}
    assert rows[0].passages == {"bm25": ("p1",), "dense": ("p2",)}, "what was labelled, not what was read"
    # The same whatever the unit of the utility, so that several count alike.
    both = make(labels, aggregate="expected-mrr", scale="raw", k=1, utilities=[Named("gain"), Named("drop")])
    assert both[0].parts["bm25/drop"] == pytest.approx(both[0].parts["bm25/gain"])


def test_expected_mrr_without_one_of_its_own_labels_has_no_utility(labels):
    rows = make(labels, texts=["one", "broken"], aggregate="expected-mrr", scale="raw")
    assert rows[0].utility is not None
    assert rows[1].utility is None


def test_utilities_of_different_unit_count_alike(labels):
    gain = [row.utility for row in make(labels, utilities=[Named("gain")])]
    both = [row.utility for row in make(labels, utilities=[Named("gain"), Named("drop")])]
    assert both == pytest.approx(gain)
    assert gain[0] > gain[1] > gain[2]


def test_a_failed_label_leaves_no_utility(labels):
    rows = make(labels, texts=["one", "two", "broken"])
    assert rows[2].utility is None
    assert rows.counts["unlabelled"] == 1
    assert rows[0].utility is not None


def test_k_cuts_the_passages(labels):
    rows = make(labels, k=1, scale="raw", retrievers={"bm25": Shelf({"one": ["p1", "p2"]})})
    assert rows[0].passages == {"bm25": ("p1",)}
    assert rows[0].utility == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregate": "median"}, "median.*mean, max, top-1, discounted, expected-mrr, set"),
        ({"scale": "log"}, "log.*pooled"),
        ({"k": 0}, "k=0"),
        ({"retrievers": {}}, "0 retrievers"),
        ({"utilities": []}, "0 utilities"),
    ],
)
def test_wrong_options(labels, options, message):
    with pytest.raises(ConfigError, match=message):
        make(labels, **options)


def test_passages_from_another_corpus_are_refused(labels):
    with pytest.raises(DataError, match="not in the corpus, first 'p9'"):
        make(labels, retrievers={"bm25": Shelf({"one": ["p9"]})})


def test_a_passage_that_a_searcher_lists_twice_counts_once(labels):
    def parts(aggregate, found):
        shelf = {"bm25": Shelf({"one": found})}
        return make(labels, aggregate=aggregate, scale="raw", k=2, texts=["one"], retrievers=shelf)[0].parts

    assert parts("discounted", ["p2", "p2"]) == {"bm25/gain": 3.0}
    assert parts("expected-mrr", ["p2", "p2", "p1"]) == parts("expected-mrr", ["p2", "p1"])


@pytest.mark.parametrize("fused", [False, True])
def test_expected_mrr_of_a_question_alone_among_empty_retrievals(labels, fused):
    rows = make(labels, aggregate="expected-mrr", scale="raw", texts=["none"], fused=fused)
    assert [row.utility for row in rows] == [0.0]
    likelihood = [Named("likelihood", needs_answers=True)]
    assert make(labels, aggregate="expected-mrr", scale="raw", utilities=likelihood)[2].utility == 0.0


def test_repeated_labels_are_counted_and_not_asked_again(labels):
    # one: p1 p2; two: p3 p2 p1; none: nothing. Five wanted, of which p1 and p2 twice.
    rows = make(labels)
    assert (rows.counts["wanted"], rows.counts["repeated"]) == (5, 2)
    assert len(labels[1]) == 3


def test_fused_ranking_by_hand(labels):
    # one: p1 p2 | p2 gives p2 (1/62 + 1/61) before p1 (1/61). two: p3 | p2 p1 gives p3 and p2 alike: ids descending.
    rows = make(labels, fused=True, k=1, scale="raw")
    assert rows[0].passages == {"bm25+dense": ("p2",)}
    assert rows[1].passages == {"bm25+dense": ("p3",)}
    assert [row.parts for row in rows[:2]] == [{"bm25+dense/gain": 3.0}, {"bm25+dense/gain": 0.0}]


def test_gold_rank_by_hand_needs_no_generator(labels):
    rows = make(labels, utilities=["gold-rank"], generator=None, k=1, scale="raw", qrels={"q": {"p2": 1.0, "p1": 0.0}})
    assert [row.parts["bm25/gold-rank"] for row in rows] == [0.5, 0.0, 0.0]
    assert [row.parts["dense/gold-rank"] for row in rows] == [1.0, 1.0, 0.0]
    assert [row.utility for row in rows] == [0.75, 0.5, 0.0]
    assert rows[0].passages == {"bm25": ("p1",), "dense": ("p2",)}
    assert not labels[1]


def test_gold_rank_and_a_utility_make_an_ensemble(labels):
    rows = make(labels, utilities=["gold-rank", Named("gain")], qrels={"q": {"p2": 1.0}})
    assert set(rows[0].parts) == {"bm25/gain", "dense/gain", "bm25/gold-rank", "dense/gold-rank"}
    assert rows[0].utility > rows[1].utility > rows[2].utility


def test_no_passages_are_worth_the_bare_question_where_that_is_not_nothing(labels):
    # A log-likelihood is below 0: "nothing found" at 0 would beat every passage.
    rows = make(labels, utilities=[Named("likelihood", needs_answers=True)], scale="raw")
    assert rows[2].parts == {"bm25/likelihood": 0.0, "dense/likelihood": 0.0}
    assert () in {ids for _, ids in labels[1]}


def test_gold_rank_without_judgements_and_a_utility_without_generator_are_refused(labels):
    with pytest.raises(ConfigError, match="none of the 3 questions is judged"):
        make(labels, utilities=["gold-rank"], qrels={"other": {"p": 1.0}})
    with pytest.raises(ConfigError, match="'gain' needs a generator"):
        make(labels, generator=None)
