"""``utilitune labels``: what people and scripts see."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import DataError
from utilitune.generator.protocol import Continuation, GeneratorIdentity
from utilitune.records.rows import read_rows
from utilitune.scoring import LabelStore
from utilitune.scoring.origin import Origin, Source, Subject

GENERATOR = GeneratorIdentity("some/model", "r", "transformers", "float32")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.sqlite"
    source = Source.of(GENERATOR, "greedy", "answer", "abcdef0123")
    given = {key: Continuation("x", ("x",), (1,), (-1.0,), (0.5,)) for key in (b"a", b"b")}
    with LabelStore(path) as opened:
        opened.put_many(given, dict.fromkeys(given, Origin(source, Subject("q", ("p",)))))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["labels", *map(str, arguments)])


def test_stats(store):
    result = run("stats", store)
    assert result.exit_code == 0
    head, row, total = result.stdout.splitlines()
    assert head.split("\t")[:6] == ["generator", "model", "kind", "prompt", "rows", "bytes"]
    assert row.split("\t")[:5] == [GENERATOR.key()[:8], "some/model float32", "greedy", "answer@abcdef01", "2"]
    assert total.startswith("2 responses, 0 failed requests, ")


def test_export(store, tmp_path):
    result = run("export", store, "--out", tmp_path / "e.parquet")
    assert result.exit_code == 0 and "2 responses and 0 failed" in result.stdout
    rows = [row for _, row in read_rows(tmp_path / "e.parquet")]
    assert [row["identity"]["model"] for row in rows] == ["some/model"] * 2
    assert rows[0]["passage_ids"] == ["p"] and rows[0]["entropies"] == [0.5]
    refused = run("export", store, "--out", store)
    assert "is the store itself" in str(refused.exception)


def cli(*arguments):
    command = [sys.executable, "-c", "from utilitune.cli import main; main()", "labels", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_verify_ends_with_a_code_for_scripts(store):
    fine = cli("verify", store)
    assert fine.returncode == 0 and "is whole" in fine.stdout
    with LabelStore(store) as opened:
        opened.db.execute("UPDATE responses SET response = x'02' WHERE id = 1")
    bad = cli("verify", store)
    assert bad.returncode == 1 and "Traceback" not in bad.stderr
    assert "1 responses that cannot be read" in bad.stderr and f"utilitune labels gc {store} --damaged" in bad.stderr
    assert run("gc", store, "--damaged").exit_code == 0
    assert run("verify", store).exit_code == 0


def test_merge(store, tmp_path):
    result = run("merge", store, "--into", tmp_path / "all.sqlite")
    assert result.exit_code == 0 and result.stdout.startswith("2 copied, 0 same, 0 conflicts")
    assert run("stats", tmp_path / "all.sqlite").stdout.splitlines()[1] == run("stats", store).stdout.splitlines()[1]


def test_gc(store):
    assert "say what may go" in str(run("gc", store).exception)
    short = GENERATOR.key()[:8]
    dry = run("gc", store, "--generator", short, "--before", "2999-01-01", "--dry-run")
    assert dry.stdout.startswith("would drop 2 responses") and "nothing was changed" in dry.stdout
    assert run("gc", store, "--before", "2001-01-01").stdout.startswith("dropped 0 responses")
    assert run("gc", store, "--generator", short).stdout.startswith("dropped 2 responses")
    assert run("stats", store).stdout.splitlines()[1].startswith("0 responses")


@pytest.mark.parametrize("verb", ["stats", "verify", "gc --damaged", "export --out e.jsonl", "merge --into m.sqlite"])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, verb, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *options = verb.split()
    text = tmp_path / "labels.jsonl"
    text.write_text("{}\n" * 2000)
    assert "cannot be used as a label store" in str(run(name, text, *options).exception)
    assert text.read_text() == "{}\n" * 2000
    assert "no such file" in str(run(name, tmp_path / "nowhere", *options).exception)
    assert [path.name for path in tmp_path.iterdir()] == ["labels.jsonl"]


def spoiled(store, statement):
    with LabelStore(store) as opened:
        opened.db.execute(statement)
    return store


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE responses SET made = 99999999999999999 WHERE id = 1",
        "UPDATE responses SET made = 'x' WHERE id = 1",
        "UPDATE responses SET passages = '{' WHERE id = 1",
        "UPDATE responses SET passages = '5' WHERE id = 1",
        "UPDATE responses SET key = 'text' WHERE id = 1",
        "UPDATE responses SET response = 'text' WHERE id = 1",
        "UPDATE responses SET response = 7 WHERE id = 1",
        "UPDATE responses SET response = '' WHERE id = 1",
        "UPDATE responses SET source = 99 WHERE id = 1",
    ],
)
def test_a_damaged_row_is_found_by_all_and_dropped_by_gc(store, tmp_path, statement):
    spoiled(store, statement)
    labels = tmp_path / "l.jsonl"
    labels.write_text('{"query_id": "q", "passage_ids": ["p"], "utility": 1, "status": "ok", "label_set": "x@1"}\n')
    assert run("stats", store).exit_code == 0
    assert "--damaged" in str(run("verify", store).exception)
    assert isinstance(run("export", store, "--out", tmp_path / "e.jsonl").exception, DataError)
    merged = run("merge", store, "--into", tmp_path / "m.sqlite")
    assert merged.stdout.startswith("1 copied, 0 same, 0 conflicts, 1 damaged")
    assert run("gc", store, "--unused-by", labels).stdout.startswith("dropped 0 responses")
    assert run("gc", store, "--before", "2001-01-01").stdout.startswith("dropped 0 responses")
    assert run("gc", store, "--damaged").stdout.startswith("dropped 1 responses")
    assert run("verify", store).exit_code == 0


@pytest.mark.parametrize("identity", ["{", "[1]", ""])
def test_a_damaged_identity_costs_no_response_and_is_mended_by_the_next_writer(store, tmp_path, identity):
    spoiled(store, f"UPDATE generators SET identity = '{identity}' WHERE key != ''")
    assert run("stats", store).exit_code == 0
    assert "responses are whole" in str(run("verify", store).exception)
    assert "identity at fault" in str(run("export", store, "--out", tmp_path / "e.jsonl").exception)
    assert run("gc", store, "--damaged").stdout.startswith("dropped 0 responses")
    source = Source.of(GENERATOR, "greedy", "answer", "abcdef0123")
    with LabelStore(store) as opened:
        opened.put_many({b"c": Continuation("x", ("x",), (1,), (-1.0,), (0.5,))}, {b"c": Origin(source)})
    assert run("verify", store).exit_code == 0


def test_a_file_whose_pages_are_damaged_is_told_so_by_every_verb(store, tmp_path):
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 3)
    for words in (["stats"], ["verify"], ["export", "--out", tmp_path / "e"], ["gc", "--damaged"]):
        done = run(words[0], store, *words[1:])
        assert isinstance(done.exception, DataError), (words, done.exception)
        assert "malformed" in str(done.exception)
    done = run("merge", store, "--into", tmp_path / "m.sqlite")
    assert isinstance(done.exception, DataError) and "malformed" in str(done.exception)


def test_export_to_where_nothing_can_be_written_says_so_once(store, tmp_path):
    done = cli("export", store, "--out", tmp_path / ("x" * 300))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "name too long" in done.stderr


def test_a_folder_is_no_store(tmp_path):
    assert "is a folder" in str(run("stats", tmp_path).exception)


def test_the_files_beside_a_store_are_the_store(store):
    for end in ("-wal", "-shm"):
        refused = run("export", store, "--out", f"{store}{end}")
        assert "is the store itself" in str(refused.exception)


def test_labels_that_hold_nothing_make_nothing_unused(store, tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    refused = run("gc", store, "--unused-by", tmp_path / "none.jsonl")
    assert "holds no labels" in str(refused.exception)
    assert run("stats", store).stdout.splitlines()[-1].startswith("2 responses")
