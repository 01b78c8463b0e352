"""Fits (query, passage) pairs into the model, in training and in prediction alike, and counts what it cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from utilitune.errors import ConfigError

_SPARE = 4  # tokens below which a limit leaves no room for anything


class PairTrimmer:
    """Shortens texts by tokens before the tokenizer sees the pair, so that its own cut never comes into play.

    A query keeps up to ``query_share`` of the room whatever its passage, so that all candidates of a query
    are read with the same words; the passage is cut to what is left.
    """

    def __init__(self, tokenizer: Any, limit: int, query_share: float = 0.5) -> None:
        """Set up for one model.

        Args:
            tokenizer: A fast tokenizer (it must know where its tokens lie in the text).
            limit: Tokens a pair, special tokens included.
            query_share: Share of the room that a long query keeps, in (0, 1).

        Raises:
            ConfigError: If the tokenizer has no offsets, or the limit leaves no room.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise ConfigError(
                f"{type(tokenizer).__name__} cannot tell where its tokens lie in the text; "
                "a base model with a fast tokenizer (tokenizer.json) is needed"
            )
        self.tokenizer = tokenizer
        self.limit = limit
        self.room = limit - int(tokenizer.num_special_tokens_to_add(pair=True))
        self.query_share = query_share
        self.counts: Counter[str] = Counter(pairs=0, truncated_pairs=0, truncated_queries=0, truncated_passages=0)
        if self.room < _SPARE:
            raise ConfigError(f"{limit} tokens a pair leave {self.room} for query and passage; raise max_length")

    def trim(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the pairs, shortened where they do not fit.

        Args:
            pairs: (query, passage).

        Returns:
            As many pairs, in order; each within ``limit`` tokens.
        """
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        ends = dict(zip(texts, self._token_ends(texts), strict=True))
        fitted = []
        for query, passage in pairs:
            self.counts["pairs"] += 1
            query_size = min(len(ends[query]), max(int(self.room * self.query_share), 1))
            shorter_query = self._cut(query, ends[query], query_size)
            shorter_passage = self._cut(passage, ends[passage], self.room - query_size)
            self.counts["truncated_pairs"] += (shorter_query, shorter_passage) != (query, passage)
            self.counts["truncated_queries"] += shorter_query != query
            self.counts["truncated_passages"] += shorter_passage != passage
            fitted.append((shorter_query, shorter_passage))
        return fitted

    @property
    def truncated_share(self) -> float:
        """Share of the pairs seen so far that were shortened, in [0, 1]."""
        return self.counts["truncated_pairs"] / max(self.counts["pairs"], 1)

    def _token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Return where each token of each text ends, in characters."""
        if not texts:
            return []
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            truncation=False,
            padding=False,
            verbose=False,
        )
        return [[end for _, end in offsets] for offsets in encoded["offset_mapping"]]

    def _cut(self, text: str, ends: Sequence[int], size: int) -> str:
        if len(ends) <= size:
            return text
        # A cut text can tokenize into more tokens than it had as a beginning (merges change): cut again.
        for keep in range(size, 0, -1):
            shorter = text[: ends[keep - 1]]
            if len(self._token_ends([shorter])[0]) <= size:
                return shorter
        return ""
