"""From conversational questions to a rewriter that the generator itself has taught."""

from utilitune.rewrite.best_of import BestOf
from utilitune.rewrite.candidate import Candidate, Candidates, read_candidates, write_candidates
from utilitune.rewrite.clean import clean_rewrite
from utilitune.rewrite.dpo import train_dpo
from utilitune.rewrite.dpo_config import DpoConfig
from utilitune.rewrite.export import export_rewriter
from utilitune.rewrite.gold_agreement import GoldAgreement, gold_agreement
from utilitune.rewrite.grpo import train_grpo
from utilitune.rewrite.grpo_config import GrpoConfig
from utilitune.rewrite.live_reward import LiveReward
from utilitune.rewrite.merge import merge_rewriter
from utilitune.rewrite.pairs import NoPairsError, PairSet, build_pairs
from utilitune.rewrite.reward import reward_candidates
from utilitune.rewrite.rewriter import Rewrite, Rewriter, rewrite_queries
from utilitune.rewrite.sample import sample_candidates
from utilitune.rewrite.sft import train_sft
from utilitune.rewrite.sft_config import SftConfig
from utilitune.rewrite.training_report import TrainingReport

__all__ = [
    "BestOf",
    "Candidate",
    "Candidates",
    "DpoConfig",
    "GoldAgreement",
    "GrpoConfig",
    "LiveReward",
    "NoPairsError",
    "PairSet",
    "Rewrite",
    "Rewriter",
    "SftConfig",
    "TrainingReport",
    "build_pairs",
    "clean_rewrite",
    "export_rewriter",
    "gold_agreement",
    "merge_rewriter",
    "read_candidates",
    "reward_candidates",
    "rewrite_queries",
    "sample_candidates",
    "train_dpo",
    "train_grpo",
    "train_sft",
    "write_candidates",
]
