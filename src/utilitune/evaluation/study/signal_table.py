"""A signal study as a table, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.evaluation.markdown import escape_cell
from utilitune.evaluation.study.signal_study import SignalStudy, UtilitySignal

DASH = "–"
_ORDINARY = ("questions", "questions studied", "pairs", "pairs with a right answer", "pairs with a wrong answer")
LEGEND = (
    "gold > hard, gold > random: share of passages that the gold passage of their question beats (ties ½, chance .5); "
    "p: sign test over questions against .5, Holm-corrected over the utilities. Δ: gold > hard against the first "
    "utility. MRR: of the gold passage among the candidates, ties in expected order. τ, AUROC right: τ-b and AUROC of "
    "the utility with whether the generator's answer from the passage is right. AUROC gold: of the utility with "
    "whether the passage is the gold one. Brackets: 95 % bootstrap interval over questions."
)


def signal_text(study: SignalStudy) -> str:
    """Return the table for a terminal: no interval but those of the share and of Δ, notes underneath."""
    head = ["utility", "gold > hard", "p", "Δ", "random", "MRR", "τ right", "AUROC right", "AUROC gold", "std", "n"]
    lines = [
        [
            signal.name,
            _number(signal.hard.share, signal.hard.low, signal.hard.high),
            _p(signal),
            _change(signal, interval=False),
            _number(signal.random.share),
            _number(signal.rank.mrr),
            _number(signal.right.tau),
            _number(signal.right.auroc),
            _number(signal.gold.auroc),
            _spread(signal.std),
            str(signal.hard.questions),
        ]
        for signal in study.signals
    ]
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    rows = [head, ["-" * width for width in widths], *lines]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*text, "", *_below(study)]) + "\n"


def signal_markdown(study: SignalStudy) -> str:
    """Return the whole study as Markdown: table with all intervals, notes, counts."""
    head = [
        "utility",
        "gold > hard",
        "p",
        "Δ to the first",
        "gold > random",
        "MRR (pessimistic)",
        "τ right",
        "AUROC right",
        "within questions",
        "AUROC gold",
        "mean ± std",
        "questions",
        "ties",
        "left out",
    ]
    lines = [
        [
            signal.name,
            _number(signal.hard.share, signal.hard.low, signal.hard.high),
            _p(signal),
            _change(signal, interval=True),
            _number(signal.random.share, signal.random.low, signal.random.high),
            f"{_number(signal.rank.mrr, signal.rank.low, signal.rank.high)} ({_number(signal.rank.pessimistic)})",
            _number(signal.right.tau),
            _number(signal.right.auroc, signal.right.low, signal.right.high),
            f"{_number(signal.right.within)} (n={signal.right.within_questions})",
            _number(signal.gold.auroc, signal.gold.low, signal.gold.high),
            f"{_spread(signal.mean)} ± {_spread(signal.std)}",
            str(signal.hard.questions),
            str(signal.hard.ties + signal.random.ties),
            str(sum(signal.left_out.values())),
        ]
        for signal in study.signals
    ]
    text = ["# Signal of utilities", "", _line(head), "|" + "---|" * len(head), *map(_line, lines), ""]
    text += [f"{escape_cell(line)}  " for line in [LEGEND, *_below(study)]]
    text += ["", "| count | |", "|---|---|", *(_line([kind, str(count)]) for kind, count in study.counts.items())]
    return "\n".join(text).rstrip() + "\n"


def _below(study: SignalStudy) -> list[str]:
    made, timing, counts = study.manifest, study.timing, study.counts
    ranks = [signal.rank for signal in study.signals if signal.rank.chance is not None]
    chance = f"; a random order gives MRR {ranks[0].chance:.3f}" if ranks else ""
    lines = [
        f"{counts['questions studied']} of {counts['questions']} questions, {counts['pairs']} pairs; generator "
        f"{made['generator']['model']}; seed {made['seed']}; {counts['pairs with a right answer']} answers right, "
        f"{counts['pairs with a wrong answer']} wrong{chance}"
    ]
    if timing.seconds_a_pair is not None:
        lines.append(
            f"{timing.seconds_a_pair:.3f} s a pair, for all utilities and the answers together ({timing.pairs} pairs, "
            f"{timing.seconds:.0f} s)"
        )
    odd = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count and kind not in _ORDINARY)
    if odd:
        lines.append(odd)
    return lines + [f"note: {note}" for note in study.notes]


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str:
    if value is None:
        return DASH
    interval = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.3f}".replace("-", "−") + interval


def _spread(value: float | None) -> str:
    return DASH if value is None else f"{value:.3g}".replace("-", "−")


def _p(signal: UtilitySignal) -> str:
    if signal.hard.share is None:
        return DASH
    return "< .001" if signal.p_holm < 0.001 else f"{signal.p_holm:.3f}"


def _change(signal: UtilitySignal, *, interval: bool) -> str:
    change = signal.versus_first
    if change is None or change.difference is None:
        return DASH
    text = f"{change.difference:+.3f}"
    if interval and change.low is not None and change.high is not None:
        text += f" [{change.low:+.3f}, {change.high:+.3f}]"
    return text.replace("-", "−")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape_cell, cells)) + " |"
