"""The stages, in the order in which they run."""

from __future__ import annotations

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages import data, evaluate, reranker, rewriter

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        data.DATA,
        data.INDEX,
        rewriter.CANDIDATES,
        rewriter.REWARD,
        rewriter.PAIRS,
        rewriter.TRAIN,
        rewriter.REWRITE,
        reranker.RETRIEVE,
        reranker.LABEL,
        reranker.TRAIN,
        reranker.RERANK,
        reranker.UTILITY,
        reranker.ANSWER,
        evaluate.EVALUATE,
    )
}
