"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part
from utilitune.errors import ConfigError
from utilitune.progress import set_quiet, warn


def _quiet(value: bool) -> bool:
    set_quiet(value)
    return value


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_quiet, help="No progress and no notices; warnings stay.")
]
Data = Annotated[Path, typer.Argument(help="BEIR folder: corpus.jsonl, queries.jsonl, qrels.tsv.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write.", show_default=False)]
GeneratorSpec = Annotated[
    str,
    typer.Option("--generator", "-g", help="packaged:NAME, a Hugging Face id, or a folder. See `utilitune models`."),
]
Store = Annotated[
    Path | None,
    typer.Option(help="SQLite file that keeps every model response, so that nothing is computed twice."),
]
OnBadLine = Annotated[
    BadLine,
    typer.Option("--on-bad-line", help="error: stop and list all; skip: leave bad lines out and count them."),
]
Split = Annotated[
    Part,
    typer.Option(
        "--split",
        help="Which queries: by their field 'split' where each has it, else 30 % of the conversations are for test.",
    ),
]
MaxFailed = Annotated[
    float, typer.Option("--max-failed", min=0, max=1, help="Share of failed or invalid labels above which to stop.")
]
BatchTokens = Annotated[int, typer.Option(min=64, help="Tokens in one forward pass.")]
Aggregate = Annotated[
    str, typer.Option(help="Reward: mean, max, top-1, discounted, expected-mrr or set, of a rewrite's passages.")
]
Scale = Annotated[str, typer.Option(help="Reward: several utilities on one scale, pooled, z-score, rank or raw.")]
Fused = Annotated[
    bool, typer.Option("--fused", help="Reward: label one ranking, fused over the indexes by rank, not each one's.")
]
Include = Annotated[
    list[str] | None,
    typer.Option(help="Next to samples and question; again for more: greedy, first-question, history, ..."),
]
Ties = Annotated[
    str,
    typer.Option(
        help="Equal scores: trec (by id, descending) or expected (mean over all their orders; not for UDCG).",
    ),
]
Gamma = Annotated[float, typer.Option(help="UDCG's weight of distraction.", min=0)]
Unjudged = Annotated[
    str, typer.Option(help="A passage without a judgement in UDCG: irrelevant, or skip, left out of the sum.")
]
RelevanceSource = Annotated[
    str,
    typer.Option(
        help="judged; contains: retrieved passages that contain a gold answer; or FILE, UTILITY=FILE: labels, such as "
        "llm-relevance's, from --relevant-from on or the best of each question.",
    ),
]
ClusterBy = Annotated[
    str | None,
    typer.Option(
        help="What intervals and tests take whole: conversation or query. Default: conversation where queries have "
        "a history or name their conversation.",
        show_default=False,
    ),
]
MAX_FAILED = 0.05
BATCH_TOKENS = 8192
DEFAULT_GENERATOR = "packaged:smollm2-135m-instruct"


def command_line() -> str:
    """Return the command as typed, for manifests."""
    import shlex
    import sys

    return shlex.join(["utilitune", *sys.argv[1:]])


def warn_of_unused(context: typer.Context, options: Mapping[str, str], why: str) -> None:
    """Say which options were given and change nothing.

    Args:
        context: Of the call.
        options: Parameter -> the option as it is spelled.
        why: What makes them idle, to begin the notice with.
    """
    sources = {option: context.get_parameter_source(name) for name, option in options.items()}
    unused = [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if unused:
        warn(f"{why}, so these change nothing: {', '.join(unused)}")


def named_files(values: list[str], option: str) -> dict[str, Path]:
    """Read ``name=file`` values; a bare file is named after itself.

    Args:
        values: What was given.
        option: Name of the option, for the message.

    Returns:
        ``{name: path}``.

    Raises:
        ConfigError: If a name comes twice.
    """
    named: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        name, path = (name, path) if equals else (Path(value).stem, value)
        if name in named:
            raise ConfigError(f"{option}: found the name {name!r} twice; write {option} other-name={path}")
        named[name] = Path(path)
    return named
