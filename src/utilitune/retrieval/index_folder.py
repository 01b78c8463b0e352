"""The index folder: its manifest, its passage ids, and the checks when it is read back. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.records.passage import Passage

FORMAT = "utilitune-index"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
IDS = "ids.json"


class CorpusSeal:
    """Checks and fingerprints passages as they stream by: ids unique, SHA-256 over ids and texts in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._seen: set[str] = set()
        self._digest = hashlib.sha256()

    def passing(self, corpus: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages, taking note of them.

        Args:
            corpus: Passages in index order.

        Yields:
            Each passage, untouched.

        Raises:
            DataError: For an empty corpus or an id that occurs twice.
        """
        for passage in corpus:
            if passage.id in self._seen:
                raise DataError(f"passage id {passage.id!r} occurs twice in the corpus; an index needs unique ids")
            self._seen.add(passage.id)
            self.ids.append(passage.id)
            self._digest.update(json.dumps([passage.id, passage.full_text]).encode() + b"\n")
            yield passage
        if not self.ids:
            raise DataError("the corpus is empty: there is nothing to index; give at least one passage")

    @property
    def sha256(self) -> str:
        """Hex digest of what has passed."""
        return self._digest.hexdigest()


def corpus_hash(corpus: Iterable[Passage]) -> str:
    """Return the SHA-256 that the manifest of an index of ``corpus`` carries, to tell whether an index fits a corpus.

    Args:
        corpus: Passages in index order.

    Returns:
        Hex digest over ids, titles and texts.

    Raises:
        DataError: For an empty corpus or an id that occurs twice.
    """
    seal = CorpusSeal()
    for _ in seal.passing(corpus):
        pass
    return seal.sha256


@contextmanager
def writing(folder: Path | str, kind: str, ids: Sequence[str], corpus_sha256: str, **fields: Any) -> Iterator[Path]:
    """Write an index folder whole or not at all.

    Args:
        folder: Where the index goes; an index that is there already is replaced.
        kind: ``"bm25"`` or ``"dense"``.
        ids: Passage ids in index order.
        corpus_sha256: Fingerprint of the corpus.
        **fields: What else the manifest says.

    Yields:
        A folder to write the index files into.

    Raises:
        ConfigError: When ``folder`` holds something that is not an index.
    """
    from utilitune.records import manifest, write_json

    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or _is_ours(folder))):
        raise ConfigError(f"{folder} exists and is not an index; choose another folder or remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(folder.name + ".writing")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        write_json(fresh / IDS, list(ids))
        stated: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "passages": len(ids),
        }
        write_json(fresh / MANIFEST, manifest(**stated, corpus_sha256=corpus_sha256, **fields))
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_manifest(folder: Path | str, kind: str | None = None) -> dict[str, Any]:
    """Read and check the manifest of an index folder.

    Args:
        folder: Index folder.
        kind: The kind that is expected; any when ``None``.

    Returns:
        The manifest.

    Raises:
        DataError: When the folder or manifest is missing, not an index's, of a newer format, or of another kind.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise DataError(f"{path} is missing: {folder} is not an index; build one with `utilitune index`")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); build the index again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{path} is not the manifest of an index; build one with `utilitune index`")
    if found.get("format_version") != FORMAT_VERSION:
        raise DataError(
            f"{path} has index format {found.get('format_version')!r}, this version reads {FORMAT_VERSION}; "
            "build the index again"
        )
    if kind is not None and found.get("kind") != kind:
        raise DataError(f"{folder} is a {found.get('kind')!r} index, expected {kind!r}; load it with load_index")
    return found


def read_ids(folder: Path | str, stated: dict[str, Any]) -> list[str]:
    """Read the passage ids of an index.

    Args:
        folder: Index folder.
        stated: Its manifest.

    Returns:
        Ids in index order.

    Raises:
        DataError: When the list is missing, damaged, or not as long as the manifest says.
    """
    path = Path(folder) / IDS
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); build the index again") from error
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise DataError(f"{path} is not a list of passage ids; build the index again")
    check_count(path, len(ids), stated)
    return ids


def check_count(what: Path | str, found: int, stated: dict[str, Any]) -> None:
    """Refuse index parts of another size than the manifest says.

    Args:
        what: Part that was counted.
        found: Its number of passages.
        stated: The manifest.

    Raises:
        DataError: When the numbers differ.
    """
    if found != stated.get("passages"):
        raise DataError(
            f"{what} holds {found} passages, the manifest says {stated.get('passages')}; "
            "parts of different indexes were mixed: build the index again"
        )


def _is_ours(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except DataError:
        return False
    return True
