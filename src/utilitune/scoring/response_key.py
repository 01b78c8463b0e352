"""Keys of the label store: everything that can change a response, nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from utilitune.generator.protocol import Prompt
from utilitune.scoring.protocol import Contrast, Draw

if TYPE_CHECKING:
    from hashlib import _Hash

PROMPT_BYTES = 6
KEY_BYTES = 16


class ResponseKeys:
    """Makes keys of 16 bytes for one generator.

    A key covers the generator's identity (model, revision or weight hash, dtype, adapter, template, window, ...), the
    whole content of the prompt, and what is asked: limits and stop strings of a greedy answer, the text or token ids
    that are scored (under a contrast, also the other prompt and its weight), or all settings of a sample and the number
    of the draw. Batch size and batch mates are not part of it.

    The first 6 bytes are of the SHA-256 of generator and prompt, so that all responses under one prompt are neighbours
    in the store's index; the other 10 are the first ones of the SHA-256 of everything.
    """

    def __init__(self, identity_key: str) -> None:
        """Take ``GeneratorIdentity.key()``."""
        self.identity_key = identity_key
        self._of_prompt = lru_cache(maxsize=4096)(self._hash_prompt)

    def greedy(self, prompt: Prompt, max_new_tokens: int, stop: Sequence[str]) -> bytes:
        """Return the key of a greedy answer."""
        return self._digest(prompt, "greedy", [max_new_tokens, list(stop)])

    def scored(self, prompt: Prompt, continuation: str | tuple[int, ...]) -> bytes:
        """Return the key of a scored text, or of scored token ids."""
        if isinstance(continuation, str):
            return self._digest(prompt, "text", continuation)
        return self._digest(prompt, "ids", list(continuation))

    def drawn(self, draw: Draw) -> bytes:
        """Return the key of one answer of a sample."""
        of = draw.of
        settings = [of.n, of.temperature, of.top_p, of.seed, of.max_new_tokens, list(of.stop), draw.number]
        return self._digest(of.prompt, "draw", settings)

    def contrasted(self, contrast: Contrast) -> bytes:
        """Return the key of a text scored under a contrast."""
        other = contrast.other
        against = [[list(m) for m in other.messages], other.plain, list(other.trim), contrast.alpha]
        return self._digest(contrast.prompt, "contrast", [contrast.text, against])

    def _digest(self, prompt: Prompt, kind: str, what: object) -> bytes:
        whole = self._of_prompt(prompt).copy()
        prefix = whole.digest()[:PROMPT_BYTES]
        whole.update(f", {json.dumps([kind, what])[1:]}".encode())
        return prefix + whole.digest()[: KEY_BYTES - PROMPT_BYTES]

    def _hash_prompt(self, prompt: Prompt) -> _Hash:
        """Hash the part of the JSON list ``[identity, messages, plain, trim, kind, what]`` that is the prompt's."""
        content = [self.identity_key, [list(m) for m in prompt.messages], prompt.plain, list(prompt.trim)]
        return sha256(json.dumps(content)[:-1].encode())


def format_1_part(key: bytes) -> bytes:
    """Return the bytes of a key that a store of format 1 had as the first ones of its keys."""
    return key[PROMPT_BYTES:]
