"""Best of n at query time: several rewrites, and of these the one whose passages the generator can use best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.progress import say
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.rewrite.aggregate import check_names
from utilitune.rewrite.candidate import Candidate, by_query
from utilitune.rewrite.reward import TextSearcher, reward_candidates
from utilitune.rewrite.rewriter import Rewrite, Rewriter
from utilitune.rewrite.sample import EXTRA_SOURCES, check_sampling, check_sources, sample_candidates

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator
    from utilitune.scoring.protocol import Utility


class BestOf:
    """Chooses among a rewriter's greedy answer, its samples and cheap candidates by utility; no gold is read.

    It costs n rewrites and up to (n + cheap ones) x k labels a question. ``counts`` runs along: ``rewritten`` (a
    candidate other than the question was chosen), ``kept`` (the question was worth most), ``fallback`` (no candidate
    had a utility, so the question stands), ``stand-alone`` (no history), and what sampling (its ``fallback`` as
    ``unusable``) and labelling count.
    """

    def __init__(
        self,
        rewriter: Rewriter,
        retrievers: Mapping[str, TextSearcher],
        corpus: Iterable[Passage],
        utilities: Sequence[str | Mapping[str, Any] | Utility],
        generator: Generator,
        *,
        n: int = 4,
        temperature: float = 0.9,
        top_p: float = 0.95,
        include: Sequence[str] = EXTRA_SOURCES,
        k: int = 3,
        aggregate: str = "max",
        scale: str = "pooled",
        fused: bool = False,
        seed: int = 13,
        store: Path | str | None = None,
    ) -> None:
        """Keep what a question needs.

        Args:
            rewriter: Tuned or not.
            retrievers: The retrievers that will search with the choice.
            corpus: Their passages.
            utilities: As ``reward_candidates``.
            generator: The model that will read the passages.
            n: Samples a question.
            temperature: Sampling temperature.
            top_p: Nucleus mass in (0, 1].
            include: As ``sample_candidates``.
            k: As ``reward_candidates``.
            aggregate: As ``reward_candidates``.
            scale: As ``reward_candidates``; utilities and retrievers are put on one scale over the questions of a
                call, so ask many at once, or take ``z-score`` or ``rank``.
            fused: As ``reward_candidates``.
            seed: Sampler seed.
            store: Response store file, so that a second run is free.

        Raises:
            ConfigError: For an unknown name, or a temperature or ``top_p`` out of range.
        """
        check_sampling(temperature, top_p)
        check_names(aggregate, scale)
        check_sources(include)
        self.rewriter, self.retrievers = rewriter, dict(retrievers)
        self.corpus = {passage.id: passage for passage in corpus}
        self.utilities, self.generator = list(utilities), generator
        self.n, self.temperature, self.top_p, self.include, self.seed = n, temperature, top_p, tuple(include), seed
        self.k, self.aggregate, self.scale, self.fused, self.store = k, aggregate, scale, fused, store
        self.counts: Counter[str] = Counter({"rewritten": 0, "kept": 0, "fallback": 0, "stand-alone": 0})

    def rewrite_batch(self, queries: Sequence[Query]) -> list[Rewrite]:
        """Choose a rewrite for each question, in order.

        Args:
            queries: Questions with their history.

        Returns:
            One rewrite a question; the question itself where there is no history or no utility.
        """
        asked = [query for query in queries if query.history]
        sampled = sample_candidates(
            asked,
            self.rewriter.generator,
            n=self.n,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            include=self.include,
            prompt=self.rewriter.prompt,
            max_new_tokens=self.rewriter.max_new_tokens,
            store=self.store,
        )
        rewarded = reward_candidates(
            sampled,
            self.retrievers,
            asked,
            self.corpus,
            self.utilities,
            self.generator,
            k=self.k,
            store=self.store,
            aggregate=self.aggregate,
            scale=self.scale,
            fused=self.fused,
            max_failed=1.0,  # a question without labels has a fallback, which is counted
        )
        groups = by_query(rewarded)
        made = [self._choose(query, groups.get(query.id, [])) for query in queries]
        # A sample that the question stood in for is no question that fell back.
        written = {"unusable" if name == "fallback" else name: count for name, count in sampled.counts.items()}
        self.counts.update({**written, "unlabelled": rewarded.counts["unlabelled"]})
        say(f"best of {self.n}: " + ", ".join(f"{name} {count}" for name, count in self.counts.items() if count))
        return made

    def _choose(self, query: Query, candidates: Sequence[Candidate]) -> Rewrite:
        question = " ".join(query.text.split())
        # A text that finds nothing is no choice, even where nothing else could be labelled.
        found = [row for row in candidates if row.utility is not None and any(row.passages.values())]
        worth = [(row.utility, -at, row) for at, row in enumerate(found)]
        if not worth:
            self.counts["fallback" if query.history else "stand-alone"] += 1
            return Rewrite(query.id, question, fallback=bool(query.history))
        best = max(worth)[2]  # of equals the first: the question before what was made of it
        self.counts["kept" if best.source == "original" else "rewritten"] += 1
        return Rewrite(query.id, best.text, fallback=False)
