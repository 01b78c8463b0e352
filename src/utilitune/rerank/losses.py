"""Losses by name: which rows they eat, which targets they accept.

| loss | one row | targets | formula (t target, s score) |
|---|---|---|---|
| ``listwise-kl`` | query, [passages] | any finite | KL(softmax(t/tau_t) ‖ softmax(s/tau_s)) |
| ``listnet`` | query, [passages] | any finite | cross-entropy of the same, both tau 1 |
| ``ranknet`` | query, [passages] | any finite | log2(1 + exp(-(s_i - s_j))) where t_i > t_j |
| ``lambda`` | query, [passages] | [0, 1] | the same weighted by the change of nDCG, gain 2^t - 1 |
| ``bce`` | query, passage | [0, 1] | binary cross-entropy of sigmoid(s) |
| ``margin-mse`` | query, best passage, another | any finite | ((s_i - s_j) - (t_i - t_j))^2 |

All train on raw scores (identity activation); all but ``listwise-kl`` are sentence-transformers' own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from utilitune.errors import ConfigError
from utilitune.rerank.config import RerankerConfig
from utilitune.rerank.groups import Groups

Layout = Literal["pairs", "lists", "margins"]

SHARPER = 0.25  # default temperature of targets within [0, 1]


@dataclass(frozen=True)
class Loss:
    """What one loss needs.

    Attributes:
        layout: ``pairs`` (query, passage, number), ``lists`` (query, passages, numbers) or ``margins``
            (query, two passages, difference).
        low: Smallest target that it accepts.
        high: Largest target that it accepts.
        build: ``(CrossEncoder, target temperature, score temperature) -> torch module``.
    """

    layout: Layout
    low: float
    high: float
    build: Callable[[Any, float, float], Any]


def _bce(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    del target_temperature, score_temperature
    return BinaryCrossEntropyLoss(model)


def _listwise_kl(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from utilitune.rerank.listwise_kl import ListwiseKlLoss

    return ListwiseKlLoss(model, target_temperature, score_temperature)


def _listnet(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from sentence_transformers.cross_encoder.losses import ListNetLoss

    del target_temperature, score_temperature
    return ListNetLoss(model, mini_batch_size=-1)


def _ranknet(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from sentence_transformers.cross_encoder.losses import RankNetLoss

    del target_temperature, score_temperature
    return RankNetLoss(model, mini_batch_size=-1)


def _lambda(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    del target_temperature, score_temperature
    return LambdaLoss(model, mini_batch_size=-1)


def _margin_mse(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from sentence_transformers.cross_encoder.losses import MarginMSELoss

    del target_temperature, score_temperature
    return MarginMSELoss(model)


LOSSES: dict[str, Loss] = {
    "listwise-kl": Loss("lists", -math.inf, math.inf, _listwise_kl),
    "listnet": Loss("lists", -math.inf, math.inf, _listnet),
    "ranknet": Loss("lists", -math.inf, math.inf, _ranknet),
    "lambda": Loss("lists", 0.0, 1.0, _lambda),
    "bce": Loss("pairs", 0.0, 1.0, _bce),
    "margin-mse": Loss("margins", -math.inf, math.inf, _margin_mse),
}


def fit_targets(groups: Groups, config: RerankerConfig) -> Groups:
    """Rescale if the configuration says so, then hold the targets against what the loss accepts.

    Args:
        groups: Training or dev groups.
        config: Names loss and rule.

    Returns:
        The groups to train on.

    Raises:
        ConfigError: If targets are out of the loss's range, all equal within every query, or would be put
            through a softmax twice.
    """
    if config.rescale is not None:
        groups = groups.rescaled(config.rescale, config.rescale_temperature)
    loss = LOSSES[config.loss]
    if groups.rule == "softmax" and config.loss in ("listwise-kl", "listnet"):
        raise ConfigError(
            f"loss {config.loss!r} takes a softmax of its targets, and these went through one already; "
            "use rescale: z-score or min-max (and target_temperature to sharpen)"
        )
    targets = [target for group in groups for target in group.targets]
    low, high = min(targets), max(targets)
    # A NaN compares false with everything, so the test is for being inside.
    if not all(math.isfinite(target) and loss.low <= target <= loss.high for target in targets):
        raise ConfigError(
            f"loss {config.loss!r} needs finite targets within [{loss.low:g}, {loss.high:g}], these lie "
            f"within [{low:g}, {high:g}] (rule {groups.rule!r}); set rescale: min-max or rank"
        )
    if all(max(group.targets) == min(group.targets) for group in groups):
        raise ConfigError(
            f"all targets are equal within each of the {len(groups)} queries: there is nothing to learn; "
            "label another utility, or more candidates a query"
        )
    return groups


def temperatures(groups: Groups, config: RerankerConfig) -> tuple[float, float]:
    """Return the temperatures of targets and scores.

    Args:
        groups: Training groups with their final targets.
        config: Its ``target_temperature`` wins; otherwise 0.25 for targets within [0, 1], 1 for wider ones.

    Returns:
        ``(target temperature, score temperature)``.
    """
    if config.target_temperature is not None:
        return config.target_temperature, config.score_temperature
    narrow = all(0 <= target <= 1 for group in groups for target in group.targets)
    return (SHARPER if narrow else 1.0), config.score_temperature


def rows(groups: Iterable[Any], layout: Layout) -> dict[str, list[Any]]:
    """Lay groups out as training columns.

    Args:
        groups: Groups whose texts are final (trimmed).
        layout: As ``Loss.layout``. ``margins`` sets the best passage of a query against each worse one.

    Returns:
        Columns in the order that the loss expects; numbers are floats (``label`` last).
    """
    columns: dict[str, list[Any]]
    if layout == "lists":
        return {
            "query": [group.query for group in groups],
            "passages": [list(group.passages) for group in groups],
            "label": [[float(target) for target in group.targets] for group in groups],
        }
    if layout == "pairs":
        columns = {"query": [], "passage": [], "label": []}
        for group in groups:
            for passage, target in zip(group.passages, group.targets, strict=True):
                columns["query"].append(group.query)
                columns["passage"].append(passage)
                columns["label"].append(float(target))
        return columns
    columns = {"query": [], "better": [], "worse": [], "label": []}
    for group in groups:
        best = max(range(group.size), key=group.targets.__getitem__)
        for index in range(group.size):
            margin = group.targets[best] - group.targets[index]
            if margin > 0:
                columns["query"].append(group.query)
                columns["better"].append(group.passages[best])
                columns["worse"].append(group.passages[index])
                columns["label"].append(float(margin))
    return columns
