"""A loss that is not a number stops the run and names its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable

from utilitune.errors import DataError


def check_finite(loss: float, step: int, query_ids: Iterable[str]) -> None:
    """Refuse a loss that is not finite.

    Args:
        loss: Loss of a batch.
        step: Its optimiser step, from 1.
        query_ids: Questions of the batch.

    Raises:
        DataError: Naming the questions.
    """
    if not math.isfinite(loss):
        names = ", ".join(dict.fromkeys(query_ids))
        raise DataError(
            f"the loss is {loss} at step {step}, in the batch of the questions {names}; look at these rows, or lower lr"
        )
