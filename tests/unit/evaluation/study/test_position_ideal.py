"""The relevant passage moved through the list, and the best lists by several rules."""

import json
from dataclasses import replace

import pytest
from correlation_world import Ends, Judge, planted

from utilitune.errors import ConfigError
from utilitune.evaluation import study_correlation, write_correlation
from utilitune.evaluation.study.correlation.ideal import RULES, Candidate, best, study_ideal
from utilitune.evaluation.study.correlation.position import position_cases, position_metrics, study_position
from utilitune.evaluation.study.correlation.reader import Reader
from utilitune.evaluation.study.correlation.table import correlation_markdown, correlation_text
from utilitune.records import Passage, read_answers, read_labels


@pytest.fixture(scope="module")
def world():
    return planted(questions=12)


def test_metrics_of_one_relevant_passage_by_hand():
    found = position_metrics(4)
    assert found["nDCG"] == pytest.approx([1, 0.6309297535714575, 0.5, 0.43067655807339306])
    assert found["MAP"] == found["MRR"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert found["Precision"] == [0.25] * 4


def test_a_reader_of_the_ends_is_u_shaped(world):
    dataset, _ = world
    found = study_position(position_cases(dataset, 5), Reader(Ends()), length=5)
    assert [each.right.value for each in found.positions] == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert [each.abstained.value for each in found.positions] == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert (found.ends.value, found.ends.low, found.questions) == (1.0, 1.0, 12)
    assert found.spearman.value == pytest.approx(0.0, abs=1e-9), "first and last cancel out"
    assert [each.place for each in found.positions] == [1, 2, 3, 4, 5]


def test_distractors_keep_their_order_and_never_hold_the_answer(world):
    dataset, _ = world
    reader = Ends()
    study_position(position_cases(dataset, 4), Reader(reader), length=4)
    gold_first = [shown for shown in reader.answered if shown[0][1]]
    gold_second = [shown for shown in reader.answered if shown[1][1]]
    assert len(gold_first) == len(gold_second) == 12
    for first, second in zip(gold_first, gold_second, strict=True):
        assert first[0] == second[1]
        assert [first[1], *first[2:]] == [second[0], *second[2:]]
    assert all(sum(bool(river) for _, river in shown) == 1 for shown in reader.answered)


def test_questions_with_too_few_distractors_are_left_out_and_counted(world):
    dataset, _ = world
    few = replace(dataset, corpus=dataset.corpus[:6])
    cases = position_cases(few, 7)
    found = study_position(cases, Reader(Ends()), length=7)
    assert (len(cases.cases) > 0, found.questions) == (True, 0)
    assert found.counts["position: questions with too few distractors"] == len(cases.cases)
    assert found.positions[0].right.value is None
    with pytest.raises(ConfigError, match="length is 1"):
        position_cases(dataset, 1)


def candidate(name, relevant, utility, gain=0.0):
    return Candidate(Passage(name, name), relevant, utility, gain)


def test_rules_by_hand():
    """Weak relevant, strong distractor, strong relevant, weak distractor, one without u."""
    own = [
        candidate("a", True, 0.2, 0.0),
        candidate("b", False, 0.9, 1.0),
        candidate("c", True, 0.8, 1.0),
        candidate("d", False, 0.1, 0.0),
        candidate("e", True, None, None),
    ]
    order = {name: "".join(each.passage.id for each in best(own, rule, 5, 1 / 3)) for name, rule in RULES.items()}
    assert order == {
        "as retrieved": "abcde",
        "binary relevance": "acebd",
        "utility (UDCG)": "cadbe",
        "u alone": "bcade",
        "eRAG": "bcade",
    }
    assert len(best(own, RULES["eRAG"], 2, 1 / 3)) == 2


def test_the_best_by_utility_is_right_where_binary_relevance_is_not(world):
    """Binary relevance fills up with the strong distractor, which is retrieved first; utility with the weak one."""
    dataset, _ = world
    cases = []
    for query in dataset.queries:
        number = query.id[1:]
        gold = Passage("g", f"worth 0.3 it lies on the river R{number} and")
        strong, weak = Passage("s", "worth 0.9 it is a"), Passage("w", "worth 0.1 it is a")
        cases.append(
            (
                query,
                [Candidate(strong, False, 0.9, 0.0), Candidate(gold, True, 0.3, 1.0), Candidate(weak, False, 0.1, 0.0)],
            )
        )
    found = study_ideal([*cases, (dataset.queries[0], [])], Reader(Judge(enough=0.05)), k=2, gamma=1 / 3)
    rules = {each.rule: each for each in found.rules}
    assert (rules["utility (UDCG)"].right.value, rules["binary relevance"].right.value) == (1.0, 0.0)
    assert rules["binary relevance"].wrong.value == 1.0
    assert rules["utility (UDCG)"].right_versus.difference == 1.0
    assert rules["utility (UDCG)"].right_versus.p_holm < 0.05
    assert rules["utility (UDCG)"].wrong_versus.difference == -1.0
    assert rules["binary relevance"].right_versus is None
    assert rules["binary relevance"].same == 12
    assert rules["utility (UDCG)"].relevant == 1.0
    assert found.counts["ideal: questions without candidates"] == 1
    assert all(each.right.value + each.wrong.value + each.abstained.value == pytest.approx(1) for each in found.rules)


def test_nothing_to_rank_is_no_number(world):
    dataset, _ = world
    found = study_ideal([(dataset.queries[0], [])], Reader(Judge()), k=2, gamma=1 / 3)
    assert (found.questions, found.rules[0].right.value) == (0, None)


def test_files_hold_everything_and_are_the_same_twice(world, tmp_path):
    dataset, run = world
    made = [
        study_correlation(
            dataset, Judge(), {"run": run}, [1, 3], position=3, ideal=2, resamples=50, store=tmp_path / "s.sqlite"
        )
        for _ in range(2)
    ]
    paths = write_correlation(tmp_path / "a", made[0])
    again = write_correlation(tmp_path / "b", made[1])
    names = ("lists.csv", "answers.jsonl", "labels.jsonl", "theta-1.json", "theta-3.json")
    figures = ("correlation.svg", "lengths.svg", "position.svg", "ideal.svg")
    assert set(paths) == {"correlation.json", "table.txt", "table.md", *names, *figures}
    for name in (*names, *figures):
        assert paths[name].read_bytes() == again[name].read_bytes()
    assert all(paths[name].read_text().startswith("<?xml") for name in figures)
    told = json.loads(paths["correlation.json"].read_text())
    assert told["position"]["length"] == 3
    assert told["manifest"]["options"]["k"] == [1, 3]
    assert len(paths["lists.csv"].read_text().splitlines()) == 1 + 12 * 2
    known = {(each.query_id, each.passage_ids) for each in read_answers(paths["answers.jsonl"])}
    assert len(known) == len(made[0].answers)
    assert read_labels(paths["labels.jsonl"]).names() == ["abstention"]
    without = study_correlation(dataset, Judge(), {"run": run}, [2], position=None, ideal=None, resamples=50)
    assert not {"position.svg", "ideal.svg"} & set(write_correlation(tmp_path / "c", without))


def test_tables_say_everything(world):
    dataset, run = world
    study = study_correlation(dataset, Judge(), {"a|b": run, "c": run}, [2], position=3, ideal=2, resamples=50)
    text, page = correlation_text(study), correlation_markdown(study)
    for said in (
        "UDCGθ",
        "eRAG",
        "Position of the one relevant passage among 3",
        "binary relevance",
        "12 of 12 questions",
    ):
        assert said in text
        assert said in page
    assert "τ-b with right answers: c" in page
    assert "a\\|b" in page, "names cannot break a table"
    assert "(abstained)" in text
