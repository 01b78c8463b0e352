"""Preference pairs: which of a question's candidates to write, which not, and why a question gave none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, overload

from utilitune.errors import ConfigError, DataError
from utilitune.records.pair import PreferencePair
from utilitune.rewrite.base_spec import Spec
from utilitune.rewrite.candidate import Candidate, Source, by_query
from utilitune.rewrite.chat_format import ChatFormat
from utilitune.rewrite.clean import normalise
from utilitune.rewrite.pairing import PAIRINGS, worth
from utilitune.rewrite.tokens import ChatTokenizer, load_tokenizer

REASONS = {
    "single": "fewer than two candidates",
    "other-sources": "fewer than two candidates of the wanted sources (--source; in a recipe rewriter.pairs.sources)",
    "invalid": "fewer than two candidates with a finite utility",
    "tie": "best and worst are worth the same",
    "identical": "best and worst are the same text after normalisation",
    "identical-tokens": "both sides are the same tokens once cut to max_length",
    "too-long": "prompt and completion exceed max_length tokens (--max-length; in a recipe rewriter.pairs.max_length)",
    "below-margin": "the margin is below the least wanted",
}


class NoPairsError(DataError):
    """No pair is left; ``pair_set`` holds the drop counts."""

    def __init__(self, pair_set: PairSet) -> None:
        super().__init__(
            "no preference pair is left, so there is nothing to train on:\n"
            f"{pair_set.explain()}\n"
            "Sample more candidates (n, temperature), add retrievers or questions, or lower the margin."
        )
        self.pair_set = pair_set


@dataclass(frozen=True)
class PairSet(Sequence[PreferencePair]):
    """Pairs with what was dropped on the way; a sequence of pairs in order of the questions.

    Attributes:
        pairs: The pairs.
        drops: ``{reason: pairs or questions dropped}``; the reasons are the keys of ``REASONS``.
        questions: Number of questions looked at.
        margin: Least margin after calibration to ``keep``.
        invalid_candidates: Candidates without a finite utility.
        other_sources: Candidates of sources that no pair may hold.
    """

    pairs: tuple[PreferencePair, ...]
    drops: Mapping[str, int]
    questions: int = 0
    margin: float = 0.0
    invalid_candidates: int = 0
    other_sources: int = 0
    _by_query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @overload
    def __getitem__(self, index: int) -> PreferencePair: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PreferencePair]: ...
    def __getitem__(self, index: int | slice) -> PreferencePair | Sequence[PreferencePair]:
        """Return a pair, or pairs for a slice."""
        return self.pairs[index]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.pairs)

    def __iter__(self) -> Iterator[PreferencePair]:
        """Iterate over the pairs."""
        return iter(self.pairs)

    def dropped(self) -> dict[str, str]:
        """Return ``{query_id: reason}`` of every question with a drop (the last one, when there are several)."""
        return dict(self._by_query)

    def samples(self, n: int = 5) -> str:
        """Return ``n`` pairs to look at, spread evenly from the largest margin to the least.

        Args:
            n: How many, >= 1.

        Returns:
            For each the question as asked, and both sides with their utility and passages.
        """
        ranked = sorted(self.pairs, key=lambda pair: -pair.margin)
        n = min(n, len(ranked))
        shown = [ranked[at * (len(ranked) - 1) // max(1, n - 1)] for at in range(n)]
        return "\n\n".join(_shown(pair) for pair in shown)

    def explain(self) -> str:
        """Return the drop table: one line a reason, kept pairs first."""
        lines = [f"{'questions':<18}{self.questions:>7}", f"{'pairs kept':<18}{len(self.pairs):>7}"]
        if self.pairs:
            lines[-1] += f"   margin {min(pair.margin for pair in self.pairs):.4g} or more"
        for reason, meaning in REASONS.items():
            if self.drops.get(reason):
                lines.append(f"{reason:<18}{self.drops[reason]:>7}   {meaning}")
        if self.invalid_candidates:
            lines.append(f"({self.invalid_candidates} candidates had no finite utility)")
        if self.other_sources:
            lines.append(f"({self.other_sources} candidates of other sources left out)")
        return "\n".join(lines)


def build_pairs(
    candidates: Iterable[Candidate],
    *,
    margin: float = 0.0,
    keep: float = 0.5,
    pairs_per_query: int = 1,
    pairing: str = "best-worst",
    sources: Collection[str] = (),
    tokenizer: ChatTokenizer | Spec | None = None,
    max_length: int = 512,
) -> PairSet:
    """Pair better candidates of a question with worse ones.

    Pairs whose margin is below ``margin`` go; of the rest, those whose margin is among the best ``keep`` share
    stay (all that equal the last one).

    Args:
        candidates: Rewarded candidates of any number of questions.
        margin: Least ``chosen - rejected`` utility, >= 0; a margin of 0 is always a tie.
        keep: Share of pairs to keep by margin, in (0, 1].
        pairs_per_query: Most pairs a question, >= 1.
        pairing: ``best-worst`` (with more pairs a question, then second best with second worst, and so on),
            ``all`` (ordered pairs, largest margins first) or ``best-few`` (best with worst, with second worst, ...).
        sources: Where a pair's sides may come from (``Candidate.source``), anywhere when empty. ``sample``, ``greedy``
            and ``original`` keep to what the rewriter says by itself: a rewriter that imitates the forms made from
            the conversation learns when *these* questions want them, which other data need not share. A text that a
            form and the model both gave counts as the form.
        tokenizer: Tokenizer of the rewriter's base, or a model spec to load it from; without one, length and
            token-level equality are left to ``train_dpo``.
        max_length: Longest prompt + completion in tokens.

    Returns:
        The pairs and the drop counts.

    Raises:
        ConfigError: For an option out of range, or an unknown source.
        NoPairsError: When nothing is left (a ``DataError``), with the drop table. No model has been loaded by
            then.
    """
    check_pair_options(
        margin=margin,
        keep=keep,
        pairs_per_query=pairs_per_query,
        max_length=max_length,
        pairing=pairing,
        sources=sources,
    )
    screen = PairScreen.of(tokenizer, max_length)
    drops: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    made: list[PreferencePair] = []
    groups = by_query(candidates)
    invalid = other = 0

    def drop(query_id: str, reason: str) -> None:
        drops[reason] += 1
        reasons[query_id] = reason

    for query_id, group in groups.items():
        wanted = [row for row in group if not sources or row.source in sources]
        other += len(group) - len(wanted)
        valid = [row for row in wanted if row.utility is not None and math.isfinite(row.utility)]
        invalid += len(wanted) - len(valid)
        pairs = _meet(valid, pairs_per_query, pairing)
        if not pairs:
            drop(query_id, _why_none(group, wanted, valid))
        for best, worst in pairs:
            pair = _pair(best, worst)
            reason = screen.reason(pair) or ("below-margin" if pair.margin < margin else None)
            if reason:
                drop(query_id, reason)
            else:
                made.append(pair)

    threshold = max(margin, _quantile([pair.margin for pair in made], keep))
    kept = [pair for pair in made if pair.margin >= threshold]
    for pair in made:
        if pair.margin < threshold:
            drop(pair.query_id, "below-margin")
    result = PairSet(
        pairs=tuple(kept),
        drops={reason: drops[reason] for reason in REASONS if drops[reason]},
        questions=len(groups),
        margin=threshold,
        invalid_candidates=invalid,
        other_sources=other,
        _by_query=reasons,
    )
    if not kept:
        raise NoPairsError(result)
    return result


def check_pair_options(
    *,
    margin: float,
    keep: float,
    pairs_per_query: int,
    max_length: int,
    pairing: str = "best-worst",
    sources: Collection[str] = (),
) -> None:
    """Look at the options of ``build_pairs``, for callers with hours of work before it.

    Args:
        margin: Least margin, >= 0.
        keep: Share of pairs to keep, in (0, 1].
        pairs_per_query: Most pairs a question, >= 1.
        max_length: Longest prompt + completion in tokens, >= 1.
        pairing: A name of ``PAIRINGS``.
        sources: Names of ``Source``; none is all.

    Raises:
        ConfigError: If any is out of range or unknown.
    """
    if pairing not in PAIRINGS:
        raise ConfigError(f"pairing={pairing!r} is unknown; known: {', '.join(PAIRINGS)}")
    if unknown := sorted(set(sources) - set(get_args(Source))):
        raise ConfigError(f"sources {', '.join(unknown)} are unknown; known: {', '.join(get_args(Source))}")
    if not (0 < keep <= 1 and margin >= 0 and pairs_per_query >= 1 and max_length >= 1):
        raise ConfigError(
            f"keep={keep} (expected 0 < keep <= 1), margin={margin} (>= 0), pairs_per_query={pairs_per_query} (>= 1), "
            f"max_length={max_length} (>= 1): at least one is out of range"
        )


@dataclass(frozen=True)
class PairScreen:
    """The checks that need tokens; none without a tokenizer.

    Attributes:
        chat: Chat format of the base, or ``None``.
        max_length: Longest prompt + completion in tokens.
    """

    chat: ChatFormat | None
    max_length: int

    @classmethod
    def of(cls, tokenizer: ChatTokenizer | Spec | None, max_length: int) -> PairScreen:
        """Make a screen; a model spec stands for its tokenizer."""
        if tokenizer is None:
            return cls(None, max_length)
        loaded = load_tokenizer(tokenizer) if isinstance(tokenizer, str | Mapping) else tokenizer
        return cls(ChatFormat.of(loaded), max_length)

    def reason(self, pair: PreferencePair) -> str | None:
        """Return why the pair cannot be trained on, or ``None``."""
        if normalise(_text(pair.chosen)) == normalise(_text(pair.rejected)):
            return "identical"
        if self.chat is None:
            return None
        tokens = self.chat.pair_tokens(pair)
        if len(tokens.prompt) >= self.max_length:
            return "too-long"
        if tokens.same_within(self.max_length):
            return "identical-tokens"
        return "too-long" if tokens.length > self.max_length else None


def _text(messages: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def _meet(valid: Sequence[Candidate], most: int, pairing: str) -> list[tuple[Candidate, Candidate]]:
    """Return at most ``most`` pairs whose utility differs."""
    unique: dict[tuple[str, float], Candidate] = {}
    for row in valid:
        unique.setdefault((normalise(row.text), worth(row)), row)
    # Stable on equal utilities, whatever the order of the file.
    ranked = sorted(unique.values(), key=lambda row: (-worth(row), row.text))
    pairs = PAIRINGS[pairing](ranked) if len(ranked) > 1 else []
    return [(best, worst) for best, worst in pairs if worth(best) > worth(worst)][:most]


def _why_none(group: Sequence[Candidate], wanted: Sequence[Candidate], valid: Sequence[Candidate]) -> str:
    if len(wanted) < 2:
        if len(group) >= 2:
            return "other-sources"
        return "single" if len(valid) == len(wanted) else "invalid"
    return "invalid" if len(valid) < 2 else "tie"


def _quantile(margins: Sequence[float], keep: float) -> float:
    """Return the least margin among the best ``keep`` share (at least one)."""
    if not margins:
        return 0.0
    return sorted(margins, reverse=True)[max(1, math.ceil(keep * len(margins))) - 1]


def _pair(best: Candidate, worst: Candidate) -> PreferencePair:
    return PreferencePair(
        query_id=best.query_id,
        prompt=best.prompt,
        chosen=({"role": "assistant", "content": best.text},),
        rejected=({"role": "assistant", "content": worst.text},),
        chosen_utility=worth(best),
        rejected_utility=worth(worst),
        chosen_passages=_passages(best),
        rejected_passages=_passages(worst),
    )


def _passages(row: Candidate) -> tuple[str, ...]:
    """Return the passages of all retrievers, each once, in rank order retriever by retriever."""
    return tuple(dict.fromkeys(one for ids in row.passages.values() for one in ids))


def _shown(pair: PreferencePair) -> str:
    asked = _text(pair.prompt[-1:]).strip().splitlines()
    rows = [("+", pair.chosen, pair.chosen_utility, pair.chosen_passages)]
    rows.append(("-", pair.rejected, pair.rejected_utility, pair.rejected_passages))
    lines = [f"{pair.query_id}  margin {pair.margin:.4g}", f"  ? {asked[-1] if asked else ''}"]
    lines += [f"  {sign} {utility:+.4g}  {_text(side)}  [{' '.join(ids)}]" for sign, side, utility, ids in rows]
    return "\n".join(lines)
