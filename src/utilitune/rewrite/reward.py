"""The reward of a candidate query: what the passages that it retrieves are worth to the generator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from utilitune.errors import ConfigError, DataError
from utilitune.progress import say
from utilitune.records.label import UtilityLabel
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.rewrite.aggregate import AGGREGATES, EMPTY_UTILITY, SCALES, check_names
from utilitune.rewrite.candidate import Candidate, Candidates
from utilitune.rewrite.expected_mrr import DEPTH as READ
from utilitune.rewrite.expected_mrr import EXPECTED_MRR, belief, consensus, expected_mrr
from utilitune.rewrite.gold_rank import DEPTH, GOLD_RANK, Judgements, check_judgements, reciprocal_rank

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator
    from utilitune.scoring.protocol import Utility

MAX_FAILED = 0.05

LabelKey = tuple[str, str, tuple[str, ...]]  # label set, query id, passage ids


class TextSearcher(Protocol):
    """The part of a retriever that the reward needs."""

    def search_texts(self, texts: Mapping[str, str], k: int = 10) -> Run:
        """Return at most ``k`` passages for each text, by its key."""
        ...


def reward_candidates(
    candidates: Iterable[Candidate],
    retrievers: Mapping[str, TextSearcher],
    queries: Iterable[Query],
    corpus: Iterable[Passage] | Mapping[str, Passage],
    utilities: Sequence[str | Mapping[str, Any] | Utility],
    generator: Generator | None,
    *,
    k: int = 3,
    store: Path | str | None = None,
    aggregate: str = "mean",
    scale: str = "pooled",
    fused: bool = False,
    qrels: Judgements | None = None,
    max_failed: float = MAX_FAILED,
) -> Candidates:
    """Give every candidate its utility.

    For each retriever, the candidate's text fetches its top ``k`` passages. Each passage is labelled for the
    *original* conversational question (equal passages once, whichever candidate found them), the labels are
    aggregated, and the aggregates are put on one scale over the candidates of all questions, per retriever
    and utility. ``Candidate.utility`` is the mean over retrievers and utilities. With the ``pooled`` scale
    that is the centred aggregate in units of its typical spread within a question.

    Args:
        candidates: From ``sample_candidates``; texts of one question should differ.
        retrievers: Retrievers by name.
        queries: The conversational questions, with history.
        corpus: Passages that the retrievers return, or ``{id: passage}``.
        utilities: Utilities by name, mapping or object; higher must mean better. ``gold-rank`` is the reciprocal
            rank of the first relevant passage (RetPO, arXiv 2402.11827), a supervised yardstick that needs
            ``qrels``; ``answer-likelihood`` (AdaQR, arXiv 2406.10991) is one that needs answers.
        generator: The model whose gain counts; ``None`` when ``gold-rank`` is all that is asked for.
        k: Passages a candidate and retriever.
        store: Label store file, so that a second run is free.
        aggregate: ``mean``, ``max``, ``top-1``, ``discounted`` (sum of u / log2(rank + 1)) over
            single-passage labels, ``expected-mrr`` (mean reciprocal rank under the belief that the rankings and labels
            of all the question's candidates give, whatever the utility's unit: see ``expected_mrr``), or ``set`` (the
            ``k`` passages labelled together).
        scale: ``pooled``, ``z-score`` (per question), ``rank`` (per question, in [-1, 1]) or ``raw``.
        fused: Whether to label one ranking, fused by reciprocal rank over the retrievers, instead of each one's.
        qrels: Judgements by query id, for ``gold-rank`` alone.
        max_failed: Share of failed or invalid labels above which to stop, in [0, 1].

    Returns:
        The candidates with ``utility``, ``passages`` and raw ``parts``. A retrieval without result is worth
        ``EMPTY_UTILITY`` (the bare question's label, for a utility of gold answers; 0 under ``expected-mrr``) and
        counted as ``empty``; a candidate with a part that could not be had has utility ``None`` and is counted as
        ``unlabelled``. ``wanted`` counts the (question, passages) that the candidates ask for, ``repeated`` those that
        another candidate of the question had asked for already: these cost nothing.

    Raises:
        ConfigError: For unknown names, no retriever or utility, ``k`` < 1, or judgements that are wanted and not there.
        DataError: For a candidate whose question, or a passage whose id, is not there.
        ThresholdError: When too many labels failed.
    """
    from utilitune.scoring.registry import make_utility

    check_names(aggregate, scale)
    if not retrievers or not utilities or k < 1:
        raise ConfigError(f"{len(retrievers)} retrievers, {len(utilities)} utilities, k={k}: each must be at least 1")
    rows = list(candidates)
    asked = {query.id: query for query in queries}
    passages = dict(corpus) if isinstance(corpus, Mapping) else {passage.id: passage for passage in corpus}
    missing = sorted({row.query_id for row in rows} - set(asked))
    if missing:
        raise DataError(f"{len(missing)} candidates' questions are not among the queries, first {missing[0]!r}")
    by_gold = GOLD_RANK in utilities
    judged = check_judgements(qrels, [row.query_id for row in rows]) if by_gold else {}
    made = [make_utility(one) for one in utilities if one != GOLD_RANK]

    depth = DEPTH if by_gold else READ if aggregate == EXPECTED_MRR else k
    runs = _search(rows, retrievers, max(k, depth), fused=fused)
    found = [{name: _ids(run, str(number), k) for name, run in runs.items()} for number in range(len(rows))]
    labels, wanted = _labels(
        rows, found, asked, passages, made, generator, store, max_failed, together=aggregate == "set"
    )

    counts: Counter[str] = Counter(
        candidates=len(rows),
        empty=sum(not ids for lists in found for ids in lists.values()),
        unlabelled=0,
        wanted=wanted,
        repeated=wanted - len({key[1:] for key in labels if key[2]}) if made else 0,
    )
    parts: list[dict[str, float]] = [{} for _ in rows]
    agreed = _agreed(rows, runs) if aggregate == EXPECTED_MRR else {}
    for label_set, utility in (_utility_names(labels) if made else {}).items():
        beliefs = _beliefs(label_set, labels, agreed) if aggregate == EXPECTED_MRR else {}
        for name, run in runs.items():
            for number, (row, lists, part) in enumerate(zip(rows, found, parts, strict=True)):
                value = _aggregate(aggregate, label_set, row.query_id, lists[name], labels)
                if value is not None and aggregate == EXPECTED_MRR:
                    value = expected_mrr(_ids(run, str(number), READ), beliefs.get(row.query_id, {}))
                if value is not None:
                    part[f"{name}/{utility}"] = value
    if by_gold:
        for number, (row, part) in enumerate(zip(rows, parts, strict=True)):
            for name, run in runs.items():
                if judged.get(row.query_id):
                    ranking = _ids(run, str(number), DEPTH)
                    part[f"{name}/{GOLD_RANK}"] = reciprocal_rank(ranking, judged[row.query_id])
    values = _combine(rows, parts, scale)
    counts["unlabelled"] = sum(value is None for value in values)
    say(
        f"reward: {len(rows)} candidates, {len(labels)} labels; {counts['repeated']} of {wanted} (question, passages) "
        f"repeat ({counts['repeated'] / max(1, wanted):.0%} cost nothing); {counts['empty']} empty retrievals, "
        f"{counts['unlabelled']} candidates without a utility"
    )
    return Candidates(
        [
            replace(row, utility=value, passages=lists, parts=part)
            for row, value, lists, part in zip(rows, values, found, parts, strict=True)
        ],
        counts,
    )


def _search(
    rows: Sequence[Candidate], retrievers: Mapping[str, TextSearcher], depth: int, *, fused: bool
) -> dict[str, Run]:
    """Retrieve for every candidate, keyed by its number; with ``fused``, one ranking over all retrievers."""
    from utilitune.retrieval.fusion import fuse

    texts = {str(number): row.text for number, row in enumerate(rows)}
    deep = max(depth, DEPTH) if fused else depth
    runs = {name: retriever.search_texts(texts, deep) for name, retriever in retrievers.items()}
    return {"+".join(runs): fuse(list(runs.values()))} if fused and len(runs) > 1 else runs


def _utility_names(labels: Iterable[LabelKey]) -> dict[str, str]:
    """Return ``{label set: name to show}``: the utility's name, unless two label sets share it."""
    sets = list(dict.fromkeys(label_set for label_set, _, _ in labels)) or ["none"]
    names = Counter(label_set.partition("@")[0] for label_set in sets)
    return {label_set: name if names[name := label_set.partition("@")[0]] == 1 else label_set for label_set in sets}


def _ids(run: Run, key: str, k: int) -> tuple[str, ...]:
    # A passage that a searcher lists twice counts at its better rank.
    return tuple(dict.fromkeys(passage_id for passage_id, _ in run.get(key, [])))[:k]


def _labels(
    rows: Sequence[Candidate],
    found: Sequence[Mapping[str, tuple[str, ...]]],
    asked: Mapping[str, Query],
    passages: Mapping[str, Passage],
    utilities: Sequence[Utility],
    generator: Generator | None,
    store: Path | str | None,
    max_failed: float,
    *,
    together: bool,
) -> tuple[dict[LabelKey, float | None], int]:
    """Label each distinct (question, passage set) once; ``None`` for labels that failed. Also how many were wanted."""
    from utilitune.scoring import label_sets

    if not utilities:
        return {}, 0
    if generator is None:
        raise ConfigError(f"utility {utilities[0].name!r} needs a generator, and none was given")
    bare = any(utility.needs_answers for utility in utilities)
    sets: dict[str, dict[tuple[str, ...], None]] = {}  # by question: its items must stand together
    wanted = 0
    for row, lists in zip(rows, found, strict=True):
        own: dict[tuple[str, ...], None] = {}  # what this candidate asks for, whichever retriever found it
        for ids in lists.values():
            groups = [ids] if together else [(one,) for one in ids]
            own.update(dict.fromkeys(group for group in groups if group))
            if bare and not ids:
                sets.setdefault(row.query_id, {})[()] = None
        wanted += len(own)
        sets.setdefault(row.query_id, {}).update(own)
    items = [(query_id, group) for query_id, groups in sets.items() for group in groups]
    unknown = sorted({passage_id for _, group in items for passage_id in group} - set(passages))
    if unknown:
        raise DataError(
            f"{len(unknown)} retrieved passages are not in the corpus, first {unknown[0]!r}; "
            "build the index from the same corpus"
        )
    pairs = [(asked[query_id], tuple(passages[one] for one in group)) for query_id, group in items]
    made: Iterable[UtilityLabel] = (
        label_sets(pairs, utilities, generator, store=store, max_failed=max_failed) if pairs else ()
    )
    return {
        (label.label_set, label.query_id, label.passage_ids): label.utility if label.status == "ok" else None
        for label in made
    }, wanted


def _agreed(rows: Sequence[Candidate], runs: Mapping[str, Run]) -> dict[str, dict[str, float]]:
    """Return, by question, how much its candidates agree on each passage, whatever the utility."""
    rankings: dict[str, list[tuple[str, ...]]] = {}
    for number, row in enumerate(rows):
        rankings.setdefault(row.query_id, []).extend(_ids(run, str(number), READ) for run in runs.values())
    return {query_id: consensus(own) for query_id, own in rankings.items()}


def _beliefs(
    label_set: str, labels: Mapping[LabelKey, float | None], agreed: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return, by question, how likely each of its labelled passages is to be the one that is needed."""
    pools: dict[str, dict[str, float]] = {}
    for (own, query_id, ids), value in labels.items():
        if own == label_set and ids and value is not None and math.isfinite(value):
            pools.setdefault(query_id, {})[ids[0]] = value
    return {query_id: belief(pool, agreed[query_id]) for query_id, pool in pools.items()}


def _aggregate(
    aggregate: str,
    label_set: str,
    query_id: str,
    ids: tuple[str, ...],
    labels: Mapping[LabelKey, float | None],
) -> float | None:
    """Return a candidate's number for one retriever and utility, ``None`` when any of its labels is missing."""
    if not ids:
        return labels.get((label_set, query_id, ()), EMPTY_UTILITY)
    groups = [ids] if aggregate == "set" else [(one,) for one in ids]
    values = [labels.get((label_set, query_id, group)) for group in groups]
    # The mean of the survivors would be a different quantity from candidate to candidate.
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return None
    return known[0] if aggregate in ("set", EXPECTED_MRR) else AGGREGATES[aggregate](known)


def _combine(rows: Sequence[Candidate], parts: Sequence[Mapping[str, float]], scale: str) -> list[float | None]:
    """Scale each part over all questions and average the parts of each candidate."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    whole = [number for number, part in enumerate(parts) if len(part) == len(names)]
    scaled: dict[int, list[float]] = {number: [] for number in whole}
    for name in names:
        groups: dict[str, list[int]] = {}
        for number in whole:
            groups.setdefault(rows[number].query_id, []).append(number)
        values = SCALES[scale]({key: [parts[number][name] for number in group] for key, group in groups.items()})
        for key, group in groups.items():
            for number, value in zip(group, values[key], strict=True):
                scaled[number].append(value)
    return [fmean(scaled[number]) if scaled.get(number) else None for number in range(len(rows))]
