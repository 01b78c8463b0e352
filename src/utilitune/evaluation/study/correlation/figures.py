"""Figures of a correlation study."""

from __future__ import annotations

from utilitune.evaluation.study.correlation.ideal import IdealStudy
from utilitune.evaluation.study.correlation.metrics import NDCG, THETA, UDCG
from utilitune.evaluation.study.correlation.position import PositionStudy
from utilitune.evaluation.study.correlation.rank import Estimate
from utilitune.evaluation.study.correlation.study import CorrelationStudy
from utilitune.evaluation.study.plots import Dot, curves_svg, dots_svg

OVER_LENGTHS = (UDCG, NDCG, "Precision", THETA)
"""Few enough to tell apart."""


def correlation_svg(study: CorrelationStudy) -> str:
    """Return the figure of all metrics: mean ρ over list lengths with its interval, one row a metric."""
    dots = [_dot(study.correlation(metric).spearman) for metric in study.metrics]
    return dots_svg(
        study.metrics, {study.blocks[0]: dots}, label="Spearman's ρ with right answers, mean over k", chance=0.0
    )


def lengths_svg(study: CorrelationStudy) -> str:
    """Return the figure over list lengths: ρ of UDCG, UDCGθ, nDCG and Precision at every k."""
    series = {metric: [_dot(study.correlation(metric, k).spearman) for k in study.ks] for metric in OVER_LENGTHS}
    return curves_svg(study.ks, series, across="passages in the prompt, k", label="Spearman's ρ with right answers")


def position_svg(study: PositionStudy) -> str:
    """Return the figure of places: share of right answers beside the metrics that discount by place."""
    series = {"right answers": [_dot(each.right) for each in study.positions]}
    for name in study.positions[0].metrics:
        series[name] = [Dot(each.metrics[name]) for each in study.positions]
    # MAP and MRR are one curve where one passage is relevant.
    series["MAP = MRR"] = series.pop("MAP")
    del series["MRR"]
    places = [each.place for each in study.positions]
    return curves_svg(places, series, across="place of the relevant passage", label="share, metric")


def ideal_svg(study: IdealStudy) -> str:
    """Return the figure of ideal rankings: right, wrong and abstained, one row a rule."""
    series = {
        "right": [_dot(each.right) for each in study.rules],
        "wrong": [_dot(each.wrong) for each in study.rules],
        "abstained": [_dot(each.abstained) for each in study.rules],
    }
    return dots_svg([each.rule for each in study.rules], series, label="share of questions", chance=None)


def _dot(found: Estimate) -> Dot:
    return Dot(found.value, found.low, found.high)
