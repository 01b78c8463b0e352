"""When a stage has nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from utilitune.recipe.workspace import Workspace

WHAT = {"turns": "conversational turns", "questions": "stand-alone questions"}


def unless(
    section: Literal["rewriter", "reranker"], *parts: str, measured: str = ""
) -> Callable[[Workspace], str | None]:
    """Return a ``left_out`` rule: the section must be enabled, and the data must hold every part.

    Args:
        section: Section of the recipe.
        *parts: Parts of the split, such as ``train_turns``.
        measured: Key of ``evaluation`` that must not be 0.

    Returns:
        The rule; it gives the reason, or ``None`` when the stage is to run.
    """

    def rule(workspace: Workspace) -> str | None:
        recipe = workspace.recipe
        if not getattr(recipe, section).enabled:
            return f"{section}.enabled is false"
        if measured and not getattr(recipe.evaluation, measured):
            return f"evaluation.{measured} is 0"
        for part in parts:
            if not workspace.split[part]:
                side, kind = part.split("_")
                return f"the data holds no {WHAT[kind]} to {side} on"
        return None

    return rule
