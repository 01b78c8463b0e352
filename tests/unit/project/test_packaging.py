"""The wheel holds every package on disk, the root links point home, the import is light."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "utilitune"


@pytest.mark.parametrize("name", ["scoring", "rewrite", "rerank", "evaluation"])
def test_root_links_point_home(name):
    link = ROOT / name
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == PACKAGE / name


def test_wheel_holds_every_file_on_disk(tmp_path):
    source = tmp_path / "source"
    copy = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in filter(None, subprocess.check_output(copy, text=True).split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(source),
    ]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("utilitune/")}
    on_disk = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == on_disk


def test_import_is_light():
    code = (
        "import sys, time; start = time.perf_counter(); import utilitune; seconds = time.perf_counter() - start;"
        "heavy = {'torch', 'transformers', 'faiss', 'trl', 'sentence_transformers', 'datasets'} & set(sys.modules);"
        "assert not heavy, heavy; assert seconds < 0.3, seconds"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["utilitune.records", "utilitune.evaluation", "utilitune.cli", "utilitune.recipe"])
def test_light_modules_do_without_torch(module):
    code = f"import sys, {module}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_resolve():
    import utilitune

    for name in utilitune.__all__:
        assert getattr(utilitune, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = utilitune.nonsense


def test_constraints_satisfy_the_declared_ranges():
    import re
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pins = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        requirement = Requirement(text)
        assert "==" not in str(requirement.specifier), f"{text}: a library states ranges, not pins"
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in pins, f"{name} is not in constraints.txt"
        assert requirement.specifier.contains(pins[name]), f"{text} excludes the tested {pins[name]}"
