"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl``, ``qrels.tsv``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from utilitune.errors import DataError
from utilitune.progress import warn
from utilitune.records.beir_reading import CorpusReader, JudgementReader, QueryReader
from utilitune.records.conversations import name_conversations
from utilitune.records.dataset import Dataset
from utilitune.records.folder import find_files
from utilitune.records.passage import Passage
from utilitune.records.passage_row import passage_row
from utilitune.records.problem import Findings
from utilitune.records.qrels import write_qrels
from utilitune.records.query_row import query_row
from utilitune.records.rows import OnBadLine, check_policy, write_rows

# With on_bad_line="skip", these still stop: there is nothing sensible left to go on with.
NEVER_SKIPPED = ("missing file", "empty file", "no overlap")

# Dropped, such a judgement would make recall look better than it is.
KEPT = "judgement of an unknown passage"


def load_dataset(folder: Path | str, *, on_bad_line: OnBadLine = "error") -> Dataset:
    """Read a BEIR folder; every file may also be gzipped or Parquet.

    Ids become strings (``counts`` says how many were numbers); the same passage or query twice is merged and
    counted; empty passages and empty turns are kept and counted.

    Args:
        folder: Holds ``corpus.jsonl``, ``queries.jsonl`` and, if anything is judged, ``qrels.tsv``, or
            ``qrels/test.tsv``, or other ``qrels/<split>.tsv``, all merged.
        on_bad_line: ``"error"`` raises when anything is wrong; ``"skip"`` drops bad lines and second records
            under one id (the first stays), counts them in ``counts`` and warns. Judgements of unknown
            passages are kept (the retriever cannot find those passages, and metrics should say so); of
            unknown queries they are dropped.

    Returns:
        The data set.

    Raises:
        DataError: If anything is wrong; one error lists the first problems as file:line.
    """
    check_policy(on_bad_line)
    findings = Findings()
    files = find_files(folder, findings)
    corpus = CorpusReader(files.corpus, findings)
    passages = list(corpus)
    queries = QueryReader(files.queries, findings)
    read = list(queries)
    judgements = JudgementReader(files.qrels, findings, corpus.seen.ids, queries.seen.ids)
    qrels = judgements.qrels()
    name = Path(folder).resolve().name
    if on_bad_line == "error" or any(kind in findings.error_counts for kind in NEVER_SKIPPED):
        findings.raise_errors(str(folder), f"Run `utilitune validate {folder}` for all of them and the counts.")
    for kind, count in findings.error_counts.items():
        what = "kept" if kind == KEPT else "skipped"
        findings.counts[f"{kind}: {what}"] += count
        first = next(problem for problem in findings.errors if problem.kind == kind)
        warn(f"{folder}: {kind}: {count} {what}; the first is {first}")
    findings.counts.update(findings.warning_counts)
    return Dataset(passages, name_conversations(read, findings.counts), qrels, name, dict(findings.counts))


def iter_corpus(folder: Path | str) -> Iterator[Passage]:
    """Yield the passages of a folder one by one, for corpora larger than memory (ids alone are kept).

    Args:
        folder: A BEIR folder, or a corpus file itself.

    Yields:
        Passages in file order, ids unique.

    Raises:
        DataError: At the first bad line or second text under one id.
    """
    findings = Findings()
    path = Path(folder) if Path(folder).is_file() else find_files(folder, findings).corpus
    if path is None:
        raise DataError(str(findings.errors[0]))
    findings = Findings()
    for passage in CorpusReader(path, findings):
        findings.raise_errors(str(folder))
        yield passage
    findings.raise_errors(str(folder))


def write_dataset(folder: Path | str, dataset: Dataset) -> None:
    """Write a data set as a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and, where judged, ``qrels.tsv``.

    Args:
        folder: Made where it does not exist. An old ``qrels.tsv`` goes away when ``dataset`` has no
            judgements.
        dataset: The data set.

    Raises:
        DataError: If the folder holds another form of one of these files, which readers would meet as well.
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    other = [
        name
        for stem in ("corpus", "queries")
        for end in (".jsonl.gz", ".parquet")
        if (root / (name := stem + end)).exists()
    ]
    if other:
        raise DataError(f"{folder}: already holds {', '.join(other)}; write to another folder or remove it")
    write_rows(root / "corpus.jsonl", map(passage_row, dataset.corpus))
    write_rows(root / "queries.jsonl", map(query_row, dataset.queries))
    if dataset.qrels:
        write_qrels(root / "qrels.tsv", dataset.qrels)
    else:
        (root / "qrels.tsv").unlink(missing_ok=True)
