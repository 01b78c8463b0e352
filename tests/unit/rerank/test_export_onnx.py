"""A reranker as an ONNX graph: the same logits in any batch, fp32 and int8, and what is refused."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Passage, Query, Run, read_run, write_dataset, write_run
from utilitune.rerank import UtilityReranker, export_reranker
from utilitune.rerank.export_files import EXPORTING, check_installed

TEXTS = [
    "good mill",
    "the river of the old town",
    "bad bridge in the new town of the king of the river of the mill",
    "red",
    "blue king built a bridge",
    "an old mill",
    "mill " * 80,
]
CORPUS = [Passage(f"p{place}", text) for place, text in enumerate(TEXTS)]
QUERIES = [Query("q", "who built the mill"), Query("r", "where is the king")]
DATASET = Dataset(CORPUS, QUERIES, {"q": {"p0": 1.0, "p5": 1.0}})
RUN = Run({query.id: [(passage.id, -float(place)) for place, passage in enumerate(CORPUS)] for query in QUERIES})
PAIRS = [(query.text, text) for query in QUERIES for text in TEXTS]
MISSING = [name for name in EXPORTING if find_spec(name) is None]

needs_onnx = pytest.mark.skipif(bool(MISSING), reason=f"the extra onnx is not installed ({', '.join(MISSING)})")


def saved(base, folder):
    """Random weights, large enough that scores differ visibly."""
    made = UtilityReranker.untrained(base, seed=5, device="cpu", max_length=40)
    with torch.no_grad():
        for weight in made.model.transformers_model.parameters():
            if weight.dim() == 2:
                weight.mul_(15)
    made.query_share = 0.4
    made.save(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tiny_bert, tmp_path_factory):
    """A reranker exported by the verb, and what that wrote down of each graph's agreement."""
    place = tmp_path_factory.mktemp("export")
    folder = saved(tiny_bert, place / "bert")
    write_dataset(place / "data", DATASET)
    write_run(place / "bm25.trec", RUN)
    asked = ["--data", str(place / "data"), "--run", str(place / "bm25.trec")]
    done = CliRunner().invoke(app, ["train", "export-reranker", str(folder), *asked])
    assert done.exit_code == 0, done.output
    assert "compared on 14 pairs of 2 questions" in done.output and "int8: " in done.output
    graphs = json.loads((folder / "onnx" / "export.json").read_text())["graphs"]
    return folder, {precision: graph["agreement"] for precision, graph in graphs.items()}


@needs_onnx
def test_fp32_gives_the_model_s_logits_whatever_the_batch(bert):
    expected = UtilityReranker.load(bert[0], device="cpu").score_pairs(PAIRS)
    assert np.std(expected) > 0.1
    for size in (1, 3, 32):
        exported = UtilityReranker.load(bert[0], backend="onnx", batch_size=size)
        assert exported.score_pairs(PAIRS) == pytest.approx(expected, abs=1e-4)
        assert exported.counts["truncated_pairs"] == 2 and exported.max_length == 40 and exported.query_share == 0.4


@needs_onnx
def test_the_graph_alone_gives_them_too(bert):
    import onnxruntime
    from transformers import AutoTokenizer

    session = onnxruntime.InferenceSession(str(bert[0] / "onnx" / "model.onnx"), providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(str(bert[0]))
    expected = UtilityReranker.load(bert[0], device="cpu").score_pairs(PAIRS[:6])
    for (query, text), logit in zip(PAIRS[:6], expected, strict=True):
        (found,) = session.run(["logits"], dict(tokenizer(query, text, return_tensors="np")))
        assert found.shape == (1, 1) and found.item() == pytest.approx(logit, abs=1e-4)


@needs_onnx
def test_what_was_compared_is_written_down(bert):
    folder, found = bert
    report = json.loads((folder / "onnx" / "export.json").read_text())
    assert sorted(path.name for path in (folder / "onnx").iterdir()) == ["export.json", "model.onnx", "model_int8.onnx"]
    assert report["truncated_pairs"] == 2 and report["onnx"]["onnxruntime"]
    assert set(found) == {"fp32", "int8"}
    assert all(one["pairs"] == 14 and one["queries"] == 2 and one["ndcg"]["n"] == 1 for one in found.values())
    assert found["fp32"]["largest"] < 1e-4
    assert found["fp32"]["kendall"] == 1.0 and found["fp32"]["ndcg"]["difference"] == 0.0
    # int8 is another graph: it rounds, but less than the scores differ.
    assert found["int8"]["largest"] > 1e-4 and found["int8"]["average"] < found["int8"]["spread"] / 2
    assert found["int8"]["kendall"] > 0.5


@needs_onnx
def test_int8_scores_are_those_that_were_compared(bert):
    folder, found = bert
    exact = UtilityReranker.load(folder, device="cpu").score_pairs(PAIRS)
    rounded = UtilityReranker.load(folder, backend="onnx-int8").score_pairs(PAIRS)
    differences = np.abs(np.subtract(exact, rounded))
    assert differences.max() == pytest.approx(found["int8"]["largest"], rel=0.05)


@needs_onnx
def test_a_decoder_that_looks_for_its_pad(tiny_gpt2, tmp_path):
    folder = saved(tiny_gpt2, tmp_path / "m")
    found = export_reranker(folder, DATASET, RUN, int8=False)
    assert list(found) == ["fp32"] and not (folder / "onnx" / "model_int8.onnx").exists()
    expected = UtilityReranker.load(folder, device="cpu").score_pairs(PAIRS)
    for size in (1, 5):
        exported = UtilityReranker.load(folder, backend="onnx", batch_size=size)
        assert exported.score_pairs(PAIRS) == pytest.approx(expected, abs=1e-3)


@needs_onnx
def test_graphs_of_other_weights_are_refused(bert, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(bert[0], folder)
    (folder / "model.safetensors").write_bytes(b"retrained")
    with pytest.raises(DataError, match=r"other weights than its safetensors; export it with"):
        UtilityReranker.load(folder, backend="onnx")
    # Deployed without the torch weights, the graphs stand for themselves.
    (folder / "model.safetensors").unlink()
    assert len(UtilityReranker.load(folder, backend="onnx").score_pairs(PAIRS)) == len(PAIRS)


@needs_onnx
def test_an_exported_reranker_has_no_weights_to_save(bert, tmp_path):
    with pytest.raises(ConfigError, match="copy its folder"):
        UtilityReranker.load(bert[0], backend="onnx").save(tmp_path / "m")


@needs_onnx
def test_rerank_verb_with_each_backend(bert, tmp_path):
    folder = bert[0]
    orders = {}
    for backend in ("torch", "onnx", "onnx-int8"):
        out = tmp_path / f"{backend}.trec"
        asked = [str(folder.parent / "data"), "--run", str(folder.parent / "bm25.trec"), "--reranker", str(folder)]
        done = CliRunner().invoke(app, ["rerank", *asked, "--out", str(out), "--backend", backend])
        assert done.exit_code == 0, done.output
        orders[backend] = {query_id: [pid for pid, _ in hits] for query_id, hits in read_run(out).items()}
    assert orders["torch"] == orders["onnx"]
    assert {q: sorted(ids) for q, ids in orders["onnx-int8"].items()} == {
        q: sorted(i) for q, i in orders["onnx"].items()
    }


def test_a_missing_package_names_the_extra():
    with pytest.raises(ConfigError, match=r"no_such_runtime.*pip install 'utilitune\[onnx\]'"):
        check_installed(("no_such_runtime",))


def test_backends_are_named(tiny_bert, tmp_path):
    folder = saved(tiny_bert, tmp_path / "m")
    with pytest.raises(ConfigError, match="found 'tensorrt', expected one of: torch, onnx, onnx-int8"):
        UtilityReranker.load(folder, backend="tensorrt")
    with pytest.raises(ConfigError, match="run on the processor, found device 'cuda'"):
        UtilityReranker.load(folder, backend="onnx", device="cuda")


@needs_onnx
def test_a_folder_without_graphs_says_how_to_make_them(tiny_bert, tmp_path):
    folder = saved(tiny_bert, tmp_path / "m")
    with pytest.raises(DataError, match=r"no int8 ONNX graph.*utilitune train export-reranker"):
        UtilityReranker.load(folder, backend="onnx-int8")


@needs_onnx
def test_nothing_to_compare_on_is_refused(tiny_bert, tmp_path):
    folder = saved(tiny_bert, tmp_path / "m")
    with pytest.raises(DataError, match="no candidate"):
        export_reranker(folder, DATASET, Run({"q": []}))
    assert not (folder / "onnx").exists()
