"""How far an exported reranker says the same as the model it comes from: logits, order, nDCG."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

import numpy as np

from utilitune.evaluation import evaluate
from utilitune.records import Qrels, Run

MEASURE = "nDCG@10"


@dataclass(frozen=True)
class Agreement:
    """Comparison of two rerankings of the same candidates.

    Attributes:
        pairs: Candidates.
        queries: Queries.
        largest: Largest difference of a logit.
        average: Mean difference of a logit, sign dropped.
        spread: Standard deviation of the model's logits within a query, mean over queries: what a difference is to be
            seen against.
        kendall: Kendall's tau-b of the two orders, mean over the queries where it is defined; ``None`` for none.
        undefined: Queries without one: a single candidate, or equal logits throughout.
        same_top: Queries whose best passage is the same.
        ndcg: ``{n, before, after, difference, low, high}`` of nDCG@10 over the judged queries, the last two the ends of
            the 95 % bootstrap interval of the difference; ``None`` without judgements.
    """

    pairs: int
    queries: int
    largest: float
    average: float
    spread: float
    kendall: float | None
    undefined: int
    same_top: int
    ndcg: dict[str, float | int | None] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        return asdict(self)

    @property
    def reading(self) -> str:
        """The numbers in a line."""
        order = "tau undefined" if self.kendall is None else f"Kendall tau {self.kendall:.4f}"
        said = (
            f"logits within {self.largest:.2g} (spread in a query {self.spread:.2g}), {order}, "
            f"same best passage {self.same_top} of {self.queries}"
        )
        if self.ndcg is None or self.ndcg["difference"] is None:
            return f"{said}, {MEASURE} not measured (no judgements)"
        within = "" if self.ndcg["low"] is None else f" [{self.ndcg['low']:+.4f}, {self.ndcg['high']:+.4f}]"
        return f"{said}, {MEASURE} {self.ndcg['before']:.4f} ▶ {self.ndcg['after']:.4f}{within}"


def agreement(model: Run, exported: Run, qrels: Qrels) -> Agreement:
    """Compare two rerankings.

    Args:
        model: Logits of the torch model, best first; at least one candidate, all logits finite.
        exported: Logits of the exported one, for the same candidates.
        qrels: Judgements; queries without any play no part in nDCG.

    Returns:
        The comparison.
    """
    from scipy.stats import kendalltau  # type: ignore[import-untyped,unused-ignore]

    differences: list[float] = []
    spreads: list[float] = []
    taus: list[float] = []
    asked = {query_id: scored for query_id, scored in model.items() if scored}
    for query_id, scored in asked.items():
        others = dict(exported[query_id])
        first = np.asarray([score for _, score in scored])
        second = np.asarray([others[passage_id] for passage_id, _ in scored])
        differences += np.abs(first - second).tolist()
        spreads.append(float(first.std()))
        if len(set(first)) > 1 and len(set(second)) > 1:
            taus.append(float(kendalltau(first, second).statistic))
    return Agreement(
        pairs=len(differences),
        queries=len(asked),
        largest=max(differences),
        average=mean(differences),
        spread=mean(spreads),
        kendall=mean(taus) if taus else None,
        undefined=len(asked) - len(taus),
        same_top=sum(scored[0][0] == exported[query_id][0][0] for query_id, scored in asked.items()),
        ndcg=_ndcg(model, exported, qrels),
    )


def _ndcg(model: Run, exported: Run, qrels: Qrels) -> dict[str, float | int | None] | None:
    judged = {query_id: qrels[query_id] for query_id in model if any(g > 0 for g in qrels.get(query_id, {}).values())}
    if not judged:
        return None
    found = evaluate(judged, {"model": model, "exported": exported}, [MEASURE]).compare("model", "exported")[MEASURE]
    return {key: getattr(found, key) for key in ("n", "before", "after", "difference", "low", "high")}
