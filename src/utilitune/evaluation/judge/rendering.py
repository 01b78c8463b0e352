"""Win rates as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.evaluation.judge.bradley_terry import BradleyTerry
from utilitune.evaluation.judge.interval import Interval
from utilitune.evaluation.judge.tally import Tally
from utilitune.evaluation.judge.win_rate import WinRates
from utilitune.evaluation.rendering import DASH

LEGENDS = {
    "strict": "strict: a win is one in both orders; orders that disagree and declared ties are ties",
    "hirag": "hirag: wins over parsed judgements, each order by itself; brackets: 95 % bootstrap over questions",
    "debiased": "debiased: who has more than half of the probability, averaged over both orders",
}


def render_win_rates(rates: WinRates) -> str:
    """Return a table of win rates, the Bradley-Terry table for three systems or more, and all counts.

    Args:
        rates: The win rates.

    Returns:
        Plain text that ends with a line break.
    """
    head = ["dimension", "system", "against", "n", "win rate", "loss", "tie", "p", "same in both orders", "first wins"]
    parts = text_table(head, [_row(each, rates) for each in rates.tallies])
    parts += ["", f"{LEGENDS[rates.convention]}. n: {_unit(rates.convention)}. p: sign test over questions."]
    parts.append("first wins: share of judgements that the answer shown first won; .500 is fair.")
    strengths = rates.strengths()
    if any(len(found.strengths) > 2 for found in strengths.values()):
        parts += ["", *_ranking(strengths)]
    counts = ", ".join(f"{name} {count}" for name, count in rates.counts.items() if count or name == "unparsed")
    parts += ["", counts]
    for kind, of in rates.compared.items():
        parts.append(
            f"{kind}: {of if isinstance(of, int) else ', '.join(f'{name} {count}' for name, count in of.items())}"
        )
    return "\n".join(parts) + "\n"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def share_text(count: float, n: float, interval: Interval | None = None) -> str:
    """Return ``.123 [.100, .150]``, or a dash where there is nothing."""
    if not n:
        return DASH
    return f"{count / n:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def _row(each: Tally, rates: WinRates) -> list[str]:
    rate = each.rate(rates.convention, rates.seed)
    return [
        each.dimension,
        each.system_a,
        each.system_b,
        str(rate.units),
        share_text(rate.wins, rate.units, rate.wilson or rate.interval),
        share_text(rate.losses, rate.units),
        share_text(rate.ties, rate.units),
        f"{rate.p:.3f}",
        share_text(*each.consistent()),
        share_text(*each.first_position()),
    ]


def _unit(convention: str) -> str:
    return "parsed judgements" if convention == "hirag" else "questions with a verdict in both orders, Wilson 95 %"


def _ranking(strengths: dict[str, BradleyTerry]) -> list[str]:
    rows = []
    for dimension, found in strengths.items():
        for place in found.strengths:
            interval = f" [{place.interval[0]:+.2f}, {place.interval[1]:+.2f}]" if place.interval else ""
            mark = " *" if found.virtual_ties else ""
            rows.append([dimension, place.system, f"{place.strength:+.2f}{interval}{mark}", str(found.questions)])
    lines = text_table(["dimension", "system", "Bradley-Terry strength (log-odds, mean 0)", "questions"], rows)
    if any(found.virtual_ties for found in strengths.values()):
        lines.append(
            "* one tie added to every pair: some system won or lost everything, its strength has no finite value"
        )
    return lines
