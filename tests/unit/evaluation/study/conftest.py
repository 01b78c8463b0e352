import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from signal_world import Reader, make_world


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def reader():
    return Reader()
