"""BM25 over a corpus, on bm25s or on rank_bm25."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from utilitune.errors import ConfigError, DataError
from utilitune.progress import progress, warn
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.retrieval import index_folder
from utilitune.retrieval.bm25_engines import (
    ENGINES,
    RANK_BM25_SLOW_FROM,
    Bm25Engine,
    Bm25Settings,
)
from utilitune.retrieval.ranking import Ranker, check_k, texts_of
from utilitune.retrieval.tokenise import Tokeniser

KIND = "bm25"


class Bm25Retriever:
    """Lexical retriever. Make one with ``build`` or ``load``.

    A passage is a hit when it shares at least one term with the query; nothing else is ever returned, so a query
    without a known term gets an empty list. Equal scores stand in descending order of passage id.

    Args:
        ids: Passage ids in index order.
        engine: The index, ``None`` when no passage has a term.
        engine_name: Its key in ``ENGINES``.
        settings: Numbers of the formula.
        tokeniser: How text is split.
        corpus_sha256: Fingerprint of the corpus.
        blank_passages: Number of passages without a term.

    Attributes:
        corpus_sha256: Fingerprint of the corpus (``corpus_hash``).
        counts: ``blank_passages`` of the corpus; ``queries``, ``queries_without_terms`` and
            ``queries_without_hits`` over all searches so far.
    """

    corpus_sha256: str
    counts: dict[str, int]

    def __init__(
        self,
        ids: Sequence[str],
        engine: Bm25Engine | None,
        *,
        engine_name: str,
        settings: Bm25Settings,
        tokeniser: Tokeniser,
        corpus_sha256: str,
        blank_passages: int,
    ) -> None:
        self.corpus_sha256 = corpus_sha256
        self.counts = {"blank_passages": blank_passages}
        self.counts |= {"queries": 0, "queries_without_terms": 0, "queries_without_hits": 0}
        self._engine = engine
        self._engine_name = engine_name
        self._settings = settings
        self._tokeniser = tokeniser
        self._ranker = Ranker(ids)

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._ranker.ids)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that can change a ranking, as JSON-ready values."""
        return {
            "engine": self._engine_name,
            **asdict(self._settings),
            "tokeniser": self._tokeniser.as_dict(),
        }

    @classmethod
    def build(
        cls,
        corpus: Iterable[Passage],
        *,
        k1: float = 0.9,
        b: float = 0.4,
        delta: float = 0.5,
        engine: str = "bm25s",
        method: str | None = None,
        tokeniser: Tokeniser | None = None,
    ) -> Self:
        """Index titles and texts of a corpus.

        Args:
            corpus: Passages with unique ids; blank ones are kept and never match.
            k1: Term frequency saturation, >= 0.
            b: Length normalisation, in [0, 1].
            delta: Constant of the BM25L and BM25+ forms, >= 0.
            engine: ``"bm25s"``, or ``"rank-bm25"`` for small corpora and comparisons.
            method: Form of the formula: ``lucene`` (default), ``robertson``, ``atire``, ``bm25l``, ``bm25+`` on bm25s;
                ``okapi`` (default), ``bm25l``, ``bm25+`` on rank-bm25.
            tokeniser: How text is split; ``Tokeniser()`` by default.

        Returns:
            The retriever.

        Raises:
            DataError: For an empty corpus or an id that occurs twice.
            ConfigError: For an unknown engine or method, or numbers out of range.
        """
        if engine not in ENGINES:
            raise ConfigError(f"unknown BM25 engine {engine!r}; known: {', '.join(ENGINES)}")
        made = ENGINES[engine]
        settings = Bm25Settings(float(k1), float(b), float(delta), method or made.METHODS[0])
        settings.check(made.METHODS, engine)
        tokeniser = tokeniser or Tokeniser()
        seal = index_folder.CorpusSeal()
        vocabulary: dict[str, int] = {}
        documents: list[list[int]] = []
        total = len(corpus) if isinstance(corpus, Sequence) else 0
        with progress("index (BM25)", total, "passages") as bar:
            for passage in seal.passing(corpus):
                terms = tokeniser(passage.full_text)
                documents.append([vocabulary.setdefault(term, len(vocabulary)) for term in terms])
                bar.advance()
        if engine == "rank-bm25" and len(documents) > RANK_BM25_SLOW_FROM:
            warn(f"rank-bm25 walks all {len(documents)} passages for every query term; engine 'bm25s' does not")
        return cls(
            seal.ids,
            # Neither library can index a corpus without a single term.
            made.build(documents, vocabulary, settings) if vocabulary else None,
            engine_name=engine,
            settings=settings,
            tokeniser=tokeniser,
            corpus_sha256=seal.sha256,
            blank_passages=sum(not terms for terms in documents),
        )

    def search(self, queries: Sequence[Query], k: int = 10) -> Run:
        """Rank passages for queries by ``Query.text`` (the history is not read).

        Args:
            queries: Queries with unique ids.
            k: Most passages a query, >= 1.

        Returns:
            A ranking for every query, empty where nothing matches.

        Raises:
            DataError: When two queries share an id.
            ConfigError: When ``k < 1``.
        """
        return self.search_texts(texts_of(queries), k)

    def search_texts(self, texts: Mapping[str, str], k: int = 10) -> Run:
        """Rank passages for query texts by id; otherwise as ``search``."""
        check_k(k)
        run = Run()
        termless = 0
        with progress("retrieve (BM25)", len(texts), "queries") as bar:
            for query_id, text in texts.items():
                terms = self._tokeniser(text)
                termless += not terms
                run[query_id] = self._rank(terms, k)
                bar.advance()
        hitless = [query_id for query_id, ranking in run.items() if not ranking]
        self.counts["queries"] += len(run)
        self.counts["queries_without_terms"] += termless
        self.counts["queries_without_hits"] += len(hitless)
        if hitless:
            warn(
                f"BM25: {len(hitless)} of {len(run)} queries match no passage ({termless} have no term at all) and get "
                f"an empty list, such as {hitless[0]!r}: {texts[hitless[0]][:60]!r}"
            )
        return run

    def _rank(self, terms: Sequence[str], k: int) -> list[tuple[str, float]]:
        if self._engine is None:
            return []
        vocabulary = self._engine.vocabulary
        known = [vocabulary[term] for term in terms if term in vocabulary]
        return self._ranker.top(*self._engine.search(known), k) if known else []

    def save(self, folder: Path | str) -> None:
        """Write an index folder, replacing an index that is there.

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
            counts={"blank_passages": self.counts["blank_passages"]},
        ) as fresh:
            if self._engine is not None:
                self._engine.save(fresh)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read an index folder.

        Args:
            folder: Index folder.

        Returns:
            The retriever.

        Raises:
            DataError: When the folder is not a BM25 index, is damaged, or its parts do not belong together.
        """
        stated = index_folder.read_manifest(folder, KIND)
        ids = index_folder.read_ids(folder, stated)
        try:
            settings = dict(stated["settings"])
            engine_name = settings.pop("engine")
            tokeniser = Tokeniser.from_dict(settings.pop("tokeniser"))
            blank = int(stated["counts"]["blank_passages"])
            engine = ENGINES[engine_name].load(Path(folder)) if blank < len(ids) else None
            numbers = Bm25Settings(**settings)
            fingerprint = str(stated["corpus_sha256"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{folder} is a damaged BM25 index ({error!r}); build it again") from error
        if engine is not None:
            index_folder.check_count(folder, engine.size, stated)
        return cls(
            ids,
            engine,
            engine_name=engine_name,
            settings=numbers,
            tokeniser=tokeniser,
            corpus_sha256=fingerprint,
            blank_passages=blank,
        )
