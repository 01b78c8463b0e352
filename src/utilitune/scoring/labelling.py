"""Labelling: every passage set, every utility, from as few forward passes as there are distinct requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation, Generator, Prompt
from utilitune.progress import progress, say, warn
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels, UtilityLabel
from utilitune.records.labels import write_labels
from utilitune.records.manifest import manifest
from utilitune.records.run import Run
from utilitune.records.share import check_share
from utilitune.scoring.answer_match import usable_golds
from utilitune.scoring.claims import Claims, chunk_id
from utilitune.scoring.failure import Failure
from utilitune.scoring.identity_change import identity_change
from utilitune.scoring.label_row import constant_sets, label_row, label_set_of, skipped_row
from utilitune.scoring.origin import Subject
from utilitune.scoring.protocol import Request, Rescore, Utility
from utilitune.scoring.registry import make_utility
from utilitune.scoring.responder import Responder
from utilitune.scoring.store import LabelStore
from utilitune.scoring.utility_call import requests_of
from utilitune.scoring.work_list import Item, chunks, items_of_run

# A chunk is what a kill can cost: seconds of work, and still enough prompts to fill a batch.
CHUNK_ITEMS = 64
MAX_FAILED = 0.05
COUNTED = (
    "labels",
    "ok",
    "failed",
    "invalid",
    "skipped",
    "truncated",
    "empty_answers",
    "cut_answers",
    "requests",
    "unique_requests",
    "store_hits",
    "store_misses",
)
Specs = Sequence[str | Mapping[str, Any] | Utility]


def label(
    dataset: Dataset,
    run: Run,
    utilities: Specs,
    generator: Generator,
    *,
    k: int = 10,
    store: Path | str | None = None,
    sets: bool = False,
    chunk_items: int = CHUNK_ITEMS,
    max_failed: float = MAX_FAILED,
) -> Labels:
    """Label the top ``k`` passages of every query with what they are worth to ``generator``.

    Args:
        dataset: Corpus and queries.
        run: Ranking a query.
        utilities: What to compute; see ``make_utility``. All share their forward passes.
        generator: The LLM. Its identity is part of every key, so it is loaded even when the store has
            everything; it is not called then.
        k: Passages a query, >= 1.
        store: Label store file, so that a second run is free and a killed one goes on; ``None`` keeps
            nothing.
        sets: Whether the top ``k`` are one set in one prompt; else one passage a prompt.
        chunk_items: Least number of passage sets between two commits (whole queries).
        max_failed: Share of failed or invalid labels above which to stop, in [0, 1].

    Returns:
        Labels in (query, rank, utility) order with their manifest.

    Raises:
        ConfigError: For an unknown utility or parameter.
        DataError: If run and data set share nothing, or the store file is no store.
        ThresholdError: If too many labels failed; responses got so far are in the store.
    """
    items, unpaired = _items(dataset, run, k, sets)
    labels = _label(items, utilities, generator, store, chunk_items, max_failed)
    labels.manifest["counts"].update(unpaired)
    _check(labels, max_failed)
    return labels


def label_sets(
    items: Sequence[Item],
    utilities: Specs,
    generator: Generator,
    *,
    store: Path | str | None = None,
    chunk_items: int = CHUNK_ITEMS,
    max_failed: float = MAX_FAILED,
) -> Labels:
    """Label given passage sets; the primitive under ``label``, with the same arguments and errors.

    Args:
        items: ``(query, passages)`` pairs; the items of one query stand together. No passages means the bare
            question.
        utilities: As ``label``.
        generator: As ``label``.
        store: As ``label``.
        chunk_items: As ``label``.
        max_failed: As ``label``.

    Returns:
        One row an item and utility, in the items' order.
    """
    labels = _label(items, utilities, generator, store, chunk_items, max_failed)
    _check(labels, max_failed)
    return labels


def label_file(
    out: Path | str,
    dataset: Dataset,
    run: Run,
    utilities: Specs,
    generator: Generator,
    *,
    k: int = 10,
    store: Path | str | None = None,
    sets: bool = False,
    chunk_items: int = CHUNK_ITEMS,
    max_failed: float = MAX_FAILED,
    command: str = "label",
) -> Labels:
    """Label and write ``out`` and its manifest; when too many failed, first the file, then the error.

    Args:
        out: Labels file (JSONL or Parquet).
        dataset: As ``label``.
        run: As ``label``.
        utilities: As ``label``.
        generator: As ``label``.
        k: As ``label``.
        store: As ``label``.
        sets: As ``label``.
        chunk_items: As ``label``.
        max_failed: As ``label``.
        command: What the manifest says was run.

    Returns:
        The labels written.
    """
    items, unpaired = _items(dataset, run, k, sets)
    labels = _label(items, utilities, generator, store, chunk_items, max_failed)
    labels.manifest["counts"].update(unpaired)
    labels.manifest["command"] = command
    write_labels(out, labels)
    _check(labels, max_failed)
    return labels


def _items(dataset: Dataset, run: Run, k: int, sets: bool) -> tuple[list[Item], Counter[str]]:
    if k < 1:
        raise ConfigError(f"k is {k}; expected a number of passages a query, at least 1")
    items, unpaired = items_of_run(dataset, run, k, sets)
    if unpaired:
        warn("label: " + ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in unpaired.items()))
    return items, unpaired


def _label(
    items: Sequence[Item],
    utilities: Specs,
    generator: Generator,
    store_path: Path | str | None,
    chunk_items: int,
    max_failed: float,
) -> Labels:
    if chunk_items < 1:
        raise ConfigError(f"chunk_items is {chunk_items}; expected at least 1")
    wanted = distinct_utilities(utilities, generator.identity.as_dict())
    total = len(items) * len(wanted)
    done: dict[int, list[UtilityLabel]] = {}
    counts: Counter[str] = Counter()
    generator_before = dict(generator.counts)
    pieces = list(chunks(items, chunk_items))
    with LabelStore(store_path) as store, progress("label", total, "labels") as bar:
        responder, claims = Responder(generator, store), Claims(store)
        changed = identity_change(store, generator.identity)
        ids = [_claimed_as(chunk, wanted) for chunk in pieces]
        # Closed before the store is, so that an error gives up what was claimed.
        with closing(claims.in_turn(pieces, ids)) as turns:
            for place, chunk in turns:
                missed = store.misses
                fresh = done[place] = _label_chunk(chunk, wanted, responder, counts)
                counts.update(row.status for row in fresh)
                counts.update(count_evidence(fresh))
                bar.advance(len(fresh), free=store.misses == missed)
                if changed and not store.hits:
                    say(f"label: {store.path} has none of these responses, they are computed anew; {changed}")
                changed = ""
                # Stop early only when the share of the whole is sure to be above the limit.
                if max(counts["failed"], counts["invalid"]) > max_failed * total:
                    warn(f"label: stopped after {bar.done} of {total} labels: too many failed")
                    break
        stats = store.stats()
    rows = [row for place in sorted(done) for row in done[place]]
    counts.update(labels=len(rows), store_hits=stats["hits"], store_misses=stats["misses"])
    counts["unique_requests"] = stats["hits"] + stats["misses"]
    constant = constant_sets(rows)
    say(
        f"label: {len(rows)} labels ({_spell(counts, ('ok', 'failed', 'invalid', 'skipped', 'truncated'))}); "
        f"{counts['requests']} requests, {counts['unique_requests']} distinct: "
        f"{stats['hits']} from the store, {stats['misses']} for the generator"
    )
    reasons = Counter(str(row.evidence.get("reason")) for row in rows if row.status in ("failed", "invalid"))
    for reason, count in reasons.most_common(1):
        warn(f"label: {reasons.total()} of {len(rows)} labels failed or invalid, most often ({count}): {reason}")
    for message in constant.values():
        warn(message)
    return Labels(rows, _manifest(wanted, generator, generator_before, counts, constant, total))


def distinct_utilities(utilities: Specs, identity: Mapping[str, Any]) -> dict[str, Utility]:
    """Return the utilities by label set; equal ones are one, different ones need different names.

    Args:
        utilities: As ``label``.
        identity: Identity of the generator, as its ``as_dict()`` gives it.

    Returns:
        Label set -> utility, in the order given.

    Raises:
        ConfigError: If none is given, or two of one name differ in parameters or code.
    """
    if not utilities:
        raise ConfigError("no utility given; name at least one, such as information-gain")
    wanted: dict[str, Utility] = {}
    named: dict[str, str] = {}
    for utility in map(make_utility, utilities):
        label_set = label_set_of(utility, identity)
        if label_set in wanted and _code(wanted[label_set]) != _code(utility):
            raise ConfigError(
                f"two utilities are named {utility.name!r} and have the same parameters but other code "
                f"({_code(wanted[label_set])}, {_code(utility)}); give one of them another name"
            )
        if named.setdefault(utility.name, label_set) != label_set:
            raise ConfigError(
                f"two utilities are named {utility.name!r} but differ in their parameters; tables by name "
                "would mix them: label them in two calls"
            )
        wanted[label_set] = utility
    return wanted


def _code(utility: Utility) -> str:
    """Name the class; the module of a file is named after the file."""
    return f"{type(utility).__module__}:{type(utility).__qualname__}"


def _label_chunk(
    chunk: Sequence[Item], wanted: Mapping[str, Utility], responder: Responder, counts: Counter[str]
) -> list[UtilityLabel]:
    asked: list[tuple[Item, str, Utility, Mapping[str, Request] | None]] = []
    for item in chunk:
        for label_set, utility in wanted.items():
            without = utility.needs_answers and not usable_golds(item[0].answers)
            asked.append((item, label_set, utility, None if without else requests_of(utility, item)))
    requests = [request for *_, named in asked if named for request in named.values()]
    subjects: dict[Prompt, Subject] = {}
    for item, _, utility, named in asked:
        for request in (named or {}).values():
            subjects.setdefault(request.prompt, _subject(item, utility, request.prompt))
            if isinstance(request, Rescore):
                subjects.setdefault(request.of.prompt, _subject(item, utility, request.of.prompt))
    counts["requests"] += len(requests)
    responses: Mapping[Request, Continuation | Failure] = responder.respond(requests, subjects)
    return [
        skipped_row(item, label_set, "the query has no gold answers")
        if named is None
        else label_row(item, label_set, utility, {name: responses[each] for name, each in named.items()})
        for item, label_set, utility, named in asked
    ]


def _claimed_as(chunk: Sequence[Item], wanted: Mapping[str, Utility]) -> bytes:
    """Name a chunk by its label sets (which hash the generator too) and the ids it is about."""
    about = [part for query, passages in chunk for part in (query.id, query.text, *(each.id for each in passages))]
    return chunk_id([*wanted, *about])


def _subject(item: Item, utility: Utility, prompt: Prompt) -> Subject:
    """Say what a prompt of an item is about; a prompt without the passages is about the bare question."""
    query, passages = item
    shown = {"", *prompt.trim}
    ids = tuple(each.id for each in passages if each.text in shown) if prompt.trim else ()
    named = utility.parameters
    return Subject(query.id, ids, str(named.get("prompt", "")), str(named.get("prompt_hash", "")))


def count_evidence(rows: Iterable[UtilityLabel]) -> Counter[str]:
    """Count rows whose passages were shortened, whose answer is empty, and whose answer met its length limit."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts["truncated"] += bool(row.evidence.get("truncated"))
        counts["empty_answers"] += row.evidence.get("answer") == ""
        first = next((each for each in row.evidence.values() if isinstance(each, Mapping) and "finish" in each), {})
        counts["cut_answers"] += first.get("finish") == "length"
    return counts


def _manifest(
    wanted: Mapping[str, Utility],
    generator: Generator,
    generator_before: Mapping[str, int],
    counts: Counter[str],
    constant: Mapping[str, str],
    total: int,
) -> dict[str, Any]:
    counted = {kind: counts[kind] for kind in COUNTED}
    return manifest(
        "label",
        label_sets={
            label_set: {"utility": utility.name, "parameters": dict(utility.parameters)}
            for label_set, utility in wanted.items()
        },
        generator=generator.identity.as_dict(),
        counts={**counted, "planned": total},
        generator_counts={kind: count - generator_before.get(kind, 0) for kind, count in generator.counts.items()},
        warnings=dict(constant),
    )


def _spell(counts: Mapping[str, int], kinds: Sequence[str]) -> str:
    return ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in kinds)


def _check(labels: Labels, max_failed: float) -> None:
    for kind in ("failed", "invalid"):
        check_share(labels.manifest["counts"], kind, labels.manifest["counts"]["planned"], max_failed, "labels")
