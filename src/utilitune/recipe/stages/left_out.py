"""When a stage has nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from utilitune.recipe.workspace import Workspace

WHAT = {"turns": "conversational turns", "questions": "stand-alone questions"}


def unless(
    section: Literal["rewriter", "reranker"],
    *parts: str,
    measured: str = "",
    methods: Sequence[str] = (),
    asked: str = "",
) -> Callable[[Workspace], str | None]:
    """Return a ``left_out`` rule: the section must be enabled, and the data must hold every part.

    Args:
        section: Section of the recipe.
        *parts: Parts of the split, such as ``train_turns``.
        measured: Key of ``evaluation`` that must not be 0 or empty.
        methods: Trainings that ``rewriter.methods`` must name.
        asked: Key of the section that must not be 0 or empty.

    Returns:
        The rule; it gives the reason, or ``None`` when the stage is to run.
    """

    def rule(workspace: Workspace) -> str | None:
        recipe = workspace.recipe
        if not getattr(recipe, section).enabled:
            return f"{section}.enabled is false"
        if measured and not getattr(recipe.evaluation, measured):
            return f"evaluation.{measured} is {getattr(recipe.evaluation, measured) or 0}"
        for method in methods:
            if method not in recipe.rewriter.methods:
                return f"rewriter.methods does not name {method}"
        if asked and not getattr(getattr(recipe, section), asked):
            return f"{section}.{asked} is {getattr(getattr(recipe, section), asked)!r}"
        for part in parts:
            if not workspace.split[part]:
                side, kind = part.split("_")
                return f"the data holds no {WHAT[kind]} to {side} on"
        return None

    return rule
