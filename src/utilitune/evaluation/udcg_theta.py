"""UDCGθ: UDCG with learned positional weights (arXiv 2510.21440)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from utilitune.errors import DataError
from utilitune.evaluation.udcg import sigmoid

MEASURE = "UDCGtheta"
Utilities = Sequence[float | None]
Relevant = Sequence[bool | int | float | None]


@dataclass(frozen=True)
class UdcgTheta:
    """``σ(b + Σ_i α_i u_i⁺ + β_i u_i⁻)``: ``u⁺ = u`` if relevant, ``u⁻ = −u`` if irrelevant, else 0.

    One fit a list length and generator; the paper finds that it transfers across data sets.

    Attributes:
        bias: ``b``.
        relevant_weights: ``α``, one a rank.
        irrelevant_weights: ``β``, one a rank.
        n: Lists that it was fitted on.
        generator: What answered the questions, as a note.
    """

    bias: float
    relevant_weights: tuple[float, ...]
    irrelevant_weights: tuple[float, ...]
    n: int = 0
    generator: str = ""

    @property
    def k(self) -> int:
        """List length."""
        return len(self.relevant_weights)

    @classmethod
    def fit(
        cls,
        utilities: Sequence[Utilities],
        relevant: Sequence[Relevant],
        correct: Sequence[bool | int | float],
        *,
        k: int | None = None,
        strength: float = 1.0,
        generator: str = "",
    ) -> UdcgTheta:
        """Fit by L2-regularised logistic regression on whether the generator answered right.

        Args:
            utilities: One list of utilities in rank order a question.
            relevant: Labels in the same shape (positive = relevant).
            correct: 1 or true where the answer from that list was right.
            k: List length; the longest list when not given. Shorter lists are padded with nothing.
            strength: Inverse regularisation (scikit-learn's ``C``), > 0.
            generator: A note of what answered.

        Returns:
            The fitted measure.

        Raises:
            DataError: If the lengths differ, there is nothing to fit, or all answers are alike.
        """
        from sklearn.linear_model import LogisticRegression

        if not len(utilities) == len(relevant) == len(correct):
            raise DataError(
                f"{len(utilities)} utility lists, {len(relevant)} label lists, {len(correct)} answers; "
                "give one of each a question"
            )
        length = k if k is not None else max((len(row) for row in utilities), default=0)
        if length < 1:
            raise DataError("there are no passages to fit UDCGθ on")
        if not strength > 0:
            raise DataError(f"strength is {strength}; expected an inverse regularisation above 0")
        if odd := next((value for value in correct if not 0 <= float(value) <= 1), None):
            raise DataError(
                f"an answer is {odd} right; expected 0, 1 or a number between: leave out what has no answer"
            )
        target = [int(float(value) > 0.5) for value in correct]
        if len(set(target)) < 2:
            raise DataError(
                f"all {len(target)} answers are {'right' if target[0] else 'wrong'}; UDCGθ needs both kinds"
            )
        rows = [features(u, r, length) for u, r in zip(utilities, relevant, strict=True)]
        model = LogisticRegression(C=strength, max_iter=10_000, tol=1e-8).fit(rows, target)
        weights = [float(weight) for weight in model.coef_[0]]
        return cls(
            float(model.intercept_[0]),
            tuple(weights[:length]),
            tuple(weights[length:]),
            len(target),
            generator,
        )

    def __call__(self, utilities: Utilities, relevant: Relevant) -> float:
        """Score one ranked list.

        Args:
            utilities: Utilities in rank order, at most ``k``.
            relevant: Labels in the same order.

        Returns:
            A probability that the answer is right, in (0, 1); 0 for an empty list, as UDCG.

        Raises:
            DataError: If the list is longer than the fit.
        """
        if not utilities:
            return 0.0
        weights = (*self.relevant_weights, *self.irrelevant_weights)
        row = features(utilities, relevant, self.k)
        return sigmoid(self.bias + math.fsum(w * x for w, x in zip(weights, row, strict=True)))

    @property
    def sha256(self) -> str:
        """SHA-256 of the file that ``save`` writes, for manifests."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write the weights as JSON."""
        from utilitune.records import write_text

        write_text(Path(path), self._text())

    def _text(self) -> str:
        from utilitune.records.plain import encode

        return encode({"measure": MEASURE, **asdict(self)}, place="UDCGθ", indent=2) + "\n"

    @classmethod
    def load(cls, path: Path | str) -> UdcgTheta:
        """Read what ``save`` wrote.

        Args:
            path: The JSON file.

        Returns:
            The measure.

        Raises:
            DataError: If the file is not one of ours.
        """
        try:
            row = json.loads(Path(path).read_text(encoding="utf-8"))
            if row["measure"] != MEASURE:
                raise ValueError(f"measure {row['measure']!r}, expected {MEASURE!r}")
            alpha = tuple(float(weight) for weight in row["relevant_weights"])
            beta = tuple(float(weight) for weight in row["irrelevant_weights"])
            fitted = cls(float(row["bias"]), alpha, beta, int(row["n"]), str(row["generator"]))
            if not all(map(math.isfinite, (fitted.bias, *alpha, *beta))):
                raise ValueError("a weight that is no finite number")
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not a file that UdcgTheta.save wrote ({error!r})") from error
        if len(alpha) != len(beta) or not alpha:
            raise DataError(f"{path}: {len(alpha)} relevant and {len(beta)} irrelevant weights; expected k of each")
        return fitted


def features(utilities: Utilities, relevant: Relevant, k: int) -> list[float]:
    """Return the 2k inputs: ``u⁺`` at each rank, then ``u⁻`` at each rank; missing values and ranks are 0.

    Args:
        utilities: Utilities in rank order.
        relevant: Labels in the same order.
        k: Ranks.

    Returns:
        2k numbers.

    Raises:
        DataError: If the lists differ in length or are longer than ``k``.
    """
    if len(utilities) != len(relevant):
        raise DataError(f"{len(utilities)} utilities but {len(relevant)} labels; give one of each a passage")
    if len(utilities) > k:
        raise DataError(f"a list of {len(utilities)} passages, but UDCGθ has {k} positions; cut the list or fit again")
    row = [0.0] * (2 * k)
    for rank, (u, label) in enumerate(zip(utilities, relevant, strict=True)):
        if u is None or label is None or not math.isfinite(u) or not math.isfinite(label):
            continue
        row[rank if label > 0 else k + rank] = float(u) if label > 0 else -float(u)
    return row


udcg_theta = UdcgTheta
"""The public name: ``udcg_theta.fit(...)``, ``udcg_theta.load(path)``."""
