"""The rewriter's trainings, each going on from the one before, and the same line with supervised rewards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.rewriter import BASE, CODE, first_candidates, rewarded, sample, searchers, write_built
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_pairs
from utilitune.rewrite import Candidates, Rewriter, write_candidates
from utilitune.rewrite.clean import normalise

TRAININGS: Mapping[str, str] = {"sft": "train-sft", "dpo": "train-rewriter", "grpo": "train-grpo"}
"""Stage of each training, in the order in which they go on from each other."""


def tuned_folder(workspace: Workspace, method: str | None = None) -> Path:
    """Return where the adapter of a training is; without a method, of the last one."""
    return workspace.folder(TRAININGS[method or workspace.recipe.rewriter.methods[-1]])


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


def _second_round(workspace: Workspace, utilities: list[str], adapter: Path, folder: Path, role: str) -> dict[str, Any]:
    """Pair what the imitating rewriter writes, rewarded beside the first candidates; its ``role`` goes on record."""
    sampling = workspace.recipe.rewriter.second_round
    if sampling is None:
        raise ConfigError("rewriter.resample: found null, expected how to sample the second round")
    workspace.release()
    rewriter = Rewriter.load(adapter)
    workspace.note(role, rewriter.generator)
    written = sample(workspace, sampling, rewriter)
    # What the first round has found counts for the reward as well; its labels are in the store.
    known = {(row.query_id, normalise(row.text)) for row in written}
    earlier = [row for row in first_candidates(workspace) if (row.query_id, normalise(row.text)) not in known]
    made = rewarded(workspace, utilities, [*written, *earlier])
    # The question as typed is not what this rewriter writes: a pair with it teaches nothing.
    own = Candidates([row for row in made[: len(written)] if row.source != "original"])
    write_candidates(folder / "candidates.jsonl", own)
    return {**written.counts, **made.counts, "candidates": len(own), **write_built(workspace, own, folder)}


def _resample(workspace: Workspace) -> Mapping[str, Any]:
    utilities = workspace.recipe.rewriter.reward.utilities
    return _second_round(
        workspace, utilities, tuned_folder(workspace, "sft"), workspace.folder("resample"), "sft rewriter"
    )


def _train_dpo(workspace: Workspace) -> Mapping[str, Any]:
    pairs = workspace.folder("resample" if workspace.recipe.rewriter.second_round else "pairs") / "pairs.jsonl"
    return _fit_pairs(workspace, "dpo", pairs, workspace.folder("train-rewriter"), _start(workspace, "dpo"))


def _train_grpo(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rewrite import GrpoConfig, LiveReward, train_grpo

    section = workspace.recipe.rewriter
    turns = workspace.queries("train_turns", section.train_turns)
    reward = LiveReward(
        turns,
        searchers(workspace),
        workspace.dataset.corpus,
        section.reward.utilities,
        workspace.generator,
        **section.reward.reading(),
        store=workspace.store,
        anchors=first_candidates(workspace),
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
        made = write_built(workspace, rewarded(workspace, [name], first_candidates(workspace)), folder)
        counts |= {f"{name}_{kind}": count for kind, count in made.items()}
        pairs, start = folder / "pairs.jsonl", None
        for method in section.methods:
            if method == "dpo" and section.second_round:
                again = _second_round(workspace, [name], folder / "sft", folder / "resample", f"{name} sft rewriter")
                counts |= {f"{name}_resample_{kind}": count for kind, count in again.items()}
                pairs = folder / "resample" / "pairs.jsonl"
            if method != "grpo":
                _fit_pairs(workspace, method, pairs, folder / method, start)
                start = folder / method
    return counts


TRAINING = (*BASE, "rewriter.pairs.max_length")

TRAIN_SFT = Stage(
    name="train-sft",
    about="imitate the chosen rewrites",
    needs=("pairs",),
    keys=(*TRAINING, "rewriter.methods", "rewriter.sft"),
    code=("records", "generator", "rewrite"),
    action=_train_sft,
    left_out=unless("rewriter", "train_turns", methods=("sft",)),
)
RESAMPLE = Stage(
    name="resample",
    about="sample again, from the rewriter that imitates, and pair what it writes",
    needs=("data", "index", "candidates", "train-sft"),
    keys=(
        *(*BASE, "generator", "retrievers", "rewriter.train_turns", "rewriter.reward", "rewriter.pairs"),
        "rewriter.resample",
    ),
    code=CODE,
    action=_resample,
    left_out=unless("rewriter", "train_turns", methods=("sft", "dpo"), asked="resample"),
)
TRAIN = Stage(
    name="train-rewriter",
    about="DPO + LoRA on the pairs",
    needs=("pairs", "train-sft", "resample"),
    keys=(*TRAINING, "rewriter.methods", "rewriter.training", "rewriter.resample"),
    code=("records", "generator", "rewrite"),
    action=_train_dpo,
    left_out=unless("rewriter", "train_turns", methods=("dpo",)),
)
TRAIN_GRPO = Stage(
    name="train-grpo",
    about="GRPO with the generator's utility as a live reward",
    needs=("data", "index", "candidates", "train-sft", "train-rewriter"),
    keys=(
        *(*TRAINING, "generator", "retrievers", "rewriter.methods", "rewriter.train_turns"),
        *("rewriter.reward", "rewriter.grpo"),
    ),
    code=CODE,
    action=_train_grpo,
    left_out=unless("rewriter", "train_turns", methods=("grpo",)),
)
YARDSTICKS = Stage(
    name="yardsticks",
    about="the same line with supervised rewards",
    needs=("data", "index", "candidates"),
    keys=(
        *(*BASE, "generator", "retrievers", "rewriter.train_turns", "rewriter.reward", "rewriter.pairs"),
        *("rewriter.methods", "rewriter.sft", "rewriter.training", "rewriter.yardsticks", "rewriter.resample"),
    ),
    code=CODE,
    action=_yardsticks,
    left_out=unless("rewriter", "train_turns", asked="yardsticks"),
)
