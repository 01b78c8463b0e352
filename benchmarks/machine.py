"""The machine under a benchmark: what it is, and how fast it multiplies matrices of a model's shapes."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch


def facts(device: torch.device) -> dict[str, Any]:
    """Return processor, cores, threads, accelerator and versions."""
    import transformers

    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def layer_shapes(model: Any) -> Counter[tuple[int, int]]:
    """Return how often each matrix shape, (out, in), occurs in a model's layers, embeddings left out."""
    embeddings = {
        id(weight)
        for part in (model.get_input_embeddings(), model.get_output_embeddings())
        for weight in part.parameters()
    }
    return Counter(
        (int(weight.shape[0]), int(weight.shape[1]))
        for weight in model.base_model.parameters()
        if weight.dim() == 2 and id(weight) not in embeddings and min(weight.shape) > 1
    )


def attention_width(model: Any) -> int:
    """Return heads times head size, summed over the layers that attend to everything (sliding ones are left out)."""
    config = model.config.get_text_config()
    heads = int(config.num_attention_heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * int(config.num_hidden_layers)
    return heads * size * kinds.count("full_attention")


def gemm_rate(model: Any, clock: Callable[[], float], rows: int = 512, seconds: float = 1.0) -> float:
    """Measure float multiply-adds of the model's own matrices, each against ``rows`` tokens.

    Args:
        model: The model; its dtype and device are used.
        clock: Gives seconds.
        rows: Tokens at once.
        seconds: About how long to measure.

    Returns:
        FLOP/s (two a multiply-add) over one pass of all layers, from the median time of each shape.
    """
    flop, took = 0.0, 0.0
    shapes = layer_shapes(model)
    with torch.inference_mode():
        for (out, inner), times in shapes.items():
            weight = torch.randn(out, inner, device=model.device, dtype=model.dtype)
            tokens = torch.randn(rows, inner, device=model.device, dtype=model.dtype)
            spent: list[float] = []
            end = clock() + seconds / len(shapes)
            while len(spent) < 3 or clock() < end:
                start = clock()
                torch.nn.functional.linear(tokens, weight)
                if model.device.type == "cuda":
                    torch.cuda.synchronize()
                spent.append(clock() - start)
            flop += 2.0 * rows * out * inner * times
            took += median(spent) * times
    return flop / took
