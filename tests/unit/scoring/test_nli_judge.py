"""The entailment judge of sper: hand-worked beliefs, and the model against one plain pass a pair."""

import json
from functools import cache
from math import log

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Generation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring import label_sets, make_utility
from utilitune.scoring.entailment import make_judge
from utilitune.scoring.sper import belief

LABELS = {0: "contradiction", 1: "neutral", 2: "ENTAILMENT"}
CHARACTERS = [chr(code) for code in range(32, 127)]
SIZE = {"vocab_size": 4 + len(CHARACTERS), "pad_token_id": 0}
BERT = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def write(path, model):
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", "<?>", *CHARACTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<?>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    names = {"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<?>"}
    if model.config.pad_token_id is not None:
        names["pad_token"] = "<pad>"
    PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=128, **names).save_pretrained(path)
    model.save_pretrained(path)
    return path


def bert(labels=LABELS, seed=0):
    torch.manual_seed(seed)
    names = {"id2label": labels, "label2id": {name: number for number, name in labels.items()}}
    return BertForSequenceClassification(
        BertConfig(**SIZE, **BERT, max_position_embeddings=128, initializer_range=0.8, **names)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("nli"), bert())


@cache
def reference(folder, kind):
    return (
        PreTrainedTokenizerFast.from_pretrained(folder),
        kind.from_pretrained(folder, dtype=torch.float64).eval(),
    )


def plain(folder, premise, hypothesis, kind=BertForSequenceClassification, label=2):
    """One pass a pair in float64, nothing padded."""
    tokenizer, model = reference(folder, kind)
    with torch.no_grad():
        logits = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]
    return logits.softmax(-1)[label].item()


def test_beliefs_by_hand():
    # Two golds, three answers of weights .5 .3 .2: .5*.9 + .3*.1 + .2*0 = .48; .5*.2 + .3*1 + .2*.5 = .5.
    assert belief([0.5, 0.3, 0.2], [[0.9, 0.1, 0.0], [0.2, 1.0, 0.5]]) == (1, pytest.approx(0.5))
    assert belief([0.5, 0.3, 0.2], [[0.9, 0.1, 0.0]]) == (0, pytest.approx(0.48))
    assert belief([0.5, 0.5], [[1.0, 1.0 + 1e-16]]) == (0, 1.0)


ANSWERS = ["Veltra", "It is Veltra, a town", "", "Orlen", "Veltra"]
GOLDS = ["Veltra City", "Orlen"]


def test_the_surer_direction_of_question_answer_strings(folder):
    judge = make_judge(f"nli:{folder}")
    found = judge.entailed("Which capital?", ANSWERS, GOLDS)
    for gold, row in zip(GOLDS, found, strict=True):
        for answer, number in zip(ANSWERS, row, strict=True):
            ours, theirs = f"Which capital? {answer}", f"Which capital? {gold}"
            both = (plain(folder, ours, theirs), plain(folder, theirs, ours)) if answer else (0.0, 0.0)
            assert number == pytest.approx(max(both), abs=2e-5)
    flat = [number for row in found for number in row]
    assert max(flat) - min(number for number in flat if number) > 0.05, "a judge that is no constant"


def test_a_number_does_not_depend_on_its_batch_mates(folder):
    judge = make_judge(f"nli:{folder}")
    pairs = [("q " + "a" * (1 + number % 7), "q b" + "c" * (number % 5)) for number in range(150)]
    together = judge.probabilities(pairs)
    assert len(together) == len(set(pairs)) == 35
    for pair in list(together)[::6]:
        assert judge.probabilities([pair])[pair] == pytest.approx(together[pair], abs=2e-5)
    assert judge.probabilities([]) == {}


def test_a_decoder_without_pad_token(tmp_path):
    """B26: sequence-classification decoders refuse batches when they have no pad id."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=SIZE["vocab_size"],
        n_embd=24,
        n_layer=1,
        n_head=2,
        n_positions=128,
        initializer_range=0.8,
        id2label={0: "entailment", 1: "not_entailment"},
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
    )
    write(tmp_path, GPT2ForSequenceClassification(config))
    pairs = [("q a", "q b"), ("q c", "q d"), ("q abc", "q d")]
    found = make_judge(f"nli:{tmp_path}").probabilities(pairs)
    for pair in pairs:
        expected = plain(tmp_path, *pair, kind=GPT2ForSequenceClassification, label=0)
        assert found[pair] == pytest.approx(expected, abs=2e-5)


def said(text, logprob):
    return Generation(text, ("t",), (1,), (logprob,), None)


def test_sper_with_the_judge_by_hand(folder):
    utility = make_utility(f"sper,n=2,judge=nli:{folder}")
    query = Query("q", "Which capital?", answers=("Veltra City", "Orlen"))
    responses = {
        "grounded-0": said("Veltra", log(0.6)),
        "grounded-1": said("Orlen", log(0.2)),
        "bare-0": said("", log(0.5)),
        "bare-1": said("Meru", log(0.5)),
    }
    value = utility.value(query, [Passage("p", "x")], responses)

    def surer(answer, gold):
        ours, theirs = f"{query.text} {answer}", f"{query.text} {gold}"
        return max(plain(folder, ours, theirs), plain(folder, theirs, ours))

    grounded = [0.75 * surer("Veltra", gold) + 0.25 * surer("Orlen", gold) for gold in query.answers]
    bare = [0.5 * surer("Meru", gold) for gold in query.answers]  # a blank answer entails nothing
    assert value.utility == pytest.approx(max(grounded) - max(bare), abs=2e-5)
    best = query.answers[grounded.index(max(grounded))]
    assert value.evidence["gold"]["grounded"] == best
    assert [each["entails"] for each in value.evidence["grounded"]] == pytest.approx(
        [surer("Veltra", best), surer("Orlen", best)], abs=2e-5
    )


def test_the_model_is_part_of_the_label_set(folder, tmp_path, world, tiny):
    """B05: verdicts of another model, or of the same folder trained further, are other labels."""
    other = write(tmp_path / "other", bert(seed=1))
    same = write(tmp_path / "same", bert(seed=0))
    mine, theirs = make_utility(f"sper,judge=nli:{folder}"), make_utility(f"sper,judge=nli:{other}")
    assert mine.name == f"sper,judge=nli:{folder}"
    assert mine.parameters["judge_label"] == "ENTAILMENT"
    assert len(mine.parameters["judge_revision"]) == 64
    assert mine.parameters["judge_revision"] != theirs.parameters["judge_revision"]
    again = make_utility(f"sper,judge=nli:{same}").parameters
    assert again["judge_revision"] == mine.parameters["judge_revision"], "the hash is of what is in the folder"
    json.dumps(dict(mine.parameters))
    dataset, run = world
    query = Query("q0", dataset.queries[0].text, answers=("nelrO",))
    item = (query, (dataset.passages()[run["q0"][0][0]],))
    specs = ["sper,n=2,max_new_tokens=3", mine.name + ",n=2,max_new_tokens=3"]
    first, second = label_sets([item], specs, tiny), label_sets([item], specs, tiny)
    assert [row.status for row in first] == ["ok", "ok"]
    assert len({row.label_set for row in first}) == 2
    assert [row.utility for row in first] == [row.utility for row in second]


@pytest.mark.parametrize("labels", [{0: "LABEL_0", 1: "LABEL_1"}, {0: "not_entailment", 1: "other"}])
def test_no_entailment_label_is_refused_with_those_found(labels, tmp_path):
    write(tmp_path, bert(labels))
    with pytest.raises(ConfigError, match=f"not exactly one entailment label.*{labels[0]}, {labels[1]}"):
        make_utility(f"sper,judge=nli:{tmp_path}")


def test_two_entailment_labels_are_refused(tmp_path):
    write(tmp_path, bert({0: "entailment", 1: "Entailment"}))
    with pytest.raises(ConfigError, match="not exactly one"):
        make_judge(f"nli:{tmp_path}")


def test_an_encoder_that_nobody_trained_to_judge_is_refused(tmp_path):
    write(tmp_path, BertModel(BertConfig(**SIZE, **BERT)))
    with pytest.raises(ConfigError, match="no sequence classifier; found architectures"):
        make_judge(f"nli:{tmp_path}")
    # A configuration that claims more than the weights hold is found out before the first verdict.
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": LABELS}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"no trained .*classifier"):
        make_judge(f"nli:{tmp_path}").probabilities([("a", "b")])


def test_pickled_weights_are_refused(tmp_path):
    write(tmp_path, bert())
    torch.save({}, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot load judge model"):
        make_judge(f"nli:{tmp_path}").probabilities([("a", "b")])


def test_folders_that_are_not_there(tmp_path):
    for spec in (tmp_path / "none", "./none", "a/b/c"):
        with pytest.raises(ConfigError, match="does not exist"):
            make_judge(f"nli:{spec}")
    with pytest.raises(ConfigError, match="cannot load judge model"):
        make_judge(f"nli:{tmp_path}")
    with pytest.raises(ConfigError, match="packaged"):
        make_judge("nli:packaged:nothing")


def test_revisions(folder):
    for spec in ("contains", f"nli:{folder}"):
        with pytest.raises(ConfigError, match="no revision; leave judge_revision out"):
            make_utility({"name": "sper", "judge": spec, "judge_revision": "abc"})


def test_a_pair_that_does_not_fit_fails_its_row_alone(folder, tiny, world):
    """B19, B27: a cut text would be another text."""
    judge = make_judge(f"nli:{folder}")
    with pytest.raises(ValueError, match="a pair of 207 tokens, its window holds 128"):
        judge.entailed("q", ["x" * 100], ["y" * 100])
    query = world[0].queries[0]
    items = [
        (Query(f"q{n}", query.text, answers=(gold,)), (world[0].corpus[0],)) for n, gold in enumerate(["a", "a" * 90])
    ]
    spec = f"sper,n=1,max_new_tokens=2,judge=nli:{folder}"
    rows = label_sets(items, [spec], tiny, max_failed=0.5).rows
    assert [row.status for row in rows] == ["ok", "failed"]
    assert "window holds 128" in rows[1].evidence["reason"]


def test_window_of_models_that_count_positions_behind_the_pad_id(tmp_path):
    from transformers import RobertaConfig, RobertaForSequenceClassification

    torch.manual_seed(0)
    config = RobertaConfig(
        **{**SIZE, "pad_token_id": 1},
        **BERT,
        max_position_embeddings=30,
        id2label=LABELS,
        bos_token_id=1,
        eos_token_id=2,
    )
    write(tmp_path, RobertaForSequenceClassification(config))
    judge = make_judge(f"nli:{tmp_path}")
    assert judge.probabilities([("a" * 12, "b" * 13)])  # 28 tokens with the three special ones
    with pytest.raises(ValueError, match="29 tokens, its window holds 28"):
        judge.probabilities([("a" * 13, "b" * 13)])
