"""The stages, in the order in which they run."""

from __future__ import annotations

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages import (
    agreement,
    data,
    evaluate,
    reranker,
    reranker_reading,
    reranker_second,
    reranking,
    rewriter,
    rewriter_answers,
    rewriter_training,
    rewriter_use,
    transfer,
    warm_up,
)

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        data.DATA,
        data.INDEX,
        rewriter.CANDIDATES,
        rewriter.REWARD,
        rewriter.PAIRS,
        rewriter_training.TRAIN_SFT,
        rewriter_training.RESAMPLE,
        agreement.AGREEMENT,
        rewriter_training.TRAIN,
        rewriter_training.TRAIN_GRPO,
        rewriter_training.YARDSTICKS,
        rewriter_use.REWRITE,
        rewriter_use.BEST_OF,
        rewriter_answers.ANSWER,
        transfer.TRANSFER,
        transfer.BEST_OF_TRANSFER,
        reranker.RETRIEVE,
        warm_up.WARM_UP,
        reranker.LABEL,
        reranker.LABEL_RIVALS,
        reranker_reading.LABEL_TEST,
        reranker_reading.FIT_THETA,
        reranker.TRAIN,
        reranker.TRAIN_RIVALS,
        reranking.RERANK,
        reranker_reading.UTILITY,
        reranker_reading.ANSWER,
        reranker_second.LABEL_SECOND,
        reranker_second.TRAIN_SECOND,
        reranker_second.ANSWER_SECOND,
        evaluate.EVALUATE,
    )
}
