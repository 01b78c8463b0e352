"""A small folder with conversations and stand-alone questions, and a recipe over it whose models are local folders."""

import json

import pytest

from utilitune.recipe import Recipe

RECIPE = """
name: tiny
out: {root}/out
data: {root}/data
split: {{by: field}}
generator: {root}/reader
retrievers: {{bm25: {{kind: bm25}}}}
rewriter: {{base: {root}/writer, reward: {{utilities: ["information-gain,prompt={root}/prompt.yaml"]}}}}
reranker: {{base: {root}/encoder, utilities: ["{root}/own.py:Own"], depth: 4}}
"""
PROMPT = """
name: mine
version: 1
placeholders: {required: [question], optional: [passages, history]}
messages:
  - {role: user, content: "{{ passages }} {{ history }} {{ question }}"}
plain: "{{ passages }} {{ history }} {{ question }}"
stop: []
max_new_tokens: 8
"""
OWN = """
from pathlib import Path

Path(__file__).with_name("imported").touch()


class Own:
    name, needs_answers, parameters = "own", False, {}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        return None
"""
CITIES = ["Aro", "Bel", "Cid", "Dun", "Eke", "Fim"]


def rows(*many):
    return "".join(json.dumps(row) + "\n" for row in many)


def write_data(folder):
    folder.mkdir(parents=True)
    corpus = [{"_id": f"p{i}", "text": f"{city} lies on river number {i}"} for i, city in enumerate(CITIES)]
    queries = []
    for i, city in enumerate(CITIES):
        split = "train" if i < 4 else "test"
        history = [{"role": "user", "content": f"Tell me of {city}"}, {"role": "assistant", "content": "A town."}]
        queries += [
            {"_id": f"q{i}", "text": f"On which river lies {city}?", "answers": [f"river {i}"], "split": split},
            {"_id": f"c{i}_2", "text": "On which river?", "history": history, "split": split},
        ]
    (folder / "corpus.jsonl").write_text(rows(*corpus))
    (folder / "queries.jsonl").write_text(rows(*queries))
    lines = [f"{query}\tp{i}\t1\n" for i in range(len(CITIES)) for query in (f"q{i}", f"c{i}_2")]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


@pytest.fixture
def tiny(tmp_path):
    """The folder of the tiny world; ``recipe(tiny)`` loads its recipe."""
    write_data(tmp_path / "data")
    for model in ("reader", "writer", "encoder"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.json").write_text("{}")
        (tmp_path / model / "model.safetensors").write_text(model)
    (tmp_path / "prompt.yaml").write_text(PROMPT)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(root=tmp_path))
    return tmp_path


@pytest.fixture
def recipe(tiny):
    """Loads the tiny recipe with overrides."""
    return lambda *overrides: Recipe.load(tiny / "recipe.yaml", overrides)
