"""The utility as a live reward: what the rewrites that a policy has just sampled are worth. No gold anywhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from utilitune.errors import DataError
from utilitune.progress import hushed, say
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.rewrite.aggregate import check_names
from utilitune.rewrite.candidate import Candidate
from utilitune.rewrite.clean import clean_rewrite, normalise
from utilitune.rewrite.expected_mrr import EXPECTED_MRR
from utilitune.rewrite.reward import TextSearcher, reward_candidates

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator
    from utilitune.scoring.protocol import Utility


class LiveReward:
    """Gives sampled texts the utility of what they retrieve, on the aggregate's own scale.

    A text is cleaned as the rewriter cleans it; an unusable one gets what the question as typed is worth, since that
    is what would be searched for. ``counts`` runs along: ``texts``, ``fallback`` (unusable), ``unlabelled`` (no label
    could be had: the mean of the question's other samples stands in, so that it teaches nothing), ``wanted`` and
    ``repeated`` as ``reward_candidates`` has them.
    """

    def __init__(
        self,
        queries: Iterable[Query],
        retrievers: Mapping[str, TextSearcher],
        corpus: Iterable[Passage],
        utilities: Sequence[str | Mapping[str, Any] | Utility],
        generator: Generator,
        *,
        k: int = 3,
        aggregate: str = "max",
        fused: bool = False,
        store: Path | str | None = None,
        anchors: Iterable[Candidate] = (),
    ) -> None:
        """Keep everything that a call needs.

        Args:
            queries: The conversational questions.
            retrievers: Retrievers by name.
            corpus: Their passages.
            utilities: Utilities; all in the same unit, or one, unless the aggregate is ``expected-mrr``, which has
                none: their raw values are averaged.
            generator: The model whose gain counts.
            k: Passages a text and retriever.
            aggregate: As ``reward_candidates``, over the texts of one call.
            fused: As ``reward_candidates``.
            store: Label store file: a text that comes again costs nothing.
            anchors: Other texts for the questions, such as the candidates of the pairs. Under ``expected-mrr`` what
                they find counts for the belief as well, so that samples which are all alike are still told to be
                good or bad; no other aggregate compares, and none reads them.

        Raises:
            ConfigError: For an unknown aggregate or utility.
            DataError: If none of the anchors is for one of the questions.
        """
        from utilitune.scoring.registry import make_utility

        check_names(aggregate, "raw")
        self.queries = {query.id: query for query in queries}
        self.retrievers = dict(retrievers)
        self.corpus = {passage.id: passage for passage in corpus}
        self.utilities = [make_utility(one) for one in utilities]
        self.generator = generator
        self.k, self.aggregate, self.fused, self.store = k, aggregate, fused, store
        self.anchors = self._known(anchors) if aggregate == EXPECTED_MRR else {}
        self.counts: Counter[str] = Counter(
            {"texts": 0, "fallback": 0, "unlabelled": 0, "empty": 0, "wanted": 0, "repeated": 0}
        )

    @property
    def is_relative(self) -> bool:
        """Whether a value compares a text with the others of its call alone, and its level says nothing.

        ``expected-mrr`` believes in what the texts of the call have found: without anchors, it is 1 where all are
        alike.
        """
        return self.aggregate == EXPECTED_MRR and len(self.anchors) < len(self.queries)

    @property
    def inputs(self) -> dict[str, Any]:
        """What makes the numbers what they are, JSON-ready; a resumed training refuses another."""
        from utilitune.retrieval.index_folder import corpus_hash

        return {
            "generator": self.generator.identity.key(),
            "utilities": [{"name": one.name, **one.parameters} for one in self.utilities],
            # Ours say what can change a ranking; a searcher of somebody else's has its name alone.
            "retrievers": {name: getattr(one, "settings", None) for name, one in sorted(self.retrievers.items())},
            "corpus": corpus_hash(list(self.corpus.values())),
            "k": self.k,
            "aggregate": self.aggregate,
            "fused": self.fused,
            "anchors": self._anchors_hash(),
        }

    def _known(self, anchors: Iterable[Candidate]) -> dict[str, dict[str, Candidate]]:
        """Return the anchors of the questions, by question and normalised text, each text once."""
        found: dict[str, dict[str, Candidate]] = {}
        given = list(anchors)
        for one in given:
            if one.query_id in self.queries:
                found.setdefault(one.query_id, {}).setdefault(normalise(one.text), one)
        if given and not found:
            raise DataError(
                f"none of the {len(given)} anchors is for one of the {len(self.queries)} questions, first for "
                f"{given[0].query_id!r}; give the candidates of these questions"
            )
        if found and len(found) < len(self.queries):
            say(f"reward: {len(self.queries) - len(found)} of {len(self.queries)} questions have no anchors")
        return found

    def _anchors_hash(self) -> str:
        texts = sorted((one.query_id, one.text) for own in self.anchors.values() for one in own.values())
        return sha256(json.dumps(texts).encode()).hexdigest()

    def __call__(self, query_ids: Sequence[str], texts: Sequence[str]) -> list[float]:
        """Return the utility of each text.

        Args:
            query_ids: The question that each text is for.
            texts: What the policy wrote, as it wrote it.

        Returns:
            One finite number a text, in the unit of the utilities.

        Raises:
            DataError: For a question that is not known, or when no label at all could be had.
        """
        unknown = sorted(set(query_ids) - set(self.queries))
        if unknown:
            raise DataError(f"{len(unknown)} questions to reward are not among the queries, first {unknown[0]!r}")
        used = [self._usable(query_id, text) for query_id, text in zip(query_ids, texts, strict=True)]
        keys = [(query_id, normalise(text)) for query_id, text in zip(query_ids, used, strict=True)]
        distinct = {key: Candidate(key[0], text, "sample") for key, text in zip(keys, used, strict=True)}
        asked = {query_id: self.queries[query_id] for query_id in query_ids}
        others = [
            one for name in asked for text, one in self.anchors.get(name, {}).items() if (name, text) not in distinct
        ]
        with hushed():
            rewarded = reward_candidates(
                [*distinct.values(), *others],
                self.retrievers,
                asked.values(),
                self.corpus,
                self.utilities,
                self.generator,
                k=self.k,
                store=self.store,
                aggregate=self.aggregate,
                scale="raw",
                fused=self.fused,
                max_failed=1.0,  # judged below: a step has too few labels for a share
            )
        own = rewarded[: len(distinct)]
        if distinct and all(row.utility is None for row in own):
            raise DataError(f"none of the samples of {', '.join(asked)} could be labelled; look at the generator")
        values = dict(zip(distinct, (row.utility for row in own), strict=True))
        self.counts["texts"] += len(texts)
        self.counts.update({name: rewarded.counts[name] for name in ("empty", "wanted", "repeated")})
        return self._filled(query_ids, [values[key] for key in keys])

    def _usable(self, query_id: str, text: str) -> str:
        cleaned = clean_rewrite(text)
        if cleaned is None:
            self.counts["fallback"] += 1
            return " ".join(self.queries[query_id].text.split())
        return cleaned

    def _filled(self, query_ids: Sequence[str], values: Sequence[float | None]) -> list[float]:
        """Put the mean of a question's other samples where a label is missing."""
        known: dict[str, list[float]] = {}
        for query_id, value in zip(query_ids, values, strict=True):
            if value is not None:
                known.setdefault(query_id, []).append(value)
        self.counts["unlabelled"] += sum(value is None for value in values)
        return [
            fmean(known.get(query_id, [0.0])) if value is None else value
            for query_id, value in zip(query_ids, values, strict=True)
        ]
