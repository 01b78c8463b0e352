"""Export a trained rewriter in the form of the Hugging Face Hub: the adapter or the whole model, and a model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune import __version__
from utilitune.errors import ConfigError
from utilitune.records import read_json, write_text
from utilitune.rewrite.adapter_folder import RewriterCard
from utilitune.rewrite.base_spec import Spec
from utilitune.rewrite.merge import merge_rewriter

FILES = ("adapter_model.safetensors", "adapter_config.json", "rewriter.json", "training.json")


def export_rewriter(
    folder: Path | str,
    out: Path | str,
    *,
    merge: bool = False,
    base: Spec | None = None,
    recipe: str = "",
    metrics: Mapping[str, float] | None = None,
) -> Path:
    """Write a folder that can be put on the Hub, or carried to a machine without a network, as it is.

    Args:
        folder: Folder of a trained rewriter.
        out: Folder to write; it must not hold anything yet.
        merge: Whether to write the whole model instead of the adapter.
        base: Where the base is, when it is not where the folder says (``merge`` alone needs it).
        recipe: Name of the recipe that made it, for the card.
        metrics: ``{"data set / measure": value}``, for the card.

    Returns:
        The folder.

    Raises:
        ConfigError: When ``out`` holds something.
        DataError: When the folder is no rewriter.
        UtilituneError: When a merge changes the model.
    """
    folder, out = Path(folder), Path(out)
    card = RewriterCard.read(folder)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} holds files already; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    if merge:
        merge_rewriter(folder, out, base=base)
    for name in FILES[3:] if merge else FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
    write_text(out / "README.md", model_card(card, folder, merged=merge, recipe=recipe, metrics=metrics or {}))
    return out


def model_card(
    card: RewriterCard, folder: Path, *, merged: bool, recipe: str = "", metrics: Mapping[str, float] | None = None
) -> str:
    """Return the model card: what it is, on what it was trained, how to load it, what was measured.

    Args:
        card: Contents of ``rewriter.json``.
        folder: Where ``training.json`` may be.
        merged: Whether the folder holds the whole model.
        recipe: Name of the recipe.
        metrics: Measured values by name.

    Returns:
        Markdown with the Hub's YAML header.
    """
    report = read_json(folder / "training.json") if (folder / "training.json").is_file() else {}
    inputs: Mapping[str, Any] = card.training.get("inputs", {})
    head = {
        "library_name": "transformers" if merged else "peft",
        "pipeline_tag": "text-generation",
        "tags": ["query-rewriting", "conversational-search", "utilitune", *([card.method] if card.method else [])],
    }
    if card.base_kind == "hub":
        head["base_model"] = card.base
    base = f"{card.base} at {card.base_revision}" if card.base_revision else card.base
    facts = {
        "base": base if card.base_kind != "folder" else f"{Path(card.base).name} (a local folder)",
        "method": card.method or "unknown",
        "rows": report.get("rows", "unknown"),
        "steps": report.get("steps", "unknown"),
        "data (SHA-256 of the training rows)": inputs.get("rows", "unknown"),
        "settings": f"`{json.dumps(inputs.get('config', {}), sort_keys=True)}`",
        "recipe": recipe or "none",
        "prompt": f"`{card.prompt}`, at most {card.max_new_tokens} new tokens",
        "utilitune": card.training.get("utilitune", __version__),
    }
    measured = "\n".join(f"| {name} | {value:.4f} |" for name, value in (metrics or {}).items())
    where = "" if card.base_kind != "folder" or merged else ", base='FOLDER OF THE BASE'"
    return "\n".join(
        [
            *("---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "---", ""),
            "# Query rewriter",
            "",
            "Turns (history, question) into a stand-alone search query. Trained on what the passages that a rewrite",
            "retrieves are worth; by which reward, and whether that read human labels, the recipe says.",
            "",
            *("```python", "from utilitune import Rewriter", "", f"rewriter = Rewriter.load('THIS FOLDER'{where})"),
            *("rewriter.rewrite([{'role': 'user', 'content': '...'}], 'and when?')", "```", ""),
            *("| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""),
            *(("## Measured", "", "| | |", "|---|---|", measured, "") if measured else ()),
            f"Training: {report.get('reading', 'no report')}.",
            "",
        ]
    )
