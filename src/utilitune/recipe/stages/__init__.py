"""The stages, in the order in which they run."""

from __future__ import annotations

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages import agreement, data, evaluate, reranker, rewriter, rewriter_answers, transfer

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        data.DATA,
        data.INDEX,
        rewriter.CANDIDATES,
        rewriter.REWARD,
        rewriter.PAIRS,
        agreement.AGREEMENT,
        rewriter.TRAIN_SFT,
        rewriter.TRAIN,
        rewriter.TRAIN_GRPO,
        rewriter.YARDSTICKS,
        rewriter.REWRITE,
        rewriter.BEST_OF,
        rewriter_answers.ANSWER,
        transfer.TRANSFER,
        reranker.RETRIEVE,
        reranker.LABEL,
        reranker.TRAIN,
        reranker.RERANK,
        reranker.UTILITY,
        reranker.ANSWER,
        evaluate.EVALUATE,
    )
}
