"""A utility label: what one passage set was worth to one generator for one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

Status = Literal["ok", "failed", "invalid", "skipped"]


@dataclass(frozen=True)
class UtilityLabel:
    """One row of ``labels.jsonl``.

    Attributes:
        query_id: The query.
        passage_ids: The passages that the generator saw, in prompt order (one for passage utilities).
        utility: The number; ``None`` unless ``status`` is ``"ok"`` (a missing number is never 0).
        status: ``ok``; ``failed`` (the backend gave no answer), ``invalid`` (not finite), ``skipped`` (by
            policy).
        label_set: Utility name, ``@``, 8 hex digits. The digits hash everything that can change the number
            except the data (utility parameters, prompts, generator identity); the manifest spells it out.
        evidence: What the number was computed from (answer text, per-token numbers, flags, reasons).
    """

    query_id: str
    passage_ids: tuple[str, ...]
    utility: float | None
    status: Status
    label_set: str
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the utility: ``label_set`` up to the ``@``."""
        return self.label_set.partition("@")[0]


class Labels(Sequence[UtilityLabel]):
    """Labels with their manifest; a sequence of rows in (query, rank, utility) order."""

    def __init__(self, rows: Sequence[UtilityLabel], manifest: Mapping[str, Any] | None = None) -> None:
        """Keep ``rows`` as given; ``manifest`` holds command, config, identities, hashes, counts."""
        self.rows = list(rows)
        self.manifest: dict[str, Any] = dict(manifest or {})

    @overload
    def __getitem__(self, index: int) -> UtilityLabel: ...
    @overload
    def __getitem__(self, index: slice) -> list[UtilityLabel]: ...
    def __getitem__(self, index: int | slice) -> UtilityLabel | list[UtilityLabel]:
        """Return a row, or rows for a slice."""
        return self.rows[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[UtilityLabel]:
        """Iterate over the rows."""
        return iter(self.rows)

    def names(self) -> list[str]:
        """Return the utility names, in order of first appearance."""
        return list(dict.fromkeys(row.name for row in self.rows))

    def table(self, name: str | None = None) -> dict[str, dict[str, float]]:
        """Return ``{query_id: {passage_id: utility}}`` of single-passage rows with status ``ok``.

        Args:
            name: Utility name; needed only when the rows hold several.

        Returns:
            One number a passage, in row order.

        Raises:
            ValueError: If ``name`` is not among the rows, or is missing although there are several.
        """
        names = self.names()
        if name is None and len(names) > 1:
            raise ValueError(f"these labels hold several utilities ({', '.join(names)}); pass name=...")
        if name is not None and name not in names:
            raise ValueError(f"no labels named {name!r}; these hold: {', '.join(names) or 'none'}")
        table: dict[str, dict[str, float]] = {}
        for row in self.rows:
            if (name is None or row.name == name) and row.utility is not None and len(row.passage_ids) == 1:
                table.setdefault(row.query_id, {})[row.passage_ids[0]] = row.utility
        return table
