"""A correlation study as tables, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.evaluation.markdown import escape_cell
from utilitune.evaluation.rendering import p_text
from utilitune.evaluation.significance import Significance
from utilitune.evaluation.study.correlation.ideal import BINARY, IdealStudy
from utilitune.evaluation.study.correlation.metrics import BASELINES, NDCG
from utilitune.evaluation.study.correlation.position import PositionStudy
from utilitune.evaluation.study.correlation.rank import Estimate
from utilitune.evaluation.study.correlation.study import Correlation, CorrelationStudy, Versus

DASH = "–"
LEGEND = (
    "ρ: Spearman's rank correlation of the metric of a list with whether the generator's answer from it is right; "
    "τ: Kendall's τ-b. Mean: over the list lengths that have a number. Δ: ρ less that of the metric named, on the "
    "lists that both have, and their ratio, less 1, where the other's interval is above 0. Brackets: 95 % bootstrap "
    "interval, whole questions drawn. UDCGθ: "
    "each question scored by a fit on the others. eRAG and utilities with gold answers have seen what they predict."
)
Line = tuple[str, list[str], list[list[str]]]
"""Title, head, rows."""


def correlation_text(study: CorrelationStudy) -> str:
    """Return the tables for a terminal: the first block alone, notes underneath."""
    lines = [_block(study, study.blocks[0], intervals=False), *_parts(study)]
    return "\n".join([*(_aligned(*line) for line in lines), *_below(study)]) + "\n"


def correlation_markdown(study: CorrelationStudy) -> str:
    """Return the whole study as Markdown: every block with all intervals, notes, counts."""
    lines = [_block(study, block, intervals=True) for block in study.blocks]
    lines += [_kendall(study, block) for block in study.blocks]
    text = ["# Does the metric predict the answer?", ""]
    for title, head, rows in [*lines, *_parts(study)]:
        text += [f"## {escape_cell(title)}", "", _row(head), "|" + "---|" * len(head), *map(_row, rows), ""]
    text += [f"{escape_cell(line)}  " for line in [_legend(study), *_below(study)]]
    text += ["", "| count | |", "|---|---|", *(_row([kind, str(count)]) for kind, count in study.counts.items())]
    return "\n".join(text).rstrip() + "\n"


def _legend(study: CorrelationStudy) -> str:
    drawn = "whole conversations drawn" if "conversations" in study.counts else "whole questions drawn"
    return LEGEND.replace("whole questions drawn", drawn)


def _block(study: CorrelationStudy, block: str, *, intervals: bool) -> Line:
    head = ["metric", "mean ρ", *(f"Δ to {base}" for base in BASELINES), *(f"k={k}" for k in study.ks), "lists"]
    rows = []
    for metric in study.metrics:
        mean = study.correlation(metric, None, block)
        own = [study.correlation(metric, k, block) for k in study.ks]
        cells = [_number(each.spearman, intervals=intervals, undefined=each) for each in own]
        changes = [_versus(mean.versus.get(base)) for base in BASELINES]
        rows.append([metric, _number(mean.spearman, intervals=True, undefined=mean), *changes, *cells, str(mean.n)])
    for name, place in (("right", 0), ("abstained", 1)):
        told = study.accuracy[block]
        shares = [f"{told[k][place] / told[k][2]:.3f}" if told[k][2] else DASH for k in study.ks]
        rows.append([f"({name})", "", "", "", *shares, str(sum(told[k][2] for k in study.ks))])
    return f"ρ with right answers: {block}", head, rows


def _kendall(study: CorrelationStudy, block: str) -> Line:
    rows = []
    for metric in study.metrics:
        own = [study.correlation(metric, k, block) for k in (None, *study.ks)]
        rows.append([metric, *(_number(each.kendall, intervals=True, undefined=each) for each in own)])
    return f"τ-b with right answers: {block}", ["metric", "mean τ", *(f"k={k}" for k in study.ks)], rows


def _parts(study: CorrelationStudy) -> list[Line]:
    found = []
    if study.position is not None:
        found.append(_position(study.position))
    if study.ideal is not None:
        found.append(_ideal(study.ideal))
    return found


def _position(study: PositionStudy) -> Line:
    metrics = list(study.positions[0].metrics)
    rows = [
        [
            str(each.place),
            _number(each.right, intervals=True),
            _number(each.abstained, intervals=True),
            *(f"{each.metrics[name]:.3f}" for name in metrics),
        ]
        for each in study.positions
    ]
    title = (
        f"Position of the one relevant passage among {study.length}: {study.questions} questions; ends less middle "
        f"{_number(study.ends, intervals=True, sign=True)}; ρ of right with {NDCG} "
        f"{_number(study.spearman, intervals=True)}"
    )
    return title, ["place", "right", "abstained", *metrics], rows


def _ideal(study: IdealStudy) -> Line:
    rows = [
        [
            each.rule,
            _number(each.right, intervals=True),
            _number(each.wrong, intervals=True),
            _number(each.abstained, intervals=True),
            _change(each.right_versus),
            _change(each.wrong_versus),
            DASH if each.relevant is None else f"{each.relevant:.2f}",
            str(each.same),
        ]
        for each in study.rules
    ]
    head = ["best by", "right", "wrong", "abstained", "Δ right", "Δ wrong", "relevant", "same list"]
    return f"Ideal rankings of {study.k}: {study.questions} questions; Δ to {BINARY}", head, rows


def _below(study: CorrelationStudy) -> list[str]:
    made, counts = study.manifest, study.counts
    lines = [
        f"{counts['questions studied']} of {counts['questions']} questions, {', '.join(study.systems)}, "
        f"{counts['lists']} lists; generator {made['generator']['model']}; seed {made['seed']}; relevance "
        f"{made['data']['relevance']}; u {made['options']['u']}; right by {made['options']['answer_measure']}"
    ]
    spent = [
        f"{part} {timing.seconds:.0f} s ({timing.computed} responses, {timing.from_store} from the store)"
        for part, timing in study.timing.items()
    ]
    lines.append("time: " + "; ".join(spent))
    odd = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count and kind not in _ORDINARY)
    return lines + ([odd] if odd else []) + [f"note: {note}" for note in study.notes]


_ORDINARY = ("questions", "questions studied", "conversations", "lists", "passages in lists", "labels: requests")


def _number(found: Estimate, *, intervals: bool, sign: bool = False, undefined: Correlation | None = None) -> str:
    if found.value is None:
        return DASH if undefined is None else f"undefined (n={undefined.n})"
    form = "{:+.3f}" if sign else "{:.3f}"
    text = form.format(found.value)
    if intervals and found.low is not None and found.high is not None:
        text += f" [{form.format(found.low)}, {form.format(found.high)}]"
    return text.replace("-", "−")


def _versus(found: Versus | None) -> str:
    if found is None or found.difference.value is None:
        return DASH
    relative = "" if found.relative is None else f" ({found.relative:+.0%})".replace("-", "−")
    return _number(found.difference, intervals=True, sign=True) + relative


def _change(found: Significance | None) -> str:
    if found is None or found.difference is None:
        return DASH
    interval = "" if found.low is None or found.high is None else f" [{found.low:+.3f}, {found.high:+.3f}]"
    tested = "" if found.p is None else f" {p_text({'p': found.p, 'p_holm': found.p_holm})}"
    return f"{found.difference:+.3f}{interval}".replace("-", "−") + tested


def _aligned(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, "", *text, ""])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape_cell, cells)) + " |"
