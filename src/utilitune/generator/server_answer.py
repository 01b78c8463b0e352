"""From a reply to a ``Generation`` or a ``Continuation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from utilitune.generator.answer_text import AnswerText, stop_at
from utilitune.generator.protocol import Continuation, Generation
from utilitune.generator.server_client import Json
from utilitune.generator.server_entropy import entropy_interval
from utilitune.generator.server_error import RequestFailed
from utilitune.generator.server_reply import Position, first_choice, positions

_FINISHES = {"length": "length", "stop": "stop", "eos": "stop", "stop_sequence": "stop"}


class AnswerReader:
    """Reads the replies of one server.

    Args:
        tokenizer: The served model's tokenizer, ``None`` without one.
        vocabulary: Number of its tokens, 0 when unknown: covered mass but no entropy bounds then.
        numbers: Whether the log-probabilities of written answers are of temperature 1.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, numbers: bool) -> None:
        self._tokenizer = tokenizer
        self._text = None if tokenizer is None else AnswerText(tokenizer)
        self._vocabulary = vocabulary
        self._numbers = numbers

    def written(self, reply: Json, stop: Sequence[str], truncated: bool) -> Generation:
        """Read an answer that the server wrote.

        Args:
            reply: The reply.
            stop: Stop strings, which are left out of the answer.
            truncated: Whether the prompt's passages were cut.

        Returns:
            The answer; without tokens and numbers where the server gives none that are of temperature 1.

        Raises:
            RequestFailed: When it wrote nothing, or ended for a reason of its own (a content filter).
        """
        choice = first_choice(reply)
        finish = _FINISHES.get(str(choice.get("finish_reason")))
        if finish is None:
            raise RequestFailed(f"the server ended the answer with {choice.get('finish_reason')!r}")
        message = choice.get("message")
        text = str((message.get("content") if isinstance(message, dict) else choice.get("text")) or "")
        place = stop_at(text, stop)
        if place >= 0:
            text, finish = text[:place], "stop"
        read = positions(choice) if self._numbers else []
        ids = self._ids(choice, read)
        own = len(read) if finish == "length" else self._own(read, ids, text)
        read, ids = read[:own], ids[:own]
        if any(each.logprob is None for each in read):
            read, ids = [], ()
        return Generation(
            text=text.strip(), token_ids=ids, finish=finish, truncated=truncated, **self._columns(read, ids)
        )

    def scored(self, read: Sequence[Position], given: str | tuple[int, ...], truncated: bool) -> Continuation:
        """Make a continuation of scored positions.

        Args:
            read: One position a token, all with a number.
            given: What was scored: its text, or token ids.
            truncated: Whether the prompt's passages were cut.

        Returns:
            The continuation.
        """
        known = [each.token_id for each in read if each.token_id is not None]
        ids = tuple(known) if len(known) == len(read) else ()
        text = given if isinstance(given, str) else self._text.decode(given) if self._text else ""
        return Continuation(text=text, token_ids=ids, truncated=truncated, **self._columns(read, ids))

    def _columns(self, read: Sequence[Position], ids: Sequence[int]) -> dict[str, Any]:
        surfaces = self._text.surfaces(ids) if self._text and ids else tuple(each.token for each in read)
        columns: dict[str, Any] = {"tokens": surfaces, "entropies": None}
        columns["logprobs"] = tuple(min(each.logprob or 0.0, 0.0) for each in read)
        if read and all(each.top for each in read):
            try:
                found = [entropy_interval(each.top, self._vocabulary) for each in read]
            except ValueError as error:
                raise RequestFailed(str(error)) from error
            if self._vocabulary:
                columns["entropy_bounds"] = tuple((lower, upper) for lower, upper, _ in found)
            columns["covered_mass"] = tuple(mass for *_, mass in found)
        return columns

    def _ids(self, choice: Json, read: Sequence[Position]) -> tuple[int, ...]:
        """Return the ids of what was written: the server's, else the tokenizer's if they spell the same tokens."""
        if self._tokenizer is None or not read:
            return ()
        told = choice.get("token_ids")
        if isinstance(told, list) and len(told) == len(read) and all(isinstance(each, int) for each in told):
            return tuple(told)
        named = [each.token_id for each in read if each.token_id is not None]
        if len(named) == len(read):
            return tuple(named)
        ids = self._tokenizer("".join(each.token for each in read), add_special_tokens=False)["input_ids"]
        surfaces = [self._tokenizer.decode([each], clean_up_tokenization_spaces=False) for each in ids]
        return tuple(ids) if surfaces == [each.token for each in read] else ()

    def _own(self, read: Sequence[Position], ids: tuple[int, ...], text: str) -> int:
        """Return how many tokens of an ended answer are its own: the fewest that spell it, at least one."""
        if ids and ids[-1] in self._tokenizer.all_special_ids:
            read, ids = read[:-1], ids[:-1]
            if self._text is not None and self._text.decode(ids) == text:
                return max(len(ids), 1)
        if self._text is not None and ids:
            spelled = [self._text.decode(ids[:count]) for count in range(len(ids) + 1)]
        else:
            spelled = ["".join(each.token for each in read[:count]) for count in range(len(read) + 1)]
        own = next((count for count, each in enumerate(spelled) if each.startswith(text)), None)
        if own is None:  # a tokenizer that drops the first space when it decodes
            bare = text.lstrip()
            own = next((count for count, each in enumerate(spelled) if each.lstrip().startswith(bare)), len(read))
        return max(own, 1)
