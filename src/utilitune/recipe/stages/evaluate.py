"""Stage ``evaluate``: the before ▶ after tables and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from utilitune.evaluation import Table, render_table, write_report
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.stage_folder import RECORD, read_record
from utilitune.recipe.stages.reranker_second_table import second_table
from utilitune.recipe.stages.reranker_table import reranker_tables
from utilitune.recipe.stages.rewriter_table import rewriter_table, transfer_tables
from utilitune.recipe.workspace import Workspace
from utilitune.records import manifest, write_text

TABLES: Mapping[str, Callable[[Workspace], list[Table | str]]] = {
    "rewrite": lambda workspace: [rewriter_table(workspace)],
    "transfer": transfer_tables,
    "rerank": reranker_tables,
    "answer-second": second_table,
}
"""The tables that a finished stage gives, or why there is none."""

ASKED: Mapping[str, Callable[[Recipe], object]] = {
    "transfer": lambda recipe: recipe.evaluation.transfer,
    "answer-second": lambda recipe: recipe.reranker.enabled and recipe.reranker.second_generator,
}
"""Whether a recipe asks for a table: a missing one is spoken of only then. The others are asked for by every recipe."""


def _records(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Return what every other stage noted about itself."""
    found = (read_record(path.parent) for path in sorted(workspace.out.glob(f"*/{RECORD}")))
    return {record["stage"]: record for record in found if record.get("stage") not in (None, "evaluate")}


def _provenance(record: Mapping[str, Any]) -> dict[str, Any]:
    wanted = ("status", "reason", "finished", "seconds", "fingerprint", "outputs", "models")
    inputs = {kind: part for kind, part in record.get("inputs", {}).items() if kind != "settings" and part}
    return {**{key: record[key] for key in wanted if key in record}, **inputs}


def _evaluate(workspace: Workspace) -> Mapping[str, Any]:
    recipe, folder = workspace.recipe, workspace.folder("evaluate")
    records = _records(workspace)
    made: list[Table | str] = []
    for stage, make in TABLES.items():
        if workspace.done(stage):
            made += make(workspace)
        elif stage not in ASKED or ASKED[stage](recipe):
            made.append(f"Stage {stage!r} was left out: {records[stage].get('reason')}.")
    tables = [one for one in made if isinstance(one, Table)]
    notes = [one for one in made if isinstance(one, str)]
    write_report(
        folder,
        tables,
        title=f"{recipe.name}: {recipe.about}" if recipe.about else recipe.name,
        counts={
            stage: {kind: count for kind, count in record["counts"].items() if isinstance(count, int)}
            for stage, record in records.items()
            if "counts" in record
        },
        notes=notes,
        manifest=manifest(
            recipe=recipe.model_dump(mode="json"),
            seed=recipe.seed,
            stages={stage: _provenance(record) for stage, record in records.items()},
        ),
    )
    write_text(folder / "table.txt", "\n".join([*map(render_table, tables), *notes]).rstrip() + "\n")
    return {"tables": len(tables)}


EVALUATE = Stage(
    name="evaluate",
    about="score everything, before and after, and write the report",
    needs=(
        *("data", "index", "agreement", "rewrite", "best-of", "answer-rewrites", "transfer", "best-of-transfer"),
        *(
            "retrieve",
            "warm-up",
            "train-reranker",
            "train-rivals",
            "label-test",
            "rerank",
            "utility",
            "fit-theta",
            "answer",
        ),
        *("train-second", "answer-second"),
    ),
    keys=tuple(Recipe.model_fields),
    code=("records", "retrieval", "evaluation", "rewrite", "rerank", "recipe"),
    action=_evaluate,
)
