"""The comparison: every system against the first, over the same queries, as one family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from utilitune.errors import ConfigError, DataError, UtilituneError
from utilitune.evaluation.classical import threshold
from utilitune.evaluation.clusters import Clusters, find_clusters
from utilitune.evaluation.compare.changes import LIMIT, Example, largest_changes
from utilitune.evaluation.compare.side import Side
from utilitune.evaluation.compare.system import System
from utilitune.evaluation.evaluate import MEASURES, UtilityTable, evaluate
from utilitune.evaluation.evaluation import Evaluation
from utilitune.evaluation.measures import LESS_IS_BETTER
from utilitune.evaluation.ranking import ranking
from utilitune.evaluation.relevance import JUDGED, Relevance, relevance_qrels
from utilitune.evaluation.report import write_report
from utilitune.evaluation.significance import SEED
from utilitune.evaluation.table import Table
from utilitune.evaluation.udcg import GAMMA, Unjudged
from utilitune.records import Answer, Dataset, Run, file_hash, read_json, write_run, write_text

Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` returns.

    Attributes:
        evaluation: Values of every system on the same queries, and the counts.
        table: Every system against ``before``: intervals, tests, Holm over the whole table. Of three systems or more
            also every one against every other, by the measure of the largest changes.
        examples: The largest changes from ``before`` to each other system (``largest_changes``).
        runs: The rankings, of the systems that have one.
    """

    evaluation: Evaluation
    table: Table
    examples: list[Example]
    runs: Mapping[str, Run]

    def write(
        self, folder: Path | str, *, title: str = "Comparison", manifest: Mapping[str, Any] | None = None
    ) -> None:
        """Write the report's files, and every ranking as TREC: ``runs/<n>-<name>.trec``, ties by the one rule.

        The manifest lists the rankings with their hashes. Those that an earlier comparison wrote there and nobody
        changed since are replaced or go; any other file stays.

        Args:
            folder: Where to write; made if needed.
            title: Heading.
            manifest: Everything that made the numbers.

        Raises:
            DataError: If an id cannot stand in a TREC file, or a file that is not an earlier comparison's has the name
                of a ranking; nothing is written then.
        """
        home = Path(folder)
        rankings = home / "runs"
        ours = _rankings_of(home)
        with TemporaryDirectory() as apart:
            # Apart and first: what cannot be written must leave neither half a report nor half of its rankings.
            made: dict[str, Path] = {}
            for number, (name, run) in enumerate(self.runs.items(), start=1):
                plain = "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:80]
                ranked = Run({query_id: ranking(scored) for query_id, scored in run.items()})
                path = Path(apart) / f"{number}-{plain}.trec"
                write_run(path, ranked, tag=plain or "run")
                made[path.name] = path
            hashes = {name: file_hash(path) for name, path in made.items()}
            for name, new in hashes.items():
                if (rankings / name).exists() and file_hash(rankings / name) not in (new, ours.get(name)):
                    raise DataError(
                        f"{rankings / name} is there and no earlier comparison's; move it, or write to another folder"
                    )
            for name, path in made.items():
                write_text(rankings / name, path.read_text(encoding="utf-8"))
        for name in ours.keys() - made.keys():
            if (rankings / name).is_file() and file_hash(rankings / name) == ours[name]:
                (rankings / name).unlink()
        listed = {**(manifest or {}), "rankings": hashes}
        write_report(folder, [self.table], title=title, manifest=listed, examples=self.examples)


def _rankings_of(folder: Path) -> dict[str, str]:
    """Return the rankings that an earlier comparison says it wrote, with their hashes."""
    try:
        listed = read_json(folder / "report.json")["manifest"]["rankings"]
        # Plain names alone: a report must not name what lies elsewhere.
        return {str(name): str(digest) for name, digest in listed.items() if Path(name).name == name}
    except (OSError, UtilituneError, LookupError, TypeError, ValueError, AttributeError):
        return {}


def compare(
    systems: Sequence[System],
    dataset: Dataset | None = None,
    measures: Sequence[str] | None = None,
    *,
    before: str | None = None,
    by: str | None = None,
    utilities: UtilityTable | None = None,
    utility_name: str = "",
    answers: Mapping[str, Sequence[Answer]] | None = None,
    rewrites: Mapping[str, Mapping[str, str]] | None = None,
    relevance: Relevance = JUDGED,
    relevant_from: float | None = None,
    gamma: float = GAMMA,
    unjudged: Unjudged = "irrelevant",
    ties: str = "trec",
    cluster_by: str | None = None,
    limit: int = LIMIT,
    seed: int = SEED,
) -> Comparison:
    """Compare systems on the same queries; a query that one of them lacks counts 0 for it, and is counted.

    Args:
        systems: Two or more: runs, which are scored here, and systems of earlier evaluations, taken as they are.
        dataset: Queries, judgements, texts; needed for runs.
        measures: Measure names; when not given, all that every evaluation has, or else ``MEASURES``, with
            utilities ``UDCG@5``, with answers their measures.
        before: The system that all others are compared with; the first when not given.
        by: The measure that largest changes are looked for by; the first when not given.
        utilities: ``{query_id: {passage_id: u}}``, for UDCG and shown with the passages.
        utility_name: As in ``evaluate``.
        answers: ``{system: answers}``, for the answer measures and shown.
        rewrites: ``{system: {query_id: search text}}``, shown.
        relevance: As in ``evaluate``, for runs.
        relevant_from: As in ``evaluate``.
        gamma: As in ``evaluate``.
        unjudged: As in ``evaluate``.
        ties: As in ``evaluate``, for runs.
        cluster_by: ``"conversation"``: intervals and tests take whole conversations of the data set; ``"query"``: each
            query stands for itself; when not given, by conversation where the data set has conversations.
        limit: Changes to return for each system.
        seed: Seed of intervals and tests.

    Returns:
        The comparison.

    Raises:
        ConfigError: If there are fewer than two systems, a name is unknown, or runs or clusters come without a data
            set.
        DataError: If two evaluations share no measure, or a query is in no conversation of the data set.
    """
    names = [system.name for system in systems]
    _check(names, before, {"answers": answers or {}, "rewrites": rewrites or {}})
    runs = {system.name: system.run for system in systems if system.run is not None}
    values: dict[str, Values] = {system.name: system.values for system in systems if system.run is None}
    counts: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    if runs:
        if dataset is None:
            raise ConfigError(f"runs ({', '.join(runs)}) are scored against judgements: give the data folder (--data)")
        asked = list(measures or (_shared(values) if values else _default(utilities, answers)))
        given = {name: own for name, own in (answers or {}).items() if name in runs}
        result = evaluate(
            dataset,
            runs,
            asked,
            utilities=utilities,
            utility_name=utility_name,
            answers=given or None,
            relevance=relevance,
            relevant_from=relevant_from,
            gamma=gamma,
            unjudged=unjudged,
            ties=ties,
            seed=seed,
        )
        values |= result.per_query
        counts, notes = result.counts, result.notes
    filled, missing = same_queries({name: values[name] for name in names}, measures)
    counts = {name: {**counts.get(name, {}), **missing[name]} for name in names}
    columns = list(next(iter(filled.values())))
    evaluation = Evaluation(columns, filled, counts, seed, _clusters(dataset, cluster_by), notes)
    base = before or names[0]
    said = {name: {answer.query_id: answer.answer for answer in own} for name, own in (answers or {}).items()}
    sides = {name: Side(name, runs.get(name), (rewrites or {}).get(name, {}), said.get(name, {})) for name in names}
    if dataset is not None and relevance != JUDGED:
        qrels = relevance_qrels(dataset, relevance, runs.values(), relevant_from)
        dataset, relevant_from = replace(dataset, qrels=qrels), None
    level = threshold({}, (), relevant_from)
    examples = [
        largest_changes(
            evaluation,
            sides[base],
            sides[name],
            by or columns[0],
            dataset,
            utilities=utilities,
            relevant_from=level,
            limit=limit,
        )
        for name in names
        if name != base
    ]
    table = replace(evaluation.table(before=base), pairwise=(by or columns[0]) if len(names) > 2 else None)
    return Comparison(evaluation, table, examples, runs)


def _clusters(dataset: Dataset | None, by: str | None) -> Clusters | None:
    if dataset is None and by not in (None, "query"):
        raise ConfigError(f"clusters by {by} are told from the queries: give the data folder (--data)")
    return find_clusters(dataset.queries if dataset else (), by)


def same_queries(
    values: Mapping[str, Values], measures: Sequence[str] | None = None
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, dict[str, int]]]:
    """Put every system on the same queries: those that any of them was scored on, measure by measure.

    Args:
        values: ``{system: {measure: {query_id: value}}}``.
        measures: Which measures; those that all systems have when not given.

    Returns:
        The values, 0 where a system lacked the query (where less is better, the queries of all alone), and
        ``{system: {"missing in <measure>, counted 0": n}}``.

    Raises:
        ConfigError: If a system lacks a measure that was asked for.
        DataError: If they share none.
    """
    shared = list(measures) if measures else _shared(values)
    if not shared:
        have = "; ".join(f"{name}: {', '.join(own)}" for name, own in values.items())
        raise DataError(f"the systems share no measure ({have}); evaluate them by the same ones")
    for name, own in values.items():
        lacking = [measure for measure in shared if measure not in own]
        if lacking:
            raise ConfigError(
                f"{name!r} was not scored by {', '.join(lacking)}; it was by {', '.join(own) or 'nothing'}"
            )
    filled: dict[str, dict[str, dict[str, float]]] = {name: {} for name in values}
    missing: dict[str, dict[str, int]] = {name: {} for name in values}
    for measure in shared:
        union = list(dict.fromkeys(query_id for own in values.values() for query_id in own[measure]))
        if measure.partition("@")[0] in LESS_IS_BETTER:
            # There 0 is the best value: what is not known of one system is compared for none.
            kept = [query_id for query_id in union if all(query_id in own[measure] for own in values.values())]
            for name in values if len(kept) < len(union) else ():
                missing[name][f"not known of every system in {measure}, left out"] = len(union) - len(kept)
            union = kept
        for name, own in values.items():
            filled[name][measure] = {query_id: own[measure].get(query_id, 0.0) for query_id in union}
            lacking_queries = len(union) - len(own[measure])
            if lacking_queries > 0:
                missing[name][f"missing in {measure}, counted 0"] = lacking_queries
    return filled, missing


def _default(utilities: UtilityTable | None, answers: Mapping[str, Sequence[Answer]] | None) -> tuple[str, ...]:
    return (*MEASURES, *(("UDCG@5",) if utilities is not None else ()), *(("contains", "EM", "F1") if answers else ()))


def _shared(values: Mapping[str, Values]) -> list[str]:
    first, *others = values.values()
    return [measure for measure in first if all(measure in own for own in others)]


def _check(names: Sequence[str], before: str | None, extras: Mapping[str, Mapping[str, Any]]) -> None:
    problems = []
    if len(names) < 2:
        problems.append(f"a comparison needs two systems or more, found {', '.join(names) or 'none'}")
    if before is not None and before not in names:
        problems.append(f"no system is named {before!r}; they are: {', '.join(names)}")
    for what, given in extras.items():
        unknown = [name for name in given if name not in names]
        if unknown:
            problems.append(f"{what} of {', '.join(unknown)}: no such system; they are: {', '.join(names)}")
    if problems:
        raise ConfigError("\n".join(problems))
