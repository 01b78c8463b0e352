"""Evaluation: classical measures, UDCG, answers, significance, the report.

Imports no torch; a generator is only needed by ``answer_questions``. Several functions carry the name of the
module that defines them: import them from here.
"""

from __future__ import annotations

from utilitune.evaluation.answer_accuracy import accuracy
from utilitune.evaluation.answers import answer_questions
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

__all__ = [
    "Change",
    "Evaluation",
    "Measure",
    "Row",
    "Significance",
    "Table",
    "UdcgScores",
    "UdcgTheta",
    "accuracy",
    "answer_questions",
    "answer_tokens",
    "bootstrap_interval",
    "contains",
    "evaluate",
    "exact_match",
    "f1",
    "holm",
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
    "udcg",
    "udcg_at_k",
    "udcg_theta",
    "write_report",
]
