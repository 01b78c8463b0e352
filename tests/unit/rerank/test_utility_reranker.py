"""The reranker: order, ties, numbers that are not finite, runs, files."""

from __future__ import annotations

import json
import math

import pytest
import torch
from sentence_transformers import CrossEncoder

from utilitune.errors import DataError
from utilitune.evaluation.ranking import ranking
from utilitune.records import Dataset, Passage, Query, Run
from utilitune.rerank import UtilityReranker

TEXTS = [
    "good mill",
    "the river of the old town",
    "bad bridge in the new town of the king of the river of the mill",
    "red",
    "blue king built a bridge",
    "an old mill",
]
CORPUS = [Passage(f"p{place}", text) for place, text in enumerate(TEXTS)]
DATASET = Dataset(CORPUS, [Query("q", "who built the mill"), Query("r", "where is the king")])


@pytest.fixture
def reranker(tiny_bert):
    """Random weights with a large head, so that scores differ visibly."""
    made = UtilityReranker.untrained(tiny_bert, seed=5, device="cpu")
    with torch.no_grad():
        made.model.transformers_model.classifier.weight.mul_(100)
    return made


def poison(reranker, word):
    """Make every text that holds ``word`` score NaN."""
    index = reranker.model.tokenizer.convert_tokens_to_ids(word)
    with torch.no_grad():
        reranker.model.transformers_model.bert.embeddings.word_embeddings.weight[index] = math.nan


def test_scores_do_not_depend_on_batch_order_or_mates(reranker):
    scores = reranker.score("who built the mill", CORPUS)
    assert len(set(scores)) == len(scores)
    for size in (1, 2, 32):
        reranker.batch_size = size
        assert reranker.score("who built the mill", CORPUS[::-1]) == pytest.approx(scores[::-1], abs=1e-4)
    assert [reranker.score("who built the mill", [text])[0] for text in TEXTS] == pytest.approx(scores, abs=1e-4)


def test_scores_equal_plain_transformers(reranker):
    model, tokenizer = reranker.model.transformers_model, reranker.model.tokenizer
    for text, score in zip(TEXTS, reranker.score("who built the mill", TEXTS), strict=True):
        with torch.no_grad():
            logits = model.eval()(**tokenizer("who built the mill", text, return_tensors="pt")).logits
        assert logits.item() == pytest.approx(score, abs=1e-4)


def test_rank_sorts_by_score_and_cuts(reranker):
    scores = reranker.score("who built the mill", CORPUS)
    ranked = reranker.rank("who built the mill", CORPUS)
    assert [score for _, score in ranked] == sorted(scores, reverse=True)
    assert {passage.id for passage, _ in ranked} == {passage.id for passage in CORPUS}
    assert reranker.rank("who built the mill", CORPUS, 2) == ranked[:2]
    assert reranker.rank("who built the mill", []) == []


def test_saved_folder_is_a_plain_cross_encoder_with_the_same_logits(reranker, tmp_path):
    reranker.save(tmp_path / "m")
    scores = reranker.score("who built the mill", TEXTS)
    plain = CrossEncoder(str(tmp_path / "m"), local_files_only=True, device="cpu")
    # The activation in the folder is the identity: predict gives logits.
    assert plain.predict([("who built the mill", text) for text in TEXTS]).tolist() == pytest.approx(scores, abs=1e-5)
    order = [entry["corpus_id"] for entry in plain.rank("who built the mill", TEXTS)]
    assert [CORPUS[index].id for index in order] == [p.id for p, _ in reranker.rank("who built the mill", CORPUS)]
    again = UtilityReranker.load(tmp_path / "m", device="cpu")
    assert again.score("who built the mill", TEXTS) == pytest.approx(scores, abs=1e-6)
    assert (tmp_path / "m" / "model.safetensors").exists()
    settings = json.loads((tmp_path / "m" / "utilitune_reranker.json").read_text())
    assert settings["activation"] == "identity" and settings["max_length"] == 64


def test_settings_of_the_folder_are_used(tiny_bert, tmp_path):
    made = UtilityReranker.untrained(tiny_bert, seed=5, max_length=20, device="cpu")
    made.query_share = 0.25
    made.save(tmp_path / "m")
    again = UtilityReranker.load(tmp_path / "m", device="cpu")
    assert again.query_share == 0.25 and again.max_length == 20


def test_strong_scores_keep_their_order(reranker, tmp_path):
    """Logits far beyond where a sigmoid rounds to 1."""
    with torch.no_grad():
        reranker.model.transformers_model.classifier.bias.fill_(60.0)
    scores = reranker.score("who built the mill", TEXTS)
    assert min(scores) > 17 and torch.sigmoid(torch.tensor(scores)).unique().numel() < len(TEXTS)
    ranked = reranker.rank("who built the mill", CORPUS)
    assert len({score for _, score in ranked}) == len(TEXTS)
    reranker.save(tmp_path / "m")
    plain = CrossEncoder(str(tmp_path / "m"), local_files_only=True, device="cpu")
    assert [CORPUS[entry["corpus_id"]].id for entry in plain.rank("who built the mill", TEXTS)] == [
        passage.id for passage, _ in ranked
    ]


def test_rerank_reorders_the_head_and_keeps_the_tail_below(reranker):
    run = Run({"q": [(f"p{i}", 10.0 - i) for i in range(6)], "r": [("p3", 1.0)], "empty": []})
    made = reranker.rerank(run, DATASET, depth=4)
    head = [passage.id for passage, _ in reranker.rank("who built the mill", CORPUS[:4])]
    assert [pid for pid, _ in made["q"]] == [*head, "p4", "p5"]
    scores = [score for _, score in made["q"]]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 6
    assert made["empty"] == [] and [pid for pid, _ in made["r"]] == ["p3"]
    assert run["q"][0] == ("p0", 10.0)


def test_rerank_adds_nothing_the_first_stage_missed(reranker):
    dataset = Dataset(CORPUS, DATASET.queries, {"q": {"p0": 1.0}})
    made = reranker.rerank(Run({"q": [("p3", 2.0), ("p4", 1.0)]}), dataset)
    assert {pid for pid, _ in made["q"]} == {"p3", "p4"}


def test_depth_zero_keeps_the_first_stage(reranker):
    run = Run({"q": [("p3", 2.0), ("p4", 1.0)]})
    assert [pid for pid, _ in reranker.rerank(run, DATASET, depth=0)["q"]] == ["p3", "p4"]
    with pytest.raises(DataError, match="depth"):
        reranker.rerank(run, DATASET, depth=-1)


def test_ties_rank_as_every_measure_ranks_them_and_are_counted(reranker, capsys):
    with torch.no_grad():
        reranker.model.transformers_model.classifier.weight.zero_()
    run = Run({"q": [("p4", 3.0), ("p0", 2.0), ("p2", 1.0)]})
    made = reranker.rerank(run, DATASET)
    assert [pid for pid, _ in made["q"]] == ["p4", "p2", "p0"] == [pid for pid, _ in ranking(made["q"])]
    assert reranker.counts["tied"] == 3
    assert "3 of 3" in capsys.readouterr().err
    assert [passage.id for passage, _ in reranker.rank("red", CORPUS[:3])] == ["p2", "p1", "p0"]


def test_scores_that_are_not_finite_come_last_and_are_counted(reranker):
    poison(reranker, "river")  # p1 and p2
    run = Run({"q": [(f"p{i}", 10.0 - i) for i in range(6)]})
    made = reranker.rerank(run, DATASET, depth=5)
    assert [pid for pid, _ in made["q"]][3:] == ["p1", "p2", "p5"]
    scores = [score for _, score in made["q"]]
    assert all(math.isfinite(score) for score in scores) and scores == sorted(scores, reverse=True)
    assert reranker.counts["non_finite"] == 2
    assert [passage.id for passage, _ in reranker.rank("who built the mill", CORPUS)][-2:] == ["p1", "p2"]


def test_rewritten_questions_replace_the_data_set_s(reranker):
    run = Run({"q": [(f"p{i}", 10.0 - i) for i in range(6)]})
    made = reranker.rerank(run, DATASET, queries={"q": "where is the king"})
    expected = [passage.id for passage, _ in reranker.rank("where is the king", CORPUS)]
    assert [pid for pid, _ in made["q"]] == expected
    apart = reranker.rerank(
        run, queries=[Query("q", "where is the king")], passages={passage.id: passage for passage in CORPUS}
    )
    assert apart == made


def test_unknown_queries_and_passages_are_named(reranker):
    with pytest.raises(DataError, match="'x'"):
        reranker.rerank(Run({"x": [("p0", 1.0)]}), DATASET)
    with pytest.raises(DataError, match="'zzz'"):
        reranker.rerank(Run({"q": [("zzz", 1.0)]}), DATASET)


def test_truncation_is_counted(reranker):
    reranker.score("who built the mill", ["mill " * 200, "mill"])
    counts = reranker.counts
    assert counts["pairs"] == 2 and counts["truncated_pairs"] == counts["truncated_passages"] == 1
    assert counts["truncated_queries"] == 0


def test_titles_are_read(reranker):
    titled = Passage("t", "of the town", "king")
    assert reranker.score("red", [titled]) == reranker.score("red", ["king\nof the town"])


def test_no_model_there_is_a_clear_error(tmp_path):
    with pytest.raises(DataError, match="no reranker"):
        UtilityReranker.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no reranker"):
        UtilityReranker.load(tmp_path / "empty")


@pytest.mark.parametrize("kind", ["tiny_gpt2", "tiny_bert"])
def test_a_model_that_no_one_trained_to_rerank_is_refused(kind, request):
    with pytest.raises(DataError, match=r"is no trained reranker: .*train reranker"):
        UtilityReranker.load(request.getfixturevalue(kind), device="cpu")
