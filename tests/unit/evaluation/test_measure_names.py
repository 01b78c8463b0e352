"""Names of measures."""

import pytest

from utilitune.errors import ConfigError
from utilitune.evaluation import Measure, parse_measure, parse_measures


@pytest.mark.parametrize(
    ("name", "family", "cutoff"),
    [
        ("MRR@10", "RR", 10),
        ("RR@10", "RR", 10),
        ("RR", "RR", None),
        ("nDCG@10", "nDCG", 10),
        ("NDCG@3", "nDCG", 3),
        ("R@100", "R", 100),
        ("Recall@5", "R", 5),
        ("P@1", "P", 1),
        ("Success@5", "Success", 5),
        ("AP", "AP", None),
        ("MAP", "AP", None),
        ("AP@100", "AP", 100),
        ("UDCG@5", "UDCG", 5),
        ("rawUDCG@5", "rawUDCG", 5),
        ("EM", "EM", None),
        ("F1", "F1", None),
        ("contains", "contains", None),
        ("accuracy", "contains", None),
    ],
)
def test_known_names_keep_their_spelling(name, family, cutoff):
    assert parse_measure(name) == Measure(name, family, cutoff)


@pytest.mark.parametrize("name", ["mrr@10", "foo", "nDCG@0", "nDCG@-1", "nDCG@", "@10", "", "R@1.5", "nDCG@10@10"])
def test_unknown_names_list_the_known_ones(name):
    with pytest.raises(ConfigError, match=r"known: RR\[@k\], nDCG\[@k\], R@k"):
        parse_measure(name)


def test_cutoff_missing_or_out_of_place():
    with pytest.raises(ConfigError, match="R@10"):
        parse_measure("R")
    with pytest.raises(ConfigError, match="takes no cut-off"):
        parse_measure("EM@3")


def test_all_problems_at_once_and_repeats_removed():
    with pytest.raises(ConfigError) as caught:
        parse_measures(["foo", "MRR@10", "P"])
    assert "'foo'" in str(caught.value)
    assert "'P'" in str(caught.value)
    assert [m.name for m in parse_measures(["AP", "P@1", "AP"])] == ["AP", "P@1"]
    assert [m.name for m in parse_measures("AP")] == ["AP"]
    with pytest.raises(ConfigError, match="no measure"):
        parse_measures([])
