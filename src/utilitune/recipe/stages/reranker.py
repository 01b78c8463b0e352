"""The reranker's stages: first-stage runs, labels, training, reranking, labels and answers of the test questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from utilitune.progress import warn
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.data import without
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run, read_labels, read_run, write_answers, write_run


def _left_out(part: str) -> Callable[[Workspace], str | None]:
    rule = without(part, "stand-alone questions in this part")

    def left_out(workspace: Workspace) -> str | None:
        return rule(workspace) if workspace.recipe.reranker.enabled else "reranker.enabled is false"

    return left_out


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

    section = workspace.recipe.reranker
    groups = build_groups(
        read_labels(workspace.folder("label") / "labels.jsonl"),
        workspace.dataset,
        utilities=[make_utility(name).name for name in section.utilities],
        rescale=section.training.rescale,
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
    for warning in report.warnings:
        warn(warning)
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
    from utilitune.scoring import label_file

    k = workspace.recipe.evaluation.udcg_k
    union: dict[str, dict[str, float]] = {}
    for before, after in test_runs(workspace).values():
        for run in (before, after):
            for query_id, ranking in run.top(k).items():
                union.setdefault(query_id, {}).update(ranking)
    candidates = Run({query_id: sorted(scores.items()) for query_id, scores in union.items()})
    deepest = max((len(ranking) for ranking in candidates.values()), default=1)
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


def _settings(*names: str) -> Any:
    def settings(recipe: Recipe) -> Any:
        section = recipe.model_dump(mode="json")["reranker"]
        return {name: section[name] for name in names} | {"generator": recipe.generator, "seed": recipe.seed}

    return settings


def _measured(key: str, what: str) -> Callable[[Workspace], str | None]:
    rule = _left_out("test_questions")

    def left_out(workspace: Workspace) -> str | None:
        if not getattr(workspace.recipe.evaluation, key):
            return f"evaluation.{key} is 0: no {what}"
        return rule(workspace)

    return left_out


RETRIEVE = Stage(
    name="retrieve",
    about="first-stage candidates of the stand-alone questions",
    needs=("data", "index"),
    code=("records", "retrieval"),
    settings=_settings("first_stage", "train_queries", "test_queries", "depth"),
    action=_retrieve,
    left_out=_left_out("train_questions"),
)
LABEL = Stage(
    name="label",
    about="label the training candidates with the generator's utility",
    needs=("data", "retrieve"),
    code=("records", "generator", "scoring"),
    settings=_settings("first_stage", "utilities", "depth"),
    action=_label,
    left_out=_left_out("train_questions"),
)
TRAIN = Stage(
    name="train-reranker",
    about="fine-tune a cross-encoder on the labels",
    needs=("data", "label"),
    code=("records", "generator", "rerank"),
    settings=_settings("base", "training", "utilities"),
    action=_train,
    left_out=_left_out("train_questions"),
)
RERANK = Stage(
    name="rerank",
    about="rerank the test questions' candidates",
    needs=("data", "retrieve", "train-reranker"),
    code=("records", "rerank"),
    settings=_settings("depth"),
    action=_rerank,
    left_out=_left_out("train_questions"),
)
UTILITY = Stage(
    name="utility",
    about="UDCG's utility of what the test questions found, before and after",
    needs=("data", "retrieve", "rerank"),
    code=("records", "generator", "scoring"),
    settings=lambda recipe: {"udcg_k": recipe.evaluation.udcg_k, "generator": recipe.generator},
    action=_utility,
    left_out=_measured("udcg_k", "UDCG"),
)
ANSWER = Stage(
    name="answer",
    about="let the generator answer with the passages, before and after",
    needs=("data", "retrieve", "rerank"),
    code=("records", "generator", "evaluation"),
    settings=lambda recipe: {"answer_k": recipe.evaluation.answer_k, "generator": recipe.generator},
    action=_answer,
    left_out=_measured("answer_k", "answers"),
)
