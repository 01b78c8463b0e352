"""What the verbs read: one part of the queries, bad lines, an index that belongs to the corpus."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.cli.data import BadLine, Part, open_data, part_of_run, trained_on
from utilitune.errors import ConfigError, DataError
from utilitune.records import Passage, Run, read_run, split_queries, write_run
from utilitune.retrieval import Bm25Retriever

CORPUS = [{"_id": f"p{i}", "title": "", "text": f"The mill number {i} was built in 18{i}0."} for i in range(5)]


def write(folder, queries, corpus=CORPUS):
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"{row['_id']}\tp1\t1\n" for row in queries)
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def query(identity, **more):
    return {"_id": identity, "text": f"mill {identity}?", **more}


def ids(dataset):
    return [query.id for query in dataset.queries]


@pytest.fixture
def world(tmp_path):
    return write(tmp_path / "world", [query("a", split="train"), query("b", split="test"), query("c", split="train")])


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=True)


def test_the_field_splits_where_every_query_has_it(world):
    assert ids(open_data(world)) == ["a", "b", "c"]
    assert ids(open_data(world, part=Part.train)) == ["a", "c"]
    test = open_data(world, part=Part.test)
    assert ids(test) == ["b"] == list(test.qrels)
    assert len(test.corpus) == 5


def test_else_whole_conversations_are_split_as_everywhere(tmp_path):
    rows = [query(f"c{c}_{t}") for c in range(30) for t in range(2)]
    folder = write(tmp_path / "w", [{**rows[0], "split": "train"}, *rows[1:]])
    train, test = (ids(open_data(folder, part=part)) for part in (Part.train, Part.test))
    expected = split_queries(open_data(folder).queries, test=0.3, seed=13)
    assert (train, test) == tuple([query.id for query in side] for side in expected)
    assert train and test and set(Counter(name.split("_")[0] for name in test).values()) == {2}


def test_an_empty_part_is_an_error(tmp_path):
    folder = write(tmp_path / "w", [query("a", split="train")])
    with pytest.raises(DataError, match="--split test: no query"):
        open_data(folder, part=Part.test)


def test_bad_lines_stop_or_are_left_out(world, capsys):
    with (world / "queries.jsonl").open("a") as file:
        file.write('{"_id": "d"\n')
    with pytest.raises(DataError, match=r"queries\.jsonl:4"):
        open_data(world)
    assert ids(open_data(world, BadLine.skip)) == ["a", "b", "c"]
    assert "queries.jsonl:4" in capsys.readouterr().err
    out = world.parent / "index"
    assert isinstance(run("index", world, "--out", out).exception, DataError)
    assert run("index", world, "--out", out, "--on-bad-line", "skip").exit_code == 0
    assert run("index", world, "--out", out, "--on-bad-line", "ignore").exit_code == 2


def test_part_of_a_run(world):
    whole = Run({"b": [("p1", 1.0)], "a": [], "z": []})
    dataset = open_data(world, part=Part.train)
    assert part_of_run(whole, dataset, Part.train) == {"a": []}
    assert part_of_run(whole, dataset, Part.all) is whole
    with pytest.raises(DataError, match="none of the 1 queries"):
        part_of_run(Run({"b": []}), dataset, Part.train)


def test_retrieve_and_evaluate_one_part(world, tmp_path):
    assert run("index", world, "--out", tmp_path / "index").exit_code == 0
    words = ("retrieve", world, "--index", tmp_path / "index", "--split", "test", "--out", tmp_path / "r.trec")
    assert run(*words).exit_code == 0
    assert list(read_run(tmp_path / "r.trec")) == ["b"]
    words = ("evaluate", world, "--run", tmp_path / "r.trec", "-m", "MRR@10", "--out", tmp_path / "report")
    assert run(*words, "--split", "test").exit_code == 0
    row = json.loads((tmp_path / "report" / "report.json").read_text())["tables"][0]["rows"][0]
    assert row["cells"]["MRR@10"]["n"] == 1


@pytest.mark.parametrize("verb", ["retrieve", "pairs"])
def test_an_index_of_another_corpus_is_refused(world, tmp_path, verb):
    index = tmp_path / "index"
    Bm25Retriever.build([Passage(row["_id"], row["text"] + " Long ago.") for row in CORPUS]).save(index)
    if verb == "pairs":
        rows = [query("a"), query("b_2", history=[{"role": "user", "content": "hello"}])]
        write(world, rows)
    failed = run(verb, world, "--index", index, "--out", tmp_path / "x").exception
    assert isinstance(failed, DataError)
    assert "another corpus" in str(failed)


def test_evaluate_warns_of_queries_that_were_trained_on(world, tmp_path):
    write_run(tmp_path / "r.trec", Run({name: [("p1", 1.0)] for name in "abc"}))
    model = tmp_path / "model"
    model.mkdir()
    (model / "training.json").write_text(json.dumps({"queries": {"train": ["a"], "dev": ["c"]}}))
    assert trained_on(model) == {"a", "c"}
    words = ("evaluate", world, "--run", tmp_path / "r.trec", "-m", "MRR@10", "--out", tmp_path / "x")
    assert "learnt from 2 of the 3 queries" in run(*words, "--trained", model).stderr
    fresh = run(*words, "--trained", model, "--split", "test")
    assert fresh.exit_code == 0, fresh.exception
    assert "learnt" not in fresh.stderr
    (model / "rewriter.json").write_text(json.dumps({"training": {"query_ids": ["b"]}}))
    assert trained_on(model) == {"b"}
    (model / "rewriter.json").write_text(json.dumps({"training": {}}))
    with pytest.raises(ConfigError, match="does not say"):
        trained_on(model)


def test_version():
    import utilitune

    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"utilitune {utilitune.__version__}\n")


def test_an_unknown_split_value_takes_its_own_queries_out_alone(world, capsys):
    write(world, [query(f"q{i}", split=value) for i, value in enumerate(["train", "test", "dev", "Train"])])
    assert (ids(open_data(world, part=Part.train)), ids(open_data(world, part=Part.test))) == (["q0"], ["q1"])
    assert "'Train' 1, 'dev' 1" in capsys.readouterr().err
