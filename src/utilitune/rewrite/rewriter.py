"""The trained rewriter: a conversational question in, a stand-alone search query out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from utilitune.errors import ConfigError, DataError
from utilitune.progress import progress, say, warn
from utilitune.records.query import Query, Role, Turn
from utilitune.records.rows import write_rows
from utilitune.rewrite.adapter_folder import RewriterCard, is_adapter
from utilitune.rewrite.base_spec import Spec
from utilitune.rewrite.clean import clean_rewrite

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator

CHUNK = 32
MAX_NEW_TOKENS = 40


@dataclass(frozen=True)
class Rewrite:
    """One rewritten question.

    Attributes:
        query_id: The question's id.
        text: The query to search with.
        fallback: Whether the model wrote nothing usable, so that ``text`` is the question itself.
        cut: Whether the model was stopped at the length limit, so that ``text`` may lack its end.
    """

    query_id: str
    text: str
    fallback: bool
    cut: bool = False


class Rewriter:
    """Rewrites questions with a language model, tuned or not.

    A question without history is its own stand-alone form and is returned as it is, without asking the model.
    ``counts`` runs along: ``rewritten``, ``fallback`` (nothing usable written), ``stand-alone`` (no history), and
    ``cut`` (of the first two, those that reached the length limit).
    """

    def __init__(self, generator: Generator, *, prompt: str = "rewrite", max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        """Rewrite with ``generator`` under the prompt template ``prompt``, greedily."""
        from utilitune.generator import load_prompt

        self.generator = generator
        self.prompt = prompt
        self.template = load_prompt(prompt)
        self.max_new_tokens = max_new_tokens
        self.counts: Counter[str] = Counter({"rewritten": 0, "fallback": 0, "stand-alone": 0, "cut": 0})

    @classmethod
    def load(
        cls,
        source: Path | Spec,
        generator: Generator | None = None,
        *,
        base: Spec | None = None,
        max_new_tokens: int | None = None,
    ) -> Rewriter:
        """Load a trained adapter's folder over its base, or an untuned model.

        Args:
            source: Folder of a trained rewriter (an adapter, or the whole model of ``merge_rewriter``), or a model
                spec such as ``packaged:smollm2-135m-instruct``, or ``{"model", "revision"}``.
            generator: A generator to use as it is (for a folder: one that already holds this adapter).
            base: Where the adapter's base is, when it is not where the folder says.
            max_new_tokens: Length limit of a rewrite in tokens; ``None`` is that of the training, or 40.

        Returns:
            The rewriter, with the prompt of its training.

        Raises:
            ConfigError: When the base is missing, or ``base`` is given for something that is no adapter.
            DataError: When the folder is no rewriter.
        """
        from utilitune.generator import load_generator

        folder = None if isinstance(source, Mapping) else Path(source)
        if folder is None or not is_adapter(folder):
            if base is not None:
                raise ConfigError(f"base={base!r} is for an adapter's folder, and {source} holds none")
            return cls(generator or load_generator(source), max_new_tokens=max_new_tokens or MAX_NEW_TOKENS)
        card = RewriterCard.read(folder)
        made = cls(
            generator or load_generator(base or card.locate_base(folder), adapter=card.adapter_in(folder)),
            prompt=card.prompt,
            max_new_tokens=max_new_tokens or card.max_new_tokens,
        )
        if card.prompt_hash and card.prompt_hash != made.template.hash:
            warn(f"the prompt {card.prompt!r} changed since {folder} was trained; rewrites may be worse")
        return made

    def rewrite(self, history: Sequence[Turn | Mapping[str, str]], question: str) -> str:
        """Rewrite one question.

        Args:
            history: Earlier turns, oldest first; ``Turn`` or ``{"role", "content"}``.
            question: The question as typed.

        Returns:
            A one-line query; the question itself when the model wrote nothing usable.
        """
        return self.rewrite_batch([Query(id="", text=question, history=tuple(map(_turn, history)))])[0].text

    def rewrite_batch(self, queries: Sequence[Query]) -> list[Rewrite]:
        """Rewrite questions, in order.

        Args:
            queries: Questions with their history.

        Returns:
            One rewrite a question.
        """
        texts: list[str | None] = [None] * len(queries)
        cut: set[int] = set()
        asked = [index for index, query in enumerate(queries) if query.history]
        with progress("rewrite", len(asked), "questions") as bar:
            for start in range(0, len(asked), CHUNK):
                chunk = asked[start : start + CHUNK]
                prompts = [
                    self.template.render(question=queries[index].text, history=queries[index].history)
                    for index in chunk
                ]
                answers = self.generator.generate(prompts, max_new_tokens=self.max_new_tokens, stop=self.template.stop)
                for index, answer in zip(chunk, answers, strict=True):
                    texts[index] = clean_rewrite(answer[0].text)
                    if answer[0].finish == "length":
                        cut.add(index)
                bar.advance(len(chunk))
        results = [
            Rewrite(
                query.id,
                " ".join(query.text.split()) if text is None else text,
                bool(query.history) and text is None,
                index in cut,
            )
            for index, (query, text) in enumerate(zip(queries, texts, strict=True))
        ]
        fallbacks = sum(result.fallback for result in results)
        self.counts.update(
            {
                "rewritten": len(asked) - fallbacks,
                "fallback": fallbacks,
                "stand-alone": len(queries) - len(asked),
                "cut": len(cut),
            }
        )
        return results


def rewrite_queries(rewriter: Rewriter, queries: Sequence[Query]) -> list[Query]:
    """Return the queries as the retriever should see them: rewritten text, no history.

    Args:
        rewriter: The rewriter.
        queries: Questions with their history.

    Returns:
        The same ids, answers and metadata; with the history gone, the metadata name the conversation.
    """
    results = rewriter.rewrite_batch(queries)
    fallbacks = sum(result.fallback for result in results)
    cut = sum(result.cut for result in results)
    say(f"rewrite: {len(queries)} questions, {fallbacks} fell back to the question as typed, {cut} cut at the limit")
    return [
        replace(
            query,
            text=result.text,
            history=(),
            metadata={**query.metadata, "conversation": query.conversation} if query.history else query.metadata,
        )
        for query, result in zip(queries, results, strict=True)
    ]


def write_rewrites(path: Path | str, rewrites: Iterable[Rewrite]) -> None:
    """Write rewrites, a row each: ``query_id, text, fallback, cut``; atomically.

    Args:
        path: JSONL, ``.gz`` or Parquet.
        rewrites: Rewrites in order.
    """
    write_rows(path, map(asdict, rewrites))


def _turn(turn: Turn | Mapping[str, str]) -> Turn:
    if isinstance(turn, Turn):
        return turn
    try:
        role, content = turn["role"], turn["content"]
    except (KeyError, TypeError) as error:
        raise DataError(f"not a turn: {turn!r}; expected a Turn or {{'role', 'content'}}") from error
    if role not in ("user", "assistant"):
        raise DataError(f"unknown role {role!r} in the history; expected user or assistant")
    return Turn(cast("Role", role), content)
