"""Commands that README, docs and recipes print parse, links lead somewhere, recipes load and dry-run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from utilitune.cli import app
from utilitune.recipe import Recipe, plan

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/**/*.md")]
)
RECIPES = sorted(ROOT.glob("recipes/**/*.yaml"))
FENCE = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(word):
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                text = line.partition(" #")[0].strip().removeprefix("$ ")
                if text.split(" ")[0] == word:
                    yield page.relative_to(ROOT), text


def parse(words):
    """Walk click's command tree and parse the options, without running anything."""
    command, context = get_command(app), None
    while hasattr(command, "commands"):
        assert words, "a verb is missing"
        name = words.pop(0)
        assert name in command.commands, f"no verb {name!r}"
        command = command.commands[name]
    command.make_context("utilitune", list(words), parent=context, resilient_parsing=False)


def documented(word):
    return [pytest.param(text, id=f"{page}: {text[:60]}") for page, text in commands(word)]


def test_there_is_something_to_check():
    assert len(documented("utilitune")) >= 12
    assert len(documented("make")) >= 4
    assert len(RECIPES) >= 3


@pytest.mark.parametrize("text", documented("utilitune"))
def test_utilitune_commands_parse(text):
    parse(shlex.split(text)[1:])


@pytest.mark.parametrize("text", documented("make"))
def test_make_targets_exist(text):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    words = [word for word in shlex.split(text)[1:] if "=" not in word]
    assert words
    assert set(words) <= set(targets)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_recipes_load_and_dry_run(path):
    recipe = Recipe.load(path)
    assert len(plan(recipe)) >= 10


def test_every_verb_has_help_with_an_example():
    def leaves(command, name):
        if hasattr(command, "commands"):
            for verb, inner in command.commands.items():
                yield from leaves(inner, f"{name} {verb}")
        else:
            yield name, command

    found = dict(leaves(get_command(app), "utilitune"))
    for name, command in found.items():
        assert command.help, name
        assert f"Example: {name}" in command.help, f"{name}: --help shows no example"
        example = re.search(r"Example: (utilitune .*)", command.help).group(1)
        parse(shlex.split(example)[1:])
    wanted = [
        "validate",
        "index",
        "retrieve",
        "label",
        "utilities",
        "pairs",
        "train rewriter",
        "train reranker",
        "train retriever",
        "train export",
        "train export-reranker",
        "rewrite",
        "rerank",
        "calibrate",
        "answer",
        "evaluate",
        "run",
        "doctor",
        "sample",
        "models list",
        "models fetch",
        "study correlation",
        "study signal",
        "labels stats",
        "labels export",
        "labels verify",
        "labels merge",
        "labels gc",
        "labels rescore",
        "judge answers",
        "judge agreement",
        "win-rate",
        "compare",
        "report",
    ]
    assert {f"utilitune {verb}" for verb in wanted} == set(found)


LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    inside = [link.partition("#")[0] for link in LINK.findall(prose) if not re.match(r"[a-z]+:", link)]
    missing = [link for link in inside if link and not (page.parent / link).exists()]
    assert not missing


def test_links_are_found():
    assert "docs/design.md" in LINK.findall((ROOT / "README.md").read_text())
