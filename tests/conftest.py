"""What every test starts from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from utilitune.progress import set_quiet


@pytest.fixture(autouse=True)
def notices() -> Iterator[None]:
    """A test that asks for ``--quiet`` must not silence the next one of its process."""
    set_quiet(False)
    yield
    set_quiet(False)
