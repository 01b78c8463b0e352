"""What judges and studies left in a run's folder, as sections of its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import UtilituneError
from utilitune.evaluation.rendering import DASH, interval, signed
from utilitune.evaluation.section import Section, section
from utilitune.records import read_json, read_rows

Json = Mapping[str, Any]


def findings(folder: Path) -> tuple[list[Section], list[str]]:
    """Read every file that a verb of ``READERS`` writes, wherever in the folder it lies.

    Args:
        folder: Output folder of a run.

    Returns:
        The sections, titles with the file they come from; and one note for each file that could not be read.
    """
    found: list[Section] = []
    notes: list[str] = []
    for name, read in READERS.items():
        for path in sorted(folder.rglob(name)):
            where = path.relative_to(folder).as_posix()
            try:
                made = read(path)
            except (UtilituneError, LookupError, TypeError, ValueError, AttributeError) as error:
                notes.append(f"{where} is not shown: it could not be read as {name} ({type(error).__name__}: {error}).")
                continue
            found += [each | {"title": f"{each['title']} ({where})"} for each in made]
    return found, notes


def _win_rates(path: Path) -> list[Section]:
    """Read what ``utilitune win-rate`` writes."""
    body = _json(path)
    convention = body["convention"]
    lines = []
    for each in body["pairs"]:
        rate = {one["convention"]: one for one in each["rates"]}[convention]
        within = rate["wilson"] or rate["interval"] or (None, None)
        units = rate["units"]
        lines.append(
            [
                each["dimension"],
                f"{each['system_a']} against {each['system_b']}",
                str(units),
                _number(rate["win_rate"], *within),
                _share(rate["ties"], units),
                _share(rate["losses"], units),
                _share(each["order_consistency"]["same"], each["order_consistency"]["of"]),
                _share(each["first_position"]["wins"], each["first_position"]["of"]),
            ]
        )
    head = ["dimension", "systems", "n", "win rate", "ties", "losses", "same in both orders", "first wins"]
    notes = [f"Convention {convention}; brackets: 95 % interval.", _counted(body["counts"]), *body["warnings"]]
    made = [section("Win rate", head, lines, notes)]
    strengths = [
        [dimension, place["system"], signed(place["strength"]) + interval(low, high, sign=True)]
        for dimension, one in body["bradley_terry"].items()
        if len(one["strengths"]) > 2
        for place in one["strengths"]
        for low, high in [place["interval"] or (None, None)]
    ]
    if strengths:
        made.append(section("Win rate, Bradley–Terry", ["dimension", "system", "strength (log-odds)"], strengths))
    return made


def _agreement(path: Path) -> list[Section]:
    """Read what ``utilitune judge agreement`` writes."""
    lines = []
    for name, group in _json(path)["groups"].items():
        for each in group["conventions"]:
            labels = each["labels"]
            lines.append(
                [
                    name,
                    each["convention"],
                    _number(each["right"], *(each["right_interval"] or (None, None))),
                    str(each["right_of"]),
                    _number(labels["kappa"], *(labels["kappa_interval"] or (None, None))),
                    _share(group["order_consistency"]["same"], group["order_consistency"]["of"]),
                ]
            )
        longer = group["longer_answer"]
        lines.append([name, "(longer answer)", _number(longer["right"]), str(longer["of"]), DASH, DASH])
    head = ["rows", "convention", "agrees with people (chance .500)", "of", "κ", "same in both orders"]
    return [section("Judge against people", head, lines, ["Brackets: 95 % bootstrap over rows."])]


def _marks(path: Path) -> list[Section]:
    """Read what ``utilitune judge answers`` writes, where it is named ``marks.jsonl``."""
    marks = Counter(str(row["mark"] or row["status"]) for _, row in read_rows(path))
    lines = [[mark, str(count), _share(count, marks.total())] for mark, count in marks.most_common()]
    return [section("Answers, marked by a judge", ["mark", "answers", "share"], lines)]


def _signal(path: Path) -> list[Section]:
    """Read what ``utilitune study signal`` writes."""
    body = _json(path)
    lines = [
        [
            each["name"],
            *(_number(each[kind]["share"], each[kind]["low"], each[kind]["high"]) for kind in ("hard", "random")),
            _number(each["rank"]["mrr"], each["rank"]["low"], each["rank"]["high"]),
            *(_number(each[kind]["auroc"], each[kind]["low"], each[kind]["high"]) for kind in ("gold", "right")),
            str(each["hard"]["questions"]),
        ]
        for each in body["utilities"]
    ]
    head = ["utility", "beats hard", "beats random", "MRR of gold", "AUROC gold", "AUROC right", "questions"]
    note = "Share of hard distractors, of random passages, that the gold passage beats (chance .500). Brackets: 95 %."
    return [section("Which utility carries a signal", head, lines, [note, _counted(body["counts"]), *body["notes"]])]


def _correlation(path: Path) -> list[Section]:
    """Read what ``utilitune study correlation`` writes."""
    body = _json(path)
    means = [each for each in body["correlations"] if each["k"] is None]
    by_k = {(each["system"], each["metric"], each["k"]): each["spearman"]["value"] for each in body["correlations"]}
    ks = sorted({k for _, _, k in by_k if k is not None})
    bases = list(dict.fromkeys(base for each in means for base in each["versus"]))
    lines = [
        [
            *(each["metric"], each["system"], _estimate(each["spearman"])),
            *(_versus(each["versus"].get(base)) for base in bases),
            *(_short(by_k.get((each["system"], each["metric"], k))) for k in ks),
        ]
        for each in means
    ]
    head = ["metric", "lists of", "mean ρ", *(f"Δ to {base}" for base in bases), *(f"k={k}" for k in ks)]
    note = (
        "ρ: Spearman, metric of a list against whether the answer from it is right; Δ: ρ less that of the metric "
        "named, and their ratio less 1. Brackets: 95 % bootstrap over questions."
    )
    notes = [note, _counted(body["counts"]), *body["notes"]]
    made = [section("Does the metric predict the answer?", head, lines, notes)]
    if body.get("position"):
        made.append(_position(body["position"]))
    if body.get("ideal"):
        made.append(_ideal(body["ideal"]))
    return made


def _position(study: Json) -> Section:
    metrics = list(study["positions"][0]["metrics"])
    lines = [
        [str(each["place"]), *(_estimate(each[kind]) for kind in ("right", "abstained"))]
        + [_number(each["metrics"][name]) for name in metrics]
        for each in study["positions"]
    ]
    title = f"Place of the one relevant passage among {study['length']}, {study['questions']} questions"
    return section(title, ["place", "right", "abstained", *metrics], lines)


def _ideal(study: Json) -> Section:
    lines = [
        [each["rule"], *(_estimate(each[kind]) for kind in ("right", "wrong", "abstained"))] for each in study["rules"]
    ]
    title = f"Ideal rankings of {study['k']} passages, {study['questions']} questions"
    return section(title, ["best by", "right", "wrong", "abstained"], lines)


def _versus(found: Json | None) -> str:
    if found is None or found["difference"]["value"] is None:
        return DASH
    change, relative = found["difference"], found["relative"]
    ratio = "" if relative is None else f" ({relative:+.0%})".replace("-", "−")
    return signed(change["value"]) + interval(change["low"], change["high"], sign=True) + ratio


def _estimate(found: Json) -> str:
    return _number(found["value"], found["low"], found["high"])


def _json(path: Path) -> Json:
    body = read_json(path)
    if not isinstance(body, dict):
        raise ValueError(f"holds a {type(body).__name__}; expected an object")
    return body


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str:
    return DASH if value is None else f"{value:.3f}{interval(low, high)}"


def _short(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def _share(count: float, of: float) -> str:
    return f"{count / of:.3f}" if of else DASH


def _counted(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{kind} {count}" for kind, count in counts.items())


READERS: dict[str, Callable[[Path], list[Section]]] = {
    "win-rate.json": _win_rates,
    "agreement.json": _agreement,
    "marks.jsonl": _marks,
    "signal.json": _signal,
    "correlation.json": _correlation,
}
"""By file name, in the order of the page."""
