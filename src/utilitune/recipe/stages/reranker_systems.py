"""The orders that the reranker's table compares: what they are called, what made them, where they are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from utilitune.evaluation import ranking
from utilitune.recipe.schema import RerankerSection
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run, read_labels, read_run

FIRST, TUNED = "first stage", "tuned reranker"
UNTRAINED, WARM = "untrained weights", "warmed up, no label"
BY_UTILITY, BY_GOLD = "oracle by utility", "oracle order of the first stage"
GOLD = "gold"
"""The rival whose labels are the judgements."""
BY_JUDGEMENTS = "trained on gold relevance"
MIXED = " + first stage"
"""Ends the name of a reranker whose scores have the first stage's added."""


def rival_row(rival: str) -> str:
    """Return what a rival is called in a table."""
    return BY_JUDGEMENTS if rival == GOLD else f"trained on {rival}"


def model_folders(workspace: Workspace) -> dict[str, Path]:
    """Return ``{row: folder}`` of every trained reranker, the tuned one last."""
    rivals = workspace.recipe.reranker.rivals
    found = {rival_row(rival): workspace.folder("train-rivals") / slug(rival) for rival in rivals}
    return {**found, TUNED: workspace.folder("train-reranker")}


def reranked_rows(section: RerankerSection) -> list[str]:
    """Return the rows that models order, in the order of a table."""
    rows = ([UNTRAINED] if section.untrained else []) + ([WARM] if section.warm_up else [])
    for row in (*map(rival_row, section.rivals), TUNED):
        rows += [row, f"{row}{MIXED}"] if section.interpolate else [row]
    return rows


def run_file(workspace: Workspace, retriever: str, row: str) -> Path:
    """Return where the order of a row is kept."""
    suffix = "" if row == TUNED else f".{slug(row)}"
    return workspace.folder("rerank") / f"{retriever}{suffix}.trec"


def answer_file(retriever: str, row: str, k: int, main_k: int) -> str:
    """Return the name of the file with a row's answers from its first ``k`` passages; the report's page shows two."""
    moment = {FIRST: "before", TUNED: "after"}.get(row)
    if moment and k == main_k:
        return f"{retriever}.{moment}.jsonl"
    return f"orders/{retriever}.{slug(row)}.top{k}.jsonl"


def slug(name: str) -> str:
    """Return a name as part of a file's."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def first_stage_run(workspace: Workspace, retriever: str, part: str = "test") -> Run:
    """Return the candidates of a retriever for the ``train`` or ``test`` questions."""
    return read_run(workspace.folder("retrieve") / f"{retriever}.{part}.trec")


def orders(workspace: Workspace) -> dict[str, dict[str, Run]]:
    """Return ``{retriever: {row: run}}`` of the test questions, in the order of a table.

    Both best orders are among them where ``reranker.oracle`` asks for them.
    """
    section = workspace.recipe.reranker
    utilities = candidate_utilities(workspace) if section.oracle else {}
    found: dict[str, dict[str, Run]] = {}
    for name in workspace.recipe.retrievers:
        first = first_stage_run(workspace, name)
        runs = {FIRST: first}
        runs |= {row: read_run(run_file(workspace, name, row)) for row in reranked_rows(section)}
        if section.oracle:
            runs |= {BY_UTILITY: best_order(first, utilities), BY_GOLD: gold_order(workspace, first)}
        found[name] = runs
    return found


def candidate_utilities(workspace: Workspace) -> dict[str, dict[str, float]]:
    """Return what the test candidates are worth by the recipe's utilities; of several, the mean of their z-scores."""
    from utilitune.rerank.rescale import rescale

    labels = read_labels(workspace.folder("label-test") / "labels.jsonl")
    tables = [labels.table(name) for name in labels.names()]
    if len(tables) == 1:
        return tables[0]
    found: dict[str, dict[str, float]] = {}
    for query_id in tables[0] if tables else ():
        ids = [pid for pid in tables[0][query_id] if all(pid in table.get(query_id, {}) for table in tables)]
        scaled = [rescale([table[query_id][pid] for pid in ids], "z-score") for table in tables]
        found[query_id] = {pid: sum(row) / len(row) for pid, row in zip(ids, zip(*scaled, strict=True), strict=True)}
    return found


def best_order(run: Run, worth: Mapping[str, Mapping[str, float]], missing: float = -math.inf) -> Run:
    """Return the candidates of a run with the most worthy first: what a perfect reranker could reach.

    Args:
        run: First stage.
        worth: Utilities or judgements; equal ones stay in the order of the run.
        missing: Worth of a passage that has none: last unless given, 0 for judgements.

    Returns:
        The same passages.
    """
    made = Run()
    for query_id, scored in run.items():
        own = worth.get(query_id, {})
        best = sorted(ranking(scored), key=lambda hit: -own.get(hit[0], missing))
        made[query_id] = [(passage_id, float(len(best) - rank)) for rank, (passage_id, _) in enumerate(best)]
    return made


def gold_order(workspace: Workspace, run: Run) -> Run:
    """Return the candidates of a run with the judged ones first."""
    return best_order(run, workspace.dataset.qrels, missing=0.0)
