"""Every system of a table against every other: who is clearly above whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.section import Section, section
from utilitune.evaluation.significance import significance_family

if TYPE_CHECKING:
    from utilitune.evaluation.table import Row

CLEAR = 0.05
"""Corrected p below which one system is said to be above another."""


def pairwise(rows: Sequence[Row], measure: str, clusters: Clusters | None, seed: int) -> dict[str, Any] | None:
    """Compare all rows of each block with each other by one measure, p Holm-corrected over all these comparisons.

    Args:
        rows: Rows of a table; those without the measure are left out.
        measure: The measure.
        clusters: As in ``significance``.
        seed: Seed of intervals and tests.

    Returns:
        ``measure``, ``comparisons`` (how many) and ``blocks`` of ``block``, ``systems`` (``name``, ``mean``; best
        first, ties in the order of the table) and ``pairs`` (``higher``, ``lower``: places in ``systems``; ``change``:
        from the lower to the higher, over the queries that both were scored on). JSON-ready; ``None`` where no block
        has two rows.
    """
    blocks: dict[str, list[tuple[float, str, Mapping[str, float]]]] = {}
    for row in rows:
        own = row.values.get(measure)
        if own:
            blocks.setdefault(row.block, []).append((sum(own.values()) / len(own), row.name, own))
    family = []
    where: list[tuple[str, int, int]] = []
    for block, systems in blocks.items():
        systems.sort(key=lambda system: -system[0])
        for (higher, (_, _, above)), (lower, (_, _, below)) in combinations(enumerate(systems), 2):
            common = [query_id for query_id in above if query_id in below]
            family.append(({each: below[each] for each in common}, {each: above[each] for each in common}))
            where.append((block, higher, lower))
    if not family:
        return None
    pairs: dict[str, list[dict[str, Any]]] = {block: [] for block in blocks}
    for (block, higher, lower), change in zip(
        where, significance_family(family, clusters=clusters, seed=seed), strict=True
    ):
        pairs[block].append({"higher": higher, "lower": lower, "change": asdict(change)})
    return {
        "measure": measure,
        "comparisons": len(family),
        "blocks": [
            {
                "block": block,
                "systems": [{"name": name, "mean": mean} for mean, name, _ in systems],
                "pairs": pairs[block],
            }
            for block, systems in blocks.items()
        ],
    }


def pairwise_section(table: Mapping[str, Any]) -> Section | None:
    """Return the pairwise comparison of a table as a section of a report.

    Args:
        table: A table's JSON form.

    Returns:
        The section, systems numbered within their block and best first; ``None`` where the table has none.
    """
    found = table.get("pairwise")
    if not found:
        return None
    lines = []
    for each in found["blocks"]:
        above, below = _told_apart(each)
        for place, system in enumerate(each["systems"]):
            label = f"{each['block']} {place + 1}".strip()
            numbers = [numbered(above[place]), numbered(below[place])]
            lines.append([label, system["name"], f"{system['mean']:.3f}", *numbers])
    flipped = f" (whole {table['clusters']['name']}s flipped)" if table.get("clusters") else ""
    note = (
        f"Above, below: the systems that it is told apart from, p < {CLEAR:.2f} of the paired randomisation "
        f"test{flipped}, Holm-corrected over these {found['comparisons']} comparisons."
    )
    head = ["#", "system", found["measure"], "above", "below"]
    title = f"{table['title']}: every one against every other" if table["title"] else "Every one against every other"
    return section(title, head, lines, [note])


def _told_apart(block: Mapping[str, Any]) -> tuple[list[list[int]], list[list[int]]]:
    """Return, by place, the numbers of the systems that it is clearly above, and clearly below."""
    above: list[list[int]] = [[] for _ in block["systems"]]
    below: list[list[int]] = [[] for _ in block["systems"]]
    for pair in block["pairs"]:
        change = pair["change"]
        if change["p_holm"] < CLEAR and change["difference"]:
            ends = (pair["higher"], pair["lower"])
            winner, loser = ends if change["difference"] > 0 else ends[::-1]
            above[winner].append(loser + 1)
            below[loser].append(winner + 1)
    return [sorted(each) for each in above], [sorted(each) for each in below]


def numbered(numbers: Sequence[int]) -> str:
    """Return sorted numbers with runs drawn together, as in ``1, 3–5``; a dash where there is none."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    spelled = [str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts]
    return ", ".join(spelled) or "–"
