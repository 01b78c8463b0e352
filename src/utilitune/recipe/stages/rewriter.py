"""The rewriter's stages: candidates, reward, pairs, training, rewriting the test turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_pairs, write_pairs, write_rows, write_text
from utilitune.rewrite import read_candidates, write_candidates


def _sample(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import sample_candidates
    from utilitune.rewrite.tokens import load_tokenizer

    section = workspace.recipe.rewriter
    # A base without chat template would stop the pairs, hours from now.
    load_tokenizer(section.base)
    turns = workspace.queries("train_turns", section.train_turns)
    candidates = sample_candidates(
        turns,
        workspace.rewriter_base(),
        n=section.candidates.n,
        temperature=section.candidates.temperature,
        top_p=section.candidates.top_p,
        max_new_tokens=section.max_new_tokens,
        seed=workspace.recipe.seed,
        store=workspace.store,
    )
    write_candidates(workspace.folder("candidates") / "candidates.jsonl", candidates)
    return {"turns": len(turns), "candidates": len(candidates), **candidates.counts}


def _reward(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import reward_candidates

    section = workspace.recipe.rewriter
    names = section.reward.retrievers or list(workspace.recipe.retrievers)
    rewarded = reward_candidates(
        read_candidates(workspace.folder("candidates") / "candidates.jsonl"),
        {name: workspace.retrievers[name] for name in names},
        workspace.queries("train_turns", section.train_turns),
        workspace.dataset.corpus,
        section.reward.utilities,
        workspace.generator,
        k=section.reward.k,
        store=workspace.store,
        aggregate=section.reward.aggregate,
        scale=section.reward.scale,
    )
    write_candidates(workspace.folder("reward") / "candidates.jsonl", rewarded)
    return {"candidates": len(rewarded), **rewarded.counts}


def _pairs(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import build_pairs

    section = workspace.recipe.rewriter.pairs
    built = build_pairs(
        read_candidates(workspace.folder("reward") / "candidates.jsonl"),
        margin=section.margin,
        keep=section.keep,
        pairs_per_query=section.per_query,
        tokenizer=workspace.recipe.rewriter.base,
        max_length=section.max_length,
    )
    write_pairs(workspace.folder("pairs") / "pairs.jsonl", built.pairs)
    write_text(workspace.folder("pairs") / "drops.txt", built.explain() + "\n")
    return {"pairs": len(built.pairs), **built.drops}


def _train(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import DpoConfig, train_dpo

    workspace.release()
    section = workspace.recipe.rewriter
    report = train_dpo(
        list(read_pairs(workspace.folder("pairs") / "pairs.jsonl")),
        section.base,
        workspace.folder("train-rewriter"),
        DpoConfig(
            beta=section.training.beta,
            lr=section.training.lr,
            epochs=section.training.epochs,
            batch_size=section.training.batch_size,
            lora_r=section.training.lora_r,
            max_length=section.pairs.max_length,
            max_new_tokens=section.max_new_tokens,
            seed=workspace.recipe.seed,
        ),
        resume=True,
    )
    return report.counts()


def _rewrite(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import Rewriter

    section = workspace.recipe.rewriter
    turns = workspace.queries("test_turns", section.test_turns)
    tuned = Rewriter.load(workspace.folder("train-rewriter"))
    workspace.note("tuned rewriter", tuned.generator)
    untuned = Rewriter(workspace.rewriter_base(), max_new_tokens=section.max_new_tokens)
    counts: dict[str, Any] = {"turns": len(turns)}
    for name, rewriter in (("untuned", untuned), ("tuned", tuned)):
        rewrites = rewriter.rewrite_batch(turns)
        write_rows(
            workspace.folder("rewrite") / f"{name}.jsonl",
            [
                {"query_id": turn.id, "text": rewrite.text, "fallback": rewrite.fallback}
                for turn, rewrite in zip(turns, rewrites, strict=True)
            ],
        )
        counts |= {f"{name}_{kind}": count for kind, count in rewriter.counts.items()}
    return counts


CANDIDATES = Stage(
    name="candidates",
    about="sample rewrites of the training turns",
    needs=("data",),
    keys=("rewriter.base", "rewriter.train_turns", "rewriter.max_new_tokens", "rewriter.candidates", "seed"),
    code=("records", "generator", "rewrite"),
    action=_sample,
    left_out=unless("rewriter", "train_turns"),
)
REWARD = Stage(
    name="reward",
    about="retrieve with every rewrite, label what it finds with the generator",
    needs=("data", "index", "candidates"),
    keys=("generator", "rewriter.train_turns", "rewriter.reward", "seed"),
    code=("records", "generator", "retrieval", "scoring", "rewrite"),
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
TRAIN = Stage(
    name="train-rewriter",
    about="DPO + LoRA on the pairs",
    needs=("pairs",),
    keys=("rewriter.base", "rewriter.training", "rewriter.pairs.max_length", "rewriter.max_new_tokens", "seed"),
    code=("records", "generator", "rewrite"),
    action=_train,
    left_out=unless("rewriter", "train_turns"),
)
REWRITE = Stage(
    name="rewrite",
    about="rewrite the test turns, untuned and tuned",
    needs=("data", "train-rewriter"),
    keys=("rewriter.base", "rewriter.test_turns", "rewriter.max_new_tokens", "seed"),
    code=("records", "generator", "rewrite"),
    action=_rewrite,
    left_out=unless("rewriter", "train_turns", "test_turns"),
)
