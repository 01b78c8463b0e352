"""The two BM25 libraries behind one interface: term ids in, matching corpus positions and scores out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError

Hits = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]

# rank_bm25 walks all passages in Python for every query term; beyond this it is minutes a query batch.
RANK_BM25_SLOW_FROM = 20_000


@dataclass(frozen=True)
class Bm25Settings:
    """Numbers of a BM25 formula.

    Attributes:
        k1: Term frequency saturation, >= 0.
        b: Length normalisation, in [0, 1].
        delta: Lower bound of a matching term's weight; read by the BM25L and BM25+ forms alone.
        method: Name of the form, one of the engine's ``METHODS``.
    """

    k1: float
    b: float
    delta: float
    method: str

    def check(self, known: Sequence[str], engine: str) -> None:
        """Refuse settings outside their range.

        Args:
            known: Methods of the engine.
            engine: Its name, for the message.

        Raises:
            ConfigError: Naming every setting that is wrong.
        """
        wrong = []
        if not 0 <= self.k1 < float("inf"):
            wrong.append(f"k1 is {self.k1}; expected a number >= 0")
        if not 0 <= self.b <= 1:
            wrong.append(f"b is {self.b}; expected a number in [0, 1]")
        if not 0 <= self.delta < float("inf"):
            wrong.append(f"delta is {self.delta}; expected a number >= 0")
        if self.method not in known:
            wrong.append(f"method {self.method!r} is not one of engine {engine!r}'s: {', '.join(known)}")
        if wrong:
            raise ConfigError("BM25: " + "; ".join(wrong))


class Bm25Engine(Protocol):
    """What a BM25 library is asked to do."""

    METHODS: ClassVar[tuple[str, ...]]

    @classmethod
    def build(cls, documents: list[list[int]], vocabulary: dict[str, int], settings: Bm25Settings) -> Self:
        """Index documents of term ids; at least one term in all."""
        ...

    @property
    def size(self) -> int:
        """Number of documents."""
        ...

    @property
    def vocabulary(self) -> dict[str, int]:
        """Term -> id."""
        ...

    def search(self, term_ids: list[int]) -> Hits:
        """Return the positions of all documents that hold a query term, and their scores, both ``(n,)``."""
        ...

    def save(self, folder: Path) -> None:
        """Write the index files."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote."""
        ...


class Bm25s:
    """bm25s: scores computed when indexing, a sparse column a term (arXiv 2407.03618).

    ``lucene`` scores ``sum of ln(1 + (N - n + .5) / (n + .5)) * f / (f + k1 * (1 - b + b * length / mean length))``
    over the query's terms. The other forms are those of Kamphuis et al., ECIR 2020. Scores are float32.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("lucene", "robertson", "atire", "bm25l", "bm25+")

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def build(cls, documents: list[list[int]], vocabulary: dict[str, int], settings: Bm25Settings) -> Self:
        """Index documents of term ids; at least one term in all."""
        import bm25s

        model = bm25s.BM25(**asdict(settings))
        model.index((documents, vocabulary), create_empty_token=False, show_progress=False)
        return cls(model)

    @property
    def size(self) -> int:
        """Number of documents."""
        return int(self._model.scores["num_docs"])

    @property
    def vocabulary(self) -> dict[str, int]:
        """Term -> id."""
        vocabulary: dict[str, int] = self._model.vocab_dict
        return vocabulary

    def search(self, term_ids: list[int]) -> Hits:
        """Return the positions of all documents that hold a query term, and their scores, both ``(n,)``."""
        # Which documents match is read from the index itself: a score cannot tell, as BM25+ and BM25L give every
        # document something and Robertson's form gives a common term nothing.
        starts, documents = self._model.scores["indptr"], self._model.scores["indices"]
        matched = np.zeros(self.size, dtype=bool)
        for term in set(term_ids):
            matched[documents[starts[term] : starts[term + 1]]] = True
        positions = np.flatnonzero(matched)
        return positions, self._model.get_scores_from_ids(term_ids)[positions]

    def save(self, folder: Path) -> None:
        """Write the library's own files: ``.npy`` arrays without pickle, JSON vocabulary and parameters."""
        self._model.save(folder, allow_pickle=False, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote."""
        import bm25s

        return cls(bm25s.BM25.load(folder, allow_pickle=False, show_progress=False, backend="numpy"))


class RankBm25:
    """rank_bm25: the small reference; every query walks the whole corpus.

    Its own formulas differ from the textbook's: ``okapi`` has the factor ``k1 + 1`` and replaces a negative
    inverse document frequency by a quarter of the vocabulary's mean one (which is itself negative in tiny corpora:
    a match may score below zero and still ranks above what does not match); its ``bm25l`` multiplies by the term
    frequency once more than BM25L does; ``bm25+`` is the published form. Scores are float64.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("okapi", "bm25l", "bm25+")

    def __init__(
        self, model: Any, documents: list[list[int]], vocabulary: dict[str, int], settings: Bm25Settings
    ) -> None:
        self._model = model
        self._documents = documents
        self._vocabulary = vocabulary
        self._settings = settings
        self._holding: dict[int, list[int]] = {}
        for position, terms in enumerate(documents):
            for term in set(terms):
                self._holding.setdefault(term, []).append(position)

    @classmethod
    def build(cls, documents: list[list[int]], vocabulary: dict[str, int], settings: Bm25Settings) -> Self:
        """Index documents of term ids; at least one term in all."""
        import rank_bm25

        numbers = {"k1": settings.k1, "b": settings.b}
        if settings.method == "okapi":
            model = rank_bm25.BM25Okapi(documents, **numbers)
        elif settings.method == "bm25l":
            model = rank_bm25.BM25L(documents, delta=settings.delta, **numbers)
        else:
            model = rank_bm25.BM25Plus(documents, delta=settings.delta, **numbers)
        return cls(model, documents, vocabulary, settings)

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self._documents)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Term -> id."""
        return self._vocabulary

    def search(self, term_ids: list[int]) -> Hits:
        """Return the positions of all documents that hold a query term, and their scores, both ``(n,)``."""
        matched = sorted({position for term in term_ids for position in self._holding[term]})
        positions = np.array(matched, dtype=np.int64)
        return positions, self._model.get_scores(term_ids)[positions]

    def save(self, folder: Path) -> None:
        """Write the documents' term ids; the statistics are made from them again when loading."""
        flat = np.array([term for terms in self._documents for term in terms], dtype=np.int64)
        lengths = np.array([len(terms) for terms in self._documents], dtype=np.int64)
        np.savez(folder / "documents.npz", terms=flat, lengths=lengths)
        settings = {"vocabulary": self._vocabulary, "settings": asdict(self._settings)}
        (folder / "vocabulary.json").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote."""
        stored = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        with np.load(folder / "documents.npz", allow_pickle=False) as arrays:
            pieces = np.split(arrays["terms"], np.cumsum(arrays["lengths"])[:-1])
        return cls.build([piece.tolist() for piece in pieces], stored["vocabulary"], Bm25Settings(**stored["settings"]))


ENGINES: dict[str, type[Bm25s] | type[RankBm25]] = {"bm25s": Bm25s, "rank-bm25": RankBm25}
