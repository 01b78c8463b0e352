"""The reranker's stages: first-stage runs, labels, training, reranking, labels and answers of the test questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run, read_labels, read_run, write_answers, write_run


def _retrieve(workspace: Workspace) -> Mapping[str, Any]:
    section = workspace.recipe.reranker
    counts: dict[str, Any] = {}
    for part, limit in (("train", section.train_queries), ("test", section.test_queries)):
        queries = workspace.queries(f"{part}_questions", limit)
        counts[f"{part}_questions"] = len(queries)
        for name, retriever in workspace.retrievers.items():
            if part == "test" or name == section.first_stage:
                run = retriever.search(queries, k=section.depth)
                write_run(workspace.folder("retrieve") / f"{name}.{part}.trec", run)
                counts[f"{name}_{part}_empty"] = sum(not ranking for ranking in run.values())
    return counts


def _label(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.scoring import label_file

    section = workspace.recipe.reranker
    labels = label_file(
        workspace.folder("label") / "labels.jsonl",
        workspace.dataset.subset(workspace.queries("train_questions", section.train_queries)),
        read_run(workspace.folder("retrieve") / f"{section.first_stage}.train.trec"),
        section.utilities,
        workspace.generator,
        k=section.depth,
        store=workspace.store,
    )
    return dict(labels.manifest["counts"])


def _train(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rerank import RerankerConfig, build_groups, train_reranker
    from utilitune.scoring import make_utility

    workspace.release()
    section = workspace.recipe.reranker
    groups = build_groups(
        read_labels(workspace.folder("label") / "labels.jsonl"),
        workspace.dataset,
        utilities=[make_utility(name).name for name in section.utilities],
        rescale=section.training.rule,
    )
    report = train_reranker(
        groups,
        section.base,
        workspace.folder("train-reranker"),
        RerankerConfig(
            loss=section.training.loss,
            learning_rate=section.training.lr,
            epochs=section.training.epochs,
            batch_pairs=section.training.batch_pairs,
            max_length=section.training.max_length,
            seed=workspace.recipe.seed,
        ),
    )
    truncated = report.truncation["train"]
    return {
        "groups": report.groups,
        "pairs": report.pairs,
        "steps": report.steps,
        "kept_epoch": report.kept_epoch,
        "collapsed": int(report.collapsed),
        **{f"truncated_{kind}": count for kind, count in truncated.items() if kind != "pairs"},
        **{f"dropped_{kind}": count for kind, count in report.drops.items()},
    }


def _rerank(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rerank import UtilityReranker

    section = workspace.recipe.reranker
    reranker = UtilityReranker.load(workspace.folder("train-reranker"))
    for name in workspace.recipe.retrievers:
        run = read_run(workspace.folder("retrieve") / f"{name}.test.trec")
        write_run(
            workspace.folder("rerank") / f"{name}.trec",
            reranker.rerank(run, workspace.dataset, depth=section.depth),
        )
    return dict(reranker.counts)


def test_runs(workspace: Workspace) -> dict[str, tuple[Run, Run]]:
    """Return ``{retriever: (first stage, reranked)}`` of the test questions."""
    return {
        name: (
            read_run(workspace.folder("retrieve") / f"{name}.test.trec"),
            read_run(workspace.folder("rerank") / f"{name}.trec"),
        )
        for name in workspace.recipe.retrievers
    }


def _utility(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.evaluation import ranking
    from utilitune.scoring import label_file

    k = workspace.recipe.evaluation.udcg_k
    union: dict[str, dict[str, float]] = {}
    for before, after in test_runs(workspace).values():
        for run in (before, after):
            for query_id, scored in run.items():
                # The first k as UDCG ranks them, which breaks ties by id.
                union.setdefault(query_id, {}).update(ranking(scored)[:k])
    candidates = Run({query_id: sorted(scores.items()) for query_id, scores in union.items()})
    deepest = max((len(scored) for scored in candidates.values()), default=1)
    labels = label_file(
        workspace.folder("utility") / "labels.jsonl",
        workspace.dataset.subset(workspace.queries("test_questions", workspace.recipe.reranker.test_queries)),
        candidates,
        ["abstention"],
        workspace.generator,
        k=max(deepest, 1),
        store=workspace.store,
    )
    return dict(labels.manifest["counts"])


def _answer(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.evaluation import answer_questions

    queries = workspace.queries("test_questions", workspace.recipe.reranker.test_queries)
    passages = workspace.dataset.passages()
    counts: dict[str, Any] = {"questions": len(queries)}
    for name, runs in test_runs(workspace).items():
        for moment, run in zip(("before", "after"), runs, strict=True):
            answers = answer_questions(
                queries,
                run,
                passages,
                workspace.generator,
                k=workspace.recipe.evaluation.answer_k,
                store=workspace.store,
            )
            write_answers(workspace.folder("answer") / f"{name}.{moment}.jsonl", answers)
            counts[f"{name}_{moment}_abstained"] = sum(answer.abstained for answer in answers)
    return counts


RETRIEVE = Stage(
    name="retrieve",
    about="first-stage candidates of the stand-alone questions",
    needs=("data", "index"),
    keys=(
        "reranker.first_stage",
        "reranker.train_queries",
        "reranker.test_queries",
        "reranker.depth",
        "retrievers",
        "seed",
    ),
    code=("records", "retrieval"),
    action=_retrieve,
    left_out=unless("reranker", "train_questions"),
)
LABEL = Stage(
    name="label",
    about="label the training candidates with the generator's utility",
    needs=("data", "retrieve"),
    keys=(
        "generator",
        "reranker.first_stage",
        "reranker.train_queries",
        "reranker.depth",
        "reranker.utilities",
        "seed",
    ),
    code=("records", "generator", "scoring"),
    action=_label,
    left_out=unless("reranker", "train_questions"),
)
TRAIN = Stage(
    name="train-reranker",
    about="fine-tune a cross-encoder on the labels",
    needs=("data", "label"),
    keys=("reranker.base", "reranker.utilities", "reranker.training", "seed"),
    code=("records", "generator", "scoring", "rerank"),
    action=_train,
    left_out=unless("reranker", "train_questions"),
)
RERANK = Stage(
    name="rerank",
    about="rerank the test questions' candidates",
    needs=("data", "retrieve", "train-reranker"),
    keys=("reranker.depth", "retrievers"),
    code=("records", "rerank"),
    action=_rerank,
    left_out=unless("reranker", "train_questions", "test_questions"),
)
UTILITY = Stage(
    name="utility",
    about="UDCG's utility of what the test questions found, before and after",
    needs=("data", "retrieve", "rerank"),
    keys=("generator", "retrievers", "reranker.test_queries", "evaluation.udcg_k", "seed"),
    code=("records", "generator", "scoring", "evaluation"),
    action=_utility,
    left_out=unless("reranker", "train_questions", "test_questions", measured="udcg_k"),
)
ANSWER = Stage(
    name="answer",
    about="let the generator answer with the passages, before and after",
    needs=("data", "retrieve", "rerank"),
    keys=("generator", "retrievers", "reranker.test_queries", "evaluation.answer_k", "seed"),
    code=("records", "generator", "scoring", "evaluation"),
    action=_answer,
    left_out=unless("reranker", "train_questions", "test_questions", measured="answer_k"),
)
