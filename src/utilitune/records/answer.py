"""An answer of the generator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """One row of ``answers.jsonl``.

    Attributes:
        query_id: The query.
        passage_ids: Passages in the prompt, in order; empty for a closed-book answer.
        answer: The text, stripped.
        abstained: Whether the text is the abstention string, whichever prompt was used; the prompt ``answer`` does
            not ask for it, so that with it a model that does not know mostly shows in the accuracy alone.
        logprob_mean: Mean log-probability of the answer's tokens (nats), ``None`` when the backend gives
            none.
        cut: Whether the model was stopped at the length limit, so that ``answer`` may lack its end.
    """

    query_id: str
    passage_ids: tuple[str, ...]
    answer: str
    abstained: bool
    logprob_mean: float | None
    cut: bool = False
