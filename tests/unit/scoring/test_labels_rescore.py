"""New utilities from a labels file alone: equal to labelling anew, or a clear refusal."""

from dataclasses import replace

import pytest
from tiny_generator import Counted, TinyGenerator
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError
from utilitune.records.label import Labels
from utilitune.records.labels import read_labels
from utilitune.scoring import label, label_file
from utilitune.scoring.evidence import answers_in
from utilitune.scoring.rescoring import rescore

BASE = ["grogu:key-entropy,tau=0.5,max_new_tokens=4", "abstention"]
MORE = [
    "grogu:key-entropy,tau=2,max_new_tokens=4",
    "grogu:key-entropy,selector=all,max_new_tokens=4",
    "grogu:mean-entropy,max_new_tokens=4",
    "grogu:max-entropy,max_new_tokens=4",
    "grogu:perplexity,max_new_tokens=4",
    "information-gain,max_new_tokens=4",
    "entropy-drop,max_new_tokens=4",
]
OVERLAP = "grogu:key-entropy,selector=question-overlap,max_new_tokens=4"


@pytest.fixture(scope="module")
def labelled(tiny, world, tmp_path_factory):
    path = tmp_path_factory.mktemp("labelled") / "labels.jsonl"
    label_file(path, *world, BASE, tiny, k=2)
    return path


def test_every_token_is_in_the_evidence(labelled, tiny, world):
    row = read_labels(labelled)[0]
    answers = answers_in(row.evidence)
    assert list(answers) == ["grounded", "bare", "grounded_under_bare", "bare_under_grounded"]
    grounded = answers["grounded"]
    assert row.evidence["answer"] == grounded.text and grounded.finish in ("stop", "length")
    assert len(grounded.token_ids) == len(grounded.logprobs) == len(grounded.entropies) == len(grounded.tokens)
    assert len(row.evidence["key"]["grounded"]) == len(grounded.tokens)
    assert answers["grounded_under_bare"].token_ids == grounded.token_ids
    assert answers["grounded_under_bare"].logprobs != grounded.logprobs and row.evidence["truncated"] is False


def test_rows_equal_labelling_anew(labelled, tiny, world):
    rescored = rescore(read_labels(labelled), [*MORE, BASE[0]])
    anew = label(*world, [*MORE, BASE[0]], tiny, k=2)
    assert rescored.rows == anew.rows, "ids, numbers, status, label set, order"
    assert [row.evidence for row in rescored] == [row.evidence for row in anew]
    assert rescored.manifest["label_sets"] == anew.manifest["label_sets"]
    assert rescored.manifest["generator"] == anew.manifest["generator"]
    for kind in ("labels", "ok", "truncated", "empty_answers", "cut_answers"):
        assert rescored.manifest["counts"].get(kind, 0) == anew.manifest["counts"][kind]


def test_a_selector_that_reads_the_question_needs_the_data(labelled, tiny, world):
    labels = read_labels(labelled)
    with pytest.raises(DataError, match=r"reads the history of query 'q0'.*--data"):
        rescore(labels, [OVERLAP])
    assert rescore(labels, [OVERLAP], dataset=world[0]).rows == label(*world, [OVERLAP], tiny, k=2).rows
    other = world[0].subset(world[0].queries[:2])
    with pytest.raises(DataError, match=r"'q2' with passages .* is not all in the data set"):
        rescore(labels, [OVERLAP], dataset=other)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grogu:mean-entropy,max_new_tokens=5", "limits 5, and no utility of these labels does"),
        ("grogu:mean-entropy,max_new_tokens=4,prompt=answer-abstain", "asks under prompt 'answer-abstain'"),
        ("abstention", "does not read the generator's own answers"),
        ("erag", "prompt"),
    ],
)
def test_what_the_evidence_lacks_is_said(labelled, spec, message, world):
    with pytest.raises(DataError, match=message) as error:
        rescore(read_labels(labelled), [spec], dataset=world[0])
    assert "label again with the same --store" in str(error.value)


def test_a_missing_context_is_said(tiny, world):
    labels = label(*world, ["information-gain,max_new_tokens=4"], tiny, k=1)
    assert rescore(labels, ["entropy-drop,max_new_tokens=4"]).rows
    with pytest.raises(DataError, match="reads bare, which the evidence of query 'q0' lacks"):
        rescore(labels, ["grogu:max-entropy,max_new_tokens=4"])


def test_contexts_of_several_utilities_are_put_together(tiny, world):
    labels = label(*world, ["information-gain,max_new_tokens=4", "grogu:mean-logprob,max_new_tokens=4"], tiny, k=1)
    specs = ["grogu:max-entropy,max_new_tokens=4", "entropy-drop,max_new_tokens=4"]
    assert rescore(labels, specs).rows == label(*world, specs, tiny, k=1).rows


def test_rows_without_a_number_stay_without_one(world):
    narrow = TinyGenerator(seed=1, window=120)
    spec = "information-gain,max_new_tokens=4"
    labels = label(*world, [spec], Counted(narrow), k=2, max_failed=1.0)
    assert {row.status for row in labels} == {"ok", "failed"} or {row.status for row in labels} == {"failed"}
    rescored = rescore(labels, ["entropy-drop,max_new_tokens=4"])
    assert [(row.status, row.evidence.get("reason")) for row in rescored] == [
        (row.status, row.evidence.get("reason")) for row in labels
    ]


def test_labels_without_a_manifest_are_refused(labelled):
    with pytest.raises(DataError, match="no manifest that names their generator"):
        rescore(Labels(read_labels(labelled).rows), MORE)


def test_old_evidence_without_ids_is_refused(labelled):
    labels = read_labels(labelled)
    old = [
        replace(
            row,
            evidence={
                name: {key: value for key, value in each.items() if key != "ids"} if isinstance(each, dict) else each
                for name, each in row.evidence.items()
            },
        )
        for row in labels
    ]
    with pytest.raises(DataError, match="no answers with token ids"):
        rescore(Labels(old, labels.manifest), MORE)


def test_the_verb(labelled, tmp_path):
    out = tmp_path / "other.jsonl"
    command = ["labels", "rescore", str(labelled), "-u", MORE[0], "-u", MORE[1], "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    back = read_labels(out)
    assert back.rows == rescore(read_labels(labelled), MORE[:2]).rows and back.manifest["rescored_from"]
    again = CliRunner().invoke(app, [*command[:-1], str(labelled)])
    assert isinstance(again.exception, ConfigError)
