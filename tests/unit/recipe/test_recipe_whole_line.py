"""Every stage of a recipe, for real, on random models that are too small to learn anything."""

import json
import logging
import os
import shutil

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from utilitune.errors import DataError
from utilitune.recipe import run_recipe
from utilitune.recipe.stages import STAGES
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_pairs
from utilitune.rewrite import read_candidates

CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def write_models(root):
    """A byte-level Llama with a chat template as reader and writer, a BERT as encoder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", *letters])}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **names)
    tokenizer.chat_template = CHAT
    ids = {"vocab_size": len(vocabulary), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(**ids, **small, max_position_embeddings=2048, initializer_range=0.3)
    for name in ("reader", "writer", "second"):
        LlamaForCausalLM(config).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    names |= {"cls_token": "<s>", "sep_token": "</s>"}
    config = BertConfig(vocab_size=len(vocabulary), pad_token_id=0, **small, max_position_embeddings=128)
    BertModel(config).save_pretrained(root / "encoder")
    PreTrainedTokenizerFast(tokenizer_object=raw, **names).save_pretrained(root / "encoder")


@pytest.fixture
def whole(tiny, recipe, monkeypatch):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tiny / "cache"))
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    write_models(tiny)
    queries = tiny / "data" / "queries.jsonl"
    queries.write_text(queries.read_text().replace('"_id": "c4_2",', '"_id": "c4_2", "answers": ["river 4"],'))
    shutil.copytree(tiny / "data", tiny / "away")
    queries = tiny / "away" / "queries.jsonl"
    queries.write_text(queries.read_text().replace("Tell me of", "What is"))
    # A retriever of the recipe's own passages would find what is not there.
    for name, old, new in (("corpus.jsonl", '"_id": "p', '"_id": "away-p'), ("qrels.tsv", "\tp", "\taway-p")):
        file = tiny / "away" / name
        file.write_text(file.read_text().replace(old, new))
    return recipe(
        "reranker.utilities=[entropy-drop]",
        "rewriter.reward.utilities=[entropy-drop]",
        "rewriter.candidates={n: 2, include: [first-question, keywords]}",
        "rewriter.max_new_tokens=16",
        "rewriter.pairs={keep: 1.0, max_length: 1024, sources: [sample, original, first-question]}",
        "rewriter.methods=[sft, dpo, grpo]",
        "rewriter.resample={n: 24, include: [first-question]}",
        "rewriter.sft={epochs: 1}",
        "rewriter.training.epochs=1",
        "rewriter.grpo={max_steps: 1, generations: 2, batch_size: 1}",
        "rewriter.best_of=1",
        "rewriter.yardsticks=[gold-rank]",
        f"evaluation.transfer=[{tiny / 'away'}]",
        "reranker.training={epochs: 1, max_length: 64}",
        "reranker.rivals=[gold, information-gain]",
        "reranker.warm_up={retriever: bm25, queries: 2}",
        "reranker.interpolate=true",
        "reranker.oracle=true",
        "reranker.untrained=true",
        f"reranker.second_generator={tiny / 'second'}",
        "evaluation.udcg_k=2",
        "evaluation.theta_queries=4",
        "evaluation.distraction=true",
        "evaluation.answer_k=[1, 2]",
        "evaluation.rewriter_answer_k=1",
    )


def test_every_stage_runs_once_and_the_report_says_with_what(whole):
    assert run_recipe(whole) == dict.fromkeys(STAGES, "ran")
    assert run_recipe(whole) == dict.fromkeys(STAGES, "unchanged")
    report = json.loads((whole.out / "evaluate" / "report.json").read_text())
    rewriters = [
        "raw question",
        "first question + question",
        "history concatenation",
        "untuned rewriter",
        "tuned by sft so far",
        "tuned by dpo so far",
        "tuned rewriter",
        "yardstick gold-rank",
    ]
    rewriters += ["untuned, best of 1", "tuned, best of 1"]
    assert [[row["name"] for row in table["rows"]] for table in report["tables"][:2]] == [rewriters, rewriters]
    reranked_by_all(whole, report["tables"][2:])
    notes = report["tables"][0]["notes"]
    for said in ("", "second round, "):
        assert any(note.startswith(f"The reward against the judgements, {said}bm25: ") for note in notes)
    stages = report["manifest"]["stages"]
    reader = stages["label"]["models"]["generator"]
    assert len(reader["revision"]) == 64
    assert stages["answer-rewrites"]["models"]["generator"] == reader
    answered = {path.name for path in (whole.out / "answer-rewrites").glob("*.jsonl")}
    assert answered == {"bm25.untuned.jsonl", "bm25.tuned.jsonl"}
    assert report["counts"]["answer-rewrites"]["turns_without_gold_answer"] == 1
    assert report["tables"][0]["columns"][-3:] == ["contains", "EM", "F1"]
    assert stages["answer"]["models"]["generator"] == stages["utility"]["models"]["generator"] == reader
    made = {f"{name} rewriter" for name in ("sft", "dpo", "tuned", "gold-rank")}
    assert set(stages["rewrite"]["models"]) == {"rewriter.base", *made}
    assert stages["rewrite"]["models"]["tuned rewriter"]["adapter"]
    assert not stages["retrieve"].get("models")
    card = json.loads((whole.out / "train-rewriter" / "rewriter.json").read_text())
    assert card["max_new_tokens"] == 16
    assert {"sft rewriter", "generator"} <= set(stages["resample"]["models"])
    assert "gold-rank sft rewriter" in stages["yardsticks"]["models"]
    rewarded = read_candidates(whole.out / "reward" / "candidates.jsonl")
    sources = {(row.query_id, row.text): row.source for row in rewarded}
    paired = {
        sources[pair.query_id, side[0]["content"]]
        for pair in read_pairs(whole.out / "pairs" / "pairs.jsonl")
        for side in (pair.chosen, pair.rejected)
    }
    assert "keywords" in sources.values() and paired <= {"sample", "original", "first-question"}
    assert report["counts"]["pairs"]["other_sources"] > 0
    rewritten_again_what_is_missing(whole)
    chosen_again_with_the_same_record(whole)


def reranked_by_all(whole, tables):
    """Every order has every column, and the same answers stand behind equal orders."""
    main, against, second = tables
    trained = [f"trained on {name}" for name in ("gold relevance", "information-gain")] + ["tuned reranker"]
    mixed = [row for name in trained for row in (name, f"{name} + first stage")]
    oracles = ["oracle by utility", "oracle order of the first stage"]
    assert [row["name"] for row in main["rows"]] == [
        "first stage",
        "untrained weights",
        "warmed up, no label",
        *mixed,
        *oracles,
    ]
    answers = [f"{measure}@{k}" for measure in ("contains", "distracted") for k in (1, 2)]
    theta = (whole.out / "fit-theta" / "theta.json").is_file()
    assert main["columns"] == ["MRR@10", "nDCG@10", "UDCG@2", *(["UDCGθ@2"] if theta else []), *answers]
    assert all(row["cells"][column] is not None for row in main["rows"] for column in main["columns"])
    assert main["rows"][-1]["cells"]["MRR@10"]["mean"] == 1.0
    assert [(row["block"], row["name"]) for row in against["rows"]] == [
        (f"bm25, {how}", name) for how in ("reranker alone", "first stage added") for name in trained
    ]
    assert against["before"] == "trained on gold relevance" and second["columns"] == ["contains@1", "contains@2"]
    assert [row["name"] for row in second["rows"]] == 2 * [
        "first stage",
        "trained with the other generator's labels",
        "trained with its own labels",
    ]
    weights = json.loads((whole.out / "rerank" / "trained-on-gold-relevance.json").read_text())["weights"]
    assert 0 <= weights["bm25"]["weight"] <= 1 and weights["bm25"]["chosen_on"] == "bm25"


def rewritten_again_what_is_missing(whole):
    """A killed stage finds its whole files and writes the others, to the same end."""
    folder = whole.out / "rewrite"
    record = json.loads((folder / "stage.json").read_text())
    texts = {path.name: path.read_text() for path in folder.glob("*.jsonl")}
    (folder / "stage.json").write_text(json.dumps({**record, "status": "started"}))
    (folder / "tuned.jsonl").unlink()
    kept = (folder / "dpo.jsonl").stat().st_mtime_ns
    assert run_recipe(whole) == {name: "ran" if name == "rewrite" else "unchanged" for name in STAGES}
    assert {path.name: path.read_text() for path in folder.glob("*.jsonl")} == texts
    assert (folder / "dpo.jsonl").stat().st_mtime_ns == kept
    again = json.loads((folder / "stage.json").read_text())
    assert (again["counts"], again["models"], again["outputs"]) == (
        record["counts"],
        record["models"],
        record["outputs"],
    )


def chosen_again_with_the_same_record(whole):
    """A killed choice has its counts and models on record all the same."""
    for name, missing in (("best-of", "tuned.jsonl"), ("best-of-transfer", "away/tuned.jsonl")):
        folder = whole.out / name
        record = json.loads((folder / "stage.json").read_text())
        assert {"generator", "rewriter.base", "tuned rewriter"} <= set(record["models"])
        assert {"untuned_rewritten", "tuned_rewritten"} <= set(record["counts"])
        (folder / "stage.json").write_text(json.dumps({**record, "status": "started"}))
        (folder / missing).unlink()
        assert run_recipe(whole)[name] == "ran"
        again = json.loads((folder / "stage.json").read_text())
        assert [again[part] for part in ("counts", "models", "outputs")] == [
            record[part] for part in ("counts", "models", "outputs")
        ]


def test_training_turns_are_no_transfer_set(whole, tiny):
    queries = tiny / "away" / "queries.jsonl"
    queries.write_text(queries.read_text().replace("What is", "Tell me of"))
    run_recipe(whole, only=["data"])
    with pytest.raises(DataError, match=r"4 of 6 turns \(such as 'c0_2'\) are training turns word for word"):
        STAGES["transfer"].action(Workspace(whole))
