"""Reading the three files of a BEIR folder in one pass each; problems are gathered, not raised."""

from __future__ import annotations

import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from utilitune.progress import PLAIN_EVERY_SECONDS, say
from utilitune.records.passage import Passage
from utilitune.records.passage_row import parse_passage
from utilitune.records.problem import Findings, Problem, RowError, place
from utilitune.records.qrels import scan_qrels
from utilitune.records.query import Query
from utilitune.records.query_row import parse_query
from utilitune.records.rows import scan_rows
from utilitune.records.run import Qrels
from utilitune.records.seen import Seen

T = TypeVar("T")


class CorpusReader:
    """Passages of one file, ids unique; iterate once."""

    def __init__(self, path: Path | None, findings: Findings) -> None:
        """Read ``path`` (nothing when ``None``) into ``findings``."""
        self.path, self.findings = path, findings
        self.seen = Seen(path, "passages", findings)

    def __iter__(self) -> Iterator[Passage]:
        """Yield passages in file order."""
        for line, passage in _records(self.path, parse_passage, self.findings):
            if not self.seen.first(passage.id, (passage.title, passage.text), line):
                continue
            if not passage.text.strip():
                kind = "passages without text" if passage.title.strip() else "empty passages"
                lacks = "no text" if passage.title.strip() else "no text and no title"
                message = f"passage {passage.id!r} has {lacks}; kept"
                self.findings.warning(Problem(kind, place(self.path or Path(), line), message))
            yield passage
        _refuse_empty(self.path, self.seen, self.findings)


class QueryReader:
    """Queries of one file, ids unique; iterate once."""

    def __init__(self, path: Path | None, findings: Findings) -> None:
        """Read ``path`` (nothing when ``None``) into ``findings``."""
        self.path, self.findings = path, findings
        self.seen = Seen(path, "queries", findings)

    def __iter__(self) -> Iterator[Query]:
        """Yield queries in file order."""
        for line, query in _records(self.path, parse_query, self.findings):
            if self.seen.first(query.id, query, line):
                yield query
        _refuse_empty(self.path, self.seen, self.findings)


def _refuse_empty(path: Path | None, seen: Seen, findings: Findings) -> None:
    if path is not None and not seen.ids:
        findings.error(Problem("empty file", place(path), f"no good row; expected {seen.what}"))


def _records(
    path: Path | None, parse: Callable[[Mapping[str, Any], Counter[str]], T], findings: Findings
) -> Iterator[tuple[int, T]]:
    if path is None:
        return
    said = time.monotonic()
    for line, row in scan_rows(path):
        if line % 10_000 == 0 and time.monotonic() - said > PLAIN_EVERY_SECONDS:
            said = time.monotonic()
            say(f"read {path.name}: {line:,} rows")
        if isinstance(row, Problem):
            findings.error(row)
            continue
        try:
            yield line, parse(row, findings.counts)
        except RowError as error:
            findings.error(Problem("bad line", place(path, line), str(error)))


class JudgementReader:
    """Judgements of one folder, checked against the ids of corpus and queries."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        findings: Findings,
        passages: Collection[str] | None,
        queries: Collection[str] | None,
    ) -> None:
        """Read ``paths`` into ``findings``; ids are checked against those known, unless ``None``."""
        self.paths, self.findings = paths, findings
        self.passages, self.queries = passages, queries
        self._bare_ids: dict[str, dict[str, str]] = {}

    def qrels(self) -> Qrels:
        """Return all judgements of known queries. The first file wins where files differ."""
        qrels: Qrels = {}
        matched = total = 0
        for path in self.paths:
            for line, query_id, passage_id, grade in scan_qrels(path, self.findings):
                total += 1
                where = place(path, line)
                known = self._known("passage", passage_id, self.passages, where)
                if self._known("query", query_id, self.queries, where):
                    matched += known
                    self._keep(qrels, query_id, passage_id, grade, where)
        if self.paths and not total:
            self.findings.warning(Problem("no judgements", place(self.paths[0]), "the file holds no judgement"))
        if total and not matched:
            message = (
                f"none of {total} judgements joins a query and a passage of this folder; "
                f"expected ids as in the queries and corpus files"
            )
            self.findings.error(Problem("no overlap", place(self.paths[0]), message))
        return qrels

    def _keep(self, qrels: Qrels, query_id: str, passage_id: str, grade: float, where: str) -> None:
        grades = qrels.setdefault(query_id, {})
        known = grades.setdefault(passage_id, grade)
        if known != grade:
            message = f"({query_id}, {passage_id}) has grade {grade:g} here and {known:g} in another split"
            self.findings.error(Problem("conflicting judgement", where, message))

    def _known(self, what: str, key: str, ids: Collection[str] | None, where: str) -> bool:
        if ids is None or key in ids:
            return True
        kind = f"judgement of an unknown {what}"
        hint = self._alike(what, key, ids)
        if not hint and self.findings.error_counts["bad line"]:
            hint = " (unless a bad line holds it)"
        self.findings.error(Problem(kind, where, f"there is no {what} {key!r}{hint}"))
        return False

    def _alike(self, what: str, key: str, ids: Collection[str]) -> str:
        """Return a hint at an id that differs only by what another program may have done to it."""
        if what not in self._bare_ids:  # one pass over all ids, and only where something dangles
            self._bare_ids[what] = {_bare(known): known for known in ids}
        twin = self._bare_ids[what].get(_bare(key))
        return "" if twin is None else f", but there is {twin!r}: write ids alike, as strings, everywhere"


def _bare(key: str) -> str:
    """Return an id without what other programs change: zeros and ``.0``, case, outer spaces, form of accents."""
    bare = unicodedata.normalize("NFKC", key).strip().casefold()
    number = bare.removesuffix(".0")
    return (number.lstrip("0") or "0") if number.isdigit() else bare
