import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def tiny():
    from tiny_generator import TinyGenerator

    return TinyGenerator(seed=1)


@pytest.fixture
def counted(tiny):
    from tiny_generator import Counted

    return Counted(tiny)


@pytest.fixture(scope="session")
def world():
    from small_world import small_world

    return small_world()
