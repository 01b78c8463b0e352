"""The rewriter with the packaged model: untuned rewrites, one training step, the tuned folder."""

import json
import math

import pytest

from utilitune.records import Query, Turn
from utilitune.rewrite import (
    Candidate,
    DpoConfig,
    Rewriter,
    SftConfig,
    build_pairs,
    sample_candidates,
    train_dpo,
    train_sft,
)

BASE = "packaged:smollm2-135m-instruct"
HISTORY = (
    Turn("user", "Who built the Kelvane lighthouse?"),
    Turn("assistant", "The Kelvane lighthouse was built by Dorrin Ashby in 1842."),
)

pytestmark = pytest.mark.integration


def test_from_candidates_to_a_tuned_rewriter(tmp_path):
    untuned = Rewriter.load(BASE)
    rewrite = untuned.rewrite(HISTORY, "How tall is it?")
    assert "\n" not in rewrite and 0 < len(rewrite) <= 300

    query = Query("c_2", "How tall is it?", HISTORY)
    candidates = sample_candidates([query], untuned.generator, n=2, max_new_tokens=24)
    assert {"original", "first-question"} <= {candidate.source for candidate in candidates}
    rewarded = [
        Candidate(c.query_id, c.text, c.source, c.prompt, utility=float("kelvane" in c.text.lower()))
        for c in candidates
    ]
    pairs = build_pairs(rewarded, tokenizer=BASE)
    assert "kelvane" in pairs[0].chosen[0]["content"].lower()

    imitation = train_sft(pairs, BASE, tmp_path / "sft", SftConfig(max_steps=2, warmup=0.0, save_every=0))
    assert imitation.log[-1]["loss"] < imitation.log[0]["loss"]
    config = DpoConfig(max_steps=2, warmup=0.0, save_every=0)
    report = train_dpo(pairs, BASE, tmp_path / "rewriter", config, start=tmp_path / "sft")
    assert report.first_loss == pytest.approx(math.log(2), abs=1e-3)
    assert report.log[-1]["margin"] > 0
    card = json.loads((tmp_path / "rewriter" / "rewriter.json").read_text())
    assert (card["base"], card["base_kind"]) == (BASE, "packaged")

    (tmp_path / "rewriter").rename(tmp_path / "moved")
    tuned = Rewriter.load(tmp_path / "moved")
    assert tuned.rewrite(HISTORY, "How tall is it?")
