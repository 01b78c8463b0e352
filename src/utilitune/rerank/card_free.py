"""The library's trainers without what fills its model cards. Importing this loads torch and sentence-transformers.

That draws examples and statistics, behind a bar of its own, and takes every text for a single one; the cards are ours.
"""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.cross_encoder import CrossEncoderTrainer


class RetrieverTrainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Trains encoders."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no callback."""


class RerankerTrainer(CrossEncoderTrainer):  # type: ignore[misc]
    """Trains rerankers."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no callback."""
