"""The README's tour and its Python snippet run as printed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
BIN = Path(sys.executable).parent


def block(language, marker):
    (found,) = (
        text for text in re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL) if marker in text
    )
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


def run(command, folder):
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_the_tour_runs_as_printed(folder):
    commands = [line.partition(" #")[0].strip() for line in block("bash", "utilitune sample").splitlines()]
    commands = [command for command in commands if command and not command.startswith("#")]
    assert len(commands) == 13
    for command in commands:
        out = run(shlex.split(command), folder)
    assert "MRR@10" in out
    assert "▶" in out
    for made in ("my-reranker/model.safetensors", "my-rewriter/adapter_model.safetensors", "report/report.md"):
        assert (folder / made).is_file()


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_the_python_snippet_runs_as_printed(folder):
    if not (folder / "world").exists():
        run(["utilitune", "sample", "world"], folder)
    out = run([sys.executable, "-c", block("python", "load_dataset")], folder)
    assert len(out.splitlines()) == 2
    float(out.splitlines()[1])


def test_the_trained_reranker_and_adapter_names_in_the_readme_exist():
    import utilitune

    for name in re.findall(r"from utilitune import (.*)", README)[0].split(", "):
        assert getattr(utilitune, name)
