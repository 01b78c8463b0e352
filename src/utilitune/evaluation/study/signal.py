"""The signal study: how good utilities are as labels, measured on questions whose gold passage is known."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from utilitune.errors import ConfigError
from utilitune.evaluation.study.signal_cases import DISTRACTORS, RANDOM, SEED, SignalCase, choose_cases
from utilitune.evaluation.study.signal_scores import score_utilities
from utilitune.evaluation.study.signal_study import PairRow, SignalStudy, Timing, UtilitySignal
from utilitune.generator.protocol import Generator, Prompt, Task
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels
from utilitune.records.manifest import manifest
from utilitune.scoring.answer_match import usable_golds
from utilitune.scoring.labelling import MAX_FAILED, Specs, label_sets
from utilitune.scoring.protocol import Utility
from utilitune.scoring.registry import make_utility

DEFAULT_UTILITIES = (
    "grogu:mean-entropy",
    "question-gain",
    "joint-gain",
    "information-gain",
    "entropy-drop",
    "grogu:max-entropy",
    "grogu:key-entropy",
)
"""No gold answers needed; the paper's own first, which the others are compared with."""
RIGHT_BY = ("contains", "EM")
STORE_SHARE = 0.01
"""Share of responses from the store above which the wall time says nothing about a pair."""


def study_signal(
    dataset: Dataset,
    generator: Generator,
    utilities: Specs = DEFAULT_UTILITIES,
    *,
    distractors: int = DISTRACTORS,
    random: int = RANDOM,
    limit: int | None = None,
    seed: int = SEED,
    store: Path | str | None = None,
    allow_answers: bool = False,
    answer_measure: str = "contains",
    answer_prompt: str = "answer",
    relevant_from: float | None = None,
    max_failed: float = MAX_FAILED,
    command: str = "study signal",
) -> SignalStudy:
    """Measure how good utilities are as labels.

    For every question with a gold passage, the gold passage, hard BM25 distractors and random passages are labelled
    with all utilities (one call of ``label_sets``, so forward passes are shared). The generator's greedy answer from
    each passage is scored against the gold answers once, with one prompt, whatever prompts the utilities use.

    Args:
        dataset: Corpus, questions (with ``answers`` for the part about right answers), judgements.
        generator: The LLM.
        utilities: What to study; see ``make_utility``. The first is what the others are compared with.
        distractors: Hard distractors a question, >= 0.
        random: Random passages a question, >= 0.
        limit: Questions at most, in seeded order; a larger limit extends a smaller one.
        seed: Seed of the order, the random passages and all resampling.
        store: Label store file, so that a second run is free and a killed one goes on; ``None`` keeps nothing.
        allow_answers: Whether a distractor's text may contain a gold answer.
        answer_measure: When an answer is right: ``"contains"`` or ``"EM"``, any gold answer.
        answer_prompt: Packaged prompt or prompt file that the answers are given to.
        relevant_from: Grade from which a passage is gold; see ``choose_cases``.
        max_failed: Share of failed or invalid labels above which to stop, in [0, 1].
        command: What the manifest says was run.

    Returns:
        The study.

    Raises:
        ConfigError: For an unknown utility, answer measure or option.
        DataError: If no question has a gold passage in the corpus and a passage to compare it with.
        ThresholdError: If too many labels failed; responses got so far are in the store.
    """
    judge = answer_judge(answer_measure, answer_prompt)
    if not utilities:
        raise ConfigError("no utility given; name at least one, such as information-gain")
    wanted = [make_utility(spec) for spec in utilities]
    chosen = choose_cases(
        dataset,
        distractors=distractors,
        random=random,
        limit=limit,
        seed=seed,
        allow_answers=allow_answers,
        relevant_from=relevant_from,
    )
    answered = any(usable_golds(case.query.answers) for case in chosen.cases)
    items = [(case.query, (passage,)) for case in chosen.cases for _, passage in case.candidates()]
    _read_weights(generator, store)
    started = time.perf_counter()
    labels = label_sets(items, [*wanted, judge] if answered else wanted, generator, store=store, max_failed=max_failed)
    timing = _timing(time.perf_counter() - started, len(items), labels)
    names = list(dict.fromkeys(utility.name for utility in wanted))
    pairs = _pairs(chosen.cases, labels, names, judge.name if answered else None)
    signals = score_utilities(names, pairs, _left_out(labels), seed=seed)
    counts = {**chosen.counts, "pairs": len(pairs), **_answer_counts(pairs)}
    notes = [*_constant(labels, names), *_notes(signals, counts, timing, answered)]
    made = manifest(
        command,
        seed=seed,
        data={"name": dataset.name, **chosen.facts},
        options={
            "distractors": distractors,
            "random": random,
            "limit": limit,
            "allow_answers": allow_answers,
            "answer_measure": answer_measure,
            "answer_prompt": answer_prompt,
            "relevant_from": relevant_from,
            "max_failed": max_failed,
        },
        **{key: labels.manifest[key] for key in ("label_sets", "generator", "generator_counts")},
        label_counts=labels.manifest["counts"],
        counts=counts,
    )
    return SignalStudy(signals, pairs, counts, timing, notes, made)


def answer_judge(measure: str = "contains", prompt: str = "answer") -> Utility:
    """Return the utility that is 1 where the generator's greedy answer from a passage is right, else 0.

    Args:
        measure: ``"contains"`` or ``"EM"``.
        prompt: Packaged prompt or prompt file.

    Returns:
        The utility.

    Raises:
        ConfigError: For another measure, or an unknown prompt.
    """
    if measure not in RIGHT_BY:
        raise ConfigError(f"unknown answer measure {measure!r}; known here: {', '.join(RIGHT_BY)}")
    return make_utility({"name": "erag", "metric": measure, "prompt": prompt})


def _read_weights(generator: Generator, store: Path | str | None) -> None:
    """Ask for one number, so that weights which are read at the first request are not timed with the labels.

    A store that is there may answer everything, and then the weights are never needed (nor anything timed).
    """
    if store is None or not Path(store).exists():
        generator.run([Task(Prompt.of("1 2"), continuations=(" 3",))])


def _timing(seconds: float, pairs: int, labels: Labels) -> Timing:
    counts = labels.manifest["counts"]
    computed, from_store = counts["store_misses"], counts["store_hits"]
    timed = from_store <= STORE_SHARE * (computed + from_store)
    return Timing(seconds, pairs, computed, from_store, seconds / pairs if timed else None)


def _pairs(cases: Sequence[SignalCase], labels: Labels, names: Sequence[str], judge: str | None) -> list[PairRow]:
    tables = {name: labels.table(name) for name in names}
    right = labels.table(judge) if judge is not None else {}
    rows = []
    for case in cases:
        places: Counter[str] = Counter()
        for role, passage in case.candidates():
            places[role] += 1
            found = right.get(case.query.id, {}).get(passage.id)
            numbers = {name: tables[name].get(case.query.id, {}).get(passage.id) for name in names}
            rows.append(
                PairRow(
                    case.query.id,
                    role,
                    places[role],
                    passage.id,
                    None if found is None else found > 0,
                    {name: number for name, number in numbers.items() if number is not None},
                )
            )
    return rows


def _left_out(labels: Labels) -> dict[str, dict[str, int]]:
    """Count labels without a number by utility and status."""
    counts: dict[str, Counter[str]] = {}
    for row in labels:
        if row.status != "ok":
            counts.setdefault(row.name, Counter())[row.status] += 1
    return {name: dict(statuses) for name, statuses in counts.items()}


def _constant(labels: Labels, names: Sequence[str]) -> list[str]:
    """Return what labelling warned of: utilities that hardly vary."""
    found: dict[str, str] = labels.manifest["warnings"]
    return [message for label_set, message in found.items() if label_set.partition("@")[0] in names]


def _answer_counts(pairs: Sequence[PairRow]) -> dict[str, int]:
    return {
        "pairs with a right answer": sum(row.right is True for row in pairs),
        "pairs with a wrong answer": sum(row.right is False for row in pairs),
        "pairs whose answer is unknown": sum(row.right is None for row in pairs),
    }


def _notes(signals: Sequence[UtilitySignal], counts: Mapping[str, int], timing: Timing, answered: bool) -> list[str]:
    notes = []
    for signal in signals:
        if signal.std == 0:
            notes.append(f"{signal.name}: all {signal.n} labels are equal: it tells no two passages apart")
        if signal.left_out:
            spelled = ", ".join(f"{count} {status}" for status, count in signal.left_out.items())
            notes.append(
                f"{signal.name}: {spelled} label(s) have no number and are left out, "
                f"{signal.questions_left_out} question(s) with them"
            )
    if not answered:
        notes.append("no question has a gold answer: τ and AUROC with right answers are not there")
    elif not counts["pairs with a right answer"] or not counts["pairs with a wrong answer"]:
        kind = "right" if counts["pairs with a right answer"] else "wrong"
        notes.append(f"every answer is {kind}: τ and AUROC with right answers are not there")
    if timing.seconds_a_pair is None:
        total = timing.computed + timing.from_store
        notes.append(
            f"{timing.from_store} of {total} responses came from the store and are not timed: seconds a pair are not "
            "there; a new --store times everything"
        )
    return notes
