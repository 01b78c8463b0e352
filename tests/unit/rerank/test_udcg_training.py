"""What relevance cannot teach: of two useless passages, the one that the generator believes goes last."""

from __future__ import annotations

import random

import pytest

from utilitune.recipe import Recipe
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_json
from utilitune.rerank import Group, Groups, Relevance, RerankerConfig, UtilityReranker, train_reranker

FILLER = ("blue", "town", "river", "bridge", "mill", "old", "new")
KINDS = ("good", "king", "king", "king", "red", "red", "red")


def world(count, seed, hard):
    """One passage helps; of the six others three are believed: those with the word ``hard``."""
    generator = random.Random(seed)
    groups = []
    for place in range(count):
        kinds = generator.sample(KINDS, len(KINDS))
        texts = tuple(" ".join([*generator.choices(FILLER, k=5), kind]) for kind in kinds)
        u = [0.05 if kind not in ("good", hard) else 0.95 for kind in kinds]
        signed = tuple(value if kind == "good" else -value / 3 for kind, value in zip(kinds, u, strict=True))
        query = " ".join(generator.choices(FILLER, k=4))
        groups.append(Group(f"q{seed}-{place}", query, tuple(map(str, range(7))), texts, signed, signed))
    return Groups(groups, rule="none", relevance=Relevance())


@pytest.mark.parametrize(("hard", "weak"), [("king", "red"), ("red", "king")])
def test_hard_distractors_go_last(tiny_bert, tmp_path, hard, weak):
    """Relevance is the same in both worlds, so one order learnt from it is wrong in one of them."""
    config = RerankerConfig(
        loss="udcg", epochs=5, learning_rate=5e-3, batch_pairs=21, device="cpu", choose_by="utility@5"
    )
    report = train_reranker(world(20, 1, hard), tiny_bert, tmp_path, config)
    assert report.kept.top5 > report.untrained.top5
    reranker = UtilityReranker.load(tmp_path, device="cpu")
    for group in world(10, 99, hard):
        scores = reranker.score(group.query, group.passages)
        order = sorted(range(group.size), key=lambda i: -scores[i])
        assert [group.passages[i].split()[-1] for i in order] == ["good", *[weak] * 3, *[hard] * 3]


RECIPE = """
name: tiny
out: {root}
data: sample
retrievers: {{bm25: {{kind: bm25}}}}
rewriter: {{enabled: false}}
reranker:
  base: {base}
  utilities: [abstention]
  training: {{loss: udcg, relevance: gold, epochs: 1, choose_by: utility@5}}
"""


def test_a_recipe_says_what_the_epoch_is_chosen_by(tiny_bert, tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(root=tmp_path / "out", base=tiny_bert))
    made = Recipe.load(tmp_path / "recipe.yaml")
    fit_reranker(Workspace(made), world(8, 1, "king"), tmp_path / "model", made.reranker.base)
    assert read_json(tmp_path / "model" / "training.json")["config"]["choose_by"] == "utility@5"
