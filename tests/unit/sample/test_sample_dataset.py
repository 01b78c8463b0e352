"""The sample data set as a whole: size, gold passages, split, prose, determinism, scale."""

import os
import re
import subprocess
import sys
import time
import tracemalloc
from collections import Counter, defaultdict

import pytest

from utilitune.errors import ConfigError
from utilitune.records import folder_hash, load_dataset, validate_folder
from utilitune.sample import make_sample, sample_corpus, write_sample


@pytest.fixture(scope="module")
def world():
    return make_sample()


@pytest.fixture(scope="module")
def passages(world):
    return world.passages()


def gold(world, query):
    (passage,) = world.qrels[query.id]
    return passage


def alone(world):
    return [query for query in world.queries if query.id.startswith("q")]


def turns(world):
    return [query for query in world.queries if query.id.startswith("c")]


def test_sizes(world):
    assert len(world.corpus) == 400
    assert len(alone(world)) == 260
    talks = Counter(query.conversation for query in turns(world))
    assert len(talks) == 100
    assert set(talks.values()) <= {3, 4, 5} and len(set(talks.values())) == 3


def test_ids_are_unique_and_in_form(world):
    assert len({query.id for query in world.queries}) == len(world.queries)
    assert all(re.fullmatch(r"q\d{4}|c\d{4}_\d", query.id) for query in world.queries)
    assert len({passage.id for passage in world.corpus}) == 400
    assert len({passage.text for passage in world.corpus}) == 400


def test_passage_lengths_and_facts(world):
    lengths = [len(passage.text.split()) for passage in world.corpus]
    assert sum(60 <= length <= 120 for length in lengths) >= 0.98 * len(lengths)
    assert all(4 <= len(passage.metadata["facts"]) <= 7 for passage in world.corpus)


def test_every_entity_has_two_passages_with_different_facts(world):
    seen = defaultdict(list)
    for passage in world.corpus:
        seen[passage.metadata["entity"]].append(set(passage.metadata["facts"]))
    for entity, attributes in seen.items():
        assert len(attributes) >= 2, entity
        assert sum(map(len, attributes)) == len(set.union(*attributes)), entity


def test_every_listed_fact_is_in_its_passage(world):
    for passage in world.corpus:
        for attribute, value in passage.metadata["facts"].items():
            assert value.lower() in passage.text.lower(), (passage.id, attribute, value)


def test_answers_are_short_and_in_the_gold_passage_alone(world, passages):
    holders = defaultdict(list)
    for passage in world.corpus:
        for attribute in passage.metadata["facts"]:
            holders[passage.metadata["entity"], attribute].append(passage.id)
    for query in world.queries:
        assert query.answers
        key = query.metadata["entity"], query.metadata["attribute"]
        assert holders[key] == [gold(world, query)], query.id
        for answer in query.answers:
            assert 1 <= len(answer.split()) <= 4, answer
            assert answer.lower() in passages[gold(world, query)].text.lower(), query.id


def test_elsewhere_name_and_answer_seldom_meet(world, passages):
    # e.g. a person born in a town whose passage names them as its founder: another fact, rightly elsewhere
    names = {}
    for passage in world.corpus:
        names.setdefault(passage.metadata["entity"], set()).add(passage.id)
    met = 0
    for query in alone(world):
        own = names[query.metadata["entity"]] - {gold(world, query)}
        answer = re.compile(rf"\b{re.escape(query.answers[0])}\b", re.IGNORECASE)
        met += any(answer.search(passages[other].text) for other in own)
    assert met <= 0.03 * len(alone(world))


def test_split_is_by_entity(world):
    entities = defaultdict(set)
    for query in world.queries:
        entities[query.metadata["split"]].add(query.metadata["entity"])
    assert set(entities) == {"train", "test"}
    assert not entities["train"] & entities["test"]
    assert not {e.split(".")[0] for e in entities["train"]} & {e.split(".")[0] for e in entities["test"]}
    share = sum(query.metadata["split"] == "test" for query in world.queries) / len(world.queries)
    assert 0.2 <= share <= 0.4


def test_conversation_stays_in_one_split(world):
    splits = defaultdict(set)
    for query in world.queries:
        assert query.conversation == query.metadata["conversation"]
        splits[query.conversation].add(query.metadata["split"])
    assert all(len(found) == 1 for found in splits.values())


def test_later_turns_need_the_history(world):
    titles = {}
    for passage in world.corpus:
        entity = passage.metadata["entity"]
        titles[entity] = min((passage.title, titles.get(entity, passage.title)), key=len)
    later = [query for query in turns(world) if query.history]
    for query in later:
        named = [word for word in re.findall(r"[A-Z][\w'-]+", query.text[1:])]
        assert set(named) <= {"And"}, query.text
        assert query.rewrite != query.text
        assert re.search(r"[A-Z]", query.rewrite[1:])
    moves = Counter(query.metadata["move"] for query in later)
    assert set(moves) == {"stay", "ellipsis", "switch", "back"}
    assert moves["switch"] > 0.15 * len(later)


def test_history_is_what_was_said(world):
    said = defaultdict(list)
    for query in turns(world):
        history = [(turn.role, turn.content) for turn in query.history]
        assert [role for role, _ in history] == ["user", "assistant"] * (len(history) // 2)
        assert [content for role, content in history if role == "user"] == said[query.conversation]
        assert (query.rewrite == query.text) == (not history)
        said[query.conversation].append(query.text)
    facts = [(q.conversation, q.metadata["entity"], q.metadata["attribute"]) for q in turns(world)]
    assert len(set(facts)) == len(facts)


def test_a_switch_goes_to_the_entity_just_named(world):
    before = {}
    for query in turns(world):
        if query.metadata["move"] == "switch":
            last = before[query.conversation]
            assert last.answers[0] in query.rewrite, query.id
        before[query.conversation] = query


def test_prose_is_varied(world):
    grams, openings, words = Counter(), [], []
    for passage in world.corpus:
        tokens = passage.text.lower().split()
        words += tokens
        grams.update({tuple(tokens[i : i + 8]) for i in range(len(tokens) - 7)})
        openings.append(" ".join(passage.text.split()[:4]))
    assert grams.most_common(1)[0][1] <= 0.03 * len(world.corpus)
    assert len(set(openings)) > 0.55 * len(openings)
    assert len(set(words)) / len(words) > 0.1
    tones = Counter(passage.metadata["tone"] for passage in world.corpus)
    assert {"encyclopaedic", "newspaper", "guide", "obituary", "label", "letter"} <= set(tones)
    assert min(tones.values()) >= 10


def test_english_slips(world):
    texts = [passage.text for passage in world.corpus] + [q.text for q in world.queries]
    texts += [query.rewrite for query in world.queries]
    texts += [turn.content for query in world.queries for turn in query.history]
    slips = re.compile(
        r"[{}]|  |\.\.|\s[.,;?]|[.?] [a-z]"  # placeholders, spacing, marks
        r"|\b[Aa] (?!una|uni|one\b)[aeiou]|\b[Aa]n (?!heir|hour)[^aeiouAEIOU\s]"
        r"|\b(?:of|to|for|with|by|at|from) (?:he|she|they)\b|\b(?:the|its|her|his) the\b|\b(\w+) \1\b"
    )
    for text in texts:
        assert not slips.search(text), (slips.search(text), text)


def test_pronouns_agree_with_the_person(world):
    for passage in world.corpus:
        if passage.metadata["kind"] == "person":
            found = {word.lower() for word in re.findall(r"\b(?:she|her|hers|he|his|him)\b", passage.text, re.I)}
            assert not (found & {"she", "her"} and found & {"he", "his", "him"}), passage.text


def test_folder_is_valid_and_loads_back(world, tmp_path):
    write_sample(tmp_path / "world")
    report = validate_folder(tmp_path / "world")
    assert not report.errors, report
    again = load_dataset(tmp_path / "world")
    assert again.corpus == world.corpus
    assert [(q.id, q.text, q.history, q.answers, q.rewrite) for q in again.queries] == [
        (q.id, q.text, q.history, q.answers, q.rewrite) for q in world.queries
    ]
    assert again.queries[0].metadata == world.queries[0].metadata
    assert again.corpus[0].metadata == world.corpus[0].metadata
    assert again.qrels == world.qrels


def test_same_bytes_in_every_process(tmp_path):
    code = "import sys; from utilitune.sample import write_sample; write_sample(sys.argv[1])"
    hashes = set()
    for seed in ("0", "4242"):
        folder = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", code, str(folder)], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        hashes.add(folder_hash(folder))
    assert len(hashes) == 1


def test_another_seed_is_another_world(world):
    other = make_sample(seed=8)
    assert not {p.text for p in world.corpus} & {p.text for p in other.corpus}


def test_a_larger_corpus_starts_with_the_smaller(world):
    assert [p for p, _ in zip(sample_corpus(1000), world.corpus, strict=False)] == world.corpus


def test_questions_reach_over_a_large_corpus():
    big = make_sample(passages=8000)
    asked = {query.metadata["entity"].split(".")[0] for query in big.queries}
    assert len(big.queries) > 260 and "g00000" in asked
    assert max(asked) > "g00150"


def test_a_small_sample_works_and_says_when_it_is_too_small():
    small = make_sample(passages=60, questions=10, conversations=4)
    ids = {passage.id for passage in small.corpus}
    assert all(set(grades) <= ids for grades in small.qrels.values())
    with pytest.raises(ConfigError, match=r"at most \d+ questions, not 5000"):
        make_sample(passages=60, questions=5000, conversations=0)
    with pytest.raises(ConfigError, match="passages >= 1"):
        make_sample(passages=0)


def test_streaming_keeps_memory_flat_and_is_fast():
    for _ in sample_corpus(400):
        pass
    tracemalloc.start()
    for _ in sample_corpus(2000):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20
    started = time.process_time()
    assert sum(1 for _ in sample_corpus(4000)) == 4000
    assert 4000 / (time.process_time() - started) > 2000  # about 12,000 a second on an idle core


def test_a_folder_that_holds_anything_is_left_alone(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds files \(such as corpus.jsonl\).*name a new folder"):
        write_sample(tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        write_sample(tmp_path / "corpus.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]
    assert (tmp_path / "corpus.jsonl").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    write_sample(tmp_path / "empty", questions=1, conversations=1)
    assert load_dataset(tmp_path / "empty").corpus
