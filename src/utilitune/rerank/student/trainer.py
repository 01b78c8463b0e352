"""The library's trainer without its model card. Importing this loads torch and sentence-transformers."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformerTrainer


class RetrieverTrainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Leaves out what fills the library's model card: it draws examples, behind a bar of its own; the card is ours."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no callback."""
