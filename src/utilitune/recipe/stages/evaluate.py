"""Stage ``evaluate``: the before ▶ after tables and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.evaluation import Row, Table, evaluate, ranking, render_table, write_report
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.stage_folder import RECORD, read_record
from utilitune.recipe.stages.reranker import test_runs
from utilitune.recipe.workspace import Workspace
from utilitune.records import (
    Dataset,
    Query,
    Run,
    manifest,
    read_answers,
    read_json,
    read_labels,
    read_rows,
    write_run,
    write_text,
)
from utilitune.rewrite.cheap import CHEAP

if TYPE_CHECKING:
    from utilitune.retrieval import Retriever

DEPTH = 100
"""Passages a query for the rewriter's runs: enough for every cut-off in use."""
ANSWER_MEASURES = ("contains", "EM", "F1")
BEFORE, AFTER = "first stage", "tuned reranker"
BEFORE_REWRITER, AFTER_REWRITER = "untuned rewriter", "tuned rewriter"


def _done(workspace: Workspace, stage: str) -> bool:
    return read_record(workspace.folder(stage)).get("status") == "done"


def _judged(dataset: Dataset, queries: Sequence[Query]) -> Dataset:
    """The part of the data set that these queries and their judgements make."""
    return dataset.subset([query for query in queries if dataset.qrels.get(query.id)])


def _texts(path: Path) -> dict[str, str]:
    return {str(row["query_id"]): str(row["text"]) for _, row in read_rows(path)}


def query_forms(turns: Sequence[Query], folder: Path, methods: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return ``{system: {query_id: search text}}``: every way to search for a conversational turn.

    Args:
        turns: The turns.
        folder: Rewrites of each rewriter, a file each.
        methods: Trainings of the tuned one.

    Returns:
        The forms, in the order of a table.
    """
    forms = {
        "raw question": {turn.id: turn.text for turn in turns},
        "first question + question": {turn.id: turn.first_and_last for turn in turns},
        "history concatenation": {turn.id: CHEAP["history"](turn) for turn in turns},
        BEFORE_REWRITER: _texts(folder / "untuned.jsonl"),
        **{f"tuned by {method} so far": _texts(folder / f"{method}.jsonl") for method in methods[:-1]},
        AFTER_REWRITER: _texts(folder / "tuned.jsonl"),
    }
    named = {"untuned", "tuned", *methods}
    others = [path for path in sorted(folder.glob("*.jsonl")) if path.stem not in named]
    forms |= {f"yardstick {path.stem}": _texts(path) for path in others}
    human = {turn.id: turn.rewrite for turn in turns if turn.rewrite}
    if len(human) == len(turns):
        forms["human rewrite"] = human
    return forms


def _rewriter_table(workspace: Workspace) -> Table | str:
    """Return the rewriter's table, or why there is none."""
    recipe = workspace.recipe
    turns = workspace.queries("test_turns", recipe.rewriter.test_turns)
    judged = _judged(workspace.dataset, turns)
    if not judged.queries:
        return f"Rewriter: none of the {len(turns)} test turns is judged, so it is not measured."
    forms = query_forms(judged.queries, workspace.folder("rewrite"), recipe.rewriter.methods)
    if _done(workspace, "best-of"):
        forms[f"untuned, best of {recipe.rewriter.best_of}"] = _texts(workspace.folder("best-of") / "best-of.jsonl")
    title = "Rewriter: search text of conversational test turns"
    return _search_table(title, judged, workspace.retrievers, forms, recipe, workspace.folder("evaluate") / "runs")


def _transfer_tables(workspace: Workspace) -> list[Table | str]:
    """Return a table for each data set that no training has seen."""
    from utilitune.retrieval import load_index

    made: list[Table | str] = []
    recipe = workspace.recipe
    for path in recipe.evaluation.transfer if _done(workspace, "transfer") else ():
        folder = workspace.folder("transfer") / path.name
        dataset, turns = workspace.transfer(path)
        judged = _judged(dataset, turns)
        if not judged.queries:
            made.append(f"Rewriter on {path.name}: none of the {len(turns)} turns is judged, so it is not measured.")
            continue
        retrievers = {name: load_index(folder / "index" / name) for name in recipe.retrievers}
        forms = query_forms(judged.queries, folder, recipe.rewriter.methods)
        title = f"Rewriter on {path.name}, which no training has seen"
        made.append(_search_table(title, judged, retrievers, forms, recipe, workspace.folder("evaluate") / path.name))
    return made


def _search_table(
    title: str,
    judged: Dataset,
    retrievers: Mapping[str, Retriever],
    forms: Mapping[str, Mapping[str, str]],
    recipe: Recipe,
    runs_folder: Path,
) -> Table:
    """Search with every form of the judged turns, keep the runs of both rewriters, and score all."""
    columns = recipe.evaluation.rewriter_measures
    rows: list[Row] = []
    for name, retriever in retrievers.items():
        runs = {
            system: retriever.search([replace(turn, text=texts[turn.id]) for turn in judged.queries], k=DEPTH)
            for system, texts in forms.items()
        }
        for moment in ("untuned", "tuned"):
            write_run(runs_folder / f"{name}.{moment}.trec", runs[f"{moment} rewriter"])
        rows += evaluate(judged, runs, columns).rows(block=name)
    human = sum(bool(turn.rewrite) for turn in judged.queries)
    methods = recipe.rewriter.methods
    notes = [f"The tuned rewriter: {' then '.join(methods)}."] if len(methods) > 1 else []
    if human < len(judged.queries):
        notes.append(f"No row for human rewrites: {human} of {len(judged.queries)} turns have one.")
    # Where several trainings follow each other, each of them is set against the untuned rewriter.
    after = [AFTER_REWRITER, *(name for name in forms if name.startswith(("tuned by", "yardstick", "untuned, best")))]
    return Table(title=title, columns=columns, rows=rows, before=BEFORE_REWRITER, after=after, notes=notes)


def _oracle(run: Run, dataset: Dataset) -> Run:
    """The first stage's candidates with the judged ones first: what a perfect reranker could reach."""
    made = Run()
    for query_id, scored in run.items():
        grades = dataset.qrels.get(query_id, {})
        best = sorted(ranking(scored), key=lambda hit: -grades.get(hit[0], 0.0))
        made[query_id] = [(passage_id, float(len(best) - rank)) for rank, (passage_id, _) in enumerate(best)]
    return made


def _add(rows: dict[str, Row], scored: Sequence[Row]) -> None:
    """Put the values and counts of ``scored`` into the rows of the same names."""
    for row in scored:
        old = rows.get(row.name, row)
        rows[row.name] = replace(row, values={**old.values, **row.values}, counts={**old.counts, **row.counts})


def _retrieval_rows(
    rows: dict[str, Row],
    judged: Dataset,
    runs: Mapping[str, Run],
    recipe: Recipe,
    utilities: Mapping[str, Mapping[str, float]] | None,
) -> None:
    """Add retrieval measures, and UDCG where there are utilities (of the observed rankings alone)."""
    ideal = {"oracle order of the first stage": _oracle(runs[BEFORE], judged)}
    _add(rows, evaluate(judged, {**runs, **ideal}, recipe.evaluation.reranker_measures).rows())
    if utilities is not None:
        _add(rows, evaluate(judged, runs, [f"UDCG@{recipe.evaluation.udcg_k}"], utilities=utilities).rows())


def _reranker_table(workspace: Workspace) -> Table | str:
    """Return the reranker's table, or why there is none."""
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    asked, judged = workspace.dataset.subset(queries), _judged(workspace.dataset, queries)
    answered = _done(workspace, "answer") and any(query.answers for query in queries)
    if not judged.queries and not answered:
        return f"Reranker: none of the {len(queries)} test questions is judged or has answers, so it is not measured."
    columns: list[str] = []
    notes = _training_notes(workspace)
    utilities = None
    if judged.queries:
        columns += recipe.evaluation.reranker_measures
        if _done(workspace, "utility"):
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
            _add(block, evaluate(asked, {}, ANSWER_MEASURES, answers=given).rows())
        rows += [replace(row, block=name) for row in block.values()]
    return Table(
        title="Reranker: stand-alone test questions",
        columns=columns,
        rows=rows,
        before=BEFORE,
        after=[AFTER],
        notes=notes,
    )


def _training_notes(workspace: Workspace) -> list[str]:
    """Say which epoch the reranker is of, and what its training warned about."""
    report = read_json(workspace.folder("train-reranker") / "training.json")
    epoch = report["kept_epoch"]
    kept = f"epoch {epoch} of {report['config']['epochs']}" if epoch else "the untrained model (no epoch was better)"
    return [f"Reranker: {kept} was kept.", *(f"Reranker training: {warning}" for warning in report["warnings"])]


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
    tables: list[Table] = []
    notes: list[str] = []
    for stage, make in (("rewrite", _rewriter_table), ("rerank", _reranker_table)):
        if not _done(workspace, stage):
            notes.append(f"Stage {stage!r} was left out: {records[stage].get('reason')}.")
            continue
        made = [make(workspace), *(_transfer_tables(workspace) if stage == "rewrite" else ())]
        tables += [one for one in made if isinstance(one, Table)]
        notes += [one for one in made if isinstance(one, str)]
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
        *("data", "index", "rewrite", "best-of", "transfer"),
        *("retrieve", "train-reranker", "rerank", "utility", "answer"),
    ),
    keys=tuple(Recipe.model_fields),
    code=("records", "retrieval", "evaluation", "rewrite", "recipe"),
    action=_evaluate,
)
