"""Dense retrieval: an encoder and nearest vectors by cosine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError
from utilitune.progress import warn
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.retrieval import index_folder
from utilitune.retrieval.encoder import READY_MADE, Encoder
from utilitune.retrieval.ranking import Ranker, check_k, texts_of
from utilitune.retrieval.vector_index import (
    INDEXES,
    VectorIndex,
    check_name,
    load_vectors,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

KIND = "dense"
ENCODER_DEFAULT = "packaged:all-minilm-l6-v2"
# Inner products of float32 unit vectors differ in the seventh digit by batch mates and BLAS blocks; what is equal to
# six digits is a tie, so that a ranking does not depend on them.
DIGITS = 6
# Neighbours fetched beyond k, so that ties at the cut are seen.
SPARE = 16


class DenseRetriever:
    """Retriever by cosine similarity of encoder vectors. Make one with ``build`` or ``load``.

    Blank passages are kept and never match; a blank query gets an empty list. Scores are cosines in [-1, 1] to six
    digits, equal ones in descending order of passage id.

    Args:
        ids: Passage ids in index order.
        rows: Position in ``ids`` of every vector, ascending, shape ``(vectors,)``.
        vectors: The vectors, ``None`` when all passages are blank.
        encoder: The encoder that made them.
        index: Name of the index, a key of ``INDEXES``.
        corpus_sha256: Fingerprint of the corpus.
        corpus_counts: Counts that were made while building.

    Attributes:
        corpus_sha256: Fingerprint of the corpus (``corpus_hash``).
        encoder: The encoder; its ``identity`` says what made the vectors, its ``counts`` what was cut.
        counts: ``blank_passages`` and ``cut_passages`` (longer than the encoder's window; absent when the encoder
            cannot tell) of the corpus; ``queries`` and ``blank_queries`` over all searches so far.
    """

    corpus_sha256: str
    encoder: Encoder
    counts: dict[str, int]

    def __init__(
        self,
        ids: Sequence[str],
        rows: NDArray[np.int64],
        vectors: VectorIndex | None,
        encoder: Encoder,
        *,
        index: str,
        corpus_sha256: str,
        corpus_counts: Mapping[str, int],
    ) -> None:
        self.corpus_sha256 = corpus_sha256
        self.encoder = encoder
        self.counts = {**corpus_counts, "queries": 0, "blank_queries": 0}
        self._corpus_counts = dict(corpus_counts)
        self._index_name = index
        self._ranker = Ranker(ids)
        self._rows = rows
        self._vectors = vectors

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._ranker.ids)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that can change a ranking, as JSON-ready values."""
        return {"index": self._index_name, "encoder": self.encoder.identity.as_dict()}

    @classmethod
    def build(
        cls,
        corpus: Iterable[Passage],
        *,
        encoder: str | Path | SentenceTransformer = ENCODER_DEFAULT,
        index: str = "flat",
        device: str = "auto",
        batch_size: int = 32,
    ) -> Self:
        """Encode titles and texts of a corpus and index the vectors.

        Args:
            corpus: Passages with unique ids; blank ones are kept and never match.
            encoder: ``packaged:`` name, Hub id, folder, or a ready ``SentenceTransformer``.
            index: ``"flat"`` (exact), ``"hnsw"``, ``"ivfpq"`` (FAISS), or ``"numpy"`` (exact, without FAISS).
            device: ``"auto"`` or a torch device name, for the encoder.
            batch_size: Texts a forward pass, >= 1.

        Returns:
            The retriever.

        Raises:
            DataError: For an empty corpus, an id that occurs twice, or vectors that are not finite.
            ConfigError: For an unknown index or encoder, or a corpus too small for ``"ivfpq"``.
        """
        check_name(index)
        seal = index_folder.CorpusSeal()
        texts = [passage.full_text for passage in seal.passing(corpus)]
        rows = np.array([row for row, text in enumerate(texts) if text.strip()], dtype=np.int64)
        reader = Encoder(encoder, device=device, batch_size=batch_size)
        counts = {"blank_passages": len(texts) - len(rows)}
        vectors = None
        if len(rows):
            vectors = INDEXES[index](reader.passages([texts[row] for row in rows]))
            if "passages_cut" in reader.counts:
                counts["cut_passages"] = reader.counts["passages_cut"]
        return cls(
            seal.ids,
            rows,
            vectors,
            reader,
            index=index,
            corpus_sha256=seal.sha256,
            corpus_counts=counts,
        )

    def search(self, queries: Sequence[Query], k: int = 10) -> Run:
        """Rank passages for queries by ``Query.text`` (the history is not read).

        Args:
            queries: Queries with unique ids.
            k: Most passages a query, >= 1.

        Returns:
            A ranking for every query, empty for a blank one.

        Raises:
            DataError: When two queries share an id.
            ConfigError: When ``k < 1``.
        """
        return self.search_texts(texts_of(queries), k)

    def search_texts(self, texts: Mapping[str, str], k: int = 10) -> Run:
        """Rank passages for query texts by id; otherwise as ``search``."""
        check_k(k)
        run = Run({query_id: [] for query_id in texts})
        asked = [query_id for query_id, text in texts.items() if text.strip()]
        self.counts["queries"] += len(run)
        self.counts["blank_queries"] += len(run) - len(asked)
        if len(asked) < len(run):
            warn(f"dense: {len(run) - len(asked)} of {len(run)} queries are blank and get an empty list")
        if asked and self._vectors is not None:
            vectors = self.encoder.queries([texts[query_id] for query_id in asked])
            rankings = self._rank(vectors, self._vectors, k)
            run.update(zip(asked, rankings, strict=True))
        return run

    def _rank(self, queries: NDArray[np.float32], index: VectorIndex, k: int) -> list[list[tuple[str, float]]]:
        fetch = min(index.size, k + SPARE)
        found = _neighbours(index, queries, fetch)
        # More passages may tie with the k-th than were fetched: fetch more for those queries.
        while index.exact and fetch < index.size:
            tied = [i for i, (score, _) in enumerate(found) if len(score) == fetch and score[k - 1] == score[-1]]
            if not tied:
                break
            fetch = min(index.size, 2 * fetch)
            for i, wider in zip(tied, _neighbours(index, queries[tied], fetch), strict=True):
                found[i] = wider
        return [self._ranker.top(self._rows[row], score, k) for score, row in found]

    def save(self, folder: Path | str) -> None:
        """Write an index folder, replacing an index that is there. The encoder's weights are not copied.

        Args:
            folder: Where it goes.

        Raises:
            ConfigError: When ``folder`` holds something that is not an index.
        """
        with index_folder.writing(
            folder,
            KIND,
            self._ranker.ids,
            self.corpus_sha256,
            settings=self.settings,
            counts=self._corpus_counts,
        ) as fresh:
            np.save(fresh / "rows.npy", self._rows, allow_pickle=False)
            if self._vectors is not None:
                self._vectors.save(fresh)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        encoder: str | Path | SentenceTransformer | None = None,
        device: str = "auto",
        batch_size: int = 32,
    ) -> Self:
        """Read an index folder and the encoder that made it.

        Args:
            folder: Index folder.
            encoder: Where the encoder is now, or a ready model; by default what the manifest names.
            device: ``"auto"`` or a torch device name, for the encoder.
            batch_size: Texts a forward pass, >= 1.

        Returns:
            The retriever.

        Raises:
            DataError: When the folder is not a dense index, is damaged, or its parts do not belong together.
            ConfigError: When the encoder is another one than made the index, or cannot be found.
        """
        folder = Path(folder)
        stated = index_folder.read_manifest(folder, KIND)
        ids = index_folder.read_ids(folder, stated)
        try:
            name, made_by = str(stated["settings"]["index"]), dict(stated["settings"]["encoder"])
            counts = {str(kind): int(count) for kind, count in stated["counts"].items()}
            fingerprint = str(stated["corpus_sha256"])
            rows = np.load(folder / "rows.npy", allow_pickle=False)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{folder} is a damaged dense index ({error!r}); build it again") from error
        index_folder.check_count(folder / "rows.npy", len(rows) + counts["blank_passages"], stated)
        vectors = load_vectors(folder, name) if len(rows) else None
        if vectors is not None:
            index_folder.check_count(folder, vectors.size + counts["blank_passages"], stated)
        if encoder is None:
            if made_by["spec"] == READY_MADE:
                raise ConfigError(f"{folder} was built with a ready-made model object; give it again as encoder=...")
            encoder = str(made_by["spec"])
        reader = Encoder(encoder, device=device, batch_size=batch_size)
        _check_encoder(folder, made_by, reader)
        return cls(
            ids,
            rows,
            vectors,
            reader,
            index=name,
            corpus_sha256=fingerprint,
            corpus_counts=counts,
        )


def _check_encoder(folder: Path, made_by: Mapping[str, Any], reader: Encoder) -> None:
    found = reader.identity
    differing = found.differences(made_by)
    if differing:
        raise ConfigError(
            f"{folder} was built with encoder {made_by.get('spec')!r} (weights {str(made_by.get('weights'))[:12]}, "
            f"{made_by.get('dimension')} dimensions), but queries would be encoded by {found.spec!r} (weights "
            f"{found.weights[:12]}, {found.dimension} dimensions): vectors of different encoders cannot be compared. "
            f"Built / found: {'; '.join(differing)}. Give the encoder that built the index, or build it again"
        )


def _neighbours(
    index: VectorIndex, queries: NDArray[np.float32], k: int
) -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    scores, rows = index.search(queries, k)
    # FAISS pads short results with row -1 and score -3.4e38; as an index, -1 is the last passage.
    found = zip(scores, rows, rows >= 0, strict=True)
    return [(np.round(score[real], DIGITS), row[real]) for score, row, real in found]
