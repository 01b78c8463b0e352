"""Stage ``answer-rewrites``: what the generator answers with the passages that the rewrites find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_rows, write_answers

MOMENTS = ("untuned", "tuned")


def _answer(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.evaluation import answer_questions

    turns = workspace.queries("test_turns", workspace.recipe.rewriter.test_turns)
    asked = [turn for turn in turns if turn.answers]
    k = workspace.recipe.evaluation.rewriter_answer_k
    passages = workspace.dataset.passages()
    counts: dict[str, Any] = {"turns": len(turns), "turns_without_gold_answer": len(turns) - len(asked)}
    for moment in MOMENTS if asked else ():
        rows = read_rows(workspace.folder("rewrite") / f"{moment}.jsonl")
        texts = {str(row["query_id"]): str(row["text"]) for _, row in rows}
        for name, retriever in workspace.retrievers.items():
            # Searched for with the rewrite, asked as typed: the conversation is in the prompt either way.
            run = retriever.search_texts({turn.id: texts[turn.id] for turn in asked}, k)
            answers = answer_questions(asked, run, passages, workspace.generator, k=k, store=workspace.store)
            write_answers(workspace.folder("answer-rewrites") / f"{name}.{moment}.jsonl", answers)
            counts[f"{name}_{moment}_abstained"] = sum(answer.abstained for answer in answers)
    return counts


ANSWER = Stage(
    name="answer-rewrites",
    about="let the generator answer the test turns with what the rewrites find, untuned and tuned",
    needs=("data", "index", "rewrite"),
    keys=("generator", "retrievers", "rewriter.test_turns", "evaluation.rewriter_answer_k", "seed"),
    code=("records", "generator", "retrieval", "scoring", "evaluation"),
    action=_answer,
    left_out=unless("rewriter", "train_turns", "test_turns", measured="rewriter_answer_k"),
)
