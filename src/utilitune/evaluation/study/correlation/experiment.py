"""The correlation study: does a retrieval metric predict whether the generator answers right?"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.evaluation.classical import threshold
from utilitune.evaluation.clusters import Clusters, find_clusters
from utilitune.evaluation.measures import parse_measures
from utilitune.evaluation.relevance import JUDGED, Relevance, check_relevance, relevance_name, relevance_qrels
from utilitune.evaluation.significance import SEED
from utilitune.evaluation.study.correlation.found import Found, System, find_passages
from utilitune.evaluation.study.correlation.ideal import study_ideal
from utilitune.evaluation.study.correlation.known import Known, candidates, make_lists, passage_lists, single_passages
from utilitune.evaluation.study.correlation.metrics import (
    ABLATIONS,
    ELSEWHERE,
    METRICS,
    THETA,
    score_lists,
    score_whole_lists,
)
from utilitune.evaluation.study.correlation.position import position_cases, study_position
from utilitune.evaluation.study.correlation.rank import RESAMPLES, Draws, Estimate, numbered
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.study.correlation.reader import Reader
from utilitune.evaluation.study.correlation.scores import correlate
from utilitune.evaluation.study.correlation.study import POOLED, CorrelationStudy, Timing
from utilitune.evaluation.study.correlation.theta import DEALS, FOLDS, fit_theta, theta_by_chance, theta_scores
from utilitune.evaluation.study.signal import answer_judge
from utilitune.evaluation.study.signal_cases import content
from utilitune.evaluation.udcg import GAMMA
from utilitune.evaluation.udcg_theta import UdcgTheta
from utilitune.generator.protocol import Generator
from utilitune.records.answer import Answer
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels
from utilitune.records.manifest import manifest
from utilitune.scoring.labelling import MAX_FAILED, Specs
from utilitune.scoring.protocol import Utility
from utilitune.scoring.registry import make_utility

KS = tuple(range(1, 11))
POSITION, IDEAL = 10, 5
U = "abstention"
ANSWER_PROMPT = "answer-abstain"
"""UDCG's own: with leave to abstain. One prompt for u, single answers and answers, so that each is read once."""
SCARCE = 0.1
"""Share of the rarer outcome below which the study says so."""
LISTS_A_WEIGHT = 10
"""Below so many a fit of 2k weights is said to be thin."""
COUNTED = ("requests", "store_hits", "store_misses", "truncated", "failed", "invalid", "skipped")


def study_correlation(
    dataset: Dataset,
    generator: Generator,
    systems: Mapping[str, System],
    ks: Sequence[int] = KS,
    *,
    u: str | Mapping[str, Any] | Utility = U,
    utilities: Specs = (),
    set_utilities: Specs = (),
    relevance: Relevance = JUDGED,
    relevant_from: float | None = None,
    gamma: float = GAMMA,
    answer_measure: str = "contains",
    answer_prompt: str = ANSWER_PROMPT,
    position: int | None = POSITION,
    ideal: int | None = IDEAL,
    answers: Sequence[Answer] = (),
    theta: Sequence[UdcgTheta] = (),
    limit: int | None = None,
    seed: int = SEED,
    folds: int = FOLDS,
    resamples: int = RESAMPLES,
    store: Path | str | None = None,
    max_failed: float = MAX_FAILED,
    command: str = "study correlation",
) -> CorrelationStudy:
    """Measure how well retrieval metrics predict whether the generator answers right.

    Every system's first ``k`` passages go into one prompt, for every ``k``; the greedy answer is right or not. Each
    metric of the list is correlated with that (Spearman, Kendall's τ-b; intervals from drawing whole questions, or
    conversations where the data have them). These are the experiments of the UDCG paper (arXiv 2510.21440), with its
    ablations, position study and ideal rankings.

    Args:
        dataset: Corpus, questions with ``answers``, judgements.
        generator: The LLM.
        systems: Retriever or ready run by name, at least one.
        ks: List lengths, each >= 1.
        u: UDCG's utility of a passage, in [0, 1]; see ``make_utility``.
        utilities: Further utilities of a passage; the mean over the list is a metric, and the best passages by each
            are an ideal ranking.
        set_utilities: Utilities of a whole list in one prompt, such as ``sper`` (ΔSePer: ten sampled answers a
            list).
        relevance: ``"judged"``; ``"contains"``: passages that contain a gold answer; or labels of a utility, such as
            ``llm-relevance``, of the passages that are retrieved.
        relevant_from: Grade from which a judged passage is relevant; 1 unless given, needed for fractional grades. Of
            labels the utility, the best passage of each question unless given.
        gamma: UDCG's weight of distraction.
        answer_measure: When an answer is right: ``"contains"`` or ``"EM"``, any gold answer. Also eRAG's gain.
        answer_prompt: Packaged prompt or prompt file of the answers.
        position: Passages a list of the position study; ``None`` leaves it out.
        ideal: Passages of an ideal ranking; ``None`` leaves them out.
        answers: Answers of this generator to this prompt that are there already.
        theta: Fits of UDCGθ on other data, one a list length at most: a row of their own.
        limit: Questions at most, in seeded order; a larger limit extends a smaller one.
        seed: Seed of the order and all resampling.
        folds: Folds of UDCGθ's cross-validation, whole questions, >= 2.
        resamples: Draws of the intervals, >= 1.
        store: Label store file, so that a second run is free and a killed one goes on; ``None`` keeps nothing.
        max_failed: Share of failed or invalid labels above which to stop, in [0, 1].
        command: What the manifest says was run.

    Returns:
        The study.

    Raises:
        ConfigError: For an unknown name, an option out of range, fractional grades without ``relevant_from``, or fits
            of UDCGθ that are two of one length or of a length that is not studied.
        DataError: If no question can be studied, or runs, labels and data do not fit.
        ThresholdError: If too many labels failed; responses got so far are in the store.
    """
    lengths, level = _checked(ks, folds, ideal, dataset, relevance, relevant_from)
    answer_judge(answer_measure, answer_prompt)
    given = _by_length(theta, lengths)
    if POOLED in systems:
        raise ConfigError(f"a retriever is named {POOLED!r}, as all of them together are; give it another name")
    if isinstance(relevance, Labels):
        dataset = replace(dataset, qrels=relevance_qrels(dataset, relevance, (), relevant_from))
    own, others = make_utility(u), [make_utility(spec) for spec in utilities]
    wholes = [make_utility(spec) for spec in set_utilities]
    found = find_passages(dataset, systems, lengths[-1], limit=limit, seed=seed, relevance=relevance, level=level)
    # Before any work: what cannot be studied is said at once.
    cases = None if position is None else position_cases(found.dataset, position, seed=seed, level=level)
    reader = Reader(generator, answer_measure, answer_prompt, store, max_failed)
    counts = Counter(found.counts)
    counts["answers given"] = reader.know(answers, found.queries)
    timing: dict[str, Timing] = {}
    with _timed("passages", timing, reader, found):
        labels = reader.read(single_passages(found), [own, *others])
    with _timed("lists", timing, reader, found):
        sets = reader.read(passage_lists(found, lengths), wholes)
    known = Known(found, reader, labels, own.name, tuple(each.name for each in others))
    lists = make_lists(known, lengths, counts)
    score_lists(lists, found.dataset.qrels, gamma=gamma, level=level)
    score_whole_lists(lists, sets, [each.name for each in wholes])
    clusters = find_clusters(found.queries)
    fitted, reasons = _cross_validate(lists, lengths, folds, generator.identity.model, clusters)
    for ranked in lists:
        if ranked.k in given:
            ranked.values[ELSEWHERE] = given[ranked.k](ranked.utilities, ranked.relevant)
    chance = theta_by_chance(lists, folds, seed=seed, clusters=clusters)
    learned = [ELSEWHERE] if given else []
    names = [
        *METRICS,
        *learned,
        *(f"mean {each}" for each in known.others),
        *(each.name for each in wholes),
        *ABLATIONS,
    ]
    numbers = numbered((query.id for query in found.queries), clusters)
    drawn = len(set(numbers.values()))
    draws = Draws(drawn, resamples=resamples, seed=seed)
    if clusters is not None:
        counts["conversations"] = drawn
    blocks = {POOLED: lists} if len(systems) > 1 else {}
    blocks |= {name: [ranked for ranked in lists if ranked.system == name] for name in systems}
    moved = best = None
    if cases is not None and position is not None:
        with _timed("position", timing, reader, found):
            moved = study_position(cases, reader, length=position, seed=seed, clusters=clusters)
        counts.update(moved.counts)
    if ideal is not None:
        with _timed("ideal", timing, reader, found):
            best = study_ideal(candidates(known), reader, k=ideal, gamma=gamma, seed=seed, clusters=clusters)
        counts.update(best.counts)
    counts.update({f"labels: {kind}": reader.counts[kind] for kind in COUNTED})
    counts["answers cut"] = sum(each.answer.cut for each in reader.outcomes.values())
    counts["answers empty"] = sum(not each.answer.answer for each in reader.outcomes.values())
    return CorrelationStudy(
        correlations=[
            row
            for block, rows in blocks.items()
            for row in correlate(rows, names, lengths, block, numbers, draws, reasons)
        ],
        metrics=names,
        systems=list(systems),
        ks=lengths,
        lists=lists,
        accuracy={block: {k: _accuracy(rows, k) for k in lengths} for block, rows in blocks.items()},
        position=moved,
        ideal=best,
        theta=fitted,
        theta_by_chance=chance,
        labels=labels,
        answers=[each.answer for each in reader.outcomes.values()],
        counts=dict(counts),
        timing=timing,
        notes=[
            *reader.warnings.values(),
            *_given(counts),
            *_conversations(counts),
            *_elsewhere(given, generator.identity.model),
            *_notes(lists, lengths, reasons, chance),
        ],
        manifest=manifest(
            command,
            seed=seed,
            data={
                "name": dataset.name,
                "questions_sha256": _hash(found),
                "relevance": relevance_name(relevance, relevant_from),
            },
            systems={name: _settings(system) for name, system in systems.items()},
            options={
                "k": lengths,
                "u": own.name,
                "gamma": gamma,
                "relevant_from": relevant_from,
                "answer_measure": answer_measure,
                "answer_prompt": answer_prompt,
                "position": position,
                "ideal": ideal,
                "limit": limit,
                "folds": folds,
                "resamples": resamples,
                "max_failed": max_failed,
                "theta": {
                    str(k): {"sha256": fit.sha256, "n": fit.n, "generator": fit.generator} for k, fit in given.items()
                },
            },
            label_sets=reader.label_sets,
            generator=generator.identity.as_dict(),
            counts=dict(counts),
        ),
    )


def _checked(
    ks: Sequence[int],
    folds: int,
    ideal: int | None,
    dataset: Dataset,
    relevance: Relevance,
    relevant_from: float | None,
) -> tuple[list[int], float]:
    lengths = sorted(set(ks))
    if not lengths or lengths[0] < 1:
        raise ConfigError(f"k is {list(ks)}; expected at least one list length, each at least 1")
    if folds < 2:
        raise ConfigError(
            f"folds is {folds}; expected at least 2, so that UDCGθ is never measured on what it was fitted on"
        )
    if ideal is not None and ideal < 1:
        raise ConfigError(f"ideal is {ideal}; expected at least 1 passage, or None for no ideal rankings")
    check_relevance(relevance, relevant_from)
    if relevance != JUDGED:
        return lengths, 1.0
    return lengths, threshold(dataset.qrels, parse_measures(["P@1"]), relevant_from)


def _by_length(theta: Sequence[UdcgTheta], lengths: Sequence[int]) -> dict[int, UdcgTheta]:
    found: dict[int, UdcgTheta] = {}
    for fit in theta:
        if fit.k in found:
            raise ConfigError(f"two fits of {THETA} (--theta) are for k = {fit.k}; expected one a list length")
        if fit.k not in lengths:
            raise ConfigError(
                f"a fit of {THETA} (--theta) is for k = {fit.k}, but lists of {', '.join(map(str, lengths))} are "
                "studied; its k is fixed: add it to -k or leave the fit out"
            )
        found[fit.k] = fit
    return found


def _elsewhere(given: Mapping[int, UdcgTheta], model: str) -> list[str]:
    others = sorted({fit.generator or "an unnamed generator" for fit in given.values() if fit.generator != model})
    if not others:
        return []
    return [f"{ELSEWHERE}: on answers of {', '.join(others)}, and applied to those of {model}"]


@contextmanager
def _timed(part: str, timing: dict[str, Timing], reader: Reader, found: Found) -> Iterator[None]:
    started, before = time.perf_counter(), Counter(reader.counts)
    yield
    computed, kept = (reader.counts[kind] - before[kind] for kind in ("store_misses", "store_hits"))
    timing[part] = Timing(time.perf_counter() - started, len(found.queries), computed, kept)


def _cross_validate(
    lists: Sequence[RankedList], lengths: Sequence[int], folds: int, model: str, clusters: Clusters | None
) -> tuple[dict[int, UdcgTheta], dict[tuple[str, int], str]]:
    """Give every list its UDCGθ by a fit that has not seen its question; and fit one of all lists, for other data."""
    theta: dict[int, UdcgTheta] = {}
    reasons: dict[tuple[str, int], str] = {}
    for k in lengths:
        rows = [ranked for ranked in lists if ranked.k == k]
        scores, why = theta_scores(rows, folds, clusters=clusters)
        if why:
            reasons[THETA, k] = why
            continue
        for ranked, score in zip(rows, scores, strict=True):
            if score is not None:
                ranked.values[THETA] = score
        theta[k] = fit_theta(rows, generator=model)
    return theta, reasons


def _accuracy(rows: Sequence[RankedList], k: int) -> tuple[int, int, int]:
    own = [ranked for ranked in rows if ranked.k == k]
    return sum(ranked.right for ranked in own), sum(ranked.abstained for ranked in own), len(own)


def _notes(
    lists: Sequence[RankedList],
    lengths: Sequence[int],
    reasons: Mapping[tuple[str, int], str],
    chance: Estimate,
) -> list[str]:
    notes = []
    if any(ranked.k == 1 for ranked in lists):
        notes.append("at k = 1 eRAG's gain is the outcome itself: its correlation there is 1 by definition")
    if reasons:
        told = ", ".join(str(k) for _, k in reasons)
        notes.append(f"{THETA} is undefined at k = {told}: {next(iter(reasons.values()))}")
    thin = [k for k in lengths if sum(ranked.k == k for ranked in lists) < LISTS_A_WEIGHT * 2 * k]
    if thin:
        notes.append(
            f"{THETA} has fewer than {LISTS_A_WEIGHT} lists a weight at k = {', '.join(map(str, thin))}: what is low "
            "there may be the fit, not the metric"
        )
    if chance.value is not None:
        notes.append(
            f"{THETA} finds a mean ρ of {chance.value:+.3f} ({chance.low:+.3f} to {chance.high:+.3f} in {DEALS} deals) "
            "where every question has the answers of another one: what lies in there is chance, whatever its interval"
        )
    right = sum(ranked.right for ranked in lists)
    if min(right, len(lists) - right) < SCARCE * len(lists):
        notes.append(f"{right} of {len(lists)} answers are right: with so few of one kind every correlation is coarse")
    return notes


def _given(counts: Mapping[str, int]) -> list[str]:
    taken = counts["answers given"]
    told = "were given and not asked for: whether this generator wrote them, to this prompt, is not known here"
    return [f"{taken} answers {told}"] if taken else []


def _conversations(counts: Mapping[str, int]) -> list[str]:
    if "conversations" not in counts:
        return []
    return [
        f"the {counts['questions studied']} questions are of {counts['conversations']} conversations: intervals and "
        f"tests take conversations whole, and so do the folds of {THETA}"
    ]


def _hash(found: Found) -> str:
    """Hash questions, gold answers, judgements and what was found."""
    spelled = [
        [
            content(query),
            query.answers,
            sorted(found.dataset.qrels.get(query.id, {}).items()),
            [[passage.id for passage in own[query.id]] for own in found.passages.values()],
        ]
        for query in found.queries
    ]
    return hashlib.sha256(json.dumps(spelled).encode()).hexdigest()


def _settings(system: System) -> object:
    """Return what made a ranking, as far as it is known."""
    if isinstance(system, Mapping):
        return "a run"
    return getattr(system, "settings", type(system).__name__)
