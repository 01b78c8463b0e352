"""The similarity head: its arithmetic, what it leaves out, what it survives, and where it is refused."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError
from utilitune.recipe import Recipe
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.workspace import Workspace
from utilitune.records import (
    Dataset,
    Labels,
    Passage,
    Query,
    Run,
    UtilityLabel,
    read_json,
    write_dataset,
    write_labels,
)
from utilitune.rerank import DecoderConfig, Group, Groups, RerankerConfig, UtilityReranker, train_reranker
from utilitune.rerank.cross_encoder import new_cross_encoder
from utilitune.rerank.export_files import EXPORTING
from utilitune.rerank.export_onnx import export_reranker
from utilitune.rerank.segment_similarity import START_CENTRE, START_SCALE, SegmentSimilarity

CLS, SEP, PAD = 2, 3, 0
PAIRS = [
    ("who built the mill", "good mill"),
    ("who built the mill", "the river of the old town"),
    ("where is the king", "bad bridge in the new town of the king of the river of the mill"),
    ("where is the king", "red"),
    ("king", "mill " * 80),
    ("river " * 70, "blue " * 70),
]


def similar(base, **options):
    return UtilityReranker.untrained(base, seed=1, device="cpu", head="similarity", **options)


@pytest.fixture(scope="module")
def typed(tiny_bert, tmp_path_factory):
    """The tiny BERT with token types, as BERT's own tokenizer gives them."""
    folder = tmp_path_factory.mktemp("typed") / "model"
    shutil.copytree(tiny_bert, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.fixture(scope="module")
def untyped(tiny_roberta, tmp_path_factory):
    """The tiny RoBERTa with RoBERTa's pair template: two separators, no token types."""
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast, RobertaModel

    folder = tmp_path_factory.mktemp("untyped")
    # The pad id of its tokenizer: RoBERTa counts positions from it.
    RobertaModel.from_pretrained(tiny_roberta, pad_token_id=PAD).save_pretrained(folder)
    tokenizer = Tokenizer.from_file(f"{tiny_roberta}/tokenizer.json")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
    ).save_pretrained(folder)
    return str(folder)


class TestArithmetic:
    """Two tokens a side, worked by hand."""

    # [CLS] a b [SEP] c d [SEP] [PAD]; query mean (1, 1), passage mean (0, 2): cosine 2 / (√2 · 2) = 1 / √2
    IDS = torch.tensor([[CLS, 7, 8, SEP, 9, 10, SEP, PAD]])
    STATES = torch.tensor([[[9.0, -9], [2, 0], [0, 2], [-5, 5], [1, 3], [-1, 1], [7, 7], [100, 100]]])
    MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 0]])
    TYPES = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0]])

    def features(self, **others):
        return {"input_ids": self.IDS, "token_embeddings": self.STATES, "attention_mask": self.MASK, **others}

    @pytest.mark.parametrize("token_types", [True, False])
    def test_by_hand(self, token_types):
        head = SegmentSimilarity([CLS, SEP], SEP, token_types)
        with torch.no_grad():
            head.scale.fill_(10.0)
            head.bias.fill_(-3.0)
        scores = head(self.features(token_type_ids=self.TYPES))["scores"]
        assert scores.shape == (1, 1) and scores.item() == pytest.approx(10 / math.sqrt(2) - 3, abs=1e-5)

    def test_the_start(self):
        scores = SegmentSimilarity([CLS, SEP], SEP, False)(self.features())["scores"]
        assert scores.item() == pytest.approx(START_SCALE * (1 / math.sqrt(2) - START_CENTRE), abs=1e-4)

    def test_a_text_without_tokens_has_no_likeness_and_a_finite_gradient(self):
        head = SegmentSimilarity([CLS, SEP], SEP, False)
        states = self.STATES.clone().requires_grad_()
        ids = torch.tensor([[CLS, SEP, 9, 10, 11, 9, SEP, PAD]])
        scores = head({"input_ids": ids, "token_embeddings": states, "attention_mask": self.MASK})["scores"]
        scores.sum().backward()
        assert scores.item() == pytest.approx(head.bias.item()) and torch.isfinite(states.grad).all()


class TestTokenizers:
    """What is found out from the tokenizer alone."""

    def test_token_types(self, typed):
        head = new_cross_encoder(typed, seed=0, device="cpu", head="similarity")[1]
        assert (head.special_ids, head.separator_id, head.token_types) == ([CLS, SEP], SEP, True)

    def test_separators(self, untyped):
        head = new_cross_encoder(untyped, seed=0, device="cpu", head="similarity")[1]
        assert (head.special_ids, head.separator_id, head.token_types) == ([CLS, SEP], SEP, False)

    def test_neither(self, tiny_bert):
        from tokenizers import processors

        tokenizer = new_cross_encoder(tiny_bert, seed=0, device="cpu").tokenizer
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
        with pytest.raises(ConfigError, match="no separator"):
            SegmentSimilarity.for_tokenizer(tokenizer)


@pytest.mark.parametrize("base", ["typed", "untyped"])
class TestScores:
    """Scores of whole models."""

    def test_equal_means_of_the_states_of_each_text(self, base, request):
        """Against the bare encoder and the tokenizer's own account of which token is whose."""
        reranker = similar(request.getfixturevalue(base))
        body, tokenizer = reranker.model.transformers_model.eval(), reranker.model.tokenizer
        for query, passage in PAIRS[:4]:
            encoded = tokenizer(query, passage, return_tensors="pt")
            with torch.no_grad():
                states = body(**encoded).last_hidden_state[0]
            sides = encoded.sequence_ids(0)
            means = [states[[side == wanted for side in sides]].mean(0) for wanted in (0, 1)]
            cosine = float(means[0] @ means[1] / (means[0].norm() * means[1].norm()))
            (found,) = reranker.score_pairs([(query, passage)])
            assert found == pytest.approx(START_SCALE * (cosine - START_CENTRE), abs=1e-4)

    def test_do_not_depend_on_the_batch(self, base, request):
        model = request.getfixturevalue(base)
        alone = similar(model, batch_size=1).score_pairs(PAIRS)
        assert len(set(alone)) == len(PAIRS) and all(map(math.isfinite, alone))
        for size in (2, 32):
            assert similar(model, batch_size=size).score_pairs(PAIRS) == pytest.approx(alone, abs=1e-4)

    def test_survive_a_save(self, base, request, tmp_path):
        made = similar(request.getfixturevalue(base), max_length=24)
        with torch.no_grad():
            made.model[1].scale.fill_(7.0)
            made.model[1].bias.fill_(1.5)
        made.query_share = 0.4
        made.save(tmp_path / "m")
        again = UtilityReranker.load(tmp_path / "m", device="cpu")
        assert again.score_pairs(PAIRS) == UtilityReranker(made.model, query_share=0.4).score_pairs(PAIRS)
        assert again.max_length == 24 and again.model.num_labels == 1 and again.query_share == 0.4
        assert not list((tmp_path / "m").rglob("*.bin"))

    def test_long_pairs_keep_both_texts(self, base, request):
        reranker = similar(request.getfixturevalue(base), max_length=24)
        assert all(score != reranker.model[1].bias.item() for score in reranker.score_pairs(PAIRS))
        assert reranker.counts["truncated_pairs"] == 2 and reranker.counts["truncated_queries"] == 1
        # The tokenizer's own cut keeps the separators, too.
        longest = reranker.model.preprocess([PAIRS[-1]])["input_ids"][0]
        assert len(longest) == 24 and longest.tolist().count(SEP) >= 2


def test_one_text_twice_is_most_alike(tiny_bert):
    reranker = similar(tiny_bert)
    scores = reranker.score("the old mill", ["the old mill", "a red king", "bad new bridge of a town"])
    assert max(scores) == scores[0]


def rule_groups(count, first=0):
    """The better passage is the one with the word good."""
    passages = ("good red town", "bad blue river", "bad old king")
    return [
        Group(f"q{i}", f"who built the {w}", ("a", "b", "c"), passages, (1.0, 0.0, 0.0), (1.0, 0.0, 0.0), f"c{i}")
        for i, w in enumerate(("mill", "town", "king", "bridge") * (count // 4), start=first)
    ]


@pytest.mark.parametrize("loss", ["listwise-kl", "bce", "margin-mse"])
def test_trains(tiny_bert, tmp_path, loss):
    config = RerankerConfig(head="similarity", loss=loss, epochs=4, learning_rate=5e-3, batch_pairs=12, device="cpu")
    report = train_reranker(rule_groups(24), tiny_bert, tmp_path / "m", config, dev_groups=rule_groups(4, 100))
    assert report.kept.ndcg > 0.97 and report.config["head"] == "similarity" and not report.collapsed
    made, start = UtilityReranker.load(tmp_path / "m", device="cpu"), similar(tiny_bert)
    assert made.model[1].scale.item() != START_SCALE
    before, after = start.model[0].model.state_dict(), made.model[0].model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert "utilitune" in (tmp_path / "m" / "README.md").read_text()


def test_the_verb(typed, tmp_path):
    groups = rule_groups(8)
    corpus = [Passage(name, text) for name, text in zip("abc", groups[0].passages, strict=True)]
    write_dataset(tmp_path / "data", Dataset(corpus, [Query(group.query_id, group.query) for group in groups], {}))
    rows = [
        UtilityLabel(group.query_id, (passage_id,), utility, "ok", "erag@00000000")
        for group in groups
        for passage_id, utility in zip(group.passage_ids, group.utilities, strict=True)
    ]
    write_labels(tmp_path / "labels.jsonl", Labels(rows))
    asked = [str(tmp_path / "data"), "--labels", str(tmp_path / "labels.jsonl"), "--base", typed, "--epochs", "1"]
    done = CliRunner().invoke(
        app, ["train", "reranker", *asked, "--head", "similarity", "--out", str(tmp_path / "m")], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert isinstance(UtilityReranker.load(tmp_path / "m", device="cpu").model[1], SegmentSimilarity)


RECIPE = """
name: tiny
out: {root}
data: sample
retrievers: {{bm25: {{kind: bm25}}}}
rewriter: {{enabled: false}}
reranker:
  base: {base}
  utilities: [erag]
  training: {{head: similarity, epochs: 1}}
"""


def test_a_recipe(tiny_bert, tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(root=tmp_path / "out", base=tiny_bert))
    made = Recipe.load(tmp_path / "recipe.yaml")
    fit_reranker(Workspace(made), Groups(rule_groups(8)), tmp_path / "m", made.reranker.base)
    assert read_json(tmp_path / "m" / "training.json")["config"]["head"] == "similarity"
    assert isinstance(UtilityReranker.load(tmp_path / "m", device="cpu").model[1], SegmentSimilarity)


def test_goes_on_from_a_trained_one_with_its_scale(tiny_bert, tmp_path):
    made = similar(tiny_bert)
    with torch.no_grad():
        made.model[1].scale.fill_(7.0)
    made.save(tmp_path / "m")
    assert similar(str(tmp_path / "m")).model[1].scale.item() == 7.0
    with pytest.raises(ConfigError, match="head: similarity"):
        new_cross_encoder(str(tmp_path / "m"), seed=0, device="cpu")


def test_a_damaged_head_is_refused(tiny_bert, tmp_path):
    similar(tiny_bert).save(tmp_path / "m")
    weights = tmp_path / "m" / "1_SegmentSimilarity" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20])
    with pytest.raises(DataError, match="damaged"):
        UtilityReranker.load(tmp_path / "m", device="cpu")


class TestRefusals:
    """Where there is no joint pass to pool, or no graph of it."""

    def test_unknown(self, tiny_bert):
        with pytest.raises(ConfigError, match="classification, similarity"):
            RerankerConfig(head="cosine").check()
        with pytest.raises(ConfigError, match="classification, similarity"):
            new_cross_encoder(tiny_bert, seed=0, head="cosine")

    def test_causal_bases(self, tiny_gpt2, tiny_llama):
        for base in (tiny_gpt2, tiny_llama):
            with pytest.raises(ConfigError, match="needs an encoder"):
                new_cross_encoder(base, seed=0, device="cpu", head="similarity")

    def test_decoder_rerankers(self, tmp_path):
        config = RerankerConfig(head="similarity")
        with pytest.raises(ConfigError, match="leave head out"):
            train_reranker(rule_groups(8), "nowhere", tmp_path / "m", config, decoder=DecoderConfig())

    def test_graphs(self, tiny_bert, tmp_path, monkeypatch):
        monkeypatch.setattr("utilitune.rerank.export_onnx.EXPORTING", EXPORTING[:0])
        similar(tiny_bert).save(tmp_path / "m")
        data = Dataset([Passage("p", "mill")], [Query("q", "king")], {})
        with pytest.raises(ConfigError, match="similarity run in torch"):
            export_reranker(tmp_path / "m", data, Run({"q": [("p", 1.0)]}))
