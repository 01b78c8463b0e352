"""Two generators: a reranker trained on the other one's labels, and what each of them answers with both rerankers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.answer_contexts import answer_contexts, answers_of, context
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.reranker_labels import label_candidates, training_candidates, training_groups
from utilitune.recipe.stages.reranker_systems import FIRST, TUNED, first_stage_run, run_file
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.stages.warm_up import starting_point
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run, read_run, write_answers, write_run

if TYPE_CHECKING:
    from utilitune.generator import Generator

OWN, OTHERS = "trained with its own labels", "trained with the other generator's labels"
RUN = "reranked.trec"
_SHORT = {FIRST: "first", OWN: "own", OTHERS: "others"}
READERS = ("generator", "second")
"""Who answers: the recipe's generator and the second one."""


def second_generator(workspace: Workspace) -> Generator:
    """Load the second generator, and note which model it is."""
    from utilitune.generator import load_generator

    model = load_generator(workspace.recipe.reranker.second_generator or "")
    workspace.note("second generator", model)
    return model


def _label_second(workspace: Workspace) -> Mapping[str, Any]:
    utilities = workspace.recipe.reranker.utilities
    model = second_generator(workspace)
    return label_candidates(workspace, "label-second", "train", training_candidates(workspace), utilities, model)


def _train_second(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rerank import UtilityReranker

    folder, section = workspace.folder("train-second"), workspace.recipe.reranker
    groups = training_groups(workspace, folder="label-second")
    counts = fit_reranker(workspace, groups, folder / "model", starting_point(workspace))
    reranker = UtilityReranker.load(folder / "model")
    run = first_stage_run(workspace, compared_over(workspace))
    write_run(folder / RUN, reranker.rerank(run, workspace.dataset, depth=section.depth))
    return {**counts, **{f"reranking_{kind}": count for kind, count in reranker.counts.items()}}


def compared_over(workspace: Workspace) -> str:
    """Return the retriever whose candidates are reranked: the first one of ``reranker.first_stage``."""
    return workspace.recipe.reranker.first_stages[0]


def _orders(workspace: Workspace, reader: str) -> dict[str, Run]:
    """Return the first stage and, for a reader, the reranker of its own labels and that of the other's."""
    name = compared_over(workspace)
    ours = read_run(run_file(workspace, name, TUNED))
    theirs = read_run(workspace.folder("train-second") / RUN)
    own, others = (ours, theirs) if reader == "generator" else (theirs, ours)
    return {FIRST: first_stage_run(workspace, name), OTHERS: others, OWN: own}


def second_file(reader: str, row: str, k: int) -> str:
    """Return the name of the file with a reader's answers."""
    return f"{reader}.{_SHORT[row]}.top{k}.jsonl"


def _answer_second(workspace: Workspace) -> Mapping[str, Any]:
    counts: dict[str, Any] = {}
    for reader in READERS:
        counts |= _answers_by(workspace, reader)
        # Before the next one is loaded.
        workspace.release()
    return counts


def _answers_by(workspace: Workspace, reader: str) -> dict[str, Any]:
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    shown = [(row, run, k) for row, run in _orders(workspace, reader).items() for k in recipe.evaluation.answer_ks]
    wanted = {context(query.id, run, k) for _, run, k in shown for query in queries}
    model = workspace.generator if reader == "generator" else second_generator(workspace)
    found = answer_contexts(queries, wanted, workspace.dataset.passages(), model, workspace.store)
    for row, run, k in shown:
        path = workspace.folder("answer-second") / second_file(reader, row, k)
        write_answers(path, answers_of(queries, run, k, found))
    return {f"{reader}_contexts": len(wanted), f"{reader}_failed": len(wanted) - len(found)}


_CANDIDATES = ("reranker.first_stage", "reranker.train_queries", "reranker.depth", "reranker.train_depth")

LABEL_SECOND = Stage(
    name="label-second",
    about="label the same candidates with the second generator",
    needs=("data", "retrieve"),
    keys=("reranker.second_generator", *_CANDIDATES, "reranker.utilities", "seed"),
    code=("records", "generator", "scoring"),
    action=_label_second,
    left_out=unless("reranker", "train_questions", asked="second_generator"),
)
TRAIN_SECOND = Stage(
    name="train-second",
    about="fine-tune the same cross-encoder on them, rerank the test questions' candidates",
    needs=("data", "retrieve", "label-second", "warm-up"),
    keys=(
        *("reranker.second_generator", "reranker.base", "reranker.warm_up", "reranker.depth", "reranker.utilities"),
        *("reranker.training", "reranker.first_stage", "seed"),
    ),
    code=("records", "generator", "scoring", "rerank"),
    action=_train_second,
    left_out=unless("reranker", "train_questions", "test_questions", asked="second_generator"),
)
ANSWER_SECOND = Stage(
    name="answer-second",
    about="let both generators answer with both rerankers",
    needs=("data", "retrieve", "rerank", "train-second"),
    keys=(
        *("generator", "reranker.second_generator", "reranker.first_stage", "reranker.test_queries"),
        *("evaluation.answer_k", "seed"),
    ),
    code=("records", "generator", "scoring", "evaluation"),
    action=_answer_second,
    left_out=unless("reranker", "train_questions", "test_questions", asked="second_generator", measured="answer_k"),
)
