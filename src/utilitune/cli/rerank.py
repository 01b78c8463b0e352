"""``utilitune rerank``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, part_of_run
from utilitune.cli.options import Data, OnBadLine, Out, Quiet, Split
from utilitune.cli.out import check_file
from utilitune.errors import ConfigError
from utilitune.progress import warn

if TYPE_CHECKING:
    from utilitune.rerank import UtilityReranker

NAME = "rerank"


def command(
    data: Data,
    run: Annotated[Path, typer.Option(help="TREC run to rerank.")],
    reranker: Annotated[Path, typer.Option(help="Folder of a trained reranker.")],
    out: Out,
    depth: Annotated[int, typer.Option(min=1, help="Candidates to rerank; those below keep their order.")] = 20,
    backend: Annotated[
        str, typer.Option(help="torch, onnx or onnx-int8; the last two after `utilitune train export-reranker`.")
    ] = "torch",
    k: Annotated[int | None, typer.Option("-k", min=1, help="Keep the first k passages; all when not given.")] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Leave out passages of a smaller logit, and those below --depth.")
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(help="The same by calibrated probability; needs `utilitune calibrate`.")
    ] = None,
    abstain: Annotated[
        bool, typer.Option("--abstain", help="The same with the threshold that `utilitune calibrate` chose.")
    ] = False,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Rerank a run. The first stage is fixed: nothing that it missed is added.

    With a least score a question may keep no passage: it has no line in the run then, and `utilitune answer --absent`
    asks it without passages.

    Example: utilitune rerank my-data --run bm25.trec --reranker my-reranker --out reranked.trec
    """
    from utilitune.records import read_run, write_run
    from utilitune.rerank import UtilityReranker

    check_file(out)
    check_reranker(reranker)
    dataset = open_data(data, on_bad_line, split)
    candidates = part_of_run(read_run(run), dataset, split)
    loaded = UtilityReranker.load(reranker, backend=backend)
    least, most = _limits(loaded, min_score, min_probability, abstain, k)
    reranked = loaded.rerank(candidates, dataset, depth=depth, k=most, min_score=least)
    write_run(out, reranked)
    counts = ", ".join(f"{name} {count}" for name, count in loaded.counts.items() if count)
    typer.echo(f"{len(reranked)} queries reranked, written to {out}" + (f" ({counts})" if counts else ""))
    if least is not None:
        sizes = sorted(Counter(map(len, reranked.values())).items())
        typer.echo(f"passages kept at scores from {least:.4g}: " + ", ".join(f"{n} in {q} queries" for n, q in sizes))


def check_reranker(folder: Path) -> None:
    """Refuse a folder without a model, before anything is read.

    Args:
        folder: What `utilitune train reranker` wrote.

    Raises:
        ConfigError: If there is none.
    """
    if not any((folder / name).is_file() for name in ("config.json", "reranker.json")):
        raise ConfigError(f"--reranker: {folder} is no model folder; give the --out of `utilitune train reranker`")


def _limits(
    reranker: UtilityReranker, min_score: float | None, min_probability: float | None, abstain: bool, k: int | None
) -> tuple[float | None, int | None]:
    """Return the least logit and the most passages of a query."""
    if sum((min_score is not None, min_probability is not None, abstain)) > 1:
        raise ConfigError("--min-score, --min-probability and --abstain each set the threshold; give one of them")
    if min_probability is None and not abstain:
        return min_score, k
    calibration = reranker.calibration
    if calibration is None:
        raise ConfigError(
            "--reranker: not calibrated; run `utilitune calibrate` on held-out labels, or give --min-score"
        )
    if min_probability is not None:
        return calibration.score(min_probability), k
    if calibration.threshold.score is None:
        warn("--abstain: on the held-out labels keeping all was best, so no passage is left out")
    return calibration.threshold.score, k or calibration.threshold.k
