"""One reply of a judge: two answers, one order, one dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from utilitune.records.fields import id_field, optional_number, required, shown, text_field
from utilitune.records.problem import RowError
from utilitune.records.rows import read_records, write_rows

Order = Literal["ab", "ba"]
Verdict = Literal["a", "b", "tie"]
Outcome = Literal["ok", "unparsed", "failed"]
ORDERS: tuple[Order, Order] = ("ab", "ba")


@dataclass(frozen=True)
class Judgement:
    """One row of ``judgements.jsonl``.

    Attributes:
        query_id: The question.
        system_a: Name of one system.
        system_b: Name of the other.
        order: ``"ab"`` when ``system_a``'s answer was shown first, ``"ba"`` when second.
        dimension: What was judged.
        verdict: The better one of the *systems*, ``None`` unless ``status`` is ``"ok"``.
        status: ``"ok"``; ``"unparsed"`` (a reply without a verdict, after all attempts); ``"failed"`` (no reply).
        raw: The last reply, or why there is none.
        attempts: How often the judge was asked.
        p_a: Probability that ``system_a`` is the better one, of the two letters alone; ``None`` for a written verdict.
        mass: Probability of both letters together: how much the judge answers in letters at all.
        truncated: Whether the answers were shortened to fit the judge's window.
    """

    query_id: str
    system_a: str
    system_b: str
    order: Order
    dimension: str
    verdict: Verdict | None
    status: Outcome = "ok"
    raw: str = ""
    attempts: int = 1
    p_a: float | None = None
    mass: float | None = None
    truncated: bool = False

    @property
    def first_won(self) -> bool:
        """Whether the answer that was shown first won."""
        return self.verdict == self.order[0]


def write_judgements(path: Path | str, judgements: Iterable[Judgement]) -> int:
    """Write judgements, atomically.

    Args:
        path: JSONL, ``.gz`` or Parquet.
        judgements: Judgements.

    Returns:
        The number of rows.
    """
    return write_rows(path, map(asdict, judgements))


def read_judgements(path: Path | str) -> list[Judgement]:
    """Read judgements.

    Args:
        path: JSONL, gzipped JSONL or Parquet.

    Returns:
        Judgements in file order.

    Raises:
        DataError: If a row is not as documented; lists the first ones as file:line.
    """
    return [judgement for _, judgement in read_records(path, parse_judgement)]


def parse_judgement(row: Mapping[str, Any]) -> Judgement:
    """Make a judgement of a row; all fields after ``verdict`` may be missing.

    Args:
        row: The row.

    Returns:
        The judgement.

    Raises:
        RowError: If a field is missing or of the wrong kind, or verdict and status contradict each other.
    """
    verdict = row.get("verdict")
    status = row.get("status") or ("ok" if verdict is not None else "unparsed")
    _one_of(row.get("order"), ORDERS, "order")
    _one_of(status, ("ok", "unparsed", "failed"), "status")
    if verdict is not None:
        _one_of(verdict, ("a", "b", "tie"), "verdict")
    if (verdict is not None) != (status == "ok"):
        raise RowError(f"'verdict' is {shown(verdict)} with status {status!r}; expected a verdict exactly where 'ok'")
    p_a = optional_number(row, "p_a")
    if p_a is not None and not 0 <= p_a <= 1:
        raise RowError(f"'p_a' is {p_a}; expected a probability")
    return Judgement(
        query_id=id_field(row, "query_id"),
        system_a=text_field(row, "system_a"),
        system_b=text_field(row, "system_b"),
        order=cast(Order, required(row, "order")),
        dimension=text_field(row, "dimension"),
        verdict=cast("Verdict | None", verdict),
        status=cast(Outcome, status),
        raw=str(row.get("raw") or ""),
        attempts=int(optional_number(row, "attempts") or 1),
        p_a=p_a,
        mass=optional_number(row, "mass"),
        truncated=bool(row.get("truncated")),
    )


def _one_of(value: object, known: tuple[str, ...], name: str) -> None:
    if value not in known:
        raise RowError(f"{name!r} is {shown(value)}; expected one of {', '.join(known)}")
