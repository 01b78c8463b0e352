"""What looks after a store: counting, checking, joining, exporting, dropping."""

import json
import sqlite3

import pytest
from tiny_generator import Counted, TinyGenerator, TinyNumpy

from utilitune.errors import ConfigError, DataError
from utilitune.generator.protocol import Continuation, GeneratorIdentity
from utilitune.records.rows import read_rows
from utilitune.scoring import LabelStore, label
from utilitune.scoring.origin import Origin, Source, Subject
from utilitune.scoring.store_check import faults
from utilitune.scoring.store_export import export_rows
from utilitune.scoring.store_gc import damaged, gc, made_before, of_sources, unused_by
from utilitune.scoring.store_merge import merge
from utilitune.scoring.store_rows import chosen_sources, reading, stored_rows
from utilitune.scoring.store_stats import shares

SPECS = ["information-gain,max_new_tokens=3", "grogu:key-entropy,max_new_tokens=3", "abstention"]


def response(number=-1.0, text="x"):
    return Continuation(text, (text,), (1,), (number,), (0.5,))


@pytest.fixture
def labelled(world, tmp_path):
    """A store and its labels: 6 queries with 2 passages each, three utilities."""
    path = tmp_path / "labels.sqlite"
    return path, label(*world, SPECS, TinyNumpy(seed=1), k=2, store=path)


def test_every_row_says_who_what_and_about_what(labelled, world):
    path, labels = labelled
    identity = labels.manifest["generator"]
    with LabelStore(path) as store:
        with reading(store) as db:
            rows = list(stored_rows(db))
        found = shares(store)
        assert sum(each.rows for each in found) == len(rows) == labels.manifest["counts"]["store_misses"]
    assert all(json.loads(each.source.identity) == identity for each in found)
    by_kind = {(each.source.kind, each.source.prompt): each for each in found}
    # An answer for every query and every pair; every answer under the other context; a text to abstain.
    assert set(by_kind) == {("greedy", "answer"), ("ids", "answer"), ("text", "answer-abstain")}
    assert by_kind["greedy", "answer"].rows == 6 + 12
    assert all(each.source.prompt_hash and 0 < each.first <= each.last and each.size > 0 for each in found)
    about = {(row.query_id, row.passages) for row in rows}
    _, run = world
    pairs = {(query, json.dumps([passage])) for query in run for passage, _ in run[query][:2]}
    assert about == pairs | {(query, "") for query in run}


def test_failures_are_rows_with_a_reason_until_a_response_comes(world, tmp_path):
    narrow, wide = TinyGenerator(seed=1, window=40), TinyGenerator(seed=1)
    wide.identity = narrow.identity  # as if more memory had come
    label(*world, ["abstention"], narrow, k=1, store=tmp_path / "s", max_failed=1.0)
    with LabelStore(tmp_path / "s") as store:
        counts = export_rows(store, tmp_path / "e.jsonl")
        failed = sum(each.failed for each in shares(store))
        assert counts["failed"] == failed > 0 and counts["ok"] == 0 and store.stats()["responses"] == 0
    rows = [row for _, row in read_rows(tmp_path / "e.jsonl")]
    assert {row["status"] for row in rows} == {"failed"} and all("window 40" in row["reason"] for row in rows)
    label(*world, ["abstention"], wide, k=1, store=tmp_path / "s")
    with LabelStore(tmp_path / "s") as store:
        assert export_rows(store, tmp_path / "e.jsonl")["failed"] == 0
        assert sum(each.failed for each in shares(store)) == 0


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "e.parquet"])
def test_an_export_holds_identity_status_and_evidence(labelled, tmp_path, name):
    path, labels = labelled
    with LabelStore(path) as store:
        export_rows(store, tmp_path / name)
    rows = {}
    for _, row in read_rows(tmp_path / name):
        rows[row["query_id"], tuple(row["passage_ids"]), row["kind"], row["text"]] = row
    for each in labels:
        if each.name.startswith("grogu"):
            row = rows[each.query_id, each.passage_ids, "greedy", each.evidence["answer"]]
            assert row["identity"]["revision"] == "seed-1" and row["status"] == "ok"
            for part in ("tokens", "logprobs", "entropies"):
                assert list(row[part]) == each.evidence["grounded"][part]


def test_an_export_of_one_generator(labelled, tmp_path, world):
    path, _ = labelled
    label(*world, ["abstention"], TinyNumpy(seed=2), k=1, store=path)
    with LabelStore(path) as store:
        short = TinyNumpy(seed=2).identity.key()[:8]
        assert export_rows(store, tmp_path / "e.jsonl", short)["ok"] == 6
        with pytest.raises(ConfigError, match=f"known: .*{short}"):
            export_rows(store, tmp_path / "e.jsonl", "nothing")


def spoil(path, statement, *values):
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


def test_a_whole_store_has_no_faults(labelled):
    with LabelStore(labelled[0]) as store:
        bad, seen = faults(store)
        assert bad == {} and seen["responses"] == store.stats()["responses"] and seen["unknown generator"] == 0


def test_each_fault_is_counted_and_gc_mends_rows(labelled, world):
    path, labels = labelled
    spoil(path, "UPDATE responses SET response = substr(response, 1, 9) WHERE id IN (2, 3)")
    spoil(path, "UPDATE responses SET source = 99 WHERE id = 4")
    spoil(path, "UPDATE generators SET identity = replace(identity, 'tiny', 'big') WHERE key != ''")
    with LabelStore(path) as store:
        assert faults(store)[0] == {
            "responses that cannot be read": 2,
            "rows of no known source": 1,
            "identities that are not what their hash says": 1,
        }
        freed = gc(store, [damaged(store)])
        assert (freed.responses, freed.failures) == (3, 0)
        assert "responses that cannot be read" not in faults(store)[0]
    again = Counted(TinyNumpy(seed=1))
    assert label(*world, SPECS, again, k=2, store=path).rows == labels.rows
    assert len(again.computed) == 3


def test_a_row_that_cannot_be_read_is_an_error_that_names_the_way_out(labelled, world, tmp_path):
    path, _ = labelled
    spoil(path, "UPDATE responses SET response = x'01'")
    with pytest.raises(DataError, match="utilitune labels verify"):
        label(*world, SPECS, TinyNumpy(seed=1), k=2, store=path)
    with LabelStore(path) as store, pytest.raises(DataError, match="utilitune labels verify"):
        export_rows(store, tmp_path / "e.jsonl")
    assert not (tmp_path / "e.jsonl").exists()


def test_a_damaged_file_is_seen_and_what_can_be_read_is_saved(tmp_path):
    path = tmp_path / "s"
    with LabelStore(path) as store:
        for step in range(20):
            store.put_many({f"{step:02}/{n:04}".encode(): response(-n - 1.0, "t" * 200) for n in range(100)})
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(4096)
    path.write_bytes(data)
    with LabelStore(path) as store:
        try:
            assert faults(store)[0]["faults of the file"] > 0
        except DataError as error:
            assert "merge" in str(error)
    counts = merge(tmp_path / "saved", [path])
    with LabelStore(tmp_path / "saved") as store:
        assert faults(store)[0] == {}
        assert 0 < store.stats()["responses"] == counts["copied"] < 2000
        assert store.get_many([b"00/0007"])[b"00/0007"].logprobs == (-8.0,)


def put(path, numbers, source, subject=Subject()):  # noqa: B008
    with LabelStore(path) as store:
        given = {key.encode(): response(number) for key, number in numbers.items()}
        store.put_many(given, dict.fromkeys(given, Origin(source, subject)))


def source_of(model):
    return Source.of(GeneratorIdentity(model, "r", "b", "float32"), "text", "answer", "h")


def test_merge_the_first_wins_and_everything_is_counted(tmp_path):
    a, b, into = (tmp_path / name for name in "abc")
    put(a, {"k1": -1.0, "k2": -2.0}, source_of("one"))
    put(b, {"k2": -2.0, "k1": -9.0, "k3": -3.0}, source_of("two"), Subject("q", ("p",)))
    before = a.read_bytes(), b.read_bytes()
    assert merge(into, [a, b]) == {"copied": 3, "same": 1, "conflicts": 1, "damaged": 0, "failures": 0}
    with LabelStore(into) as store:
        found = store.get_many([b"k1", b"k2", b"k3"])
        assert [each.logprobs[0] for each in found.values()] == [-1.0, -2.0, -3.0]
        assert {(each.model, each.rows) for each in shares(store)} == {("one float32", 2), ("two float32", 1)}
        with reading(store) as db:
            assert [row.query_id for row in stored_rows(db)] == ["", "", "q"]
    assert merge(into, [a, b])["copied"] == 0
    assert (a.read_bytes(), b.read_bytes()) == before
    with pytest.raises(ConfigError, match="is where the others go"):
        merge(into, [a, into])
    with pytest.raises(DataError, match="no such file"):
        merge(into, [tmp_path / "nowhere"])


def test_merge_beside_a_process_that_writes_loses_nothing(tmp_path, monkeypatch):
    """A row of a new source that comes while a store is copied is not in that copy, and nothing is called damaged."""
    put(tmp_path / "a", {"k1": -1.0}, source_of("one"))
    number = LabelStore.number_sources

    def with_another_process(goal, sources):
        put(tmp_path / "a", {"k2": -2.0}, source_of("two"))
        return number(goal, sources)

    with monkeypatch.context() as patch:
        patch.setattr(LabelStore, "number_sources", with_another_process)
        assert merge(tmp_path / "c", [tmp_path / "a"])["damaged"] == 0
    assert merge(tmp_path / "c", [tmp_path / "a"]) == dict(copied=1, same=1, conflicts=0, damaged=0, failures=0)


def test_two_halves_merged_are_the_whole(world, tmp_path, tiny):
    dataset, run = world
    whole = label(dataset, run, SPECS[:2], tiny, k=2)
    for name, queries in (("a", dataset.queries[:4]), ("b", dataset.queries[3:])):
        label(dataset.subset(queries), run, SPECS[:2], tiny, k=2, store=tmp_path / name)
    counts = merge(tmp_path / "c", [tmp_path / "a", tmp_path / "b"])
    assert counts["conflicts"] == 0 and counts["same"] > 0
    again = Counted(tiny)
    assert label(dataset, run, SPECS[:2], again, k=2, store=tmp_path / "c").rows == whole.rows
    assert again.calls == []


def test_gc_drops_what_meets_all_conditions_and_nothing_else(tmp_path):
    path = tmp_path / "s"
    put(path, {"a": -1.0, "b": -2.0}, source_of("one"), Subject("q1", ("p1",)))
    put(path, {"c": -3.0}, source_of("two"), Subject("q1", ("p1",)))
    spoil(path, "UPDATE responses SET made = 100 WHERE key = CAST('a' AS BLOB)")
    with LabelStore(path) as store:
        one = of_sources(chosen_sources(store, source_of("one").generator[:8]))
        dry = gc(store, [one, made_before(101)], dry_run=True)
        assert (dry.responses, dry.kept, dry.before) == (1, 2, dry.after) and store.stats()["responses"] == 3
        assert gc(store, [one, made_before(101)]).responses == 1
        assert sorted(store.get_many([b"a", b"b", b"c"])) == [b"b", b"c"]
        assert gc(store, [one]).responses == 1
        with pytest.raises(ValueError, match="without a condition"):
            gc(store, [])
        assert gc(store, [made_before(1e12)]).kept == 0


def test_gc_of_rows_that_do_not_say_whose_they_are(tmp_path):
    with LabelStore(tmp_path / "s") as store:
        store.put_many({b"a": response()})
        store.put_many({b"b": response()}, {b"b": Origin(source_of("one"))})
        assert gc(store, [of_sources(chosen_sources(store, "-"))]).responses == 1
        assert list(store.get_many([b"a", b"b"])) == [b"b"]


def test_gc_of_what_labels_do_not_use_keeps_what_they_need(labelled, world, tmp_path):
    path, _ = labelled
    put(path, {"unknown": -1.0}, source_of("one"))
    kept = label(*world, SPECS, TinyNumpy(seed=1), k=1)
    with LabelStore(path) as store:
        freed = gc(store, [unused_by([kept])])
        assert freed.responses > 0 and b"unknown" in store.get_many([b"unknown"])
    again = Counted(TinyNumpy(seed=1))
    assert label(*world, SPECS, again, k=1, store=path).rows == kept.rows
    assert again.calls == [], "the labels that were named need no model still"
    label(*world, SPECS, again, k=2, store=path)
    assert len(again.computed) == freed.responses


def test_gc_gives_the_space_back(tmp_path):
    path = tmp_path / "s"
    with LabelStore(path) as store:
        store.put_many({str(n).encode(): response(-1.0, "t" * 2000) for n in range(500)})
    with LabelStore(path) as store:
        freed = gc(store, [made_before(1e12)])
        assert freed.before > 1_000_000 > 100_000 > freed.after
        assert path.stat().st_size == freed.after


def test_gc_gives_back_what_a_killed_one_left(tmp_path):
    path = tmp_path / "s"
    with LabelStore(path) as store:
        store.put_many({str(n).encode(): response(-1.0, "t" * 2000) for n in range(500)})
    spoil(path, "DELETE FROM responses")
    with LabelStore(path) as store:
        freed = gc(store, [made_before(1e12)])
        assert freed.responses == 0 and freed.before > 1_000_000 > 100_000 > freed.after


def test_gc_beside_a_process_that_writes(tmp_path):
    path = tmp_path / "s"
    put(path, {str(n): -1.0 for n in range(200)}, source_of("one"))
    with LabelStore(path) as writer, LabelStore(path) as keeper:
        writer.put_many({b"new": response()}, {b"new": Origin(source_of("one"))})
        assert gc(keeper, [made_before(1e12)]).responses == 201
        writer.put_many({b"more": response()}, {b"more": Origin(source_of("one"))})
        assert keeper.get_many([b"more", b"new"]) == {b"more": response()}
        assert faults(keeper)[0] == {}


def test_what_must_not_be_kept_is_counted():
    with LabelStore() as store:
        store.put_many({b"a": response(float("nan")), b"b": response()})
        assert store.stats()["refused"] == 1
