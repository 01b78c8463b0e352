"""``utilitune index``."""

from __future__ import annotations

from typing import Annotated

import typer

from utilitune.cli.data import BadLine, open_data
from utilitune.cli.options import Data, OnBadLine, Out, Quiet
from utilitune.cli.out import check_folder
from utilitune.errors import ConfigError

NAME = "index"


def command(
    data: Data,
    out: Out,
    kind: Annotated[str, typer.Option(help="bm25 or dense.")] = "bm25",
    k1: Annotated[float, typer.Option(help="BM25: term saturation.")] = 0.9,
    b: Annotated[float, typer.Option(help="BM25: length normalisation.")] = 0.4,
    engine: Annotated[str, typer.Option(help="BM25: bm25s or rank-bm25.")] = "bm25s",
    encoder: Annotated[
        str,
        typer.Option(help="Dense: packaged:NAME, Hugging Face id or folder of a sentence-transformers model."),
    ] = "packaged:all-minilm-l6-v2",
    faiss: Annotated[str, typer.Option(help="Dense: flat, hnsw or ivfpq.")] = "flat",
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Build an index folder over a corpus.

    Example: utilitune index my-data --kind bm25 --out indexes/bm25
    """
    from utilitune.retrieval import Bm25Retriever, DenseRetriever

    if kind not in ("bm25", "dense"):
        raise ConfigError(f"--kind: found {kind!r}, expected bm25 or dense")
    check_folder(out)
    corpus = open_data(data, on_bad_line).corpus
    if kind == "bm25":
        Bm25Retriever.build(corpus, k1=k1, b=b, engine=engine).save(out)
    else:
        DenseRetriever.build(corpus, encoder=encoder, index=faiss).save(out)
    typer.echo(f"indexed {len(corpus)} passages in {out}")
