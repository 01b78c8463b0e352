"""Peak memory of labelling with a tiny random model, in a process of its own; prints one JSON line.

python benchmarks/memory_probe.py --pairs 400 --vocabulary 32000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any


def resident() -> int:
    """Return this process's resident memory in bytes (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak:
    """Highest resident memory inside the block, looked at every two milliseconds.

    Attributes:
        bytes: The peak.
    """

    def __enter__(self) -> Peak:
        self.bytes = resident()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.is_set():
            self.bytes = max(self.bytes, resident())
            time.sleep(0.002)


def tiny_generator(vocabulary: int) -> Any:
    """Build a random two-layer Llama over single bytes, with unused entries up to ``vocabulary``."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from utilitune.generator import TransformersGenerator

    letters = {"</s>": 0, **{letter: 1 + at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}}
    inner = Tokenizer(models.BPE(vocab=letters, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", pad_token="</s>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=0,
    )
    return TransformersGenerator(LlamaForCausalLM(config), tokenizer)


def main() -> None:
    """Label invented pairs and print the peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    given = parser.parse_args()

    import torch

    from utilitune.progress import set_quiet
    from utilitune.records import Passage, Query
    from utilitune.scoring.labelling import label_sets

    set_quiet(True)
    torch.set_num_threads(1)
    generator = tiny_generator(given.vocabulary)
    items = [
        (
            Query(str(at // 5), f"Which river runs past town {at // 5}?"),
            (Passage(str(at), f"Town {at}", f"River {at} runs past town {at}. " * (2 + at % 5)),),
        )
        for at in range(given.pairs)
    ]
    with tempfile.TemporaryDirectory() as folder:
        # The first pair brings in what is loaded once.
        label_sets(items[:1], ["information-gain"], generator, store=Path(folder) / "first.sqlite")
        before = resident()
        with Peak() as peak:
            label_sets(items, ["information-gain"], generator, store=Path(folder) / "labels.sqlite")
    print(json.dumps({**vars(given), "before": before, "peak": peak.bytes, "grown": peak.bytes - before}))


if __name__ == "__main__":
    main()
