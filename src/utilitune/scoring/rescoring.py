"""New utilities from the evidence of labels: another γ, τ or selector, without the model and without the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from utilitune.errors import DataError
from utilitune.progress import say, warn
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels, UtilityLabel
from utilitune.records.manifest import manifest
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.evidence import answers_in
from utilitune.scoring.label_row import constant_sets, label_row, missing_row
from utilitune.scoring.labelling import Specs, count_evidence, distinct_utilities
from utilitune.scoring.protocol import Greedy, Rescore, Utility
from utilitune.scoring.utility_call import requests_of

Key = tuple[str, tuple[str, ...]]
# What makes two answers to one question answers to the same request.
ASKED = ("prompt_hash", "max_new_tokens", "stop")


class _Unseen:
    """Stands for a query or passage of which labels keep the id alone: arithmetic on responses needs no more."""

    def __init__(self, kind: str, identifier: str) -> None:
        self.kind, self.id = kind, identifier

    def __getattr__(self, name: str) -> NoReturn:
        raise DataError(
            f"this utility reads the {name} of {self.kind} {self.id!r}, which labels do not hold; give the data set "
            "as well (--data)"
        )


class _UnseenPassage(_Unseen):
    """A passage that has words: utilities leave others out of the prompt, and then evidence has fewer contexts."""

    full_text = "?"


@dataclass
class _Known:
    """What the labels know of one passage set: answers by context, and why there may be none."""

    answers: dict[str, Any] = field(default_factory=dict)
    missing: UtilityLabel | None = None


def rescore(labels: Labels, utilities: Specs, *, dataset: Dataset | None = None) -> Labels:
    """Compute utilities from what labels keep as evidence.

    A utility can be had where it reads the generator's answers (``grogu`` with any γ, τ and selector,
    ``information-gain``, ``entropy-drop``) in contexts that the labels' own utilities asked for, under the same prompt
    and limits. The rows equal those that ``label`` would make.

    Args:
        labels: Labels with their manifest.
        utilities: As ``label``.
        dataset: Where queries and passages are, for utilities that read them (``selector=question-overlap``).

    Returns:
        One row a passage set and utility, in the labels' order, with their manifest.

    Raises:
        ConfigError: For an unknown utility or parameter.
        DataError: If the labels lack something that a utility reads; says what, and what to do.
    """
    identity = labels.manifest.get("generator")
    known_sets = labels.manifest.get("label_sets")
    if not isinstance(identity, Mapping) or not isinstance(known_sets, Mapping):
        raise DataError(
            "these labels have no manifest that names their generator and parameters; keep labels.manifest.json beside "
            "labels.jsonl, or label again with the same --store: what is in it needs no model"
        )
    if not len(labels):
        raise DataError("there are no labels to compute from; label first")
    wanted = distinct_utilities(utilities, identity)
    pieces = {label_set: _by_item(labels, known_sets, utility) for label_set, utility in wanted.items()}
    items = list(dict.fromkeys((row.query_id, row.passage_ids) for row in labels))
    look_up = _Records(dataset)
    rows = [
        _row(look_up.item(key), label_set, utility, pieces[label_set].get(key, _Known()))
        for key in items
        for label_set, utility in wanted.items()
    ]
    counts: Counter[str] = Counter(dict.fromkeys(("ok", "failed", "invalid", "skipped"), 0))
    counts.update(row.status for row in rows)
    counts.update(count_evidence(rows))
    constant = constant_sets(rows)
    say(f"rescore: {len(rows)} labels ({', '.join(f'{count} {kind}' for kind, count in counts.items())}), no model")
    for message in constant.values():
        warn(message)
    made = manifest(
        "labels rescore",
        label_sets={
            label_set: {"utility": utility.name, "parameters": dict(utility.parameters)}
            for label_set, utility in wanted.items()
        },
        generator=dict(identity),
        counts={"labels": len(rows), **counts},
        rescored_from={
            key: labels.manifest[key] for key in ("command", "time", "labels_sha256") if key in labels.manifest
        },
        warnings=dict(constant),
    )
    return Labels(rows, made)


def _by_item(labels: Labels, known_sets: Mapping[str, Any], utility: Utility) -> dict[Key, _Known]:
    """Collect the answers that were asked for as ``utility`` would ask."""
    asked = _asked(utility.parameters)
    if asked is None:
        raise DataError(
            f"{utility.name} does not read the generator's own answers, which is all that evidence holds; label again "
            "with the same --store: only what is new needs the model"
        )
    fitting = {
        label_set
        for label_set, described in known_sets.items()
        if isinstance(described, Mapping) and _asked(described.get("parameters")) == asked
    }
    if not fitting:
        there = sorted({str(each.get("utility")) for each in known_sets.values() if isinstance(each, Mapping)})
        raise DataError(
            f"{utility.name} asks under prompt {utility.parameters.get('prompt')!r} with limits "
            f"{utility.parameters.get('max_new_tokens')}, and no utility of these labels does ({', '.join(there)}); "
            "label again with the same --store: only what is new needs the model"
        )
    found: dict[Key, _Known] = {}
    for row in labels:
        if row.label_set in fitting:
            known = found.setdefault((row.query_id, row.passage_ids), _Known())
            try:
                known.answers.update(answers_in(row.evidence))
            except ValueError as error:
                raise DataError(
                    f"the evidence of query {row.query_id!r} under {row.label_set} is damaged: {error}; label again "
                    "with the same --store: what is in it needs no model"
                ) from error
            if row.status in ("failed", "skipped"):
                known.missing = row
    return found


def _asked(parameters: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    if not isinstance(parameters, Mapping) or not all(name in parameters for name in ASKED):
        return None
    return tuple(tuple(each) if isinstance(each, list) else each for each in map(parameters.get, ASKED))


def _row(item: tuple[Query, tuple[Passage, ...]], label_set: str, utility: Utility, known: _Known) -> UtilityLabel:
    names = _names(utility, item)
    lacking = [name for name in names if name not in known.answers]
    if not lacking:
        return label_row(item, label_set, utility, {name: known.answers[name] for name in names})
    if known.missing is not None:
        return missing_row(item, label_set, known.missing)
    raise DataError(
        f"{utility.name} reads {', '.join(lacking)}, which the evidence of query {item[0].id!r} lacks (it has "
        f"{', '.join(known.answers) or 'no answers with token ids'}); label again with the same --store: only what is "
        "new needs the model"
    )


def _names(utility: Utility, item: tuple[Query, tuple[Passage, ...]]) -> list[str]:
    """Return the contexts that a utility asks for; which ones depends on whether there are passages with words."""
    query, passages = item
    if isinstance(query, _Unseen):
        query = Query("q", "question")
        passages = tuple(Passage(f"p{number}", f"passage {number}") for number in range(len(passages)))
    requests = requests_of(utility, (query, passages))
    if not all(isinstance(request, Greedy | Rescore) for request in requests.values()):
        raise DataError(
            f"{utility.name} asks for more than the generator's own answers, which is all that evidence holds; label "
            "again with the same --store: only what is new needs the model"
        )
    return list(requests)


class _Records:
    """Queries and passages by id: of the data set, else stand-ins that know their id alone."""

    def __init__(self, dataset: Dataset | None) -> None:
        self._whole = dataset is not None
        self._passages = {} if dataset is None else dataset.passages()
        self._queries = {} if dataset is None else {query.id: query for query in dataset.queries}

    def item(self, key: Key) -> tuple[Query, tuple[Passage, ...]]:
        if not self._whole:
            unseen = tuple(cast("Passage", _UnseenPassage("passage", each)) for each in key[1])
            return cast("Query", _Unseen("query", key[0])), unseen
        gone = [each for each in key[1] if each not in self._passages]
        if key[0] not in self._queries or gone:
            raise DataError(
                f"query {key[0]!r} with passages {', '.join(key[1])} is not all in the data set; give the one that was "
                "labelled"
            )
        return self._queries[key[0]], tuple(self._passages[each] for each in key[1])
