"""What is compared: a run, or a system of an earlier evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utilitune.errors import ConfigError
from utilitune.evaluation.report import read_per_query
from utilitune.records import Run, read_run

PER_QUERY = "per_query.csv"


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        name: What tables call it.
        run: Its ranking, ``None`` where only values are known.
        values: ``{measure: {query_id: value}}`` of an earlier evaluation; empty for a run, which is still to be scored.
    """

    name: str
    run: Run | None = None
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def read_systems(specs: Sequence[str]) -> list[System]:
    """Read systems as the command line names them.

    Args:
        specs: ``path`` or ``name=path`` each: a TREC run; or an evaluation's folder (its ``per_query.csv``), which
            gives every system in it, named after the folder alone where it holds one.

    Returns:
        The systems, in order.

    Raises:
        ConfigError: If two systems share a name.
        DataError: If a file cannot be read.
    """
    found: list[System] = []
    for spec in specs:
        name, equals, rest = spec.partition("=")
        path = Path(rest if equals else spec)
        if path.is_dir() or path.name == PER_QUERY:
            found += _evaluated(path / PER_QUERY if path.is_dir() else path, name if equals else "")
        else:
            found.append(
                System(name if equals else path.name.removesuffix(".gz").removesuffix(".trec"), read_run(path))
            )
    names = [system.name for system in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"two systems are named {twice[0]!r}; name them apart, as in other={specs[-1].split('=')[-1]}"
        )
    return found


def _evaluated(path: Path, given: str) -> list[System]:
    scored = read_per_query(path)
    prefix = given or path.resolve().parent.name
    if len(scored) == 1:
        return [System(prefix, values=next(iter(scored.values())))]
    tables = {table for table, _, _ in scored}
    found = []
    for (table, block, system), values in scored.items():
        parts = [prefix, table if len(tables) > 1 else "", block, system]
        found.append(System(" · ".join(part for part in parts if part), values=values))
    return found
