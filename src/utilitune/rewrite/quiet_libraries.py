"""The libraries' own bars and caches, off for the length of a training run; ours are shown instead."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence bars and deprecations, and let datasets cache nothing that a changed template could meet again."""
    import datasets
    from transformers.utils import logging as transformers_logging

    before = os.environ.get("TQDM_DISABLE")
    bars, caching = not datasets.are_progress_bars_disabled(), datasets.is_caching_enabled()
    os.environ["TQDM_DISABLE"] = "1"
    loading = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.disable_caching()
    try:
        with warnings.catch_warnings():
            # Deprecations between TRL and transformers are theirs to sort out, not the user's.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        if before is None:
            os.environ.pop("TQDM_DISABLE", None)
        else:
            os.environ["TQDM_DISABLE"] = before
        if loading:
            transformers_logging.enable_progress_bar()
        if bars:
            datasets.enable_progress_bars()
        if caching:
            datasets.enable_caching()
