"""What the k likeliest tokens tell of an entropy: an interval, never a number."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, isfinite, log

# Servers write -9999 where they mean minus infinity.
FLOOR = -9000.0
# Rounding of a few bfloat16 log-probabilities; more than that are no log-probabilities at temperature 1.
_EXCESS = 0.02


def entropy_interval(logprobs: Sequence[float], vocabulary: int) -> tuple[float, float, float]:
    """Bound the entropy of a distribution of which some log-probabilities are known.

    With P = sum p_i over the known tokens and r = 1 - P spread over the V - k others, in nats:
    lower = -sum p_i ln p_i - r ln r (all of the rest on one token);
    upper = -sum p_i ln p_i + r ln((V - k) / r) (the rest spread evenly); 0 ln 0 = 0.

    Args:
        logprobs: ln p of different tokens; minus infinity (or a server's -9999) counts as known with p = 0.
        vocabulary: V, the number of tokens of the model.

    Returns:
        Lower bound, upper bound and P, the covered mass in [0, 1].

    Raises:
        ValueError: When the numbers are no log-probabilities: positive, NaN, or of a mass above 1.
    """
    if any(each != each or each > 1e-3 for each in logprobs):
        raise ValueError("the server's log-probabilities hold NaN or a positive number")
    known = [exp(each) if isfinite(each) and each > FLOOR else 0.0 for each in logprobs]
    mass = fsum(known)
    if mass > 1 + _EXCESS:
        raise ValueError(f"the server's top log-probabilities sum to a mass of {mass:.3f}, at most 1 is possible")
    mass = min(mass, 1.0)
    rest, others = 1.0 - mass, vocabulary - len(known)
    inside = fsum(_nats(each) for each in known)
    lower = inside + _nats(rest)
    upper = inside + (rest * log(others / rest) if rest > 0 and others > 0 else 0.0)
    # Where one token is left both bounds are one number, up to rounding.
    return lower, max(lower, upper), mass


def _nats(p: float) -> float:
    return -p * log(p) if p > 0 else 0.0
