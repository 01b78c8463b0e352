"""The supervised yardstick of the reward: how high a candidate query ranks a passage that people judged relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utilitune.errors import ConfigError

GOLD_RANK = "gold-rank"
DEPTH = 100
"""How deep to look for a judged passage."""

Judgements = Mapping[str, Mapping[str, float]]


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, float]) -> float:
    """Return 1 / rank of the first relevant passage (grade > 0), 0.0 when there is none.

    As a reward of rewrites: RetPO (arXiv 2402.11827) prefers rewrites by the rank of the gold passage.
    """
    return next((1.0 / rank for rank, one in enumerate(ranking, start=1) if grades.get(one, 0.0) > 0), 0.0)


def check_judgements(qrels: Judgements | None, query_ids: Sequence[str]) -> Judgements:
    """Return the judgements that ``gold-rank`` needs.

    Args:
        qrels: Judgements by query id.
        query_ids: Questions of the candidates.

    Returns:
        The same judgements.

    Raises:
        ConfigError: When none of the questions is judged.
    """
    if not qrels or not any(qrels.get(query_id) for query_id in query_ids):
        raise ConfigError(
            f"reward {GOLD_RANK!r} needs judgements, and none of the {len(query_ids)} questions is judged; "
            "give qrels, or take a utility that needs none, such as information-gain"
        )
    return qrels
