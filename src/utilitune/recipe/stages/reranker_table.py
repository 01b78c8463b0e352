"""The reranker's tables: every order of the candidates, by retrieval measures, UDCG, answers and distraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from utilitune.evaluation import Row, Table, UdcgTheta, evaluate, ranking, significance
from utilitune.evaluation.udcg import passages_at_k
from utilitune.progress import warn
from utilitune.recipe.stages.answer_values import ANSWER_MEASURES, add_values
from utilitune.recipe.stages.distraction import BARE, JUDGED, made_wrong
from utilitune.recipe.stages.reranker_reading import THETA_FILE, WHY_NOT, U
from utilitune.recipe.stages.reranker_systems import (
    BY_GOLD,
    BY_JUDGEMENTS,
    FIRST,
    MIXED,
    TUNED,
    WARM,
    answer_file,
    gold_order,
    model_folders,
    orders,
    reranked_rows,
    slug,
)
from utilitune.recipe.workspace import Workspace, judged_part
from utilitune.records import Answer, Dataset, Run, read_answers, read_json, read_labels

TITLE = "Reranker: stand-alone test questions"


@dataclass
class Measured:
    """What the tables are made of.

    Attributes:
        asked: The test questions.
        judged: The judged ones among them.
        answered: Whether there are answers and gold answers to compare them with.
        columns: The measures, in order.
        notes: What a reader must know.
        utilities: UDCG's u, ``None`` where it was not labelled.
        theta: UDCGθ, ``None`` where it was not fitted.
    """

    asked: Dataset
    judged: Dataset
    answered: bool
    columns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    utilities: Mapping[str, Mapping[str, float]] | None = None
    theta: UdcgTheta | None = None


def reranker_tables(workspace: Workspace) -> list[Table | str]:
    """Return the reranker's tables, or why there is none.

    Without rivals it is one table with a block for each retriever; with rivals each retriever has a table of its own,
    and where the judgements are among the rivals a second one sets the others against them.
    """
    recipe = workspace.recipe
    queries = workspace.queries("test_questions", recipe.reranker.test_queries)
    asked, judged = workspace.dataset.subset(queries), judged_part(workspace.dataset, queries)
    answered = workspace.done("answer") and any(query.answers for query in queries)
    if not judged.queries and not answered:
        return [f"Reranker: none of the {len(queries)} test questions is judged or has answers, so it is not measured."]
    measured = Measured(asked, judged, answered, notes=_training_notes(workspace))
    _choose_columns(workspace, measured)
    blocks = {name: _block(workspace, measured, name, runs) for name, runs in orders(workspace).items()}
    leading = recipe.evaluation.reranker_measures if judged.queries else measured.columns[:1]
    warnings = {name: _worse(name, rows, measured.columns, leading) for name, rows in blocks.items()}
    if not recipe.reranker.rivals:
        notes = [*(line for lines in reversed(warnings.values()) for line in lines), *measured.notes]
        rows = [row for block in blocks.values() for row in block.values()]
        return [Table(TITLE, measured.columns, rows, FIRST, reranked_rows(recipe.reranker), notes)]
    made: list[Table | str] = []
    for name, block in blocks.items():
        notes = [*warnings[name], *_kept_gain(block, measured.columns), *_weights(workspace, name), *measured.notes]
        title = f"Reranker over {name}: stand-alone test questions"
        made.append(Table(title, measured.columns, [*block.values()], FIRST, reranked_rows(recipe.reranker), notes))
        if BY_JUDGEMENTS in block:
            made.append(_against_judgements(name, block, measured.columns))
    return made


def _choose_columns(workspace: Workspace, measured: Measured) -> None:
    """Fill in columns, utilities and notes from what the stages left."""
    recipe, columns, notes = workspace.recipe, measured.columns, measured.notes
    if measured.judged.queries:
        columns += recipe.evaluation.reranker_measures
        if workspace.done("utility"):
            labels = read_labels(workspace.folder("utility") / "labels.jsonl")
            measured.utilities = labels.table(U)
            columns.append(f"UDCG@{recipe.evaluation.udcg_k}")
            notes += [str(warning) for warning in labels.manifest.get("warnings", {}).values()]
            _read_theta(workspace, measured)
    else:
        notes.append(
            f"None of the {len(measured.asked.queries)} test questions is judged, so retrieval is not measured."
        )
    if measured.answered:
        ks = recipe.evaluation.answer_ks
        columns += ANSWER_MEASURES if len(ks) == 1 else [f"contains@{k}" for k in ks]
        notes.append(f"Answers of {recipe.generator} with the top {', '.join(map(str, ks))} passages.")
        if recipe.evaluation.distraction:
            columns += [f"distracted@{k}" for k in ks]
            notes.append(
                "distracted@k (lower is better): share of questions answered wrong, without abstaining, from the top k "
                "that the generator got right or abstained on without any passage, or, where a relevant passage is "
                "among the k, got right with the relevant passages alone."
            )


def _read_theta(workspace: Workspace, measured: Measured) -> None:
    if not workspace.done("fit-theta"):
        return
    folder = workspace.folder("fit-theta")
    if not (folder / THETA_FILE).is_file():
        measured.notes.append(f"UDCGθ is left out: {read_json(folder / WHY_NOT)['reason']}.")
        return
    measured.theta = UdcgTheta.load(folder / THETA_FILE)
    measured.columns.append(f"UDCGθ@{measured.theta.k}")
    measured.notes.append(
        f"UDCGθ was fitted on {measured.theta.n} training questions, the first stage's best passages in a drawn order."
    )


def _block(workspace: Workspace, measured: Measured, name: str, runs: Mapping[str, Run]) -> dict[str, Row]:
    """Return the rows of a retriever."""
    recipe = workspace.recipe
    rows: dict[str, Row] = {}
    if measured.judged.queries:
        shown = runs if BY_GOLD in runs else {**runs, BY_GOLD: gold_order(workspace, runs[FIRST])}
        add_values(rows, evaluate(measured.judged, shown, recipe.evaluation.reranker_measures).rows())
        if measured.utilities is not None:
            # Of the orders whose passages were labelled: the best order is, where ``reranker.oracle`` asked for it.
            columns = [f"UDCG@{recipe.evaluation.udcg_k}"]
            add_values(rows, evaluate(measured.judged, runs, columns, utilities=measured.utilities).rows())
            add_values(rows, [Row(row, _theta_values(measured, run)) for row, run in runs.items()])
    if measured.answered:
        add_values(rows, _answer_rows(workspace, measured, name, list(runs)))
    return {row: replace(found, block=name) for row, found in rows.items()}


def _theta_values(measured: Measured, run: Run) -> dict[str, dict[str, float]]:
    theta, utilities = measured.theta, measured.utilities or {}
    if theta is None:
        return {}
    values = {}
    for query_id, grades in measured.judged.qrels.items():
        ids = [passage_id for passage_id, _ in ranking(run.get(query_id, ()))[: theta.k]]
        values[query_id] = theta(*passages_at_k(ids, utilities.get(query_id, {}), grades))
    return {f"UDCGθ@{theta.k}": values}


def _answer_rows(workspace: Workspace, measured: Measured, name: str, names: Sequence[str]) -> list[Row]:
    """Return the answers' measures of every row, by the number of passages."""
    folder, section = workspace.folder("answer"), workspace.recipe.evaluation
    ks = section.answer_ks
    wanted = ANSWER_MEASURES if len(ks) == 1 else ("contains",)
    found: dict[str, Row] = {}
    for k in ks:
        given = {row: read_answers(folder / answer_file(name, row, k, ks[0])) for row in names}
        for row in evaluate(measured.asked, {}, wanted, answers=given).rows():
            values = {(one if len(ks) == 1 else f"{one}@{k}"): own for one, own in row.values.items()}
            if section.distraction:
                values[f"distracted@{k}"] = _made_wrong(workspace, measured, given[row.name])
            counts = {(kind if len(ks) == 1 else f"{kind}, top {k}"): n for kind, n in row.counts.items()}
            add_values(found, [replace(row, values=values, counts=counts)])
    return list(found.values())


def _made_wrong(workspace: Workspace, measured: Measured, given: Sequence[Answer]) -> dict[str, float]:
    folder = workspace.folder("answer")
    bare, alone = (read_answers(folder / name) for name in (BARE, JUDGED))
    return made_wrong(measured.asked.queries, given, bare, alone)


def _against_judgements(name: str, block: Mapping[str, Row], columns: Sequence[str]) -> Table:
    """Return what was trained without a judgement, each against the same training on the judgements."""
    blocks = {f"{name}, reranker alone": "", f"{name}, first stage added": MIXED}
    rows = []
    for heading, ending in blocks.items():
        for row in block.values():
            trained = row.name.startswith("trained on ") or row.name.startswith(TUNED)
            if trained and row.name.endswith(MIXED) == bool(ending):
                rows.append(replace(row, name=row.name.removesuffix(MIXED), block=heading))
    title = f"Reranker over {name}: utility against judgements as labels"
    return Table(
        title, columns, rows, BY_JUDGEMENTS, list(dict.fromkeys(r.name for r in rows if r.name != BY_JUDGEMENTS))
    )


def _kept_gain(block: Mapping[str, Row], columns: Sequence[str]) -> list[str]:
    """Say how much of the gain of judged training each other training has, by the first measure of nDCG."""
    measure = next((one for one in columns if one.startswith("nDCG")), None)
    if measure is None:
        return []
    lines = []
    for ending in ("", MIXED):
        if f"{BY_JUDGEMENTS}{ending}" not in block:
            continue
        means = {name: _mean(row.values[measure]) for name, row in block.items() if measure in row.values}
        gold = means[f"{BY_JUDGEMENTS}{ending}"] - means[FIRST]
        others = [row for row in means if row.endswith(MIXED) == bool(ending) and row.startswith(("trained", TUNED))]
        parts = [f"{BY_JUDGEMENTS}{ending} {gold:+.3f}"]
        for row in others:
            if row != f"{BY_JUDGEMENTS}{ending}":
                gain = means[row] - means[FIRST]
                parts.append(f"{row} {gain:+.3f}" + (f" ({gain / gold:.0%} of it)" if gold > 0 else ""))
        lines.append(f"{measure}, gain over the first stage: {', '.join(parts)}.")
    return lines


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


def _weights(workspace: Workspace, name: str) -> list[str]:
    """Say which weight each reranker has beside the first stage, and what chose it."""
    if not workspace.recipe.reranker.interpolate:
        return []
    found = []
    for row in model_folders(workspace):
        own = read_json(workspace.folder("rerank") / f"{slug(row)}.json")["weights"][name]
        found.append(f"{row} {own['weight']:g} (on {own['questions']} questions, over {own['chosen_on']})")
    return [
        "Weight of the reranker beside the first stage, both as z-scores within the question, chosen by the training's "
        f"own labels on the training questions held out of it: {', '.join(found)}."
    ]


def _training_notes(workspace: Workspace) -> list[str]:
    """Say which epoch each reranker is of, and what its training warned about."""
    notes = []
    folders = [*reversed(model_folders(workspace).items())]
    folders += [(WARM, workspace.folder("warm-up"))] if workspace.recipe.reranker.warm_up else []
    for row, folder in folders:
        report = read_json(folder / "training.json")
        epoch = report["kept_epoch"]
        kept = (
            f"epoch {epoch} of {report['config']['epochs']}" if epoch else "the untrained model (no epoch was better)"
        )
        who = "Reranker" if row == TUNED else f"Reranker {row}"
        notes += [f"{who}: {kept} was kept.", *(f"{who} training: {warning}" for warning in report["warnings"])]
    if workspace.recipe.reranker.rivals:
        notes.append(f"The tuned reranker is trained on {', '.join(workspace.recipe.reranker.utilities)}.")
    return notes


def _worse(retriever: str, rows: Mapping[str, Row], columns: Sequence[str], leading: Sequence[str]) -> list[str]:
    """Return a warning, also given at once, where the reranker is worse than its first stage.

    That is a lower mean by a measure of ``leading``, or by any other one an interval below 0.
    """
    before, after = rows[FIRST].values, rows[TUNED].values
    lost = []
    for measure in columns:
        if measure.startswith("distracted"):
            continue
        found = significance(before[measure], after[measure])
        clear = found.high is not None and found.high < 0
        if found.difference is not None and found.difference < 0 and (measure in leading or clear):
            within = "" if found.low is None else f" [{found.low:+.3f}, {found.high:+.3f}]"
            lost.append(f"{measure} {found.before:.3f} ▶ {found.after:.3f} ({found.difference:+.3f}{within})")
    if not lost:
        return []
    message = f"WARNING: on {retriever} the tuned reranker is worse than its first stage: {'; '.join(lost)}"
    warn(message)
    return [f"{message}."]
