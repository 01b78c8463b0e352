"""Manifests, hashes, shares, and the cost of importing."""

import datetime
import hashlib
import json
import subprocess
import sys

import pytest

import utilitune
from utilitune.errors import DataError, ThresholdError
from utilitune.records import check_share, file_hash, folder_hash, manifest, write_json


def test_manifest_says_what_made_a_number(tmp_path):
    made = manifest("utilitune label x", seed=3, counts={"ok": 1})
    assert made["command"] == "utilitune label x"
    assert made["utilitune"] == utilitune.__version__
    assert made["seed"] == 3
    assert set(made["versions"]) >= {"torch", "transformers", "numpy"}
    assert datetime.datetime.fromisoformat(made["time"]).utcoffset() == datetime.timedelta(0)
    assert made["machine"]["cores"] >= 1
    write_json(tmp_path / "m.json", made)
    with pytest.raises(ValueError, match="its own machine, python"):
        manifest(machine="x", python="y")


def test_versions_agree_with_the_packages():
    import numpy

    assert manifest()["versions"]["numpy"] == numpy.__version__


def test_records_and_manifest_import_nothing_heavy():
    code = (
        "import sys, json, utilitune.records as r; r.manifest(); "
        "print(json.dumps([m for m in ('torch', 'transformers', 'pyarrow', 'numpy', 'datasets') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_file_hash(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert file_hash(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_hash(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(DataError, match="cannot be read"):
        file_hash(tmp_path / "b")


def test_folder_hash_depends_on_names_and_contents_only(tmp_path):
    def make(name, files):
        root = tmp_path / name
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        return folder_hash(root)

    base = make("a", {"x": "1", "sub/y": "2"})
    assert base == make("b", {"sub/y": "2", "x": "1", ".hidden": "z", ".git/config": "z"})
    others = [
        make("c", {"x": "1", "sub/y": "3"}),
        make("d", {"x": "1", "sub/z": "2"}),
        make("e", {"x": "1", "y": "2"}),
        make("f", {"x": "2", "sub/y": "1"}),
        make("g", {"x": "1", "sub/y": "2", "w": ""}),
    ]
    assert len({base, *others}) == 6
    with pytest.raises(DataError, match="not a folder"):
        folder_hash(tmp_path / "a" / "x")


@pytest.mark.parametrize(("count", "total", "limit"), [(0, 0, 0.0), (1, 10, 0.1), (10, 10, 1.0), (0, 5, 0.0)])
def test_share_within_the_limit(count, total, limit):
    check_share({"failed": count}, "failed", total, limit, "label")
    check_share({}, "failed", total, limit, "label")


@pytest.mark.parametrize(("count", "total", "limit"), [(1, 0, 1.0), (2, 10, 0.1), (1, 10**6, 0.0)])
def test_share_over_the_limit(count, total, limit):
    with pytest.raises(ThresholdError, match=f"label: {count} of {total}.* failed, and at most"):
        check_share({"failed": count}, "failed", total, limit, "label")


def test_share_limit_is_a_share():
    with pytest.raises(ValueError, match="between 0 and 1"):
        check_share({}, "failed", 1, 5, "label")
