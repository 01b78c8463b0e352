"""A whole study: what utilities that are tables must come out as, right answers, failures, the store."""

import json
import time
from dataclasses import replace

import pytest
from signal_world import Reader, Table, make_world

from utilitune.errors import ConfigError, ThresholdError
from utilitune.evaluation import study_signal

IDS = [f"p{i}" for i in range(10)]


def perfect_for(world):
    """A utility that knows which passage is gold."""

    class Perfect(Table):
        def value(self, query, passages, responses):
            self.numbers = {passages[0].id: float(passages[0].id in world.qrels[query.id])}
            return super().value(query, passages, responses)

    return Perfect("perfect", {})


def test_a_utility_that_knows_the_gold_passage_is_perfect(world, reader):
    found = study_signal(world, reader, [perfect_for(world)]).signal("perfect")
    assert (found.hard.share, found.hard.low, found.hard.high) == (1.0, 1.0, 1.0)
    assert found.hard.p == pytest.approx(2 / 2**10)
    assert (found.random.share, found.rank.mrr, found.rank.pessimistic) == (1.0, 1.0, 1.0)
    # The reader copies the river of its document: right exactly from the gold passage.
    for part in (found.gold, found.right):
        assert (part.auroc, part.within, part.tau) == (1.0, 1.0, pytest.approx(1.0))
        assert (part.positives, part.negatives) == (10, 50)
    assert found.rank.chance == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 6)


def test_numbers_of_a_table_by_hand(world, reader):
    """Passage i is worth i, whatever the question: gold p_i beats exactly the candidates with a smaller number."""
    study = study_signal(world, reader, [Table("number", {f"p{i}": float(i) for i in range(10)})])
    found = study.signal("number")
    by_question = {}
    for row in study.pairs:
        by_question.setdefault(row.query_id, []).append(int(row.passage_id[1:]))
    shares = [sum(gold > other for other in others[:4]) / 4 for gold, *others in by_question.values()]
    assert found.hard.per_question == tuple(shares)
    assert found.hard.share == pytest.approx(sum(shares) / 10)
    assert found.rank.mrr == pytest.approx(
        sum(1 / (1 + sum(other > gold for other in others)) for gold, *others in by_question.values()) / 10
    )
    assert found.n == 60
    assert [row.role for row in study.pairs[:6]] == ["gold", *["hard"] * 4, "random"]


def test_a_constant_utility_is_chance_and_is_named(world, reader):
    study = study_signal(world, reader, [Table("flat", dict.fromkeys(IDS, 0.4))])
    found = study.signal("flat")
    assert (found.hard.share, found.hard.ties, found.hard.p, found.std) == (0.5, 40, 1.0, 0.0)
    assert found.rank.mrr == pytest.approx(found.rank.chance)
    assert (found.gold.auroc, found.right.auroc, found.right.tau) == (0.5, 0.5, None)
    assert any("hardly tells passages apart" in note for note in study.notes), "60 labels: labelling's own warning"
    few = study_signal(world, reader, [Table("flat", dict.fromkeys(IDS, 0.4))], limit=2)
    assert any("flat: all 12 labels are equal" in note for note in few.notes)


def test_without_gold_answers_the_part_about_answers_is_absent_not_zero(reader):
    study = study_signal(make_world(answers=False), reader, [Table("number", {f"p{i}": float(i) for i in range(10)})])
    right = study.signal("number").right
    assert (right.auroc, right.tau, right.within, right.positives) == (None, None, None, 0)
    assert any("no question has a gold answer" in note for note in study.notes)
    assert study.counts["pairs whose answer is unknown"] == 60
    assert reader.asked == 1, "the weights are read, and nothing asked for answers that nobody can judge"
    assert study.signal("number").hard.share is not None


def test_questions_without_answers_are_left_out_of_that_part_alone(world, reader):
    queries = [replace(query, answers=()) if query.id in ("q1", "q2") else query for query in world.queries]
    study = study_signal(replace(world, queries=queries), reader, [perfect_for(world)])
    found = study.signal("perfect")
    assert found.hard.questions == 10
    assert (found.right.positives, found.right.negatives) == (8, 40)
    assert study.counts["questions without gold answers"] == 2


def test_answers_that_are_all_wrong_are_named(world, reader):
    queries = [replace(query, answers=("nobody knows",)) for query in world.queries]
    study = study_signal(replace(world, queries=queries), reader, [perfect_for(world)])
    assert study.signal("perfect").right.auroc is None
    assert any("every answer is wrong" in note for note in study.notes)


def test_rows_that_fail_are_left_out_and_counted(world, reader):
    numbers = {f"p{i}": float(i) for i in range(1, 10)}
    with pytest.raises(ThresholdError, match="failed"):
        study_signal(world, reader, [Table("holes", numbers)], max_failed=0.0)
    study = study_signal(
        world, reader, [Table("holes", numbers), Table("whole", {**numbers, "p0": 0.0})], max_failed=0.5
    )
    holes, whole = study.signals
    lost = sum(row.passage_id == "p0" for row in study.pairs)
    assert holes.left_out == {"failed": lost}
    assert holes.n == 60 - lost
    assert holes.questions_left_out == 1, "q0: its gold passage has no number"
    assert (holes.hard.questions, whole.hard.questions) == (9, 10)
    assert whole.left_out == {}
    assert whole.versus_first.n == 9, "compared on the questions that both have"
    assert any("holes:" in note and "1 question(s)" in note for note in study.notes)


def test_a_number_that_is_not_finite_is_left_out(world, reader):
    numbers = {**{f"p{i}": float(i) for i in range(10)}, "p3": float("nan")}
    study = study_signal(world, reader, [Table("nan", numbers)], max_failed=0.5)
    assert study.signal("nan").left_out["invalid"] > 0
    json.dumps(study.as_dict(), allow_nan=False)


def test_utilities_are_compared_with_the_first_and_corrected_together(world, reader):
    number = Table("number", {f"p{i}": float(i) for i in range(10)})
    study = study_signal(world, reader, [number, perfect_for(world)])
    first, second = study.signals
    assert first.versus_first is None
    assert second.versus_first.difference == pytest.approx(second.hard.share - first.hard.share)
    assert second.p_holm == pytest.approx(2 * second.hard.p)
    alone = study_signal(world, reader, [number]).signals[0]
    assert (alone.hard, alone.right) == (first.hard, first.right), "who else is studied changes nothing else"


def test_order_of_files_does_not_matter(world, reader):
    number = Table("number", {f"p{i}": float(i * 7 % 10) for i in range(10)})
    turned = replace(world, corpus=world.corpus[::-1], queries=world.queries[::-1])
    ours, theirs = study_signal(world, reader, [number]), study_signal(turned, reader, [number])
    assert ours.signals == theirs.signals
    assert ours.pairs == theirs.pairs


def test_utilities_share_the_answers_and_a_second_run_is_free(world, reader, tmp_path):
    store = tmp_path / "s.sqlite"
    utilities = ["grogu:mean-logprob", "erag"]
    first = study_signal(world, reader, utilities, limit=3, store=store)
    # 18 grounded answers and 3 bare ones, whoever asks for them.
    assert first.timing.computed == 21
    assert first.timing.seconds_a_pair == pytest.approx(first.timing.seconds / 18)
    asked = reader.asked
    second = study_signal(world, reader, utilities, limit=3, store=store)
    assert reader.asked == asked
    assert second.signals == first.signals
    assert (second.timing.computed, second.timing.from_store) == (0, 21)
    assert second.timing.seconds_a_pair is None
    assert any("21 of 21 responses came from the store and are not timed" in note for note in second.notes)


def test_answers_are_judged_by_the_measure_asked_for(world, reader):
    queries = [replace(query, answers=(f"the river {query.answers[0]}",)) for query in world.queries]
    data = replace(world, queries=queries)
    # The reader says R3, gold is "the river R3": neither equal nor contained.
    assert study_signal(data, reader, [perfect_for(world)]).counts["pairs with a right answer"] == 0
    assert (
        study_signal(world, reader, [perfect_for(world)], answer_measure="EM").counts["pairs with a right answer"] == 10
    )
    for wrong in ("F1", "em", ""):
        with pytest.raises(ConfigError, match="known here: contains, EM"):
            study_signal(world, reader, [perfect_for(world)], answer_measure=wrong)


def test_the_manifest_says_what_made_the_numbers(world, reader):
    study = study_signal(world, reader, [perfect_for(world)], limit=4, seed=5, command="mine")
    made = study.manifest
    assert (made["command"], made["seed"], made["options"]["limit"]) == ("mine", 5, 4)
    assert made["generator"]["model"] == "reader"
    assert len(made["data"]["corpus_sha256"]) == len(made["data"]["cases_sha256"]) == 64
    assert made["label_counts"]["labels"] == 48
    assert "scipy" in made["versions"]
    other = study_signal(replace(world, corpus=world.corpus[:9]), reader, [perfect_for(world)])
    assert other.manifest["data"]["corpus_sha256"] != made["data"]["corpus_sha256"]


def test_nothing_to_study(world, reader):
    with pytest.raises(ConfigError, match="no utility given"):
        study_signal(world, reader, [])
    with pytest.raises(KeyError, match="these were: perfect"):
        study_signal(world, reader, [perfect_for(world)]).signal("other")


def test_reading_the_weights_is_not_timed(world, tmp_path):
    """They are read at the first request; a store that is there may never need them."""

    class Slow(Reader):
        def run(self, tasks):
            if not self.asked:
                time.sleep(0.5)
            return super().run(tasks)

    study = study_signal(world, Slow(), ["grogu:mean-logprob"], limit=2, store=tmp_path / "s.sqlite")
    assert study.timing.computed and study.timing.seconds < 0.5
