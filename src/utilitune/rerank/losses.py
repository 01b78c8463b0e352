"""Losses by name: which rows they eat, which targets they accept, what they do to a score.

All train on raw scores (identity activation), and the identity is what is saved: a sigmoid or softmax that a loss
needs is inside it. All but ``listwise-kl`` and ``udcg`` are sentence-transformers' own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from utilitune.errors import ConfigError
from utilitune.progress import warn
from utilitune.rerank.config import RerankerConfig
from utilitune.rerank.groups import Groups

Layout = Literal["pairs", "lists", "margins"]
Build = Callable[[Any, float, float], Any]

SHARPER = 0.25  # default temperature of targets within [0, 1]
TIE_WARNING = 0.1  # share of the candidates


@dataclass(frozen=True)
class Loss:
    """What one loss needs.

    Attributes:
        layout: ``pairs`` (query, passage, number), ``lists`` (query, passages, numbers) or ``margins``
            (query, two passages, difference).
        low: Smallest target that it accepts.
        high: Largest target that it accepts.
        rule: Rescaling rule that suits it, a name in ``RESCALES``.
        inside: What it does to the raw scores, itself.
        learnt: What a trained score means.
        formula: Of one query; t target, s score. Sums run over pairs with t_i > t_j, r over ranks by falling
            t, b is the best.
        build: ``(CrossEncoder, target temperature, score temperature) -> torch module``.
        softmax_of_targets: Whether it takes a softmax of the targets itself.
        signed: Whether its targets must be signed utilities (``build_groups(relevance=...)``).
        ranks_ties: Whether it learns an order even among equal targets: that of the candidates.
    """

    layout: Layout
    low: float
    high: float
    rule: str
    inside: str
    learnt: str
    formula: str
    build: Build
    softmax_of_targets: bool = False
    signed: bool = False
    ranks_ties: bool = False


def _theirs(name: str, options: Mapping[str, Any] | None = None) -> Build:
    """Return a builder of one of sentence-transformers' losses."""

    def build(model: Any, target_temperature: float, score_temperature: float) -> Any:
        from sentence_transformers.cross_encoder import losses

        del target_temperature, score_temperature
        return getattr(losses, name)(model, **(options or {}))

    return build


def _listwise_kl(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from utilitune.rerank.listwise_kl import ListwiseKlLoss

    return ListwiseKlLoss(model, target_temperature, score_temperature)


def _udcg(model: Any, target_temperature: float, score_temperature: float) -> Any:
    from utilitune.rerank.udcg_loss import UdcgLoss

    del target_temperature, score_temperature
    return UdcgLoss(model)


_WHOLE = {"mini_batch_size": -1}  # one forward pass for all pairs of a step
_INF = math.inf
_SOFTMAX = ("softmax over the query", "log-odds between two passages")
_ORDER = ("sigmoid of differences", "order within a query")

LOSSES: dict[str, Loss] = {
    "listwise-kl": Loss(
        "lists", -_INF, _INF, "z-score", *_SOFTMAX, "KL(softmax(t/τ_t) ‖ softmax(s/τ_s))", _listwise_kl, True
    ),
    "listnet": Loss(
        "lists",
        -_INF,
        _INF,
        "z-score",
        *_SOFTMAX,
        "−Σ softmax(t) ln softmax(s)",
        _theirs("ListNetLoss", _WHOLE),
        True,
    ),
    "list-mle": Loss(
        "lists",
        -_INF,
        _INF,
        "rank",
        "softmax over what is left",
        "order within a query",
        "−Σ_r ln(e^{s_r} / Σ_{i ≥ r} e^{s_i})",
        # By default it takes the passages to come sorted by their labels.
        _theirs("ListMLELoss", {**_WHOLE, "respect_input_order": False}),
        ranks_ties=True,
    ),
    "ranknet": Loss(
        "lists",
        -_INF,
        _INF,
        "none",
        *_ORDER,
        "Σ log2(1 + e^{s_j − s_i})",
        _theirs("RankNetLoss", _WHOLE),
    ),
    "lambda": Loss(
        "lists",
        0.0,
        1.0,
        "min-max",
        *_ORDER,
        "Σ ΔnDCG(i, j) log2(1 + e^{s_j − s_i})",
        _theirs("LambdaLoss", _WHOLE),
    ),
    "udcg": Loss("lists", -1.0, 1.0, "none", *_ORDER, "Σ (t_i − t_j) log2(1 + e^{s_j − s_i})", _udcg, signed=True),
    "bce": Loss(
        "pairs",
        0.0,
        1.0,
        "min-max",
        "sigmoid",
        "log-odds of the target",
        "−t ln σ(s) − (1 − t) ln(1 − σ(s))",
        _theirs("BinaryCrossEntropyLoss"),
    ),
    "mse": Loss("pairs", -_INF, _INF, "z-score", "nothing", "the target", "(s − t)²", _theirs("MSELoss")),
    "margin-mse": Loss(
        "margins",
        -_INF,
        _INF,
        "z-score",
        "nothing",
        "the target, but for a constant",
        "((s_b − s_j) − (t_b − t_j))²",
        _theirs("MarginMSELoss"),
    ),
}


def loss_table() -> str:
    """Return the losses as a Markdown table, for the documentation."""
    lines = [
        "| loss | one row | targets | rescale | on the score | a trained score is | formula |",
        "|---|---|---|---|---|---|---|",
    ]
    rows_of = {"lists": "query, [passages]", "pairs": "query, passage", "margins": "query, best, another"}
    for name, loss in LOSSES.items():
        span = "any finite" if math.isinf(loss.high) else f"[{loss.low:g}, {loss.high:g}]"
        targets = f"signed, {span}" if loss.signed else span
        cells = (rows_of[loss.layout], targets, f"`{loss.rule}`", loss.inside, loss.learnt, f"`{loss.formula}`")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def build_loss(name: str, model: Any, target_temperature: float = 1.0, score_temperature: float = 1.0) -> Any:
    """Make the loss module of a training, and see that nothing but the loss bends the scores.

    A sigmoid before a listwise or squared error flattens its gradient and saturates: sentence-transformers would
    put its default there without a word.

    Args:
        name: A name in ``LOSSES``.
        model: A ``CrossEncoder``.
        target_temperature: tau of the targets in ``listwise-kl``.
        score_temperature: tau of the scores in ``listwise-kl``.

    Returns:
        A torch module for ``CrossEncoderTrainer``.

    Raises:
        ConfigError: If the model has another number of outputs than one, or an activation other than the identity
            lies between model and loss.
    """
    from torch import nn

    if model.num_labels != 1:
        raise ConfigError(f"the model has {model.num_labels} outputs; loss {name!r} needs 1 (utilities are one number)")
    made = LOSSES[name].build(model, target_temperature, score_temperature)
    for owner, activation in (
        ("the model", model.activation_fn),
        ("the loss", getattr(made, "activation_fn", model.activation_fn)),
    ):
        if not isinstance(activation, nn.Identity):
            raise ConfigError(
                f"{owner} has the activation {type(activation).__name__}; loss {name!r} trains on raw scores "
                f"({LOSSES[name].inside} inside it): set activation_fn to torch.nn.Identity()"
            )
    return made


def fit_targets(groups: Groups, config: RerankerConfig) -> Groups:
    """Rescale if the configuration says so, then hold the targets against what the loss accepts.

    Args:
        groups: Training or dev groups.
        config: Names loss and rule.

    Returns:
        The groups to train on.

    Raises:
        ConfigError: If targets are out of the loss's range, all equal within every query, not signed where
            the loss needs it, or would be put through a softmax twice.
    """
    if config.rescale is not None:
        groups = groups.rescaled(config.rescale, config.rescale_temperature)
    loss = LOSSES[config.loss]
    if loss.signed and (groups.relevance is None or groups.rule != "none"):
        raise ConfigError(
            f"loss {config.loss!r} needs to know what helps and what distracts: build the groups with relevance "
            f"(gold, answer or a utility's name), and train with rescale: none (found rule {groups.rule!r}, relevance "
            f"{groups.relevance and groups.relevance.source!r})"
        )
    if groups.rule == "softmax" and loss.softmax_of_targets:
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
            f"within [{low:g}, {high:g}] (rule {groups.rule!r}); set rescale: {loss.rule}"
        )
    if all(max(group.targets) == min(group.targets) for group in groups):
        raise ConfigError(
            f"all targets are equal within each of the {len(groups)} queries: there is nothing to learn; "
            "label another utility, or more candidates a query"
        )
    if loss.ranks_ties:
        tied = sum(count for group in groups for count in Counter(group.targets).values() if count > 1)
        if tied > TIE_WARNING * groups.pairs:
            warn(
                f"loss {config.loss!r} ranks even equal targets, and {tied} of {groups.pairs} candidates "
                "tie with another of their query; ranknet or listwise-kl leave ties alone"
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
