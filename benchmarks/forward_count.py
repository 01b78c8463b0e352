"""What goes through a transformer, and the least that could."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Ids = tuple[int, ...]


@dataclass
class ForwardCount:
    """Running counts of one model's work.

    Attributes:
        calls: Forward passes.
        tokens: Tokens that went through the layers, padding and finished rows included.
        real: Tokens among them that are no padding.
        decoded: Of ``tokens``, those that went through one position a row at a time.
        attended: Pairs of a token (no padding) and one before it or itself, over all passes.
        projected: Positions that went through the language-model head.
        sequences: Prompt and answer of everything asked for, the answer's last token left out (nobody needs to run it).
        prompts: The prompts among them.
    """

    calls: int = 0
    tokens: int = 0
    real: int = 0
    decoded: int = 0
    attended: int = 0
    projected: int = 0
    sequences: list[Ids] = field(default_factory=list)
    prompts: list[Ids] = field(default_factory=list)

    @property
    def least(self) -> int:
        """Tokens of the prefix tree of all prompts with their answers."""
        return tree_tokens(self.sequences)


def tree_tokens(sequences: Sequence[Ids]) -> int:
    """Count the nodes of the prefix tree of token sequences.

    Args:
        sequences: Any number, repeats allowed.

    Returns:
        The least number of tokens that a model must read to have read them all.
    """
    nodes, last = 0, ()
    for ids in sorted(set(sequences)):
        common = next(
            (at for at, (a, b) in enumerate(zip(last, ids, strict=False)) if a != b), min(len(last), len(ids))
        )
        nodes += len(ids) - common
        last = ids
    return nodes


@contextmanager
def counted(generator: Any) -> Iterator[ForwardCount]:
    """Count the work of a transformers generator inside the block.

    Args:
        generator: A ``TransformersGenerator``.

    Yields:
        The counts, live.
    """
    count = ForwardCount()

    def layers(module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        ids, mask = given["input_ids"], given.get("attention_mask")
        count.calls += 1
        count.tokens += ids.numel()
        count.real += ids.numel() if mask is None else int(mask[:, -ids.shape[1] :].sum())
        if mask is not None:
            count.attended += int((mask.cumsum(-1) * mask)[:, -ids.shape[1] :].sum())
        count.decoded += ids.numel() if ids.shape[1] == 1 else 0

    def head(module: Any, args: tuple[Any, ...]) -> None:
        count.projected += args[0].numel() // args[0].shape[-1]

    engine = generator._engine
    run = engine.run

    def recorded(work: Any) -> None:
        run(work)
        for item in work:
            count.prompts.append(item.ids)
            answers = [numbers.ids for numbers in (*item.decoded.values(), *item.scored.values())]
            count.sequences += [item.ids, *((*item.ids, *ids[:-1]) for ids in answers)]

    hooks = [
        generator.model.base_model.register_forward_pre_hook(layers, with_kwargs=True),
        generator.model.get_output_embeddings().register_forward_pre_hook(head),
    ]
    engine.run = recorded
    try:
        yield count
    finally:
        del engine.run
        for hook in hooks:
            hook.remove()
