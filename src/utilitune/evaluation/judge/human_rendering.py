"""A judge against people as plain text."""

from __future__ import annotations

from collections.abc import Mapping

from utilitune.evaluation.judge.agreement import Agreement
from utilitune.evaluation.judge.human import HumanAgreement
from utilitune.evaluation.judge.rendering import share_text, text_table
from utilitune.evaluation.rendering import DASH


def render_agreement(found: Mapping[str, HumanAgreement]) -> str:
    """Return one table row a group and convention.

    Args:
        found: Agreement by group.

    Returns:
        Plain text that ends with a line break.
    """
    head = ["rows", "n", "convention", "right (chance .500)", "of", "p", "kappa", "same in both orders", "first wins"]
    lines = []
    for name, each in found.items():
        same = share_text(*each.tally.consistent())
        first = share_text(*each.tally.first_position())
        for one in each.conventions:
            right = share_text(one.right or 0.0, 1 if one.right is not None else 0, one.right_interval)
            kappa = _kappa_text(one.labels)
            of = str(one.right_of)
            lines.append([name, str(each.rows), one.convention, right, of, f"{one.p:.3f}", kappa, same, first])
        longer = share_text(each.longer or 0.0, 1 if each.longer is not None else 0)
        lines.append([name, str(each.rows), "(longer answer)", longer, str(each.longer_of), DASH, DASH, DASH, DASH])
    whole = next(iter(found.values()))
    human = ", ".join(f"{label} {count}" for label, count in whole.human.items())
    counts = ", ".join(f"{name} {count}" for name, count in whole.tally.counts().items() if count or name == "unparsed")
    notes = [
        "right: of what people decided, ties of the judge counting half. kappa: over A, B and tie. Brackets: 95 % "
        "bootstrap over rows. p: sign test of right against wrong, without ties.",
        f"people: {human}. judge: {counts}.",
    ]
    return "\n".join([*text_table(head, lines), "", *notes]) + "\n"


def agreement_text(found: Agreement) -> str:
    """Return agreement and kappa in one line."""
    return f"agreement {share_text(found.same, found.n, found.interval)} of {found.n}, kappa {_kappa_text(found)}"


def _kappa_text(found: Agreement) -> str:
    if found.kappa is None:
        return DASH
    low_high = found.kappa_interval
    return f"{found.kappa:.3f}" + (f" [{low_high[0]:.3f}, {low_high[1]:.3f}]" if low_high else "")
