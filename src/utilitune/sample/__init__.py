"""The sample world: a data set about fictional places, people and works, made by this package from a seed.

No model can know its answers, so whether a passage helps is a clean question.
"""

from __future__ import annotations

from utilitune.sample.dataset import make_sample as make_sample
from utilitune.sample.dataset import write_sample as write_sample
from utilitune.sample.layout import sample_corpus as sample_corpus

__all__ = ["make_sample", "sample_corpus", "write_sample"]
