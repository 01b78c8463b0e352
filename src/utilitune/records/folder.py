"""Which files of a BEIR folder hold what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utilitune.errors import DataError
from utilitune.records.problem import Findings, Problem, place

TABLE_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")
QRELS_ENDINGS = (".tsv", ".tsv.gz", ".parquet")


@dataclass(frozen=True)
class FolderFiles:
    """Files of one folder.

    Attributes:
        corpus: The corpus, ``None`` when it is missing.
        queries: The queries, ``None`` when they are missing.
        qrels: Judgement files, all to be read; empty when there are none.
    """

    corpus: Path | None
    queries: Path | None
    qrels: tuple[Path, ...]


def find_files(folder: Path | str, findings: Findings) -> FolderFiles:
    """Find the files of a BEIR folder.

    Judgements are ``qrels.tsv`` where it exists; else ``qrels/test.tsv``; else every ``qrels/<split>.tsv``,
    merged.

    Args:
        folder: The folder.
        findings: Takes an error for a missing corpus or missing queries, a warning for files passed over.

    Returns:
        The files.

    Raises:
        DataError: If ``folder`` is not a folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{folder}: not a folder; expected one with corpus.jsonl and queries.jsonl")
    return FolderFiles(_table(root, "corpus", findings), _table(root, "queries", findings), _qrels(root, findings))


def _table(root: Path, stem: str, findings: Findings) -> Path | None:
    found = _existing(root, stem, TABLE_ENDINGS)
    if found:
        _passed_over(found[1:], f"{found[0].name} is read instead", findings)
        return found[0]
    here = ", ".join(sorted(path.name for path in root.iterdir())[:8]) or "nothing"
    names = ", ".join(stem + ending for ending in TABLE_ENDINGS)
    findings.error(Problem("missing file", place(root), f"no {stem} file; found {here}; expected one of {names}"))
    return None


def _qrels(root: Path, findings: Findings) -> tuple[Path, ...]:
    splits = sorted(path for path in (root / "qrels").glob("*") if path.name.endswith(QRELS_ENDINGS))
    found = _existing(root, "qrels", QRELS_ENDINGS) or _existing(root / "qrels", "test", QRELS_ENDINGS)
    if not found:
        return tuple(splits)
    others = [path for path in (*found, *splits) if path != found[0]]
    _passed_over(list(dict.fromkeys(others)), f"{found[0].relative_to(root)} is read instead", findings)
    return (found[0],)


def _existing(root: Path, stem: str, endings: Sequence[str]) -> list[Path]:
    return [path for ending in endings if (path := root / (stem + ending)).is_file()]


def _passed_over(paths: list[Path], why: str, findings: Findings) -> None:
    for path in paths:
        findings.warning(Problem("file passed over", place(path), why))
