"""What the generator makes of the test questions: their candidates' utilities, UDCG's u, UDCGθ, answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from utilitune.errors import DataError
from utilitune.evaluation import ranking
from utilitune.progress import warn
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.answer_contexts import answer_contexts, answers_of, context
from utilitune.recipe.stages.distraction import BARE, JUDGED, relevant_alone
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.reranker_labels import label_candidates
from utilitune.recipe.stages.reranker_systems import answer_file, first_stage_run, orders
from utilitune.recipe.workspace import Workspace, judged_part
from utilitune.records import Run, read_labels, write_answers, write_json

U = "abstention"
THETA_FILE, WHY_NOT = "theta.json", "why-not.json"


def _label_test(workspace: Workspace) -> Mapping[str, Any]:
    candidates = _union(first_stage_run(workspace, name) for name in workspace.recipe.retrievers)
    utilities = workspace.recipe.reranker.utilities
    return label_candidates(workspace, "label-test", "test", candidates, utilities, workspace.generator)


def _union(runs: Iterable[Run], k: int | None = None) -> Run:
    """Return what any of several runs has at its first ``k`` ranks, as the measures rank them."""
    union: dict[str, dict[str, float]] = {}
    for run in runs:
        for query_id, scored in run.items():
            # The measures break ties by id, whatever the order of the file.
            union.setdefault(query_id, {}).update(ranking(scored)[:k])
    return Run({query_id: sorted(scores.items()) for query_id, scores in union.items()})


def _utility(workspace: Workspace) -> Mapping[str, Any]:
    runs = [run for rows in orders(workspace).values() for run in rows.values()]
    candidates = _union(runs, workspace.recipe.evaluation.udcg_k)
    return label_candidates(workspace, "utility", "test", candidates, [U], workspace.generator)


def _answer(workspace: Workspace) -> Mapping[str, Any]:
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    runs, ks = orders(workspace), recipe.evaluation.answer_ks
    contexts = {
        context(query.id, run, k) for rows in runs.values() for run in rows.values() for query in queries for k in ks
    }
    counts: dict[str, Any] = {"questions": len(queries), "contexts": len(contexts)}
    counts["without_passages"] = sum(not ids for _, ids in contexts)
    alone = relevant_alone(queries, workspace.dataset.qrels) if recipe.evaluation.distraction else {}
    if recipe.evaluation.distraction:
        contexts |= {*alone.items(), *((query.id, ()) for query in queries)}
    found = answer_contexts(queries, contexts, workspace.dataset.passages(), workspace.generator, workspace.store)
    folder = workspace.folder("answer")
    counts["failed"] = len(contexts) - len(found)
    for name, rows in runs.items():
        for row, run in rows.items():
            for k in ks:
                answers, path = answers_of(queries, run, k, found), folder / answer_file(name, row, k, ks[0])
                write_answers(path, answers)
                counts[f"{path.stem}_abstained"] = sum(answer.abstained for answer in answers)
    if recipe.evaluation.distraction:
        write_answers(folder / BARE, [found[q.id, ()] for q in queries if (q.id, ()) in found])
        write_answers(folder / JUDGED, [found[key] for key in alone.items() if key in found])
    return counts


def _theta(workspace: Workspace) -> Mapping[str, Any]:
    """Fit UDCGθ on training questions: the first stage's best passages in a drawn order, and whether they help."""
    from utilitune.evaluation import UdcgTheta, accuracy, answer_questions
    from utilitune.evaluation.udcg import passages_at_k

    recipe = workspace.recipe
    section, k = recipe.reranker, recipe.evaluation.udcg_k
    limit = min(recipe.evaluation.theta_queries, section.train_queries or recipe.evaluation.theta_queries)
    judged = judged_part(workspace.dataset, workspace.queries("train_questions", limit))
    queries = [query for query in judged.queries if query.answers]
    run = first_stage_run(workspace, section.first_stages[0], "train")
    lists = Run({query.id: _drawn_order(run.get(query.id, ()), k, recipe.seed, query.id) for query in queries})
    labels = label_candidates(workspace, "fit-theta", "train", lists, [U], workspace.generator)
    utilities = read_labels(workspace.folder("fit-theta") / "labels.jsonl").table()
    answers = answer_questions(
        queries, lists, workspace.dataset.passages(), workspace.generator, k=k, store=workspace.store
    )
    right = accuracy(answers, queries)
    ids = {query.id: [pid for pid, _ in ranking(lists[query.id])] for query in queries}
    seen = [passages_at_k(ids[q.id], utilities.get(q.id, {}), judged.qrels[q.id]) for q in queries]
    correct = [right.get(query.id, 0.0) for query in queries]
    counts = {**labels, "questions": len(queries), "right": sum(value > 0 for value in correct)}
    folder = workspace.folder("fit-theta")
    try:
        fitted = UdcgTheta.fit(
            [values for values, _ in seen], [grades for _, grades in seen], correct, k=k, generator=recipe.generator
        )
        fitted.save(folder / THETA_FILE)
    except DataError as error:
        warn(f"UDCGθ is left out: {error}")
        write_json(folder / WHY_NOT, {"reason": str(error)})
    return counts


def _drawn_order(scored: Sequence[tuple[str, float]], k: int, seed: int, query_id: str) -> list[tuple[str, float]]:
    """Return the first k passages in an order drawn by query: first stages leave the first rank to the relevant one."""
    ids = [pid for pid, _ in ranking(scored)[:k]]
    random.Random(f"{seed}:{query_id}").shuffle(ids)
    return [(pid, -float(rank)) for rank, pid in enumerate(ids)]


_TEST = ("generator", "retrievers", "reranker.test_queries", "seed")
_ORDERS = ("reranker.rivals", "reranker.untrained", "reranker.interpolate", "reranker.oracle")

LABEL_TEST = Stage(
    name="label-test",
    about="label the test questions' candidates too: the best order that the labels know",
    needs=("data", "retrieve"),
    keys=(*_TEST, "reranker.oracle", "reranker.utilities"),
    code=("records", "generator", "scoring", "evaluation"),
    action=_label_test,
    left_out=unless("reranker", "train_questions", "test_questions", asked="oracle"),
)
UTILITY = Stage(
    name="utility",
    about="UDCG's utility of what the test questions found, before and after",
    needs=("data", "retrieve", "label-test", "rerank"),
    keys=(*_TEST, *_ORDERS, "evaluation.udcg_k"),
    code=("records", "generator", "scoring", "evaluation"),
    action=_utility,
    left_out=unless("reranker", "train_questions", "test_questions", measured="udcg_k"),
)
ANSWER = Stage(
    name="answer",
    about="let the generator answer with the passages, before and after",
    needs=("data", "retrieve", "label-test", "rerank"),
    keys=(*_TEST, *_ORDERS, "evaluation.answer_k", "evaluation.distraction"),
    code=("records", "generator", "scoring", "evaluation"),
    action=_answer,
    left_out=unless("reranker", "train_questions", "test_questions", measured="answer_k"),
)
FIT_THETA = Stage(
    name="fit-theta",
    about="fit UDCGθ on answers to training questions",
    needs=("data", "retrieve"),
    keys=(
        *("generator", "retrievers", "reranker.train_queries", "reranker.first_stage", "seed"),
        *("evaluation.udcg_k", "evaluation.theta_queries"),
    ),
    code=("records", "generator", "scoring", "evaluation"),
    action=_theta,
    left_out=unless("reranker", "train_questions", "test_questions", measured="theta_queries"),
)
