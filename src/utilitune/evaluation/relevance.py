"""Where relevance comes from: people, gold answers in the text, or the labels of a utility."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from utilitune.errors import ConfigError, DataError
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Qrels
from utilitune.scoring.answer_match import contains, usable_golds

JUDGED, CONTAINS = "judged", "contains"
SOURCES = (JUDGED, CONTAINS)
Relevance = str | Labels
"""A name in ``SOURCES``, or labels of one utility, such as ``llm-relevance``, in place of judgements."""
Ranked = Mapping[str, Sequence[tuple[str, float]]]


def check_relevance(relevance: Relevance, relevant_from: float | None) -> None:
    """Look at a source before any work.

    Args:
        relevance: The source.
        relevant_from: Grade or utility from which a passage is relevant, if one was given.

    Raises:
        ConfigError: If the source is unknown, or containment has a threshold.
        DataError: If the labels are of several utilities or generators, or hold no number for a single passage.
    """
    if isinstance(relevance, Labels):
        if relevant_from is not None and not math.isfinite(relevant_from):
            raise ConfigError(f"relevant_from (--relevant-from) is {relevant_from}; expected a finite utility")
        sets = _label_sets(relevance)
        if len(sets) > 1:
            raise DataError(
                f"the labels that stand for relevance are of several label sets ({', '.join(sets)}), whose numbers are "
                "on no common scale; give those of one (--relevance UTILITY=FILE)"
            )
        if not sets or not relevance.table():
            raise DataError("the labels that stand for relevance hold no number for a single passage; label some first")
    elif relevance not in SOURCES:
        raise ConfigError(f"unknown relevance {relevance!r}; known: {', '.join(SOURCES)}, and labels of a utility")
    elif relevance == CONTAINS and relevant_from is not None:
        raise ConfigError("relevance 'contains' takes no relevant_from (--relevant-from): a passage does or does not")


def relevance_name(relevance: Relevance, relevant_from: float | None = None) -> str:
    """Say what relevance is, for tables and manifests.

    Args:
        relevance: The source.
        relevant_from: Utility from which a passage is relevant; the best of each query when ``None``.

    Returns:
        ``judged``, ``contains``, or the label set and its threshold.
    """
    if not isinstance(relevance, Labels):
        return relevance
    level = "best of each query" if relevant_from is None else f"from {relevant_from:g}"
    return f"{', '.join(_label_sets(relevance))}, {level}"


def read_relevance(spec: str, option: str = "--relevance") -> Relevance:
    """Read what was typed: a name, a label file of one utility, or ``UTILITY=FILE``.

    Args:
        spec: What was typed.
        option: Name of the option, for the message.

    Returns:
        The source.

    Raises:
        ConfigError: If it is neither a name nor a file, or the file has no such utility.
        DataError: If the file holds something else than labels.
    """
    from utilitune.records.labels import read_labels

    if spec in SOURCES:
        return spec
    name, _, path = spec.rpartition("=")
    if not Path(path).is_file():
        raise ConfigError(
            f"{option}: found {spec!r}, expected one of: {', '.join(SOURCES)}, or a file of labels, as FILE or "
            "UTILITY=FILE"
        )
    labels = read_labels(path)
    if name and name not in labels.names():
        raise ConfigError(f"{option}: {path} has no labels of {name!r}; it has: {', '.join(labels.names()) or 'none'}")
    return Labels([row for row in labels if row.name == name], labels.manifest) if name else labels


def qrels_by_labels(labels: Labels, relevant_from: float | None) -> Qrels:
    """Return grades 1 and 0 of all labelled passages.

    Args:
        labels: Labels of one utility.
        relevant_from: Utility from which a passage is relevant; when ``None`` the best of each query (all that are
            equal), as utilities have no scale that queries or generators share.

    Returns:
        The judgements; a passage without a number has none.
    """
    found: Qrels = {}
    for query_id, own in labels.table().items():
        level = max(own.values()) if relevant_from is None else relevant_from
        found[query_id] = {passage_id: float(number >= level) for passage_id, number in own.items()}
    return found


def qrels_by_containment(shown: Iterable[tuple[Query, Iterable[Passage]]]) -> Qrels:
    """Return grade 1 for passages whose text contains a gold answer as whole words, else 0.

    Args:
        shown: Queries with the passages to look at; those without a gold answer are left out.

    Returns:
        The judgements.
    """
    found: Qrels = {}
    for query, passages in shown:
        golds = usable_golds(query.answers)
        if golds:
            found[query.id] = {passage.id: contains(passage.full_text, golds) for passage in passages}
    return found


def relevance_qrels(
    dataset: Dataset, relevance: Relevance, runs: Iterable[Ranked], relevant_from: float | None = None
) -> Qrels:
    """Return the judgements that a source gives for a data set.

    Args:
        dataset: Queries and corpus; its own judgements are read for ``"judged"`` alone.
        relevance: The source.
        runs: Rankings; containment looks at what any of them found, and at nothing else.
        relevant_from: As in ``check_relevance``; grades of ``"judged"`` are returned as they are.

    Returns:
        ``{query_id: {passage_id: grade}}``; of labels and containment the grades are 1 and 0.

    Raises:
        ConfigError: As ``check_relevance``.
        DataError: As ``check_relevance``; if labels share no query with the data set, or a passage of a run is not in
            the corpus.
    """
    check_relevance(relevance, relevant_from)
    if isinstance(relevance, Labels):
        known = {query.id for query in dataset.queries}
        made = qrels_by_labels(relevance, relevant_from)
        if not known & set(made):
            raise DataError(
                f"the labels that stand for relevance ({relevance_name(relevance, relevant_from)}) share no query with "
                f"the {len(known)} of the data: they hold {next(iter(made))!r}; label these queries"
            )
        return {query_id: grades for query_id, grades in made.items() if query_id in known}
    if relevance == JUDGED:
        return dataset.qrels
    corpus, listed = dataset.passages(), list(runs)
    return qrels_by_containment((query, _found(query.id, listed, corpus)) for query in dataset.queries)


def _found(query_id: str, runs: Sequence[Ranked], corpus: Mapping[str, Passage]) -> list[Passage]:
    ids = dict.fromkeys(passage_id for run in runs for passage_id, _ in run.get(query_id, ()))
    lost = next((passage_id for passage_id in ids if passage_id not in corpus), None)
    if lost is not None:
        raise DataError(
            f"passage {lost!r} of a run for query {query_id!r} is not in the corpus, so that nobody knows whether it "
            "contains an answer; check that run and corpus are of the same data set"
        )
    return [corpus[passage_id] for passage_id in ids]


def _label_sets(labels: Labels) -> list[str]:
    return list(dict.fromkeys(row.label_set for row in labels))
