"""Evaluation: classical measures, UDCG, answers, significance, the report.

Imports no torch; a generator is only needed by ``answer_questions`` and the studies, which are imported on first use.
Several functions carry the name of the module that defines them: import them from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from utilitune.evaluation.answer_accuracy import accuracy
from utilitune.evaluation.answers import answer_questions
from utilitune.evaluation.clusters import find_clusters
from utilitune.evaluation.evaluate import evaluate
from utilitune.evaluation.evaluation import Change, Evaluation
from utilitune.evaluation.latex import latex_table
from utilitune.evaluation.markdown import markdown_table
from utilitune.evaluation.measures import Measure, known_measures, parse_measure, parse_measures
from utilitune.evaluation.ranking import rank_run, ranking
from utilitune.evaluation.rendering import render_table
from utilitune.evaluation.report import write_report
from utilitune.evaluation.significance import (
    Significance,
    bootstrap_interval,
    holm,
    randomisation_p,
    significance,
    significance_family,
)
from utilitune.evaluation.table import Row, Table
from utilitune.evaluation.udcg import UdcgScores, udcg, udcg_at_k
from utilitune.evaluation.udcg_theta import UdcgTheta, udcg_theta
from utilitune.scoring.answer_match import answer_tokens, contains, exact_match, f1, normalise_answer

if TYPE_CHECKING:
    from utilitune.evaluation.judge.answer_judge import judge_answers
    from utilitune.evaluation.judge.win_rate import WinRates, win_rate
    from utilitune.evaluation.study.correlation.experiment import study_correlation
    from utilitune.evaluation.study.correlation.files import write_correlation
    from utilitune.evaluation.study.correlation.study import CorrelationStudy
    from utilitune.evaluation.study.signal import study_signal
    from utilitune.evaluation.study.signal_files import write_signal
    from utilitune.evaluation.study.signal_study import SignalStudy

# Public name -> module that defines it.
_HOME = {
    "WinRates": "utilitune.evaluation.judge.win_rate",
    "judge_answers": "utilitune.evaluation.judge.answer_judge",
    "win_rate": "utilitune.evaluation.judge.win_rate",
    "CorrelationStudy": "utilitune.evaluation.study.correlation.study",
    "SignalStudy": "utilitune.evaluation.study.signal_study",
    "study_correlation": "utilitune.evaluation.study.correlation.experiment",
    "study_signal": "utilitune.evaluation.study.signal",
    "write_correlation": "utilitune.evaluation.study.correlation.files",
    "write_signal": "utilitune.evaluation.study.signal_files",
}

__all__ = [
    "Change",
    "CorrelationStudy",
    "Evaluation",
    "Measure",
    "Row",
    "SignalStudy",
    "Significance",
    "Table",
    "UdcgScores",
    "UdcgTheta",
    "WinRates",
    "accuracy",
    "answer_questions",
    "answer_tokens",
    "bootstrap_interval",
    "contains",
    "evaluate",
    "exact_match",
    "f1",
    "find_clusters",
    "holm",
    "judge_answers",
    "known_measures",
    "latex_table",
    "markdown_table",
    "normalise_answer",
    "parse_measure",
    "parse_measures",
    "randomisation_p",
    "rank_run",
    "ranking",
    "render_table",
    "significance",
    "significance_family",
    "study_correlation",
    "study_signal",
    "udcg",
    "udcg_at_k",
    "udcg_theta",
    "win_rate",
    "write_correlation",
    "write_report",
    "write_signal",
]


def __getattr__(name: str) -> Any:
    """Import a study on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
