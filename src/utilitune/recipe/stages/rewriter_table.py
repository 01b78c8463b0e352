"""The rewriter's tables: every way to search for a conversational turn, on the recipe's data and on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from utilitune.evaluation import Row, Table, bootstrap_interval, evaluate, find_clusters
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stages.answer_values import ANSWER_MEASURES, add_values
from utilitune.recipe.stages.rewriter_answers import MOMENTS
from utilitune.recipe.stages.rewriter_use import BEST_OF_SYSTEMS
from utilitune.recipe.stages.transfer import transfer_indexes
from utilitune.recipe.workspace import Workspace, judged_part
from utilitune.records import Dataset, Query, read_answers, read_rows, write_run
from utilitune.rewrite.cheap import CHEAP

if TYPE_CHECKING:
    from utilitune.retrieval import Retriever

DEPTH = 100
"""Passages a query: enough for every cut-off in use."""
BEFORE, AFTER = "untuned rewriter", "tuned rewriter"


def rewriter_table(workspace: Workspace) -> Table | str:
    """Return the rewriter's table, or why there is none."""
    recipe = workspace.recipe
    turns = workspace.queries("test_turns", recipe.rewriter.test_turns)
    judged = judged_part(workspace.dataset, turns)
    if not judged.queries:
        return f"Rewriter: none of the {len(turns)} test turns is judged, so it is not measured."
    forms = query_forms(judged.queries, workspace.folder("rewrite"), recipe.rewriter.methods)
    if workspace.done("best-of"):
        forms |= _best_forms(recipe, workspace.folder("best-of"))
    title = "Rewriter: search text of conversational test turns"
    table = _search_table(title, judged, workspace.retrievers, forms, recipe, workspace.folder("evaluate") / "runs")
    if workspace.done("answer-rewrites") and any(turn.answers for turn in turns):
        table = _answered(workspace, table, workspace.dataset.subset(turns))
    agreement = workspace.folder("agreement") / "agreement.txt"
    lines = agreement.read_text(encoding="utf-8").splitlines() if workspace.done("agreement") else []
    return replace(table, notes=[*table.notes, *(f"The reward against the judgements, {line}." for line in lines)])


def _answered(workspace: Workspace, table: Table, asked: Dataset) -> Table:
    """Put the answers of both rewriters beside their rankings; the other rows have none."""
    rows: list[Row] = []
    for name in workspace.recipe.retrievers:
        block = {row.name: row for row in table.rows if row.block == name}
        given = {
            system: read_answers(workspace.folder("answer-rewrites") / f"{name}.{moment}.jsonl")
            for system, moment in zip((BEFORE, AFTER), MOMENTS, strict=True)
        }
        add_values(block, evaluate(asked, {}, ANSWER_MEASURES, answers=given).rows())
        rows += block.values()
    k = workspace.recipe.evaluation.rewriter_answer_k
    note = f"Answers of {workspace.recipe.generator} with the top {k} passages of both rewriters."
    return replace(
        table,
        columns=[*table.columns, *ANSWER_MEASURES],
        rows=rows,
        notes=[*table.notes, note],
        # More turns than the judged ones.
        clusters=find_clusters(asked.queries, "conversation"),
    )


def transfer_tables(workspace: Workspace) -> list[Table | str]:
    """Return a table for each data set that no training has seen."""
    made: list[Table | str] = []
    recipe = workspace.recipe
    for path in recipe.evaluation.transfer:
        folder = workspace.folder("transfer") / path.name
        dataset, turns = workspace.transfer(path)
        judged = judged_part(dataset, turns)
        if not judged.queries:
            made.append(f"Rewriter on {path.name}: none of the {len(turns)} turns is judged, so it is not measured.")
            continue
        retrievers = transfer_indexes(workspace, path, recipe.retrievers)
        forms = query_forms(judged.queries, folder, recipe.rewriter.methods)
        if workspace.done("best-of-transfer"):
            forms |= _best_forms(recipe, workspace.folder("best-of-transfer") / path.name)
        title = f"Rewriter on {path.name}, which no training has seen"
        table = _search_table(title, judged, retrievers, forms, recipe, workspace.folder("evaluate") / path.name)
        made.append(table)
    return made


def _best_forms(recipe: Recipe, folder: Path) -> dict[str, dict[str, str]]:
    """Return what each of ``BEST_OF_SYSTEMS`` chose, by the name of its row."""
    best = recipe.rewriter.best_of
    return {f"{name}, best of {best}": _texts(folder / f"{name}.jsonl") for name in BEST_OF_SYSTEMS}


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
        BEFORE: _texts(folder / "untuned.jsonl"),
        **{f"tuned by {method} so far": _texts(folder / f"{method}.jsonl") for method in methods[:-1]},
        AFTER: _texts(folder / "tuned.jsonl"),
    }
    named = {"untuned", "tuned", *methods}
    others = [path for path in sorted(folder.glob("*.jsonl")) if path.stem not in named]
    forms |= {f"yardstick {path.stem}": _texts(path) for path in others}
    human = {turn.id: turn.rewrite for turn in turns if turn.rewrite}
    if len(human) == len(turns):
        forms["human rewrite"] = human
    return forms


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
    conversations = len({turn.conversation for turn in judged.queries})
    notes = [f"{len(judged.queries)} turns of {conversations} conversations."]
    notes += [f"The tuned rewriter: {' then '.join(methods)}."] if len(methods) > 1 else []
    if human < len(judged.queries):
        notes.append(f"No row for human rewrites: {human} of {len(judged.queries)} turns have one.")
    # Where several trainings follow each other, each of them is set against the untuned rewriter.
    after = [
        AFTER,
        *(name for name in forms if name.startswith(("tuned by", "yardstick", "untuned, best", "tuned, best"))),
    ]
    clusters = find_clusters(judged.queries, "conversation") or {}
    notes += share_of_gain(rows, columns[0], clusters)
    return Table(
        title=title,
        columns=columns,
        rows=rows,
        before=BEFORE,
        after=after,
        notes=notes,
        clusters=clusters,
        pairwise=columns[0],
    )


def share_of_gain(rows: Sequence[Row], measure: str, clusters: Mapping[str, str]) -> list[str]:
    """Say how much of each yardstick's gain over the untuned rewriter the tuned one has, where there is such a gain.

    Args:
        rows: Rows of a table.
        measure: By what.
        clusters: Conversation of each query; intervals take them whole.

    Returns:
        A sentence for each block and yardstick.
    """
    from utilitune.evaluation.judge.interval import ratio_interval

    values = {(row.block, row.name): row.values[measure] for row in rows}
    said = []
    for block, name in values:
        if not name.startswith("yardstick"):
            continue
        untuned = values[block, BEFORE]
        gains: list[dict[str, float]] = [{}, {}]
        for gain, system in zip(gains, (AFTER, name), strict=True):
            for query_id, value in values[block, system].items():
                gain[clusters[query_id]] = gain.get(clusters[query_id], 0.0) + value - untuned[query_id]
        ours, theirs = (sum(gain.values()) for gain in gains)
        # Of a gain that may be none there is no share.
        low, _ = bootstrap_interval(list(gains[1].values())) or (0.0, 0.0)
        if low > 0:
            interval = ratio_interval(*(list(gain.values()) for gain in gains))
            within = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
            share = f"{ours / theirs:.2f}{within} of that of {name!r}"
        else:
            share = f"no share of that of {name!r} can be told: its own interval includes 0"
        said.append(f"{block}, gain in {measure} over the untuned rewriter: the tuned one has {share}.")
    return said
