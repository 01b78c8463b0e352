"""The real backend on a tiny random model against the float64 reference with the same weights."""

from dataclasses import replace

import pytest
from tiny_generator import CHARACTERS, TinyGenerator

from utilitune.generator import load_generator
from utilitune.scoring import label

SPECS = [
    "information-gain,max_new_tokens=5",
    "entropy-drop,max_new_tokens=5",
    "grogu:mean-entropy,max_new_tokens=5",
    "grogu:max-entropy,max_new_tokens=5",
    "grogu:key-entropy,tau=0.5,max_new_tokens=5",
    "abstention",
    "abstention,reading=mass",
    "erag,max_new_tokens=5",
    "answer-likelihood",
    "loop",
    "dig",
    "contrastive-ppl",
    "contrastive-ppl,alpha=2",
    "llm-relevance",
    # A judge that random letters can satisfy now and then.
    "sper,n=4,judge=F1,max_new_tokens=3",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("tiny-llama")
    vocabulary = {"<end>": 0} | {character: number for number, character in enumerate(CHARACTERS, 1)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="\n"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", model_max_length=tiny.window
    ).save_pretrained(path)
    model = TinyGenerator(seed=1).model.float()
    model.generation_config.eos_token_id = model.config.eos_token_id = 0
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def world(world):
    dataset, run = world
    queries = [replace(query, answers=("the river nelrO", "x")) for query in dataset.queries]
    return replace(dataset, queries=queries), run


@pytest.fixture(scope="module")
def expected(world, tiny):
    return label(*world, SPECS, tiny, k=3)


@pytest.mark.parametrize(("batch_tokens", "chunk_items"), [(1, 64), (700, 4), (100_000, 64)])
def test_labels_equal_the_reference(folder, world, expected, batch_tokens, chunk_items):
    generator = load_generator(str(folder), dtype="float32", device="cpu", batch_tokens=batch_tokens)
    labels = label(*world, SPECS, generator, k=3, chunk_items=chunk_items)
    assert len(labels) == len(expected) == 6 * 3 * len(SPECS)
    for ours, theirs in zip(labels, expected, strict=True):
        assert (ours.query_id, ours.passage_ids, ours.name) == (theirs.query_id, theirs.passage_ids, theirs.name)
        assert ours.evidence.get("answer") == theirs.evidence.get("answer")
        assert ours.utility == pytest.approx(theirs.utility, abs=1e-4)
    assert max(row.utility for row in expected) - min(row.utility for row in expected) > 1


def test_a_full_store_needs_no_weights(folder, world, tmp_path):
    """Another γ, τ and selector over the same responses: the weights are not read, and could not be."""
    import os

    base = ["grogu:key-entropy,tau=0.5,max_new_tokens=5", "information-gain,max_new_tokens=5"]
    more = ["grogu:key-entropy,tau=2,max_new_tokens=5", "grogu:max-entropy,max_new_tokens=5"]
    own = tmp_path / "model"
    own.mkdir()
    for path in folder.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    first = label(*world, base, load_generator(str(own), dtype="float32"), k=2, store=tmp_path / "s")
    expected = label(*world, more, load_generator(str(own), dtype="float32"), k=2)

    weights = own / "model.safetensors"
    stat = weights.stat()
    weights.write_bytes(bytes(stat.st_size))
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the hash is kept under size and time
    unread = load_generator(str(own), dtype="float32")
    again = label(*world, [base[0], *more], unread, k=2, store=tmp_path / "s")
    assert again.manifest["counts"]["store_misses"] == 0
    assert again.rows[::3] == first.rows[::2]
    assert [row for row in again if row.name != base[0]] == expected.rows
    assert "model" not in vars(unread)
