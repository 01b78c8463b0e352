"""The reranker's table: first stage and reranked, by retrieval measures, UDCG and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from utilitune.evaluation import Row, Table, evaluate, ranking, significance
from utilitune.progress import warn
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stages.answer_values import ANSWER_MEASURES, add_values
from utilitune.recipe.stages.reranker import test_runs
from utilitune.recipe.workspace import Workspace, judged_part
from utilitune.records import Dataset, Run, read_answers, read_json, read_labels

BEFORE, AFTER = "first stage", "tuned reranker"


def reranker_table(workspace: Workspace) -> Table | str:
    """Return the reranker's table, or why there is none."""
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    asked, judged = workspace.dataset.subset(queries), judged_part(workspace.dataset, queries)
    answered = workspace.done("answer") and any(query.answers for query in queries)
    if not judged.queries and not answered:
        return f"Reranker: none of the {len(queries)} test questions is judged or has answers, so it is not measured."
    columns: list[str] = []
    notes = _training_notes(workspace)
    utilities = None
    if judged.queries:
        columns += recipe.evaluation.reranker_measures
        if workspace.done("utility"):
            labels = read_labels(workspace.folder("utility") / "labels.jsonl")
            utilities = labels.table("abstention")
            columns.append(f"UDCG@{recipe.evaluation.udcg_k}")
            notes += [str(warning) for warning in labels.manifest.get("warnings", {}).values()]
    else:
        notes.append(f"None of the {len(queries)} test questions is judged, so retrieval is not measured.")
    if answered:
        columns += ANSWER_MEASURES
        notes.append(f"Answers of {recipe.generator} with the top {recipe.evaluation.answer_k} passages.")
    rows: list[Row] = []
    for name, (before, after) in test_runs(workspace).items():
        block: dict[str, Row] = {}
        if judged.queries:
            _retrieval_rows(block, judged, {BEFORE: before, AFTER: after}, recipe, utilities)
        if answered:
            folder = workspace.folder("answer")
            given = {
                BEFORE: read_answers(folder / f"{name}.before.jsonl"),
                AFTER: read_answers(folder / f"{name}.after.jsonl"),
            }
            add_values(block, evaluate(asked, {}, ANSWER_MEASURES, answers=given).rows())
        rows += [replace(row, block=name) for row in block.values()]
        leading = recipe.evaluation.reranker_measures if judged.queries else ANSWER_MEASURES[:1]
        notes = [*_worse(name, block, columns, leading), *notes]
    return Table(
        title="Reranker: stand-alone test questions",
        columns=columns,
        rows=rows,
        before=BEFORE,
        after=[AFTER],
        notes=notes,
    )


def _oracle(run: Run, dataset: Dataset) -> Run:
    """The first stage's candidates with the judged ones first: what a perfect reranker could reach."""
    made = Run()
    for query_id, scored in run.items():
        grades = dataset.qrels.get(query_id, {})
        best = sorted(ranking(scored), key=lambda hit: -grades.get(hit[0], 0.0))
        made[query_id] = [(passage_id, float(len(best) - rank)) for rank, (passage_id, _) in enumerate(best)]
    return made


def _retrieval_rows(
    rows: dict[str, Row],
    judged: Dataset,
    runs: Mapping[str, Run],
    recipe: Recipe,
    utilities: Mapping[str, Mapping[str, float]] | None,
) -> None:
    """Add retrieval measures, and UDCG where there are utilities (of the observed rankings alone)."""
    ideal = {"oracle order of the first stage": _oracle(runs[BEFORE], judged)}
    add_values(rows, evaluate(judged, {**runs, **ideal}, recipe.evaluation.reranker_measures).rows())
    if utilities is not None:
        add_values(rows, evaluate(judged, runs, [f"UDCG@{recipe.evaluation.udcg_k}"], utilities=utilities).rows())


def _training_notes(workspace: Workspace) -> list[str]:
    """Say which epoch the reranker is of, and what its training warned about."""
    report = read_json(workspace.folder("train-reranker") / "training.json")
    epoch = report["kept_epoch"]
    kept = f"epoch {epoch} of {report['config']['epochs']}" if epoch else "the untrained model (no epoch was better)"
    return [f"Reranker: {kept} was kept.", *(f"Reranker training: {warning}" for warning in report["warnings"])]


def _worse(retriever: str, rows: Mapping[str, Row], columns: Sequence[str], leading: Sequence[str]) -> list[str]:
    """Return a warning, also given at once, where the reranker is worse than its first stage.

    That is a lower mean by a measure of ``leading``, or by any other one an interval below 0.
    """
    before, after = rows[BEFORE].values, rows[AFTER].values
    lost = []
    for measure in columns:
        found = significance(before[measure], after[measure])
        clear = found.high is not None and found.high < 0
        if found.difference is not None and found.difference < 0 and (measure in leading or clear):
            within = "" if found.low is None else f" [{found.low:+.3f}, {found.high:+.3f}]"
            lost.append(f"{measure} {found.before:.3f} ▶ {found.after:.3f} ({found.difference:+.3f}{within})")
    if not lost:
        return []
    message = f"WARNING: on {retriever} the tuned reranker is worse than its first stage: {'; '.join(lost)}"
    warn(message)
    return [f"{message}."]
