"""Every page of docs/ is run: its fenced blocks, in order, in one folder.

```python title="x.py"   any fence with a title is written to that file
```python                run in one namespace a page
```bash, ```sh           run by bash, stopping at the first failure
```console               lines after "$ " are run; what is printed below them must come out ("..." stands for anything)

A page says on its first line how dear it is: ``<!-- test: unit -->`` (the default), ``integration`` or ``e2e``. With
``; stand-in: unit`` it also runs there with random models in place of the packaged ones that it names, and with its
``utilitune`` commands in this process, to be quick. A block that cannot be run has the comment ``<!-- no-run: why -->``
right above it.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app

DOCS = Path(__file__).resolve().parents[3] / "docs"
BIN = Path(sys.executable).parent
PAGES = sorted(DOCS.rglob("*.md"))
HEAD = re.compile(r"\A<!-- test: (?P<cost>\w+)(?:; stand-in: (?P<stand_in>\w+))? -->$", re.MULTILINE)
FENCE = re.compile(
    r"(?:^ *<!-- no-run:(?P<reason>.*?)-->\n)?^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
COSTS = ("unit", "integration", "e2e")
RUN = ("python", "bash", "sh", "console")
SHOWN = ("", "text", "json", "jsonl", "yaml", "toml", "mermaid", "bibtex", "diff")


@dataclass
class Block:
    """One fence: its language, title and text, and why it is not run."""

    language: str
    title: str
    body: str
    reason: str | None


def blocks_of(text):
    found = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        body = "\n".join(line.removeprefix(match["indent"]) for line in match["body"].split("\n"))
        reason = match["reason"]
        if language not in (*RUN, *SHOWN):
            raise ValueError(f"fence of unknown language {language!r}; run: {RUN}, shown: {SHOWN}")
        if reason is not None and not reason.strip():
            raise ValueError(f"a no-run comment without a reason above:\n{body}")
        found.append(Block(language, title[1] if title else "", body, reason))
    return found


def head_of(text):
    """Return what the page costs as printed, and with stand-ins (``None``: not run so)."""
    match = HEAD.match(text)
    cost, stand_in = (match["cost"], match["stand_in"]) if match else ("unit", None)
    if cost not in COSTS or stand_in not in (None, *COSTS):
        raise ValueError(f"unknown cost in {match[0]}; known: {COSTS}")
    return cost, stand_in


def run_page(text, folder, stand_ins, monkeypatch):
    """Run all blocks of a page; return how many were run or written."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    before, namespace, done = set(sys.modules), {"__name__": "__main__"}, 0
    shell = here if stand_ins else bash
    for block in blocks_of(text):
        for packaged, folder_of_model in stand_ins.items():
            block.body = block.body.replace(packaged, folder_of_model)
        if block.reason is not None or (block.language in SHOWN and not block.title):
            continue
        done += 1
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.body, "block of the page", "exec"), namespace)
        elif block.language == "console":
            for command, printed in console(block.body):
                same_output(command, printed, shell(command, folder))
        else:
            shell(block.body, folder)
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    return done


def console(body):
    """Return (command, what is printed below it) pairs."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def same_output(command, printed, got):
    if printed.strip():
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(printed, got, flags), (
            f"$ {command}\n{got}\nthe page says\n{printed}"
        )


def bash(script, folder):
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def here(script, folder):
    """Run the commands of utilitune in this process; anything else by bash."""
    commands = [shlex.split(line, comments=True) for line in script.replace("\\\n", " ").splitlines()]
    if not all(words[:1] in ([], ["utilitune"]) for words in commands) or set(script) & set("|&;<>$`"):
        return bash(script, folder)
    printed = ""
    for words in filter(None, commands):
        done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        assert done.exit_code == 0, f"{words}\n{done.output}"
        printed += done.stdout
    return printed


def marked(way):
    for page in PAGES:
        cost = head_of(page.read_text(encoding="utf-8"))[way]
        if cost is not None:
            marks = [] if cost == "unit" else [getattr(pytest.mark, cost)]
            yield pytest.param(page, id=str(page.relative_to(DOCS)), marks=marks)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", marked(0))
def test_page_as_printed(page, tmp_path, monkeypatch):
    run_page(page.read_text(encoding="utf-8"), tmp_path, {}, monkeypatch)


@pytest.mark.parametrize("page", marked(1))
def test_page_with_stand_ins(page, tmp_path, monkeypatch, stand_ins):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))
    assert run_page(page.read_text(encoding="utf-8"), tmp_path, stand_ins, monkeypatch)


# The executor itself


def test_blocks_run_in_order_in_one_folder(tmp_path, monkeypatch):
    page = (
        '```python title="mine.py"\nNUMBER = 2\n```\n'
        "```python\nfrom mine import NUMBER\ntwice = 2 * NUMBER\n```\n"
        "- in a list\n\n  ```bash\n  echo one > a.txt\n  echo two >> a.txt\n  ```\n"
        "```console\n$ cat a.txt\none\n...\n$ wc -l < a.txt\n2\n```\n"
        "```python\nassert twice == 4 and open('a.txt').read() == 'one\\ntwo\\n'\nopen('done', 'w').close()\n```\n"
        "```json\n{not run\n```\n<!-- no-run: needs a GPU -->\n```python\nraise SystemError\n```\n"
    )
    assert run_page(page, tmp_path, {}, monkeypatch) == 5
    assert (tmp_path / "done").exists()
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    "block",
    [
        "```bash\nfalse\ntrue\n```",
        "```bash\nfalse | true\n```",
        "```console\n$ echo one\ntwo\n```",
        "```python\nassert False\n```",
    ],
)
def test_a_failing_block_fails(block, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        run_page(block + "\n", tmp_path, {}, monkeypatch)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```pyton\nx\n```\n", "unknown language 'pyton'"),
        ("<!-- no-run: -->\n```python\nx\n```\n", "without a reason"),
    ],
)
def test_nothing_escapes_by_a_slip(page, message):
    with pytest.raises(ValueError, match=message):
        blocks_of(page)


def test_heads():
    assert head_of("# Page\n") == ("unit", None)
    assert head_of("<!-- test: e2e -->\n") == ("e2e", None)
    assert head_of("<!-- test: integration; stand-in: unit -->\n# P\n") == ("integration", "unit")
    with pytest.raises(ValueError, match="unknown cost"):
        head_of("<!-- test: slow -->\n")


def test_the_printed_utility_is_short():
    page = (DOCS / "own-utility.md").read_text(encoding="utf-8")
    (utility,) = (block for block in blocks_of(page) if block.title == "copied.py")
    assert len([line for line in utility.body.splitlines() if line.strip()]) <= 20
