"""The rewriter's first stages: candidates, what they are worth, pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from utilitune.recipe.schema import Candidates as Sampling
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import write_pairs, write_text
from utilitune.rewrite import Candidate, Candidates, Rewriter, read_candidates, write_candidates


def sample(workspace: Workspace, sampling: Sampling, rewriter: Rewriter | None = None) -> Candidates:
    """Let a rewriter, or the untuned base, write candidates for the training turns."""
    from utilitune.rewrite import sample_candidates

    section = workspace.recipe.rewriter
    return sample_candidates(
        workspace.queries("train_turns", section.train_turns),
        rewriter.generator if rewriter else workspace.rewriter_base(),
        n=sampling.n,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        include=sampling.include,
        max_new_tokens=section.max_new_tokens,
        seed=workspace.recipe.seed,
        store=workspace.store,
    )


def first_candidates(workspace: Workspace) -> Candidates:
    """Return what the untuned base has written."""
    return read_candidates(workspace.folder("candidates") / "candidates.jsonl")


def _sample(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite.tokens import load_tokenizer

    # A base without chat template would stop the pairs, hours from now.
    load_tokenizer(workspace.recipe.rewriter.base_spec)
    candidates = sample(workspace, workspace.recipe.rewriter.candidates)
    write_candidates(workspace.folder("candidates") / "candidates.jsonl", candidates)
    turns = workspace.queries("train_turns", workspace.recipe.rewriter.train_turns)
    return {"turns": len(turns), "candidates": len(candidates), **candidates.counts}


def asked_retrievers(workspace: Workspace) -> list[str]:
    """Return the names of the retrievers that the reward asks."""
    return workspace.recipe.rewriter.reward.retrievers or list(workspace.recipe.retrievers)


def searchers(workspace: Workspace) -> dict[str, Any]:
    """Return the retrievers that the reward asks, over the recipe's own passages."""
    return {name: workspace.retrievers[name] for name in asked_retrievers(workspace)}


def rewarded(workspace: Workspace, utilities: list[str], candidates: Iterable[Candidate]) -> Candidates:
    """Give candidates of the training turns their utility, as the recipe's reward has it."""
    from utilitune.rewrite import reward_candidates
    from utilitune.rewrite.gold_rank import GOLD_RANK

    section = workspace.recipe.rewriter
    return reward_candidates(
        candidates,
        searchers(workspace),
        workspace.queries("train_turns", section.train_turns),
        workspace.dataset.corpus,
        utilities,
        None if utilities == [GOLD_RANK] else workspace.generator,
        **section.reward.reading(),
        scale=section.reward.scale,
        store=workspace.store,
        qrels=workspace.dataset.qrels if GOLD_RANK in utilities else None,
    )


def _reward(workspace: Workspace) -> Mapping[str, Any]:
    made = rewarded(workspace, workspace.recipe.rewriter.reward.utilities, first_candidates(workspace))
    write_candidates(workspace.folder("reward") / "candidates.jsonl", made)
    return {"candidates": len(made), **made.counts}


def write_built(workspace: Workspace, candidates: Candidates, folder: Path) -> dict[str, Any]:
    """Build pairs of rewarded candidates, write them with the table of what was dropped; return the counts."""
    from utilitune.rewrite import build_pairs

    section = workspace.recipe.rewriter.pairs
    built = build_pairs(
        candidates,
        margin=section.margin,
        keep=section.keep,
        pairs_per_query=section.per_query,
        pairing=section.pairing,
        sources=section.sources,
        tokenizer=workspace.recipe.rewriter.base_spec,
        max_length=section.max_length,
    )
    write_pairs(folder / "pairs.jsonl", built.pairs)
    write_text(folder / "drops.txt", f"{built.explain()}\n\n{built.samples(10)}\n")
    return {"pairs": len(built.pairs), "other_sources": built.other_sources, **built.drops}


def _pairs(workspace: Workspace) -> Mapping[str, Any]:
    return write_built(
        workspace, read_candidates(workspace.folder("reward") / "candidates.jsonl"), workspace.folder("pairs")
    )


BASE = ("rewriter.base", "rewriter.max_new_tokens", "seed")
CODE = ("records", "generator", "retrieval", "scoring", "rewrite")

CANDIDATES = Stage(
    name="candidates",
    about="sample rewrites of the training turns",
    needs=("data",),
    keys=(*BASE, "rewriter.train_turns", "rewriter.candidates"),
    code=("records", "generator", "rewrite"),
    action=_sample,
    left_out=unless("rewriter", "train_turns"),
)
REWARD = Stage(
    name="reward",
    about="retrieve with every rewrite, label what it finds with the generator",
    needs=("data", "index", "candidates"),
    keys=("generator", "retrievers", "rewriter.train_turns", "rewriter.reward", "seed"),
    code=CODE,
    action=_reward,
    left_out=unless("rewriter", "train_turns"),
)
PAIRS = Stage(
    name="pairs",
    about="build preference pairs",
    needs=("reward",),
    keys=("rewriter.base", "rewriter.pairs"),
    code=("records", "generator", "rewrite"),
    action=_pairs,
    left_out=unless("rewriter", "train_turns"),
)
