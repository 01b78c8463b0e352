"""The rewriter's stages: candidates, reward, pairs, trainings, rewriting the test turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import Query, read_pairs, read_rows, write_pairs, write_text
from utilitune.rewrite import Candidates, Rewriter, read_candidates, write_candidates
from utilitune.rewrite.rewriter import write_rewrites

TRAININGS: Mapping[str, str] = {"sft": "train-sft", "dpo": "train-rewriter", "grpo": "train-grpo"}
"""Stage of each training, in the order in which they go on from each other."""


def tuned_folder(workspace: Workspace, method: str | None = None) -> Path:
    """Return where the adapter of a training is; without a method, of the last one."""
    return workspace.folder(TRAININGS[method or workspace.recipe.rewriter.methods[-1]])


def systems(workspace: Workspace) -> dict[str, Path | None]:
    """Return ``{name: adapter folder}`` of every rewriter that the recipe makes; ``None`` is the untuned base."""
    section = workspace.recipe.rewriter
    found: dict[str, Path | None] = {"untuned": None}
    found |= {method: tuned_folder(workspace, method) for method in section.methods[:-1]}
    found["tuned"] = tuned_folder(workspace)
    last = [method for method in section.methods if method != "grpo"]
    found |= {name: workspace.folder("yardsticks") / name / last[-1] for name in section.yardsticks}
    return found


def _sample(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import sample_candidates
    from utilitune.rewrite.tokens import load_tokenizer

    section = workspace.recipe.rewriter
    # A base without chat template would stop the pairs, hours from now.
    load_tokenizer(section.base_spec)
    turns = workspace.queries("train_turns", section.train_turns)
    candidates = sample_candidates(
        turns,
        workspace.rewriter_base(),
        n=section.candidates.n,
        temperature=section.candidates.temperature,
        top_p=section.candidates.top_p,
        include=section.candidates.include,
        max_new_tokens=section.max_new_tokens,
        seed=workspace.recipe.seed,
        store=workspace.store,
    )
    write_candidates(workspace.folder("candidates") / "candidates.jsonl", candidates)
    return {"turns": len(turns), "candidates": len(candidates), **candidates.counts}


def _rewarded(workspace: Workspace, utilities: list[str]) -> Candidates:
    from utilitune.rewrite import reward_candidates
    from utilitune.rewrite.gold_rank import GOLD_RANK

    section = workspace.recipe.rewriter
    return reward_candidates(
        read_candidates(workspace.folder("candidates") / "candidates.jsonl"),
        _searchers(workspace),
        workspace.queries("train_turns", section.train_turns),
        workspace.dataset.corpus,
        utilities,
        None if utilities == [GOLD_RANK] else workspace.generator,
        k=section.reward.k,
        store=workspace.store,
        aggregate=section.reward.aggregate,
        scale=section.reward.scale,
        fused=section.reward.fused,
        qrels=workspace.dataset.qrels if GOLD_RANK in utilities else None,
    )


def _searchers(workspace: Workspace) -> dict[str, Any]:
    names = workspace.recipe.rewriter.reward.retrievers or list(workspace.recipe.retrievers)
    return {name: workspace.retrievers[name] for name in names}


def _reward(workspace: Workspace) -> Mapping[str, Any]:
    rewarded = _rewarded(workspace, workspace.recipe.rewriter.reward.utilities)
    write_candidates(workspace.folder("reward") / "candidates.jsonl", rewarded)
    return {"candidates": len(rewarded), **rewarded.counts}


def _build_pairs(workspace: Workspace, rewarded: Candidates, folder: Path) -> dict[str, Any]:
    from utilitune.rewrite import build_pairs

    section = workspace.recipe.rewriter.pairs
    built = build_pairs(
        rewarded,
        margin=section.margin,
        keep=section.keep,
        pairs_per_query=section.per_query,
        pairing=section.pairing,
        tokenizer=workspace.recipe.rewriter.base_spec,
        max_length=section.max_length,
    )
    write_pairs(folder / "pairs.jsonl", built.pairs)
    write_text(folder / "drops.txt", f"{built.explain()}\n\n{built.samples(10)}\n")
    return {"pairs": len(built.pairs), **built.drops}


def _pairs(workspace: Workspace) -> Mapping[str, Any]:
    rewarded = read_candidates(workspace.folder("reward") / "candidates.jsonl")
    return _build_pairs(workspace, rewarded, workspace.folder("pairs"))


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return what every training gets beside its own section."""
    section = recipe.rewriter
    return {"max_length": section.pairs.max_length, "max_new_tokens": section.max_new_tokens, "seed": recipe.seed}


def _fit_pairs(workspace: Workspace, method: str, pairs: Path, out: Path, start: Path | None) -> Mapping[str, Any]:
    """Train on pairs, by imitation or preference."""
    from utilitune.rewrite import DpoConfig, SftConfig, train_dpo, train_sft

    workspace.release()
    section, settings = workspace.recipe.rewriter, _settings(workspace.recipe)
    rows = list(read_pairs(pairs))
    if method == "sft":
        imitation = SftConfig(**section.sft.model_dump(), **settings)
        return train_sft(rows, section.base_spec, out, imitation, start=start, resume=True).counts()
    preference = DpoConfig(**section.training.model_dump(), **settings)
    return train_dpo(rows, section.base_spec, out, preference, start=start, resume=True).counts()


def _start(workspace: Workspace, method: str) -> Path | None:
    """Return the adapter that a training goes on from."""
    methods: list[str] = list(workspace.recipe.rewriter.methods)
    before = methods[: methods.index(method)]
    return tuned_folder(workspace, before[-1]) if before else None


def _train_sft(workspace: Workspace) -> Mapping[str, Any]:
    pairs = workspace.folder("pairs") / "pairs.jsonl"
    return _fit_pairs(workspace, "sft", pairs, workspace.folder("train-sft"), None)


def _train_dpo(workspace: Workspace) -> Mapping[str, Any]:
    pairs = workspace.folder("pairs") / "pairs.jsonl"
    return _fit_pairs(workspace, "dpo", pairs, workspace.folder("train-rewriter"), _start(workspace, "dpo"))


def _train_grpo(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import GrpoConfig, LiveReward, train_grpo

    section = workspace.recipe.rewriter
    turns = workspace.queries("train_turns", section.train_turns)
    reward = LiveReward(
        turns,
        _searchers(workspace),
        workspace.dataset.corpus,
        section.reward.utilities,
        workspace.generator,
        k=section.reward.k,
        aggregate=section.reward.aggregate,
        fused=section.reward.fused,
        store=workspace.store,
        anchors=read_candidates(workspace.folder("candidates") / "candidates.jsonl"),
    )
    report = train_grpo(
        turns,
        section.base_spec,
        workspace.folder("train-grpo"),
        reward,
        GrpoConfig(**section.grpo.model_dump(), **_settings(workspace.recipe)),
        start=_start(workspace, "grpo"),
        resume=True,
    )
    return {**report.counts(), **reward.counts}


def _yardsticks(workspace: Workspace) -> Mapping[str, Any]:
    section = workspace.recipe.rewriter
    counts: dict[str, Any] = {}
    for name in section.yardsticks:
        folder = workspace.folder("yardsticks") / name
        made = _build_pairs(workspace, _rewarded(workspace, [name]), folder)
        counts |= {f"{name}_{kind}": count for kind, count in made.items()}
        start: Path | None = None
        for method in section.methods:
            if method != "grpo":
                _fit_pairs(workspace, method, folder / "pairs.jsonl", folder / method, start)
                start = folder / method
    return counts


def rewrite_sets(workspace: Workspace, sets: Mapping[Path, Sequence[Query]]) -> dict[str, int]:
    """Let every one of ``systems`` rewrite every set of turns; a file that is there is whole, and stays.

    Args:
        workspace: The run.
        sets: Turns by the folder that their rewrites go to, a file a system.

    Returns:
        ``fallback`` and ``cut`` of each system.
    """
    counts: Counter[str] = Counter()
    for name, adapter in systems(workspace).items():
        rewriter = load_system(workspace, name, adapter)
        for folder, turns in sets.items():
            path = folder / f"{name}.jsonl"
            if not path.is_file():
                write_rewrites(path, rewriter.rewrite_batch(turns))
            for _, row in read_rows(path):
                counts.update({f"{name}_fallback": int(row["fallback"]), f"{name}_cut": int(row["cut"])})
    return dict(counts)


def _rewrite(workspace: Workspace) -> Mapping[str, Any]:
    turns = workspace.queries("test_turns", workspace.recipe.rewriter.test_turns)
    return {"turns": len(turns), **rewrite_sets(workspace, {workspace.folder("rewrite"): turns})}


def load_system(workspace: Workspace, name: str, folder: Path | None) -> Rewriter:
    """Load one of ``systems``, and note which model it is."""
    if folder is None:
        return Rewriter(workspace.rewriter_base(), max_new_tokens=workspace.recipe.rewriter.max_new_tokens)
    rewriter = Rewriter.load(folder)
    workspace.note(f"{name} rewriter", rewriter.generator)
    return rewriter


def _best_of(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import BestOf

    section = workspace.recipe.rewriter
    turns = workspace.queries("test_turns", section.test_turns)
    chooser = BestOf(
        load_system(workspace, "untuned", None),
        _searchers(workspace),
        workspace.dataset.corpus,
        section.reward.utilities,
        workspace.generator,
        n=section.best_of,
        temperature=section.candidates.temperature,
        top_p=section.candidates.top_p,
        include=section.candidates.include,
        k=section.reward.k,
        aggregate=section.reward.aggregate,
        scale=section.reward.scale,
        fused=section.reward.fused,
        seed=workspace.recipe.seed,
        store=workspace.store,
    )
    write_rewrites(workspace.folder("best-of") / "best-of.jsonl", chooser.rewrite_batch(turns))
    return {"turns": len(turns), **chooser.counts}


_BASE = ("rewriter.base", "rewriter.max_new_tokens", "seed")
_CODE = ("records", "generator", "retrieval", "scoring", "rewrite")
_TRAINING = (*_BASE, "rewriter.pairs.max_length")

CANDIDATES = Stage(
    name="candidates",
    about="sample rewrites of the training turns",
    needs=("data",),
    keys=(*_BASE, "rewriter.train_turns", "rewriter.candidates"),
    code=("records", "generator", "rewrite"),
    action=_sample,
    left_out=unless("rewriter", "train_turns"),
)
REWARD = Stage(
    name="reward",
    about="retrieve with every rewrite, label what it finds with the generator",
    needs=("data", "index", "candidates"),
    keys=("generator", "retrievers", "rewriter.train_turns", "rewriter.reward", "seed"),
    code=_CODE,
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
TRAIN_SFT = Stage(
    name="train-sft",
    about="imitate the chosen rewrites",
    needs=("pairs",),
    keys=(*_TRAINING, "rewriter.methods", "rewriter.sft"),
    code=("records", "generator", "rewrite"),
    action=_train_sft,
    left_out=unless("rewriter", "train_turns", method="sft"),
)
TRAIN = Stage(
    name="train-rewriter",
    about="DPO + LoRA on the pairs",
    needs=("pairs", "train-sft"),
    keys=(*_TRAINING, "rewriter.methods", "rewriter.training"),
    code=("records", "generator", "rewrite"),
    action=_train_dpo,
    left_out=unless("rewriter", "train_turns", method="dpo"),
)
TRAIN_GRPO = Stage(
    name="train-grpo",
    about="GRPO with the generator's utility as a live reward",
    needs=("data", "index", "candidates", "train-sft", "train-rewriter"),
    keys=(
        *(*_TRAINING, "generator", "retrievers", "rewriter.methods", "rewriter.train_turns"),
        *("rewriter.reward", "rewriter.grpo"),
    ),
    code=_CODE,
    action=_train_grpo,
    left_out=unless("rewriter", "train_turns", method="grpo"),
)
YARDSTICKS = Stage(
    name="yardsticks",
    about="the same line with supervised rewards",
    needs=("data", "index", "candidates"),
    keys=(
        *(*_BASE, "generator", "retrievers", "rewriter.train_turns", "rewriter.reward", "rewriter.pairs"),
        *("rewriter.methods", "rewriter.sft", "rewriter.training", "rewriter.yardsticks"),
    ),
    code=_CODE,
    action=_yardsticks,
    left_out=unless("rewriter", "train_turns", asked="yardsticks"),
)
REWRITE = Stage(
    name="rewrite",
    about="rewrite the test turns, untuned and tuned",
    needs=("data", "train-sft", "train-rewriter", "train-grpo", "yardsticks"),
    keys=(*_BASE, "rewriter.test_turns", "rewriter.methods", "rewriter.yardsticks"),
    code=("records", "generator", "rewrite"),
    action=_rewrite,
    left_out=unless("rewriter", "train_turns", "test_turns"),
)
BEST_OF = Stage(
    name="best-of",
    about="sample rewrites of the test turns, take the most useful one of each",
    needs=("data", "index"),
    keys=(
        *(*_BASE, "generator", "retrievers", "rewriter.test_turns", "rewriter.candidates"),
        *("rewriter.reward", "rewriter.best_of"),
    ),
    code=_CODE,
    action=_best_of,
    left_out=unless("rewriter", "test_turns", asked="best_of"),
)
