"""The packaged MiniLM learns an invented utility: passages that name the asked attribute and the asked town."""

from __future__ import annotations

import random
import time

import pytest
from sentence_transformers import CrossEncoder

from utilitune.records import Dataset, Labels, Passage, Query, Run, UtilityLabel
from utilitune.rerank import RerankerConfig, UtilityReranker, build_groups, calibrate, train_reranker

TOWNS = [
    first + last
    for first in ("Var", "Ost", "Mel", "Kir", "Bran", "Ul", "Tos", "Hem")
    for last in ("dale", "wick", "mora", "sund", "ford", "aven", "holt")
]
FACTS = {
    "river": ("The river that runs through {town} is the {name}.", "Which river runs through {town}?"),
    "founder": ("{town} was founded by the weaver {name}.", "Who founded {town}?"),
    "bridge": ("The oldest bridge of {town} bears the name {name}.", "What is the oldest bridge of {town}?"),
    "festival": ("Each spring {town} holds a festival called {name}.", "Which festival does {town} hold?"),
}
NAMES = ["Alba", "Corin", "Dessa", "Ferrow", "Galt", "Ilvane", "Jorund", "Lisk", "Nerith", "Orla", "Pell", "Quen"]

pytestmark = pytest.mark.integration


def world(count: int) -> tuple[Dataset, Labels, Run]:
    generator = random.Random(7)
    corpus, where = [], {}
    for town in TOWNS:
        for kind, (sentence, _) in FACTS.items():
            where[town, kind] = f"p{len(corpus)}"
            text = sentence.format(town=town, name=generator.choice(NAMES))
            corpus.append(Passage(where[town, kind], f"{text} Travellers speak well of its inns and its market."))
    queries, rows, run = [], [], Run()
    for place in range(count):
        town, kind = TOWNS[place % len(TOWNS)], list(FACTS)[place % 4]
        query = Query(f"q{place}", FACTS[kind][1].format(town=town), metadata={"conversation": town})
        queries.append(query)
        others = generator.sample([name for name in TOWNS if name != town], 4)
        candidates = [where[town, key] for key in FACTS] + [where[name, kind] for name in others]
        generator.shuffle(candidates)
        run[query.id] = [(passage_id, float(-rank)) for rank, passage_id in enumerate(candidates)]
        for passage_id in candidates:
            noise = generator.gauss(0, 0.3)
            utility = (2.0 if passage_id == where[town, kind] else 0.0) + noise
            rows.append(UtilityLabel(query.id, (passage_id,), utility, "ok", "invented@00000000"))
    return Dataset(corpus, queries), Labels(rows), run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / "reranker"
    dataset, labels, run = world(40)
    groups = build_groups(labels, dataset, rescale="min-max", run=run)
    config = RerankerConfig(epochs=4, learning_rate=1e-4, batch_pairs=16, dev_share=0.3)
    return out, train_reranker(groups, "packaged:all-minilm-l6-v2", out, config), dataset, run


def test_dev_ndcg_rises_above_the_untrained_model(trained):
    _, report, _, _ = trained
    print(f"{report.untrained.ndcg:.3f} -> {report.kept.ndcg:.3f}, train {report.pairs_per_second:.1f} pairs/s")
    print([(entry.epoch, round(entry.dev.ndcg, 3), round(entry.dev.spread, 3)) for entry in report.epochs])
    assert not report.collapsed
    assert report.kept.ndcg > report.untrained.ndcg + 0.1


def test_reranked_run_and_plain_cross_encoder_agree(trained):
    out, _, dataset, run = trained
    reranker = UtilityReranker.load(out)
    started = time.monotonic()
    made = reranker.rerank(run, dataset, depth=8)
    print(f"predict {reranker.counts['pairs'] / (time.monotonic() - started):.1f} pairs/s, {reranker.counts}")
    assert reranker.counts["non_finite"] == 0
    passages = dataset.passages()
    plain = CrossEncoder(str(out), local_files_only=True)
    for query in dataset.queries[:5]:
        ids = [passage_id for passage_id, _ in run[query.id]]
        entries = plain.rank(query.text, [passages[passage_id].full_text for passage_id in ids])
        assert [ids[entry["corpus_id"]] for entry in entries] == [passage_id for passage_id, _ in made[query.id]]
        logits = [score for _, score in made[query.id]]
        assert [entry["score"] for entry in entries] == pytest.approx(logits, abs=1e-4)


def test_calibrated_on_held_out_labels_it_abstains_where_nothing_helps(trained):
    out, report, dataset, run = trained
    _, labels, _ = world(40)
    reranker = UtilityReranker.load(out)
    groups = build_groups(labels, dataset, rescale="none", keep_flat=True, near_duplicate=None)
    made = calibrate(reranker, groups, helps_above=1.0, trained_on=frozenset(report.queries["train"]))
    print(f"{made.temperature=:.3f} {made.shift=:.3f} {made.threshold}")
    assert made.queries == len(report.queries["dev"])
    assert made.cross_entropy < min(made.cross_entropy_base, made.cross_entropy_raw + 1e-9)
    assert made.threshold.value > made.threshold.value_of_all
    # One passage of eight helps; without it none should be left, or few.
    least = made.threshold.score
    kept = {query_id: len(ranking) for query_id, ranking in reranker.rerank(run, dataset, min_score=least).items()}
    assert sum(kept.values()) < 2.5 * len(kept)
