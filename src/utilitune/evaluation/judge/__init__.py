"""Judges: win rates of answers, marks of answers, and how far a judge agrees with people."""

from __future__ import annotations

from utilitune.evaluation.judge.agreement import Agreement, agreement
from utilitune.evaluation.judge.answer_judge import Mark, judge_answers, marks_against_match
from utilitune.evaluation.judge.bradley_terry import BradleyTerry, bradley_terry, fit_strengths
from utilitune.evaluation.judge.comparison import Comparison, compare_systems
from utilitune.evaluation.judge.convention import CONVENTIONS
from utilitune.evaluation.judge.criterion import CRITERIA
from utilitune.evaluation.judge.human import (
    HumanAgreement,
    HumanVerdict,
    compare_with_people,
    draw,
    read_human_verdicts,
)
from utilitune.evaluation.judge.interval import ratio_interval, wilson
from utilitune.evaluation.judge.judgement import Judgement, read_judgements, write_judgements
from utilitune.evaluation.judge.judging import judge_pairs
from utilitune.evaluation.judge.rendering import render_win_rates
from utilitune.evaluation.judge.tally import Rate, Tally, tally
from utilitune.evaluation.judge.win_rate import WinRates, count_judgements, win_rate

__all__ = [
    "CONVENTIONS",
    "CRITERIA",
    "Agreement",
    "BradleyTerry",
    "Comparison",
    "HumanAgreement",
    "HumanVerdict",
    "Judgement",
    "Mark",
    "Rate",
    "Tally",
    "WinRates",
    "agreement",
    "bradley_terry",
    "compare_systems",
    "compare_with_people",
    "count_judgements",
    "draw",
    "fit_strengths",
    "judge_answers",
    "judge_pairs",
    "marks_against_match",
    "ratio_interval",
    "read_human_verdicts",
    "read_judgements",
    "render_win_rates",
    "tally",
    "wilson",
    "win_rate",
    "write_judgements",
]
