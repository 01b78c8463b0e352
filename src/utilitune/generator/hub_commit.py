"""The commit that a model on the Hub is at: what its numbers are known by, and what pins its files to each other."""

from __future__ import annotations

from pathlib import Path


def hub_commit(model: str, revision: str | None = None) -> str:
    """Look up a revision of a model; transformers' configurations do not say it in every version.

    Args:
        model: Hub id.
        revision: Branch, tag or commit; ``None`` for the newest of the main branch.

    Returns:
        The commit, 40 hex digits. Without a network, of the copy in the Hub's own cache.

    Raises:
        OSError: If there is no such model or revision, or it is neither in reach nor in the cache.
        ValueError: If the id cannot be one.
    """
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, "config.json", revision=revision)).parent.name
