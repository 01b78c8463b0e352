"""The report as one self-contained page: before ▶ after, plots, counts, examples, manifest."""

from utilitune.evaluation.html.page import render_page
from utilitune.evaluation.html.run_report import run_report, write_run_report

__all__ = ["render_page", "run_report", "write_run_report"]
