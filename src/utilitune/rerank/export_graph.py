"""The torch model as an ONNX graph, and its int8 form. Loaded only to export: torch and onnx at the top."""

from __future__ import annotations

import inspect
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

OPSET = 18
LARGEST_FILE = 1_800_000_000  # bytes; protobuf stops at 2 GB, so larger weights go into a file beside the graph


class _Logits(nn.Module):
    """A classifier that takes its inputs by position and returns the logits alone."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(**dict(zip(self.names, inputs, strict=True))).logits
        return logits


def write_graph(model: Any, tokenizer: Any, path: Path) -> None:
    """Write the fp32 graph; batch and length are free, the output ``logits`` has shape [batch, 1].

    Args:
        model: A transformers model for sequence classification.
        tokenizer: Its tokenizer.
        path: The ``.onnx`` file.
    """
    taken = inspect.signature(model.forward).parameters
    names = [name for name in tokenizer.model_input_names if name in taken]
    # Two rows of different length: a size of 1, or one shared by all, would be taken for a constant.
    sample = tokenizer(["a", "a"], ["b", "b b b b b"], padding=True, return_tensors="pt")
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    # A decoder would else return its cache, which is no output of ours.
    model.config.use_cache = False
    with _quiet():
        torch.onnx.export(
            _Logits(model, names).cpu().eval(),
            tuple(sample[name] for name in names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_shapes={"inputs": tuple(axes for _ in names)},
            opset_version=OPSET,
            external_data=sum(p.numel() * p.element_size() for p in model.parameters()) > LARGEST_FILE,
            dynamo=True,
            verbose=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks on optional packages and on torch's own deprecations off the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def quantise(graph: Path, path: Path) -> None:
    """Write a graph's int8 form: weights of matrix products rounded once, activations in every call.

    A scale for each column, because one for the whole matrix is ruled by its outliers: in MiniLM, a largest weight 129
    standard deviations out would leave others an error of half their size. Embeddings stay fp32 for the same reason;
    looking them up costs no time. 7 bits, because processors without VNNI overflow on sums of 8-bit products.

    Args:
        graph: The fp32 graph.
        path: The ``.onnx`` file.
    """
    import onnxruntime.quantization as ort  # type: ignore[import-untyped,import-not-found,unused-ignore]

    large = sum(path.stat().st_size for path in graph.parent.glob(f"{graph.name}*")) > LARGEST_FILE
    # Apart, because a large model is prepared as a file a tensor.
    with tempfile.TemporaryDirectory(dir=graph.parent.parent) as scratch:
        prepared = str(Path(scratch) / graph.name)
        # Folds constants, so that weights which the exporter left behind a transposition are found.
        ort.shape_inference.quant_pre_process(
            str(graph), prepared, skip_symbolic_shape=True, save_as_external_data=large
        )
        ort.quantize_dynamic(
            prepared,
            str(path),
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            reduce_range=True,
            weight_type=ort.QuantType.QInt8,
            use_external_data_format=large,
        )
