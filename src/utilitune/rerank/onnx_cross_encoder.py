"""An exported reranker on the processor: ONNX Runtime in place of the torch model, the same tokenizer and limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utilitune.rerank.export_files import GRAPHS, RUNNING, check_installed, read_export


class OnnxCrossEncoder:
    """Logits of pairs by a graph that ``export_reranker`` wrote.

    ``tokenizer`` and ``max_seq_length`` (tokens a pair, special tokens included) are named as a ``CrossEncoder``'s.
    """

    def __init__(
        self, graph: Path, tokenizer: Any, max_seq_length: int, pad_id: int, threads: int | None = None
    ) -> None:
        """Load a graph.

        Args:
            graph: The ``.onnx`` file.
            tokenizer: The model's tokenizer.
            max_seq_length: Tokens a pair.
            pad_id: The pad that the model knows; a decoder looks for it.
            threads: As torch would choose when ``None``: ``OMP_NUM_THREADS``, else the usable cores.

        Raises:
            ConfigError: If onnxruntime is not installed.
        """
        check_installed(RUNNING)
        import onnxruntime  # type: ignore[import-untyped,import-not-found,unused-ignore]

        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self._fill = {"input_ids": pad_id, "token_type_ids": tokenizer.pad_token_type_id}
        self.threads = threads or int(os.environ.get("OMP_NUM_THREADS") or _cores())
        options = onnxruntime.SessionOptions()
        # Said outright: left alone, ONNX Runtime pins threads to cores that this process may not use.
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self._session.get_inputs()]

    @classmethod
    def open(cls, folder: Path, precision: str, threads: int | None = None) -> OnnxCrossEncoder:
        """Open a reranker's folder.

        Args:
            folder: Holds the tokenizer and ``onnx/``.
            precision: ``fp32`` or ``int8``.
            threads: Threads of one operator.

        Returns:
            The model.

        Raises:
            ConfigError: If onnxruntime is not installed.
            DataError: If the folder holds no such graph, or one of other weights.
        """
        check_installed(RUNNING)
        report = read_export(folder, precision)
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        # Absolute positions count from the left, so padding there would shift them.
        tokenizer.padding_side = "right"
        return cls(folder / GRAPHS[precision], tokenizer, int(report["max_length"]), int(report["pad_id"]), threads)

    def logits(self, pairs: Sequence[tuple[str, str]], batch_size: int = 32) -> NDArray[np.float32]:
        """Score pairs; batches hold pairs of like length, padded to the longest of the batch.

        Args:
            pairs: (query, passage).
            batch_size: Pairs a run of the graph.

        Returns:
            One fp32 logit a pair, in order.
        """
        scores = np.empty(len(pairs), np.float32)
        if not pairs:
            return scores
        queries, passages = zip(*pairs, strict=True)
        encoded = self.tokenizer(list(queries), list(passages), truncation=True, max_length=self.max_seq_length)
        order = sorted(range(len(pairs)), key=lambda place: len(encoded["input_ids"][place]), reverse=True)
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            (found,) = self._session.run(["logits"], self._padded(encoded, places))
            scores[places] = np.asarray(found, np.float32).reshape(-1)
        return scores

    def _padded(self, encoded: Mapping[str, Sequence[Sequence[int]]], places: Sequence[int]) -> dict[str, Any]:
        width = max(len(encoded["input_ids"][place]) for place in places)
        arrays = {name: np.full((len(places), width), self._fill.get(name, 0), np.int64) for name in self._inputs}
        for name, array in arrays.items():
            for row, place in enumerate(places):
                array[row, : len(encoded[name][place])] = encoded[name][place]
        return arrays


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
