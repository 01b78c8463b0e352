"""Exports a trained reranker to ONNX, fp32 and int8, and checks the graphs on real candidates before keeping them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError, UtilituneError
from utilitune.evaluation import ranking
from utilitune.progress import say, warn
from utilitune.records import Dataset, Run, manifest, write_json
from utilitune.rerank.export_agreement import Agreement, agreement
from utilitune.rerank.export_files import EXPORTING, GRAPHS, REPORT, check_installed, weights_of
from utilitune.rerank.reranker import UtilityReranker

TOLERANCE = 1e-3
"""Largest difference of an fp32 logit, relative to the largest logit (1 at least), at which the graph is the model."""

LOW_TAU = 0.9
"""Kendall's tau below which int8 is warned about."""


def export_reranker(
    folder: Path | str,
    dataset: Dataset,
    run: Run,
    *,
    int8: bool = True,
    depth: int = 20,
    batch_size: int = 32,
) -> dict[str, Agreement]:
    """Write ``onnx/model.onnx``, ``onnx/model_int8.onnx`` and ``onnx/export.json`` into a reranker's folder.

    The layout is that of sentence-transformers' ONNX backend. int8 is dynamic quantisation: weights are rounded once,
    activations in every call, so no calibration data are needed. Both graphs rerank ``run`` and are compared with the
    torch model; an fp32 graph that differs is not kept, an int8 one that orders differently is warned about.

    Args:
        folder: Folder that ``train_reranker`` or ``CrossEncoder.save_pretrained`` wrote.
        dataset: Queries and passages of ``run``; its judgements, if any, give the change of nDCG@10.
        run: Candidates to compare on.
        int8: Whether to write the int8 graph as well.
        depth: Candidates a query.
        batch_size: Pairs a forward pass of the comparison.

    Returns:
        ``{"fp32": ..., "int8": ...}``, also in ``export.json``.

    Raises:
        ConfigError: If the extra ``onnx`` is missing, or the model is no classifier.
        DataError: If the folder is no reranker, ``run`` has no candidate, or logits of the model are not finite.
        UtilituneError: If the fp32 graph differs from the model.
    """
    check_installed(EXPORTING)
    folder = Path(folder)
    reranker = UtilityReranker.load(folder, device="cpu", batch_size=batch_size)
    _check_model(reranker.model, folder)
    candidates = Run({query_id: ranking(scored)[:depth] for query_id, scored in run.items() if scored})
    if not candidates:
        raise DataError("the run has no candidate to compare the exported graphs on; give another run")
    expected = reranker.rerank(candidates, dataset, depth=depth)
    counts = reranker.counts
    if counts["non_finite"]:
        raise DataError(f"{folder}: {counts['non_finite']} of {counts['pairs']} logits are not finite; train it again")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
        graphs = _write_graphs(reranker.model, Path(scratch), int8)
        found = {}
        for precision, graph in graphs.items():
            found[precision] = agreement(expected, _rerank(reranker, graph, candidates, dataset, depth), dataset.qrels)
            _judge(precision, found[precision], max(abs(s) for scored in expected.values() for _, s in scored))
        report = _report(folder, reranker, graphs, found, depth)
        _keep(folder, Path(scratch), report)
    return found


def _check_model(model: Any, folder: Path) -> None:
    kind = type(model if model.transformers_model is None else model.transformers_model).__name__
    if not kind.endswith("ForSequenceClassification"):
        raise ConfigError(
            f"{folder} holds a {kind}; ONNX takes encoders with a classification head, decoder rerankers and the head "
            "similarity run in torch"
        )


def _write_graphs(model: Any, scratch: Path, int8: bool) -> dict[str, Path]:
    from utilitune.rerank.cross_encoder import quiet_loading
    from utilitune.rerank.export_graph import quantise, write_graph

    graphs = {precision: scratch / name for precision, name in GRAPHS.items() if int8 or precision == "fp32"}
    graphs["fp32"].parent.mkdir()
    say("export: writing the fp32 graph" + (" and the int8 one" if int8 else ""))
    with quiet_loading():
        write_graph(model.transformers_model, model.tokenizer, graphs["fp32"])
        if int8:
            quantise(graphs["fp32"], graphs["int8"])
    return graphs


def _rerank(model: UtilityReranker, graph: Path, candidates: Run, dataset: Dataset, depth: int) -> Run:
    from utilitune.rerank.onnx_cross_encoder import OnnxCrossEncoder

    tokenizer = model.model.tokenizer
    exported = OnnxCrossEncoder(graph, tokenizer, model.max_length, tokenizer.pad_token_id)
    reranker = UtilityReranker(exported, query_share=model.query_share, batch_size=model.batch_size)
    made = reranker.rerank(candidates, dataset, depth=depth)
    if reranker.counts["non_finite"]:
        raise UtilituneError(f"{reranker.counts['non_finite']} logits of {graph.name} are not finite; nothing was kept")
    return made


def _judge(precision: str, found: Agreement, largest_logit: float) -> None:
    if precision == "fp32" and found.largest > TOLERANCE * max(largest_logit, 1.0):
        raise UtilituneError(
            f"the fp32 graph is not the model: its logits differ by up to {found.largest:.3g}; nothing was kept"
        )
    if found.kendall is not None and found.kendall < LOW_TAU:
        warn(f"the {precision} graph orders candidates differently: Kendall tau {found.kendall:.3f}; use fp32")


def _report(
    folder: Path, reranker: UtilityReranker, graphs: Mapping[str, Path], found: Mapping[str, Agreement], depth: int
) -> dict[str, Any]:
    from utilitune.records.manifest import version
    from utilitune.rerank.export_graph import OPSET

    return manifest(
        weights=weights_of(folder),
        max_length=reranker.max_length,
        pad_id=reranker.model.tokenizer.pad_token_id,
        opset=OPSET,
        depth=depth,
        truncated_pairs=reranker.counts["truncated_pairs"],
        tied=reranker.counts["tied"],
        onnx={name: version(name) for name in EXPORTING},
        graphs={
            precision: {"file": GRAPHS[precision], "bytes": _size(graph), "agreement": found[precision].as_dict()}
            for precision, graph in graphs.items()
        },
    )


def _size(graph: Path) -> int:
    """Return the bytes of a graph and of what lies beside it: large models keep their weights in another file."""
    return sum(path.stat().st_size for path in graph.parent.glob(f"{graph.name}*"))


def _keep(folder: Path, scratch: Path, report: Mapping[str, Any]) -> None:
    """Put the graphs in place, the report last: while it is missing, nothing loads them."""
    (folder / REPORT).unlink(missing_ok=True)
    for name in GRAPHS.values():
        (folder / name).unlink(missing_ok=True)
    (folder / REPORT).parent.mkdir(exist_ok=True)
    for path in (scratch / REPORT).parent.iterdir():
        path.replace((folder / REPORT).parent / path.name)
    write_json(folder / REPORT, report)
