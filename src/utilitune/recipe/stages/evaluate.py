"""Stage ``evaluate``: the before ▶ after tables and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from utilitune.evaluation import Row, Table, evaluate, render_table, write_report
from utilitune.recipe.stage import RECORD, Stage
from utilitune.recipe.stages.reranker import test_runs
from utilitune.recipe.workspace import Workspace
from utilitune.records import (
    Dataset,
    Query,
    Run,
    manifest,
    read_answers,
    read_labels,
    read_rows,
    write_text,
)

DEPTH = 100
"""Passages a query for the rewriter's runs: enough for every cut-off in use."""
ANSWER_MEASURES = ("contains", "EM", "F1")


def _done(workspace: Workspace, stage: str) -> bool:
    path = workspace.folder(stage) / RECORD
    return path.exists() and json.loads(path.read_text(encoding="utf-8")).get("status") == "done"


def _judged(dataset: Dataset, queries: Sequence[Query]) -> Dataset:
    """The part of the data set that these queries and their judgements make."""
    return dataset.subset([query for query in queries if query.id in dataset.qrels])


def _texts(path: Path) -> dict[str, str]:
    return {str(row["query_id"]): str(row["text"]) for _, row in read_rows(path)}


def query_forms(workspace: Workspace, turns: Sequence[Query]) -> dict[str, dict[str, str]]:
    """Return ``{system: {query_id: search text}}``: every way to search for a conversational turn."""
    folder = workspace.folder("rewrite")
    forms = {
        "raw question": {turn.id: turn.text for turn in turns},
        "first question + question": {turn.id: f"{turn.first_question} {turn.text}" for turn in turns},
        "untuned rewriter": _texts(folder / "untuned.jsonl"),
        "tuned rewriter": _texts(folder / "tuned.jsonl"),
    }
    human = {turn.id: turn.rewrite for turn in turns if turn.rewrite}
    if len(human) == len(turns):
        forms["human rewrite"] = human
    return forms


def _rewriter_table(workspace: Workspace) -> Table:
    section = workspace.recipe.rewriter
    turns = workspace.queries("test_turns", section.test_turns)
    judged = _judged(workspace.dataset, turns)
    columns = workspace.recipe.evaluation.rewriter_measures
    rows: list[Row] = []
    for name, retriever in workspace.retrievers.items():
        runs = {
            system: retriever.search([replace(turn, text=texts[turn.id]) for turn in judged.queries], k=DEPTH)
            for system, texts in query_forms(workspace, judged.queries).items()
        }
        rows += evaluate(judged, runs, columns).rows(block=name)
    return Table(
        title="Rewriter: search text of conversational test turns",
        columns=columns,
        rows=rows,
        before="untuned rewriter",
        after=["tuned rewriter"],
    )


def _oracle(run: Run, dataset: Dataset) -> Run:
    """The first stage's candidates with the judged ones first: what a perfect reranker could reach."""
    return Run(
        {
            query_id: [
                (passage_id, float(len(ranking) - rank))
                for rank, (passage_id, _) in enumerate(
                    sorted(ranking, key=lambda hit: -dataset.qrels.get(query_id, {}).get(hit[0], 0.0))
                )
            ]
            for query_id, ranking in run.items()
        }
    )


def _reranker_table(workspace: Workspace) -> Table:
    config = workspace.recipe.evaluation
    queries = workspace.queries("test_questions", workspace.recipe.reranker.test_queries)
    judged = _judged(workspace.dataset, queries)
    columns = list(config.reranker_measures)
    utilities: dict[str, dict[str, float]] | None = None
    notes: list[str] = []
    if _done(workspace, "utility"):
        labels = read_labels(workspace.folder("utility") / "labels.jsonl")
        utilities = labels.table("abstention")
        columns.append(f"UDCG@{config.udcg_k}")
        notes += [str(warning) for warning in labels.manifest.get("warnings", {}).values()]
    answered = _done(workspace, "answer") and any(query.answers for query in judged.queries)
    rows: list[Row] = []
    for name, (before, after) in test_runs(workspace).items():
        runs = {
            "first stage": before,
            "tuned reranker": after,
            "oracle order of the first stage": _oracle(before, judged),
        }
        scored = [measure for measure in columns if not measure.startswith("UDCG")]
        retrieval = evaluate(judged, runs, scored)
        table = {row.name: dict(row.values) for row in retrieval.rows()}
        counts = {row.name: dict(row.counts) for row in retrieval.rows()}
        if utilities is not None:
            observed = {system: runs[system] for system in ("first stage", "tuned reranker")}
            depth = evaluate(judged, observed, [f"UDCG@{config.udcg_k}"], utilities=utilities)
            for row in depth.rows():
                table[row.name].update(row.values)
                counts[row.name] |= row.counts
        if answered:
            folder = workspace.folder("answer")
            given = {
                "first stage": read_answers(folder / f"{name}.before.jsonl"),
                "tuned reranker": read_answers(folder / f"{name}.after.jsonl"),
            }
            asked = workspace.dataset.subset(queries)
            for row in evaluate(asked, {}, ANSWER_MEASURES, answers=given).rows():
                table[row.name].update(row.values)
                counts[row.name] |= row.counts
        rows += [Row(system, table[system], name, counts[system]) for system in table]
    if answered:
        columns += ANSWER_MEASURES
        notes.append(f"Answers of {workspace.recipe.generator} with the top {config.answer_k} passages.")
    return Table(
        title="Reranker: stand-alone test questions",
        columns=columns,
        rows=rows,
        before="first stage",
        after=["tuned reranker"],
        notes=notes,
    )


def _stage_counts(workspace: Workspace) -> dict[str, dict[str, int]]:
    counts = {}
    for path in sorted(workspace.out.glob(f"*/{RECORD}")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.get("status") == "done" and record["stage"] != "evaluate":
            counts[record["stage"]] = {
                name: value for name, value in record.get("counts", {}).items() if isinstance(value, int)
            }
    return counts


def _evaluate(workspace: Workspace) -> Mapping[str, Any]:
    tables: list[Table] = []
    notes: list[str] = []
    if not workspace.dataset.qrels:
        notes.append("The data holds no judgements, so retrieval is not measured.")
    else:
        if _done(workspace, "rewrite"):
            tables.append(_rewriter_table(workspace))
        if _done(workspace, "rerank"):
            tables.append(_reranker_table(workspace))
    recipe = workspace.recipe
    folder = workspace.folder("evaluate")
    write_report(
        folder,
        tables,
        title=f"{recipe.name}: {recipe.about}" if recipe.about else recipe.name,
        counts=_stage_counts(workspace),
        notes=notes,
        manifest=manifest(recipe=recipe.model_dump(mode="json"), seed=recipe.seed),
    )
    write_text(folder / "table.txt", "\n".join(render_table(table) for table in tables) or "\n".join(notes) + "\n")
    return {"tables": len(tables)}


EVALUATE = Stage(
    name="evaluate",
    about="score everything, before and after, and write the report",
    needs=("data", "index", "rewrite", "retrieve", "rerank", "utility", "answer"),
    code=("records", "retrieval", "evaluation", "recipe"),
    settings=lambda recipe: recipe.model_dump(mode="json"),
    action=_evaluate,
)
