"""BEIR folders, read and written."""

import gzip
import json

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import (
    Dataset,
    Passage,
    Query,
    Turn,
    iter_corpus,
    load_dataset,
    validate_folder,
    write_dataset,
    write_rows,
)

CORPUS = [{"_id": "007", "title": "T", "text": "red"}, {"_id": "d2", "text": "blue", "metadata": {"url": "u"}, "n": 3}]
QUERIES = [
    {"_id": "c1_1", "text": "who?", "answers": ["x", "y"], "rewrite": "who is it?"},
    {
        "_id": "c1_2",
        "text": "and when?",
        "history": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": ""}],
        "meta": {"source": "s"},
    },
]
QRELS = "query-id\tcorpus-id\tscore\nc1_1\t007\t1\nc1_2\td2\t0.5\n"


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "set")


def make(root, corpus=CORPUS, queries=QUERIES, qrels=QRELS):
    root.mkdir()
    (root / "corpus.jsonl").write_text(lines(corpus))
    (root / "queries.jsonl").write_text(lines(queries))
    if qrels is not None:
        (root / "qrels.tsv").write_text(qrels)
    return root


def test_everything_is_read(folder):
    ds = load_dataset(folder)
    assert ds.corpus == [Passage("007", "red", "T"), Passage("d2", "blue")]
    assert ds.corpus[1].metadata == {"url": "u", "n": 3}
    assert ds.queries == [
        Query("c1_1", "who?", (), ("x", "y"), "who is it?"),
        Query("c1_2", "and when?", (Turn("user", "who?"), Turn("assistant", ""))),
    ]
    assert ds.queries[1].metadata == {"meta": {"source": "s"}}
    assert ds.qrels == {"c1_1": {"007": 1.0}, "c1_2": {"d2": 0.5}}
    assert ds.name == "set"
    assert ds.counts == {"empty assistant turns kept": 1}


def test_round_trip(folder, tmp_path):
    ds = load_dataset(folder)
    write_dataset(tmp_path / "copy" / "set", ds)
    again = load_dataset(str(tmp_path / "copy" / "set"))
    assert again == ds
    assert [dict(p.metadata) for p in again.corpus] == [dict(p.metadata) for p in ds.corpus]
    assert [dict(q.metadata) for q in again.queries] == [dict(q.metadata) for q in ds.queries]
    write_dataset(tmp_path / "copy" / "set", Dataset(ds.corpus, ds.queries))
    assert load_dataset(tmp_path / "copy" / "set").qrels == {}


def test_write_refuses_a_folder_that_readers_would_misread(tmp_path, folder):
    ds = load_dataset(folder)
    write_rows(folder / "corpus.parquet", [{"_id": "1", "text": "old"}])
    with pytest.raises(DataError, match=r"already holds corpus\.parquet"):
        write_dataset(folder, ds)


@pytest.mark.parametrize("ending", [".jsonl.gz", ".parquet"])
def test_other_forms_hold_the_same(folder, ending):
    expected = load_dataset(folder)
    for stem, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (folder / f"{stem}.jsonl").unlink()
        write_rows(folder / f"{stem}{ending}", rows)
    (folder / "qrels.tsv").unlink()
    (folder / "qrels.tsv.gz").write_bytes(gzip.compress(QRELS.encode()))
    ds = load_dataset(folder)
    assert ds == expected
    assert [dict(p.metadata) for p in ds.corpus] == [dict(p.metadata) for p in expected.corpus]
    assert list(iter_corpus(folder)) == expected.corpus


def test_id_is_taken_where_there_is_no_underscore_id(tmp_path):
    root = make(
        tmp_path / "s",
        [{"id": "a", "text": "x"}, {"_id": "b", "id": "c", "text": "y"}],
        [{"id": "q", "text": "?"}],
        None,
    )
    ds = load_dataset(root)
    assert [p.id for p in ds.corpus] == ["a", "b"]
    assert [dict(p.metadata) for p in ds.corpus] == [{}, {"id": "c"}]
    assert ds.queries[0].id == "q"


def test_number_ids_become_strings_and_are_counted(tmp_path):
    root = make(
        tmp_path / "s", [{"_id": 7, "text": "x"}, {"_id": "07", "text": "y"}], [{"_id": 1, "text": "?"}], "1\t7\t1\n"
    )
    ds = load_dataset(root)
    assert [p.id for p in ds.corpus] == ["7", "07"]
    assert ds.qrels == {"1": {"7": 1.0}}
    assert ds.counts == {"passage ids that were numbers": 1, "query ids that were numbers": 1}


@pytest.mark.parametrize(
    ("answers", "read"), [("x", ("x",)), (["x", " "], ("x",)), (None, ()), ([1901], ("1901",)), ("", ())]
)
def test_answers_may_be_one_or_many(tmp_path, answers, read):
    root = make(tmp_path / "s", queries=[{"_id": "q", "text": "?", "answers": answers}], qrels=None)
    assert load_dataset(root).queries[0].answers == read


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"text": ""}, "'text' is empty; expected a question"),
        ({"text": " \u3000\n"}, "'text' is empty"),
        ({"text": None}, "'text' is missing; found the keys '_id', 'text'"),
        ({"text": 5}, "'text' is 5; expected a string"),
        ({"_id": None}, "'_id' is missing"),
        ({"_id": ""}, "'_id' is empty"),
        ({"_id": 7.0}, "'_id' is 7.0; expected a string"),
        ({"_id": True}, "'_id' is True"),
        ({"_id": "a\tb"}, "must not hold a tab"),
        ({"answers": [["x"]]}, "'answers' holds"),
        ({"answers": {"a": 1}}, "'answers' holds"),
        ({"rewrite": 1}, "'rewrite' is 1"),
        ({"history": "who?"}, "'history' is 'who?'; expected a list of"),
        ({"history": ["who?"]}, "'history[0]' is 'who?'"),
        (
            {"history": [{"role": "system", "content": "x"}]},
            "'history[0].role' is 'system'; expected one of 'user', 'assistant'",
        ),
        ({"history": [{"role": "user", "content": ["x"]}]}, "'history[0].content' is"),
    ],
)
def test_bad_queries(tmp_path, change, says):
    root = make(tmp_path / "s", queries=[QUERIES[0], {"_id": "q", "text": "?", **change}, QUERIES[1]])
    with pytest.raises(DataError) as caught:
        load_dataset(root)
    assert f"{root / 'queries.jsonl'}:2: " in str(caught.value)
    assert says in str(caught.value)
    assert f"utilitune validate {root}" in str(caught.value)
    ds = load_dataset(root, on_bad_line="skip")
    assert [q.id for q in ds.queries] == ["c1_1", "c1_2"]
    assert ds.counts["bad line: skipped"] == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"_id": "x"}, "'text' is missing; found the keys '_id'"),
        ({"contents": "x"}, "'_id' is missing; found the keys 'contents'"),
        ({"_id": "x", "text": 3}, "'text' is 3"),
        ({"_id": "x", "text": "a", "title": 3}, "'title' is 3"),
    ],
)
def test_bad_passages(tmp_path, row, says):
    root = make(tmp_path / "s", corpus=[*CORPUS, row])
    with pytest.raises(DataError) as caught:
        load_dataset(root)
    assert f"{root / 'corpus.jsonl'}:3: " in str(caught.value)
    assert says in str(caught.value)
    with pytest.raises(DataError, match=r"corpus\.jsonl:3"):
        list(iter_corpus(root))


def test_same_id_same_text_is_merged_and_counted(tmp_path):
    root = make(tmp_path / "s", corpus=[*CORPUS, CORPUS[0]], queries=[*QUERIES, QUERIES[1]])
    ds = load_dataset(root)
    assert len(ds.corpus) == len(ds.queries) == 2
    assert ds.counts["duplicate passages merged"] == 1
    assert ds.counts["duplicate queries merged"] == 1
    assert len(list(iter_corpus(root))) == 2


def test_same_id_other_text_names_both_lines(tmp_path):
    other = [{"_id": "007", "title": "T", "text": "green"}, {"_id": "007", "title": "U", "text": "red"}]
    root = make(tmp_path / "s", corpus=[*CORPUS, *other], queries=[*QUERIES, {**QUERIES[1], "history": []}])
    with pytest.raises(DataError) as caught:
        load_dataset(root)
    message = str(caught.value)
    assert f"{root / 'corpus.jsonl'}:3: id '007' again, with other content than on line 1" in message
    assert f"{root / 'corpus.jsonl'}:4: id '007' again" in message
    assert f"{root / 'queries.jsonl'}:3: id 'c1_2' again, with other content than on line 2" in message
    ds = load_dataset(root, on_bad_line="skip")
    assert ds.corpus[0].text == "red"
    assert ds.counts["duplicate id: skipped"] == 3
    with pytest.raises(DataError, match="other content than on line 1"):
        list(iter_corpus(root))


def test_one_error_lists_problems_of_all_files(tmp_path):
    root = make(tmp_path / "s", qrels="c1_1\t7\t1\nc9_1\td2\t1\nc1_2\td2\tmany\nc1_1\t007\t1\n")
    with (root / "corpus.jsonl").open("a") as handle:
        handle.write("{torn")
    with pytest.raises(DataError) as caught:
        load_dataset(root)
    message = str(caught.value)
    assert "4 problems" in message
    for place in ("corpus.jsonl:3", "qrels.tsv:1", "qrels.tsv:2", "qrels.tsv:3"):
        assert str(root / place) in message
    assert "no passage '7', but there is '007': write ids alike" in message


def test_skip_keeps_what_metrics_need(tmp_path, capsys):
    root = make(tmp_path / "s", qrels="c1_1\tgone\t1\nc1_1\t007\t1\nc9_1\td2\t1\n")
    ds = load_dataset(root, on_bad_line="skip")
    assert ds.qrels == {"c1_1": {"gone": 1.0, "007": 1.0}}
    assert ds.counts["judgement of an unknown passage: kept"] == 1
    assert ds.counts["judgement of an unknown query: skipped"] == 1
    assert capsys.readouterr().err.count("warning: ") == 2


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_no_overlap_is_always_an_error(tmp_path, policy):
    root = make(tmp_path / "s", qrels="c9_1\td2\t1\nc1_1\tgone\t1\n")
    with pytest.raises(DataError, match="none of 2 judgements joins"):
        load_dataset(root, on_bad_line=policy)


@pytest.mark.parametrize("policy", ["error", "skip"])
@pytest.mark.parametrize("stem", ["corpus", "queries"])
def test_missing_or_empty_file_is_always_an_error(folder, policy, stem):
    (folder / f"{stem}.jsonl").write_text("\n")
    with pytest.raises(DataError, match=rf"{stem}\.jsonl: no good row"):
        load_dataset(folder, on_bad_line=policy)
    (folder / f"{stem}.jsonl").unlink()
    with pytest.raises(DataError, match=f"no {stem} file; found .* expected one of {stem}.jsonl"):
        load_dataset(folder, on_bad_line=policy)


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_cut_corpus_stops_everything(folder, policy):
    (folder / "corpus.jsonl").write_bytes(gzip.compress(b'{"_id":"x","text":"t"}\n' * 2000)[:-20])
    with pytest.raises(DataError, match="cut off or damaged after line"):
        load_dataset(folder, on_bad_line=policy)


def test_not_a_folder_and_unknown_policy(tmp_path, folder):
    with pytest.raises(DataError, match="not a folder"):
        load_dataset(tmp_path / "none")
    with pytest.raises(ConfigError, match="'error' or 'skip'"):
        load_dataset(folder, on_bad_line="drop")


def test_judgement_files_in_order_of_preference(folder):
    (folder / "qrels.tsv").unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("c1_1\t007\t1\nc1_2\td2\t2\n")
    (folder / "qrels" / "dev.tsv").write_text("c1_1\td2\t1\nc1_2\td2\t2\n")
    assert load_dataset(folder).qrels == {"c1_1": {"d2": 1.0, "007": 1.0}, "c1_2": {"d2": 2.0}}
    (folder / "qrels" / "test.tsv").write_text("c1_2\t007\t3\n")
    ds = load_dataset(folder)
    assert ds.qrels == {"c1_2": {"007": 3.0}}
    assert ds.counts["file passed over"] == 2
    (folder / "qrels.tsv").write_text(QRELS)
    ds = load_dataset(folder)
    assert ds.qrels == {"c1_1": {"007": 1.0}, "c1_2": {"d2": 0.5}}
    assert ds.counts["file passed over"] == 3


def test_splits_that_contradict_each_other(folder):
    (folder / "qrels.tsv").unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("c1_1\t007\t1\n")
    (folder / "qrels" / "dev.tsv").write_text("c1_1\t007\t2\n")
    with pytest.raises(DataError, match=r"train\.tsv:1: \(c1_1, 007\) has grade 1 here and 2 in another split"):
        load_dataset(folder)


def test_two_corpus_files_say_which_is_read(folder):
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"_id":"old","text":"old"}\n'))
    assert [p.id for p in load_dataset(folder).corpus] == ["007", "d2"]
    assert any("corpus.jsonl is read instead" in str(problem) for problem in validate_folder(folder).warnings)


def test_unjudged_folder(tmp_path):
    assert load_dataset(make(tmp_path / "s", qrels=None)).qrels == {}


def test_iter_corpus_reads_a_file_and_streams(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"_id":"a","text":"x"}\n{"_id":"b","text":"y"}\n{bad\n')
    passages = iter_corpus(path)
    assert next(passages) == Passage("a", "x")
    assert next(passages) == Passage("b", "y")
    with pytest.raises(DataError, match=r"c\.jsonl:3"):
        next(passages)
    with pytest.raises(DataError, match="no corpus file"):
        next(iter_corpus(make_empty(tmp_path)))


def make_empty(root):
    (root / "empty").mkdir()
    return root / "empty"
