"""From the lists of a study to what each metric is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from utilitune.evaluation.study.correlation.metrics import BASELINES
from utilitune.evaluation.study.correlation.rank import DIGITS, Draws, Floats, Sampled, estimate
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.study.correlation.study import Correlation, Versus

_NOTHING: Floats = np.full(1, np.nan)


def correlate(
    lists: Sequence[RankedList],
    metrics: Sequence[str],
    ks: Sequence[int],
    system: str,
    numbers: Mapping[str, int],
    draws: Draws,
    reasons: Mapping[tuple[str, int], str],
) -> list[Correlation]:
    """Correlate every metric with right or wrong at every list length, and on average over the lengths.

    Args:
        lists: The lists of one block.
        metrics: Metric names.
        ks: List lengths.
        system: Name of the block.
        numbers: Question -> its number in ``draws``.
        draws: The draws of all questions of the study.
        reasons: (metric, k) -> why the metric has no number there, where that is known.

    Returns:
        One correlation a metric and length, then one for the mean.
    """
    by_length = {k: [ranked for ranked in lists if ranked.k == k] for k in ks}
    sampler = _Sampler(numbers, draws)
    found: list[Correlation] = []
    for metric in metrics:
        own: list[Correlation] = []
        sampled: dict[int, Sampled] = {}
        pairs: dict[str, dict[int, tuple[Floats, Floats]]] = {base: {} for base in BASELINES if base != metric}
        for k, rows in by_length.items():
            kept = [ranked for ranked in rows if metric in ranked.values]
            sampled[k] = sampler(kept, metric)
            for base, lengths in pairs.items():
                common = [ranked for ranked in kept if base in ranked.values]
                lengths[k] = sampler(common, metric).spearman, sampler(common, base).spearman
            own.append(
                Correlation(
                    metric=metric,
                    system=system,
                    k=k,
                    n=len(kept),
                    questions=len({ranked.query_id for ranked in kept}),
                    right=sum(ranked.right for ranked in kept),
                    spearman=estimate(sampled[k].spearman),
                    kendall=estimate(sampled[k].kendall),
                    versus={base: _versus(*lengths[k]) for base, lengths in pairs.items()},
                    undefined=reasons.get((metric, k)) or undefined(kept, metric),
                    lengths=(k,) if np.isfinite(sampled[k].spearman[0]) else (),
                )
            )
        found += [*own, _mean(own, sampled, pairs)]
    return found


def undefined(kept: Sequence[RankedList], metric: str) -> str:
    """Say why a correlation is undefined; empty where it is not.

    Args:
        kept: Lists that have the metric.
        metric: Its name.

    Returns:
        ``no list has a number``, ``every answer is right``, ``every answer is wrong``, ``the metric is constant``,
        or nothing.
    """
    if not kept:
        return "no list has a number"
    right = sum(ranked.right for ranked in kept)
    if right in (0, len(kept)):
        return f"every answer is {'right' if right else 'wrong'}"
    values = {round(ranked.values[metric], DIGITS) for ranked in kept}
    return "the metric is constant" if len(values) == 1 else ""


class _Sampler:
    """Correlates a metric over some lists, the same ones once."""

    def __init__(self, numbers: Mapping[str, int], draws: Draws) -> None:
        self._numbers, self._draws = numbers, draws
        self._known: dict[tuple[str, tuple[int, ...]], Sampled] = {}

    def __call__(self, kept: Sequence[RankedList], metric: str) -> Sampled:
        key = metric, tuple(map(id, kept))
        if key not in self._known:
            self._known[key] = self._draws.correlate(
                [ranked.values[metric] for ranked in kept],
                [ranked.right for ranked in kept],
                [self._numbers[ranked.query_id] for ranked in kept],
            )
        return self._known[key]


def _mean(
    own: Sequence[Correlation],
    sampled: Mapping[int, Sampled],
    pairs: Mapping[str, Mapping[int, tuple[Floats, Floats]]],
) -> Correlation:
    """Average over the list lengths at which the metric has a number, draw by draw."""
    lengths = tuple(k for each in own for k in each.lengths)
    reasons = dict.fromkeys(each.undefined for each in own if each.undefined)
    return Correlation(
        metric=own[0].metric,
        system=own[0].system,
        k=None,
        n=sum(each.n for each in own),
        questions=max(each.questions for each in own),
        right=sum(each.right for each in own),
        spearman=estimate(_average([sampled[k].spearman for k in lengths])),
        kendall=estimate(_average([sampled[k].kendall for k in lengths])),
        versus={base: _mean_versus(by_length) for base, by_length in pairs.items()},
        undefined="" if lengths else "; ".join(reasons),
        lengths=lengths,
    )


def _mean_versus(by_length: Mapping[int, tuple[Floats, Floats]]) -> Versus:
    both = [pair for pair in by_length.values() if np.isfinite(pair[0][0]) and np.isfinite(pair[1][0])]
    return _versus(_average([mine for mine, _ in both]), _average([base for _, base in both]))


def _average(columns: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(columns, axis=0), dtype=np.float64) if columns else _NOTHING


def _versus(mine: Floats, base: Floats) -> Versus:
    difference = estimate(mine - base)
    least = estimate(base).low
    if difference.value is None or mine[0] <= 0 or least is None or least <= 0:
        return Versus(difference, None)
    return Versus(difference, float(mine[0] / base[0] - 1))
