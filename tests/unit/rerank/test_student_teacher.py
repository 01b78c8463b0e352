"""A reranker's scores as targets, and `utilitune train retriever` from labels, groups and a run."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import DataError
from utilitune.records import (
    Dataset,
    Labels,
    Passage,
    Query,
    Run,
    UtilityLabel,
    write_dataset,
    write_labels,
    write_run,
)
from utilitune.rerank import Group, Groups, UtilityReranker, write_groups
from utilitune.rerank.student import groups_of_run, taught


class Length:
    """A teacher that likes long passages; of `nan` it knows nothing."""

    def score_pairs(self, pairs):
        return [math.nan if passage == "nan" else float(len(passage)) for _, passage in pairs]


def test_logits_take_the_place_of_utilities():
    groups = Groups(
        [
            Group("q", "x", ("a", "b"), ("one", "three"), (9.0, 1.0), (1.0, 0.0)),
            Group("r", "x", ("a", "b"), ("one", "two"), (9.0, 1.0), (1.0, 0.0)),
            Group("s", "x", ("a", "b"), ("one", "nan"), (9.0, 1.0), (1.0, 0.0)),
        ],
        {"rows failed": 1},
    )
    made = taught(groups, Length())
    assert [group.query_id for group in made] == ["q"]
    assert made.groups[0].utilities == made.groups[0].targets == (3.0, 5.0)
    assert made.drops == {
        "rows failed": 1,
        "queries that the teacher scores alike": 1,
        "queries whose teacher's scores are not finite": 1,
    }
    assert made.rule == "none" and made.label_sets == ("reranker",)


CORPUS = [Passage("a", "red mill"), Passage("b", "red  mill"), Passage("c", "king"), Passage("d", " ")]


def test_a_run_becomes_groups():
    dataset = Dataset(CORPUS, [Query("q_1", "who"), Query("r", "where")])
    run = Run({"q_1": [("a", 3.0), ("b", 2.0), ("d", 1.0), ("c", 0.5)], "r": [("c", 1.0)]})
    made = groups_of_run(run, dataset, Length(), depth=4)
    assert [(g.query_id, g.query, g.passage_ids, g.targets) for g in made] == [("q_1", "who", ("a", "c"), (8.0, 4.0))]
    assert made.groups[0].conversation == dataset.queries[0].conversation
    assert made.drops == {
        "candidates merged, same text": 1,
        "candidates without text": 1,
        "queries with fewer than 2 candidates": 1,
    }
    with pytest.raises(DataError, match="no training group is left of 2 queries"):
        groups_of_run(run, dataset, Length(), depth=2)
    with pytest.raises(DataError, match="1 queries and 1 passages of the run are not in the data set"):
        groups_of_run(Run({"zzz": [("a", 1.0)], "r": [("y", 1.0)]}), dataset, Length())


@pytest.fixture
def world(tmp_path, tiny_bert):
    """A data folder, labels, groups, a run and a reranker, all of ten questions."""
    texts = [f"{word} {place}" for word in ("good mill", "bad town") for place in ("red", "blue", "old", "new", "king")]
    passages = [Passage(f"p{place}", text) for place, text in enumerate(texts)]
    queries = [Query(f"q{place}", f"who built the {word}") for place, word in enumerate(["mill", "town"] * 5)]
    write_dataset(tmp_path / "data", Dataset(passages, queries))
    worth = {
        query.id: {f"p{place}": float("good" in texts[place]) for place in range(number % 5, 10 - number % 3)}
        for number, query in enumerate(queries)
    }
    rows = [
        UtilityLabel(query_id, (pid,), value, "ok", "information-gain@00000001", {})
        for query_id, values in worth.items()
        for pid, value in values.items()
    ]
    write_labels(tmp_path / "labels.jsonl", Labels(rows))
    write_groups(
        tmp_path / "groups.jsonl",
        Groups(
            [
                Group(
                    query.id,
                    query.text,
                    ids := tuple(worth[query.id]),
                    tuple(texts[int(pid[1:])] for pid in ids),
                    values := tuple(worth[query.id].values()),
                    values,
                )
                for query in queries
            ]
        ),
    )
    run = Run(
        {query_id: [(pid, -float(rank)) for rank, pid in enumerate(values)] for query_id, values in worth.items()}
    )
    write_run(tmp_path / "run.trec", run)
    UtilityReranker.untrained(tiny_bert, seed=1, device="cpu").save(tmp_path / "reranker")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "options", "teacher"),
    [
        ("labels.jsonl", ["--data", "data"], ["information-gain@00000001"]),
        ("groups.jsonl", ["--reranker", "reranker"], ["reranker"]),
        ("run.trec", ["--data", "data", "--reranker", "reranker", "--depth", "5"], ["reranker"]),
    ],
)
def test_the_command_and_the_index_after_it(world, tiny_encoder, monkeypatch, source, options, teacher):
    monkeypatch.chdir(world)
    given = ["--out", "encoder", "--encoder", tiny_encoder, "--epochs", "1", "--batch-pairs", "16", "-q"]
    done = CliRunner().invoke(app, ["train", "retriever", source, *options, *given])
    assert done.exit_code == 0, done.output
    assert "encoder written to encoder" in done.output
    report = json.loads((world / "encoder" / "training.json").read_text())
    assert report["teacher"] == teacher
    assert report["groups"] + report["epochs"][0]["dev"]["queries"] == 10
    if source != "labels.jsonl":
        return
    done = CliRunner().invoke(app, ["index", "data", "--kind", "dense", "--encoder", "encoder", "--out", "index", "-q"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["retrieve", "data", "--index", "index", "--out", "tuned.trec", "-q"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("source", "message"),
    [("labels.jsonl", "give --data FOLDER"), ("run.trec", "give --reranker FOLDER to score it")],
)
def test_what_is_missing_is_said(world, monkeypatch, source, message):
    monkeypatch.chdir(world)
    done = CliRunner().invoke(app, ["train", "retriever", source, "--out", "encoder", "-q"])
    assert done.exit_code != 0 and message in str(done.exception)
