"""UDCG as a word of ir-measures: ``UDCG@5`` in any of its calls, and in what builds on it (PyTerrier).

An ir-measures call knows judgements and a run, and nothing else. UDCG needs utilities and relevance, so both
travel in the judgements, in one of two forms:

* *signed utilities*, wherever ir-measures takes judgements: the grade of a passage is ``u`` where it is relevant and
  ``−u`` where it is not. ``signed_utilities`` makes them. Measures of pytrec_eval refuse fractional grades, so UDCG
  stands alone in such a call.
* a column ``utility`` beside ``relevance``, in a data frame or named tuples: any measure can stand in the same call.
  ``judged_utilities`` makes it.

Relevance judgements alone are refused: they would give a number that looks like UDCG and is not.

Importing this module makes the word known to ``ir_measures.parse_measure``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import ir_measures
from ir_measures.measures import Measure, ParamInfo, register, registry

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.ranking import ranking
from utilitune.evaluation.udcg import GAMMA, check_gamma, udcg
from utilitune.records.run import Qrels


class _UDCG(Measure):  # type: ignore[misc, unused-ignore]
    """UDCG over signed utilities (arXiv 2510.21440); the value of ``evaluate(…, ["UDCG@k"])``.

    Parameters: ``cutoff`` (ranks that count; the whole list unless given), ``gamma`` (weight of distraction, 1/3),
    ``raw`` (the mean before the sigmoid), ``rel`` (grade from which a passage is relevant, 1; beside a column
    ``utility`` only, a signed utility says it by its sign).
    """

    NAME = "UDCG"
    __name__ = "UDCG"
    PRETTY_NAME = "Utility and distraction"
    SHORT_DESC = "Utility of the relevant passages less the distraction of the others, in sigmoid form."
    SUPPORTED_PARAMS = {  # noqa: RUF012
        "cutoff": ParamInfo(dtype=int, required=False, desc="ranking cutoff threshold", default=None),
        "gamma": ParamInfo(dtype=float, default=GAMMA, desc="weight of distraction"),
        "raw": ParamInfo(dtype=bool, default=False, desc="the mean before the sigmoid"),
        "rel": ParamInfo(dtype=int, default=1, desc="minimum relevance score to be considered relevant (inclusive)"),
    }
    RUN_INPUTS = ("query_id", "doc_id", "score")
    QREL_INPUTS = ("query_id", "doc_id", "relevance")

    def __init__(self, **params: Any) -> None:
        """Take the parameters; a whole number is a weight too.

        Args:
            **params: ``cutoff``, ``gamma``, ``raw``, ``rel``.

        Raises:
            ConfigError: If ``gamma`` is not a finite number >= 0, or the cutoff below 1.
        """
        gamma, cutoff = params.get("gamma"), params.get("cutoff")
        if isinstance(gamma, int | float):
            check_gamma(gamma)
            params["gamma"] = float(gamma)
        if isinstance(cutoff, int) and cutoff < 1:
            raise ConfigError(f"UDCG@{cutoff}: expected a number of passages, at least 1")
        super().__init__(**params)

    def runtime_impl(self, qrels: Any, run: Any) -> Iterator[ir_measures.Metric]:
        """Score every query of the run that has signed utilities; ir-measures counts the others 0.

        Args:
            qrels: Data frame of ``query_id, doc_id, relevance``, the last one signed utilities, or with ``utility``.
            run: Data frame of ``query_id, doc_id, score``, in any order.

        Yields:
            One metric a query.
        """
        relevance = _by_query(qrels, "relevance")
        if "utility" in qrels.columns:
            signed = signed_utilities(_by_query(qrels, "utility"), relevance, relevant_from=self["rel"])
        else:
            signed = relevance
            _check_signed(signed)
        for query_id, scored in _by_query(run, "score").items():
            if query_id in signed:
                yield ir_measures.Metric(query_id, self, self._value(scored, signed[query_id]))

    def _value(self, scored: Mapping[str, float], signed: Mapping[str, float]) -> float:
        grades = [signed.get(passage_id) for passage_id, _ in ranking(list(scored.items()))[: self["cutoff"]]]
        utilities = [None if grade is None else abs(grade) for grade in grades]
        return udcg(utilities, [None if grade is None else grade > 0 for grade in grades], self["gamma"], self["raw"])


UDCG = _UDCG()
"""The measure: ``UDCG@5``, ``UDCG(gamma=0.5)@5``, ``UDCG(raw=True)@5``."""

if "UDCG" not in registry:
    register(UDCG)


def signed_utilities(
    utilities: Mapping[str, Mapping[str, float]], qrels: Qrels, *, relevant_from: float = 1.0
) -> dict[str, dict[str, float]]:
    """Return utilities and relevance as one table that ir-measures takes for judgements.

    Args:
        utilities: ``{query_id: {passage_id: u}}``, ``u`` in [0, 1], for instance ``Labels.table("abstention")``.
        qrels: Judgements; its queries are the ones that will be scored.
        relevant_from: Grade from which a passage is relevant; a passage without a judgement is not.

    Returns:
        ``{query_id: {passage_id: u or −u}}``. Where all are exactly 0, 1 or −1 the measure cannot tell them from
        judgements and refuses them: ``judged_utilities`` is the form for that, and for calls on parts. A judged passage
        without a utility stands at 0, which adds nothing to the sum, so that every judged query stays in the mean.
    """
    signed: dict[str, dict[str, float]] = {}
    for query_id, grades in qrels.items():
        own = {passage_id: 0.0 for passage_id in grades}
        for passage_id, utility in utilities.get(query_id, {}).items():
            if not math.isfinite(utility):
                continue
            own[passage_id] = utility if grades.get(passage_id, relevant_from - 1) >= relevant_from else -utility
        signed[query_id] = own
    return signed


def judged_utilities(utilities: Mapping[str, Mapping[str, float]], qrels: Qrels) -> Any:
    """Return judgements with a column ``utility``, for calls that hold other measures too.

    Args:
        utilities: As in ``signed_utilities``.
        qrels: Judgements, whole numbers where another measure of the call needs them so.

    Returns:
        A pandas data frame of ``query_id, doc_id, relevance, utility``. A passage without a judgement has relevance 0,
        one without a utility NaN.
    """
    from pandas import DataFrame  # type: ignore[import-untyped, unused-ignore]

    rows = []
    for query_id, grades in qrels.items():
        own = utilities.get(query_id, {})
        for passage_id in dict.fromkeys([*grades, *own]):
            grade = grades.get(passage_id, 0)
            whole = int(grade) if grade == int(grade) else grade
            rows.append((query_id, passage_id, whole, own.get(passage_id, math.nan)))
    return DataFrame(rows, columns=["query_id", "doc_id", "relevance", "utility"])


def _by_query(frame: Any, column: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for query_id, passage_id, value in zip(frame["query_id"], frame["doc_id"], frame[column], strict=True):
        found.setdefault(query_id, {})[passage_id] = float(value)
    return found


def _check_signed(signed: Mapping[str, Mapping[str, float]]) -> None:
    grades = [grade for own in signed.values() for grade in own.values()]
    outside = [grade for grade in grades if not -1 <= grade <= 1]
    if outside:
        raise DataError(
            f"UDCG reads signed utilities in [-1, 1], and found the grade {outside[0]}; make them with "
            "utilitune.evaluation.udcg_measure.signed_utilities(utilities, qrels)"
        )
    # Utilities of exactly 0 and 1 cannot be told from judgements; beside a column of their own they can.
    if grades and all(grade in (-1.0, 0.0, 1.0) for grade in grades):
        raise DataError(
            "UDCG reads signed utilities, and found only whole grades: judgements? Give utilities a column of their "
            "own with utilitune.evaluation.udcg_measure.judged_utilities(utilities, qrels)"
        )
