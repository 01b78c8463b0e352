"""``utilitune train export-reranker``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, part_of_run
from utilitune.cli.options import OnBadLine, Quiet, Split
from utilitune.errors import ConfigError

NAME = "export-reranker"


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of a trained reranker.", show_default=False)],
    data: Annotated[Path, typer.Option(help="BEIR folder of the run.")],
    run: Annotated[Path, typer.Option(help="TREC run whose candidates both models score.")],
    int8: Annotated[bool, typer.Option("--int8/--no-int8", help="Whether to write the int8 graph as well.")] = True,
    depth: Annotated[int, typer.Option(min=1, help="Candidates a question.")] = 20,
    questions: Annotated[int, typer.Option(min=1, help="Questions of the run to compare on, the first ones.")] = 100,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Export a reranker to ONNX, fp32 and int8, into its own folder, and compare it with the torch model.

    Then: utilitune rerank ... --backend onnx-int8. Needs the extra: pip install 'utilitune[onnx]'

    Example: utilitune train export-reranker my-reranker --data my-data --run bm25.trec
    """
    from utilitune.records import Run, read_run
    from utilitune.rerank import export_reranker
    from utilitune.rerank.export_files import EXPORTING, GRAPHS, REPORT, check_installed

    check_installed(EXPORTING)
    if not folder.is_dir():
        raise ConfigError(f"found no folder {folder}; give the --out of `utilitune train reranker`")
    dataset = open_data(data, on_bad_line, split)
    candidates = part_of_run(read_run(run), dataset, split)
    chosen = Run({query_id: candidates[query_id] for query_id in list(candidates)[:questions]})
    found = export_reranker(folder, dataset, chosen, int8=int8, depth=depth)
    for precision, agreement in found.items():
        size = (folder / GRAPHS[precision]).stat().st_size / 1e6
        typer.echo(f"{precision}: {folder / GRAPHS[precision]} ({size:.1f} MB), {agreement.reading}")
    some = next(iter(found.values()))
    typer.echo(f"compared on {some.pairs} pairs of {some.queries} questions; all numbers in {folder / REPORT}")
