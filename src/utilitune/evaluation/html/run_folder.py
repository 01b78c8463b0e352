"""A finished run as files: what a recipe leaves behind, or what ``evaluate`` and ``compare`` write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from utilitune.errors import DataError, UtilituneError
from utilitune.evaluation.compare.side import Side
from utilitune.evaluation.html.findings import READERS
from utilitune.evaluation.report import PerQuery, read_per_query
from utilitune.records import (
    Answer,
    Dataset,
    Labels,
    Run,
    load_dataset,
    read_answers,
    read_json,
    read_labels,
    read_rewrites,
    read_run,
)

STAGE = "stage.json"


@dataclass(frozen=True)
class Source:
    """Where a row of a recipe's tables comes from; ``{block}`` stands for the retriever.

    Attributes:
        run: Its rankings.
        answers: Its answers, if any.
        rewrites: Its search texts, if any.
    """

    run: str
    answers: str = ""
    rewrites: str = ""


SOURCES = {
    "first stage": Source("retrieve/{block}.test.trec", "answer/{block}.before.jsonl"),
    "tuned reranker": Source("rerank/{block}.trec", "answer/{block}.after.jsonl"),
    **{
        f"{moment} rewriter": Source(
            f"evaluate/runs/{{block}}.{moment}.trec",
            f"answer-rewrites/{{block}}.{moment}.jsonl",
            f"rewrite/{moment}.jsonl",
        )
        for moment in ("untuned", "tuned")
    },
}
"""By row name."""


class RunFolder:
    """Reads what is there and says ``None`` of what is not."""

    def __init__(self, path: Path | str) -> None:
        """Look at the folder.

        Args:
            path: Output folder of ``run``, ``evaluate`` or ``compare``, or of a study or judge alone.

        Raises:
            DataError: If it is none of these.
        """
        self.path = Path(path)
        self.home = self.path / "evaluate" if (self.path / "evaluate" / "report.json").is_file() else self.path
        self._stages = sorted(self.path.glob(f"*/{STAGE}"))
        scored = (self.home / "report.json").is_file()
        if not scored and not self._stages and not any(next(self.path.rglob(name), None) for name in READERS):
            raise DataError(
                f"{path}: found neither report.json nor a stage's {STAGE} nor {', '.join(READERS)}; expected the "
                "output folder of `utilitune run`, `evaluate`, `compare`, `win-rate`, `judge` or `study`"
            )

    def file(self, name: str) -> Path | None:
        """Return a file of the run, ``None`` where there is none."""
        path = self.path / name
        return path if path.is_file() else None

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report's JSON; without an evaluation, what the stages noted about themselves."""
        empty = {
            "title": self.path.resolve().name,
            "tables": [],
            "counts": {},
            "notes": [],
            "manifest": {},
            "examples": [],
        }
        if (self.home / "report.json").is_file():
            found = read_json(self.home / "report.json")
            if not isinstance(found, dict) or not {"tables", "counts", "notes"} <= found.keys():
                raise DataError(f"{self.home / 'report.json'}: not a report of ours (no tables, counts, notes)")
            return empty | found
        records = [read_json(path) for path in self._stages]
        counts = {
            record["stage"]: {kind: count for kind, count in record["counts"].items() if isinstance(count, int)}
            for record in records
            if "counts" in record
        }
        stages = {record["stage"]: record for record in records}
        notes = ["This run has no evaluation yet: stage 'evaluate' did not finish."] if records else []
        return empty | {"counts": counts, "notes": notes, "manifest": {"stages": stages} if stages else {}}

    @cached_property
    def per_query(self) -> PerQuery:
        """Values by query; empty where there are none."""
        path = self.home / "per_query.csv"
        return read_per_query(path) if path.is_file() else {}

    @cached_property
    def dataset(self) -> Dataset | None:
        """The data set that the recipe names, ``None`` where it cannot be read."""
        named = (self.report["manifest"].get("recipe") or {}).get("data")
        return self.data(self.path / "data" / "world" if named in (None, "sample") else Path(named))

    def data(self, folder: Path) -> Dataset | None:
        """Return a data set, ``None`` where it cannot be read."""
        recipe = self.report["manifest"].get("recipe") or {}
        try:
            return load_dataset(folder, on_bad_line=recipe.get("on_bad_line", "error"))
        except UtilituneError:
            return None

    def labels(self, name: str) -> Labels | None:
        """Return labels of the run, such as ``"label/labels.jsonl"``."""
        path = self.file(name)
        return read_labels(path) if path else None

    def run(self, name: str) -> Run | None:
        """Return a ranking of the run."""
        path = self.file(name)
        return read_run(path) if path else None

    def answers(self, name: str) -> list[Answer]:
        """Return answers of the run; none where there is no such file."""
        path = self.file(name)
        return list(read_answers(path)) if path else []

    def transferred(self, title: str) -> Path | None:
        """Return the data set, other than the run's own, that a table is about; ``None`` for the run's own."""
        evaluation = (self.report["manifest"].get("recipe") or {}).get("evaluation") or {}
        folders = [Path(named) for named in evaluation.get("transfer") or []]
        return next((folder for folder in folders if title.startswith(f"Rewriter on {folder.name},")), None)

    def side(self, block: str, name: str, transferred: str = "") -> Side:
        """Return rankings and texts behind a row of a recipe's table.

        Args:
            block: Retriever.
            name: Row, a key of ``SOURCES``; of any other nothing but its name is known.
            transferred: Name of the other data set that the table is about, if any.

        Returns:
            The side.
        """
        source = SOURCES.get(name)
        if source is None or (transferred and not source.rewrites):
            return Side(name)
        if transferred:
            # The same files, in a folder of that data set's name.
            moved = source.run.replace("evaluate/runs/", f"evaluate/{transferred}/")
            source = Source(moved, rewrites=source.rewrites.replace("rewrite/", f"transfer/{transferred}/"))
        rewrites = self.file(source.rewrites) if source.rewrites else None
        answers = self.answers(source.answers.replace("{block}", block)) if source.answers else []
        return Side(
            name,
            self.run(source.run.replace("{block}", block)),
            read_rewrites(rewrites) if rewrites else {},
            {answer.query_id: answer.answer for answer in answers},
        )

    def training(self, stage: str) -> Mapping[str, Any]:
        """Return a training's report; empty where there is none."""
        path = self.file(f"{stage}/training.json")
        found = read_json(path) if path else {}
        return found if isinstance(found, dict) else {}
