"""Calibration of a trained reranker: its logits as the chance that a passage helps, and the logit to stop at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utilitune.errors import ConfigError, DataError
from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.platt import fit_temperature, probability
from utilitune.rerank.relevance import GAMMA
from utilitune.rerank.threshold import Threshold, choose_threshold

if TYPE_CHECKING:
    from utilitune.rerank.reranker import UtilityReranker

CALIBRATION_FILE = "calibration.json"


@dataclass(frozen=True)
class Calibration:
    """What was fitted on held-out labels.

    Attributes:
        temperature: Of the logits, > 0.
        shift: Logit that stands for an even chance.
        threshold: The score to stop at, and what it does.
        targets: What the probability is of: label sets, ``helps_above``, relevance, gamma.
        pairs: (query, passage) pairs that it was fitted on.
        queries: Their queries.
        base_rate: Mean target.
        cross_entropy: Mean, in nats, after calibration.
        cross_entropy_raw: With a sigmoid on the raw logits.
        cross_entropy_base: With the base rate everywhere: what a reranker that knows nothing gets.
        left_out: Counts: queries it was trained on, others of their conversations, scores that were not finite.
    """

    temperature: float
    shift: float
    threshold: Threshold
    targets: dict[str, Any]
    pairs: int
    queries: int
    base_rate: float
    cross_entropy: float
    cross_entropy_raw: float
    cross_entropy_base: float
    left_out: dict[str, int]

    def probability(self, score: float) -> float:
        """Return the chance that a passage of this logit helps.

        Args:
            score: A logit; NaN gives NaN.

        Returns:
            ``sigmoid((score - shift) / temperature)``, in [0, 1], in double precision.
        """
        return probability((score - self.shift) / self.temperature)

    def score(self, probability: float) -> float:
        """Return the logit that stands for a chance, to stop at.

        Args:
            probability: Within (0, 1).

        Returns:
            A logit.

        Raises:
            ConfigError: If it is not within (0, 1).
        """
        if not 0 < probability < 1:
            raise ConfigError(f"a probability is {probability}; it must lie within (0, 1)")
        return self.shift + self.temperature * math.log(probability / (1 - probability))

    def save(self, folder: Path | str) -> None:
        """Write ``calibration.json`` into the reranker's folder."""
        from utilitune.records import manifest, write_json

        write_json(Path(folder) / CALIBRATION_FILE, {**asdict(self), "manifest": manifest()})


def read_calibration(folder: Path | str) -> Calibration | None:
    """Read ``calibration.json`` of a reranker's folder.

    Args:
        folder: The folder.

    Returns:
        The calibration, ``None`` if there is none.

    Raises:
        DataError: If the file is not as ``Calibration.save`` writes it.
    """
    from utilitune.records import read_json

    path = Path(folder) / CALIBRATION_FILE
    if not path.is_file():
        return None
    try:
        document = dict(read_json(path))
        document.pop("manifest", None)
        made = Calibration(**{**document, "threshold": Threshold(**document["threshold"])})
        if not (made.temperature > 0 and math.isfinite(made.temperature) and math.isfinite(made.shift)):
            raise ValueError(f"temperature {made.temperature}, shift {made.shift}")
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is no calibration ({error}); write it anew with `utilitune calibrate`") from error
    return made


def calibrate(
    reranker: UtilityReranker,
    groups: Groups | Sequence[Group],
    *,
    helps_above: float | None = None,
    k: int = 5,
    gamma: float = GAMMA,
    trained_on: frozenset[str] = frozenset(),
    conversations: Mapping[str, str] | None = None,
) -> Calibration:
    """Fit temperature and threshold of a reranker on labels that it did not learn from.

    The target of a pair is what the utility says of "helps": with signed utilities u where relevant, else 0;
    with ``helps_above`` 1 above it, else 0; otherwise the utility itself, which must lie within [0, 1]. Its
    worth, which the threshold adds up, is UDCG's summand: the signed utility, or ``t - gamma (1 - t)``.

    Args:
        reranker: The trained reranker.
        groups: Of ``build_groups(..., keep_flat=True, near_duplicate=None)``: queries whose passages are all
            alike say most about abstaining.
        helps_above: Utility above which a passage helps, for utilities that are no probabilities (a gain: 0).
        k: Passages a query that the generator is shown at most, >= 1.
        gamma: Weight of distraction in [0, 1]; of signed utilities their own counts.
        trained_on: Ids of queries to leave out.
        conversations: Query id -> conversation (``rerank.conversations.find_conversations``), to leave out whole
            conversations of ``trained_on``; ``None`` where every query stands for itself.

    Returns:
        The calibration; ``save`` puts it into the reranker's folder.

    Raises:
        ConfigError: If ``k`` or ``gamma`` is out of range, or ``helps_above`` is given with signed utilities.
        DataError: If no query is left, utilities lie outside [0, 1] without ``helps_above``, or scores do not
            rise with the targets.
    """
    relevance = groups.relevance if isinstance(groups, Groups) else None
    _check(helps_above, k, gamma, signed=relevance is not None)
    held_out, left_out = _held_out(groups, trained_on, conversations or {})
    flat = iter(reranker.score_pairs([(group.query, passage) for group in held_out for passage in group.passages]))
    rows = [[(next(flat), utility) for utility in group.utilities] for group in held_out]
    finite = [[(score, utility) for score, utility in row if math.isfinite(score)] for row in rows]
    scores = [[score for score, _ in row] for row in finite]
    targets = [[_target(utility, helps_above, relevance is not None) for _, utility in row] for row in finite]
    own_gamma = gamma if relevance is None else relevance.gamma
    worths = [
        [utility if relevance else t - own_gamma * (1 - t) for (_, utility), t in zip(row, wanted, strict=True)]
        for row, wanted in zip(finite, targets, strict=True)
    ]
    all_scores, all_targets = _flat(scores), _flat(targets)
    temperature, shift = fit_temperature(all_scores, all_targets)
    base_rate = float(np.mean(all_targets))
    return Calibration(
        temperature=temperature,
        shift=shift,
        threshold=choose_threshold(scores, worths, k, [group.conversation or group.query_id for group in held_out]),
        targets={
            **(groups.account() if isinstance(groups, Groups) else {}),
            "helps_above": helps_above,
            "gamma": own_gamma,
        },
        pairs=len(all_scores),
        queries=len(held_out),
        base_rate=base_rate,
        cross_entropy=_cross_entropy([(score - shift) / temperature for score in all_scores], all_targets),
        cross_entropy_raw=_cross_entropy(all_scores, all_targets),
        cross_entropy_base=_cross_entropy([math.log(base_rate / (1 - base_rate))] * len(all_targets), all_targets),
        left_out={
            **left_out,
            "scores that are not finite": sum(map(len, rows)) - len(all_scores),
        },
    )


def _held_out(
    groups: Sequence[Group], trained_on: frozenset[str], conversations: Mapping[str, str]
) -> tuple[list[Group], dict[str, int]]:
    """Return the groups whose query, and whose conversation, was not trained on, and counts of the others."""
    others = [group for group in groups if group.query_id not in trained_on]
    known = {conversations[query_id] for query_id in trained_on if query_id in conversations}
    held_out = [group for group in others if conversations.get(group.query_id) not in known]
    counts = {
        "queries that it was trained on": len(groups) - len(others),
        "queries of the same conversations": len(others) - len(held_out),
    }
    if not held_out:
        found = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        raise DataError(f"none of the {len(groups)} labelled queries is held out ({found}); label others")
    return held_out, counts


def _check(helps_above: float | None, k: int, gamma: float, *, signed: bool) -> None:
    if k < 1:
        raise ConfigError(f"k is {k}; the generator is shown at least 1 passage")
    if not 0 <= gamma <= 1:
        raise ConfigError(f"gamma is {gamma}; the weight of distraction lies within [0, 1] (UDCG: 1/3)")
    if signed and helps_above is not None:
        raise ConfigError("helps_above with relevance: relevance says what helps; give one of them")


def _target(utility: float, helps_above: float | None, signed: bool) -> float:
    if signed:
        return max(utility, 0.0)
    if helps_above is not None:
        return float(utility > helps_above)
    if not 0 <= utility <= 1:
        raise DataError(
            f"a utility is {utility:g}, no probability within [0, 1]; say from where on a passage helps with "
            "helps_above (a gain: 0)"
        )
    return utility


def _flat(rows: Sequence[Sequence[float]]) -> list[float]:
    return [value for row in rows for value in row]


def _cross_entropy(logits: Sequence[float], targets: Sequence[float]) -> float:
    raw, wanted = np.asarray(logits), np.asarray(targets)
    return float(np.mean(np.logaddexp(0.0, raw) - wanted * raw))
