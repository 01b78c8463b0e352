"""The numbers behind the plots of a run: utilities, trainings, gains, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isfinite
from typing import Any

from utilitune.evaluation.answer_accuracy import accuracy
from utilitune.evaluation.html.run_folder import RunFolder
from utilitune.evaluation.html.study_plots import study_plots
from utilitune.records import Labels, Run

BINS, POINTS = 24, 200
LABELS = {"label": "retrieve/*.train.trec", "utility": "retrieve/*.test.trec"}
"""Stages that label passages, and the rankings that these were taken from."""
TRAININGS = {"train-sft": "SFT", "train-rewriter": "DPO", "train-grpo": "GRPO"}
LOGGED = {"loss": "loss", "margin": "margin", "accuracy": "share of pairs told apart", "reward": "reward"}


def all_plots(run: RunFolder) -> list[dict[str, Any]]:
    """Return every plot that the run has numbers for.

    Args:
        run: The run.

    Returns:
        Plots as ``plots.plot_svg`` takes them, JSON-ready.
    """
    return [*histograms(run), *curves(run), *gains(run), *calibration(run), *study_plots(run.path)]


def histograms(run: RunFolder) -> list[dict[str, Any]]:
    """Return one plot for each label set: utilities of gold, distracting and random passages."""
    made = []
    for stage, pattern in LABELS.items():
        labels = run.labels(f"{stage}/labels.jsonl")
        if labels is None or run.dataset is None:
            continue
        retrieved: dict[str, set[str]] = {}
        for path in sorted(run.path.glob(pattern)):
            for query_id, scored in (run.run(str(path.relative_to(run.path))) or Run()).items():
                retrieved.setdefault(query_id, set()).update(passage_id for passage_id, _ in scored)
        for name in labels.names():
            groups = by_kind(labels, name, run.dataset.qrels, retrieved)
            if groups:
                made.append(_histogram(f"Utility of passages: {name} ({stage})", name, groups))
    return made


def by_kind(
    labels: Labels, name: str, qrels: Mapping[str, Mapping[str, float]], retrieved: Mapping[str, set[str]]
) -> dict[str, list[float]]:
    """Return utilities by what the passage is to its query.

    Args:
        labels: Labels of single passages.
        name: Utility.
        qrels: Judgements.
        retrieved: ``{query_id: passages that a retriever found}``.

    Returns:
        ``gold`` (judged relevant), ``distractor`` (found by a retriever or judged, not relevant), ``random`` (neither);
        kinds without passages are not there.
    """
    groups: dict[str, list[float]] = {"gold": [], "distractor": [], "random": []}
    for query_id, own in labels.table(name).items():
        grades, found = qrels.get(query_id, {}), retrieved.get(query_id, set())
        for passage_id, utility in own.items():
            if grades.get(passage_id, 0) > 0:
                kind = "gold"
            else:
                kind = "distractor" if passage_id in found or passage_id in grades else "random"
            groups[kind].append(utility)
    return {kind: values for kind, values in groups.items() if values}


def _histogram(title: str, x: str, groups: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    import numpy as np

    edges = np.histogram_bin_edges(np.concatenate([np.asarray(values) for values in groups.values()]), BINS)
    counted = [{"name": kind, "counts": np.histogram(values, edges)[0].tolist()} for kind, values in groups.items()]
    note = "No judgements: gold passages are not known." if "gold" not in groups else ""
    return {"kind": "histogram", "title": title, "x": x, "edges": edges.tolist(), "groups": counted, "note": note}


def curves(run: RunFolder) -> list[dict[str, Any]]:
    """Return the training curves: the rewriter's by step, a plot for each number logged; the reranker's by epoch."""
    reranker = run.training("train-reranker")
    epochs = [{**row, **(row.get("dev") or {})} for row in reranker.get("epochs") or []]
    kept = f"Epoch {reranker['kept_epoch']} was kept." if "kept_epoch" in reranker else ""
    wanted = []
    for stage, method in TRAININGS.items():
        training = run.training(stage)
        for key, meaning in LOGGED.items():
            note = str(training.get("reading", "")) if key == "loss" else ""
            wanted.append((f"Rewriter, {method}: {meaning}", training.get("log") or [], "step", key, meaning, note))
    wanted.append(("Reranker training: loss", epochs, "epoch", "loss", "loss", ""))
    wanted.append(("Reranker training: held-out nDCG", epochs, "epoch", "ndcg", "nDCG", kept))
    made = []
    for title, rows, x, key, y, note in wanted:
        points = _points(rows, x, key)
        if points:
            series = [{"name": y, "points": points}]
            made.append({"kind": "lines", "title": title, "x": x, "y": y, "series": series, "note": note})
    return made


def _points(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> list[list[float]]:
    """Return the rows that hold both numbers; logs of other trainings hold other columns."""
    pairs = [(row.get(x), row.get(y)) for row in rows]
    return [[a, b] for a, b in pairs if isinstance(a, int | float) and isinstance(b, int | float) and isfinite(b)]


def gains(run: RunFolder) -> list[dict[str, Any]]:
    """Return one plot for each table: what every query gained by the table's first measure, in order."""
    made = []
    for table in run.report["tables"]:
        if not table["after"] or not table["columns"]:
            continue
        measure = table["columns"][0]
        series = []
        for row in table["rows"]:
            if row["name"] not in table["after"]:
                continue
            before = run.per_query.get((table["title"], row["block"], table["before"]), {}).get(measure, {})
            after = run.per_query.get((table["title"], row["block"], row["name"]), {}).get(measure, {})
            changes = sorted(after[query_id] - before[query_id] for query_id in after if query_id in before)
            if changes:
                name = f"{row['block']}: {row['name']}" if row["block"] else row["name"]
                series.append({"name": name, "values": _thinned(changes)})
        title = f"{table['title']}: change of {measure} a query" if table["title"] else f"Change of {measure} a query"
        made += [
            {"kind": "gains", "title": title, "y": f"Δ {measure}", "series": series[start : start + 4], "note": ""}
            for start in range(0, len(series), 4)
        ]
    return made


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= POINTS:
        return values
    return [values[round(index * (len(values) - 1) / (POINTS - 1))] for index in range(POINTS)]


def calibration(run: RunFolder) -> list[dict[str, Any]]:
    """Return how often answers are right, by how likely the generator found their tokens (geometric mean)."""
    series = []
    queries = run.dataset.queries if run.dataset else []
    for path in sorted(run.path.glob("answer/*.jsonl")):
        answers = run.answers(f"answer/{path.name}")
        if not any(query.answers for query in queries) or not answers:
            continue
        right = accuracy(answers, queries)
        pairs = [
            (exp(answer.logprob_mean), right[answer.query_id])
            for answer in answers
            if answer.logprob_mean is not None and answer.query_id in right
        ]
        if pairs:
            series.append({"name": path.stem, **reliability(pairs)})
    if not series:
        return []
    note = "ECE: mean gap between the two, weighted by answers. Bins hold equally many answers."
    x, y = "probability of the answer's tokens", "share that holds a gold answer"
    title = "Calibration of the answers"
    return [
        {"kind": "calibration", "title": title, "x": x, "y": y, "series": series[start : start + 4], "note": note}
        for start in range(0, len(series), 4)
    ]


def reliability(pairs: Sequence[tuple[float, float]], bins: int = 10, least: int = 5) -> dict[str, Any]:
    """Return a reliability curve and its expected calibration error.

    Args:
        pairs: ``(confidence, 1 if right else 0)``, both in [0, 1].
        bins: Bins of equally many pairs, at most.
        least: Pairs a bin, at least; fewer bins where there are too few.

    Returns:
        ``points`` (mean confidence, share right, pairs) and ``ece``, the mean absolute gap weighted by pairs.
    """
    import numpy as np

    ordered = np.asarray(sorted(pairs), dtype=np.float64)
    parts = np.array_split(ordered, max(1, min(bins, len(ordered) // least)))
    points = [[float(part[:, 0].mean()), float(part[:, 1].mean()), len(part)] for part in parts]
    return {"points": points, "ece": sum(abs(x - y) * n for x, y, n in points) / len(ordered)}
