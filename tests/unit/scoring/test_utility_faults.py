"""Utilities that others wrote: whatever they do wrong is told with utility, query and line, before work is lost."""

import pytest
from tiny_generator import TinyNumpy

from utilitune.errors import ConfigError, DataError
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.scoring import Value, label, make_utility

DATA = Dataset([Passage("p", "The cat sat.")], [Query("q", "Where ?")])
RUN = Run({"q": [("p", 1.0)]})


class Words:
    name, needs_answers, parameters = "words", False, {}

    def __init__(self, value=None, requests=None):
        self.given, self.asked = value, requests or (dict)

    def requests(self, query, passages):
        return self.asked()

    def value(self, query, passages, responses):
        return self.given()


def labelled(*utilities):
    return label(DATA, RUN, list(utilities), TinyNumpy(), max_failed=1.0)


def raising(error):
    def it():
        raise error

    return it


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: Value({}["x"]), "KeyError: 'x'"),
        (lambda: Value(1 / 0), "ZeroDivisionError"),
        (lambda: None, "found None, expected a Value"),
        (lambda: 1.0, "found 1.0, expected a Value"),
        (lambda: Value(None), "NoneType"),
        (lambda: Value("0.5"), "expected a Value of a number"),
        (lambda: Value(1.0, None), "a mapping"),
    ],
)
def test_what_value_does_wrong(value, said):
    with pytest.raises(ConfigError, match=r"utility 'words': value\(\) failed on query 'q' with passages p") as found:
        labelled(Words(value))
    assert said in str(found.value) and ".py:" in str(found.value)


@pytest.mark.parametrize(
    "requests", [raising(RuntimeError("boo")), raising(ValueError("boo")), lambda: [1], lambda: None, lambda: {"a": 5}]
)
def test_what_requests_does_wrong(requests):
    with pytest.raises(ConfigError, match=r"utility 'words': requests\(\) failed on query 'q'"):
        labelled(Words(lambda: Value(1.0), requests))


def test_a_value_error_is_a_failed_row_and_nan_an_invalid_one():
    (row,) = labelled(Words(raising(ValueError("no number"))))
    assert (row.status, row.utility, row.evidence["reason"]) == ("failed", None, "no number")
    (row,) = labelled(Words(lambda: Value(float("nan"))))
    assert (row.status, row.utility) == ("invalid", None)


@pytest.mark.parametrize("fact", [object(), {(1, 2): 3}])
def test_evidence_that_is_no_json_is_refused_at_the_first_row(fact):
    with pytest.raises(DataError, match="utility 'words': evidence"):
        labelled(Words(lambda: Value(1.0, {"fact": fact})))


def test_two_utilities_of_one_name_and_other_code_are_not_taken_for_one():
    class Others(Words):
        pass

    with pytest.raises(ConfigError, match=r"named 'words' and have the same parameters but other code .*Others"):
        labelled(Words(lambda: Value(1.0)), Others(lambda: Value(2.0)))
    assert len(labelled(Words(lambda: Value(1.0)), Words(lambda: Value(1.0)))) == 1


BODY = """
class W:
    name, needs_answers, parameters = "words", False, {{}}
    {more}
    def requests(self, query, passages): return {{}}
    def value(self, query, passages, responses): return None
{end}
"""


@pytest.mark.parametrize(
    ("more", "end", "said"),
    [
        ("", "raise SystemExit(0)", "SystemExit: 0"),
        ("", "def (", "SyntaxError"),
        ("def __init__(self): raise RuntimeError('boo')", "", "cannot be made: RuntimeError: boo"),
        ("def __init__(self, a, /): pass", "", "cannot be made: TypeError"),
        ("needs_answers = 'no'", "", "needs_answers is 'no'"),
        ("name = 'a\\tb'", "", "and on one line"),
        ("name = ' '", "", "and on one line"),
    ],
)
def test_a_file_that_is_at_fault(tmp_path, more, end, said):
    path = tmp_path / "own.py"
    path.write_text(BODY.format(more=more, end=end))
    with pytest.raises(ConfigError, match=r"own\.py") as found:
        make_utility(f"{path}:W")
    assert said in str(found.value)
