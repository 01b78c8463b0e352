"""``utilitune doctor``."""

from __future__ import annotations

import typer

from utilitune.cli.models import state
from utilitune.cli.options import Quiet

NAME = "doctor"
SHAPE = (576, 1536)
"""Width and feed-forward width of the default generator, at which the dtypes are timed."""


def command(quiet: Quiet = False) -> None:
    """Print machine, versions, the dtype choice with its reason, and which models can be reached.

    Example: utilitune doctor
    """
    import os

    import torch

    from utilitune.generator import PACKAGED
    from utilitune.generator.dtype import choose_dtype
    from utilitune.records import manifest

    facts = manifest()
    for group in ("machine", "versions"):
        typer.echo(f"{group}:")
        for name, value in facts[group].items():
            typer.echo(f"  {name}: {value}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype, reason = choose_dtype("auto", device, *SHAPE)
    typer.echo(f"device: {device} ({'torch sees a GPU' if device == 'cuda' else 'torch sees no CUDA device'})")
    typer.echo(f"dtype: {dtype} ({reason})")
    typer.echo(f"torch threads: {torch.get_num_threads()}")
    typer.echo("packaged models:")
    for name, model in PACKAGED.items():
        typer.echo(f"  packaged:{name}: {state(model)}")
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    typer.echo(f"model hub: {'off (HF_HUB_OFFLINE)' if offline else _hub()}")


def _hub() -> str:
    """Whether the hub answers within three seconds; packaged models and folders do not need it."""
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    try:
        with urllib.request.urlopen(constants.ENDPOINT, timeout=3):
            return "reachable"
    except (urllib.error.URLError, OSError) as error:
        return f"not reachable ({error}); packaged models and local folders work without it"
