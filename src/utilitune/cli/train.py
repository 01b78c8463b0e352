"""``utilitune train rewriter``, ``utilitune train reranker`` and, from its own file, ``utilitune train retriever``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from utilitune.cli import train_retriever
from utilitune.cli.data import BadLine, open_data, open_index
from utilitune.cli.options import DEFAULT_GENERATOR, Data, GeneratorSpec, OnBadLine, Out, Quiet, Store, warn_of_unused
from utilitune.cli.out import check_folder
from utilitune.cli.pairs import DEFAULT_UTILITIES, named
from utilitune.errors import ConfigError
from utilitune.progress import warn

if TYPE_CHECKING:
    from utilitune.rewrite import TrainingReport

Config = TypeVar("Config", bound=BaseModel)
app = typer.Typer(
    help="Train a rewriter on pairs, a reranker or a retriever on labels; export a rewriter.", no_args_is_help=True
)


GRPO_ONLY = {
    "data": "--data",
    "index": "--index",
    "generator": "--generator",
    "utility": "--utility",
    "k": "-k",
    "aggregate": "--aggregate",
    "anchors": "--anchors",
    "fused": "--fused",
    "generations": "--generations",
    "store": "--store",
}
"""Options of the live reward."""


@app.command("rewriter")
def rewriter(
    context: typer.Context,
    pairs: Annotated[Path, typer.Argument(help="Pairs of `utilitune pairs`.", show_default=False)],
    out: Out,
    method: Annotated[
        str, typer.Option(help="sft: imitate the best rewrites; dpo: prefer; grpo: live reward, needs --data, --index.")
    ] = "dpo",
    start: Annotated[Path | None, typer.Option(help="Trained adapter to go on from, such as that of sft.")] = None,
    reference: Annotated[str, typer.Option(help="dpo: compare with the start or with the base.")] = "start",
    base: Annotated[str, typer.Option(help="Model to tune.")] = DEFAULT_GENERATOR,
    revision: Annotated[str, typer.Option(help="Commit that a Hub id is pinned to.")] = "",
    beta: Annotated[
        float | None, typer.Option(help="Pull towards the reference. dpo 0.1, grpo 0.", show_default=False)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate. sft, dpo 1e-4, grpo 2e-5.", show_default=False)
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the rows. sft, dpo 2, grpo 1.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs, rewrites or questions a step.")] = 4,
    lora_r: Annotated[int, typer.Option(min=1, help="LoRA rank.")] = 16,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens of prompt and rewrite together.")] = 512,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a rewrite, as when it was sampled.")] = 40,
    save_every: Annotated[int, typer.Option(min=0, help="Steps between checkpoints.")] = 50,
    report_to: Annotated[
        list[str] | None, typer.Option(help="Tracker, again for more; TensorBoard where it is installed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed.")] = 13,
    data: Annotated[Path | None, typer.Option(help="grpo: the BEIR folder of the pairs.")] = None,
    index: Annotated[list[Path] | None, typer.Option("--index", "-i", help="grpo: index folder.")] = None,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    utility: Annotated[list[str] | None, typer.Option("--utility", "-u", help="grpo: of the reward.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="grpo: passages a rewrite.")] = 3,
    aggregate: Annotated[str, typer.Option(help="grpo: mean, max, top-1, discounted, expected-mrr or set.")] = "max",
    fused: Annotated[bool, typer.Option("--fused", help="grpo: one ranking fused over the indexes.")] = False,
    anchors: Annotated[
        Path | None, typer.Option(help="grpo: candidates to compare with, as `pairs` writes beside its OUT.")
    ] = None,
    generations: Annotated[int, typer.Option(min=2, help="grpo: rewrites sampled a question.")] = 6,
    store: Store = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest complete checkpoint.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a query rewriter on a LoRA adapter: by imitation, by preference, or by a live utility.

    Example: utilitune train rewriter pairs.jsonl --method dpo --out my-rewriter
    """
    check_folder(out)
    if method not in METHODS:
        raise ConfigError(f"--method: found {method!r}, expected one of: {', '.join(METHODS)}")
    if method != "grpo":
        warn_of_unused(context, GRPO_ONLY, f"train rewriter: --method {method} reads pairs alone")
    settings: dict[str, Any] = {
        "lr": lr,
        "epochs": epochs,
        "batch_size": batch_size,
        "lora_r": lora_r,
        "max_length": max_length,
        "max_new_tokens": max_new_tokens,
        "save_every": save_every,
        "report_to": tuple(report_to) if report_to else None,
        "seed": seed,
        "beta": None if method == "sft" else beta,
        "reference": reference if method == "dpo" else None,
        "generations": generations if method == "grpo" else None,
    }
    live = Live(
        data, tuple(index or ()), generator, tuple(utility or DEFAULT_UTILITIES), k, aggregate, fused, store, anchors
    )
    job = Job(pairs, {"model": base, "revision": revision}, out, start, settings, live, resume)
    report = METHODS[method](job)
    typer.echo(report.reading)
    typer.echo(f"adapter written to {out}")


@dataclass(frozen=True)
class Live:
    """Options of the live reward, as given."""

    data: Path | None
    indexes: tuple[Path, ...]
    generator: str
    utilities: tuple[str, ...]
    k: int
    aggregate: str
    fused: bool
    store: Path | None
    anchors: Path | None


@dataclass(frozen=True)
class Job:
    """A training as asked for."""

    pairs: Path
    base: dict[str, str]
    out: Path
    start: Path | None
    settings: dict[str, Any]
    live: Live
    resume: bool


def _sft(job: Job) -> TrainingReport:
    from utilitune.records import read_pairs
    from utilitune.rewrite import SftConfig, train_sft

    config = _config(SftConfig, job.settings)
    return train_sft(list(read_pairs(job.pairs)), job.base, job.out, config, start=job.start, resume=job.resume)


def _dpo(job: Job) -> TrainingReport:
    from utilitune.records import read_pairs
    from utilitune.rewrite import DpoConfig, train_dpo

    config = _config(DpoConfig, job.settings)
    return train_dpo(list(read_pairs(job.pairs)), job.base, job.out, config, start=job.start, resume=job.resume)


def _grpo(job: Job) -> TrainingReport:
    from utilitune.records import read_pairs
    from utilitune.rewrite import GrpoConfig, LiveReward, read_candidates, train_grpo
    from utilitune.rewrite.aggregate import check_names
    from utilitune.scoring import make_utility

    config, live = _config(GrpoConfig, job.settings), job.live
    if live.data is None or not live.indexes:
        raise ConfigError("--method grpo: the live reward retrieves and labels; give --data FOLDER and --index INDEX")
    check_names(live.aggregate, "raw")
    utilities = [make_utility(name) for name in live.utilities]
    dataset = open_data(live.data)
    wanted = dict.fromkeys(pair.query_id for pair in read_pairs(job.pairs))
    queries = [query for query in dataset.queries if query.id in wanted]
    if not queries:
        raise ConfigError(f"--data: none of the {len(wanted)} questions of {job.pairs} is in {live.data}")
    if len(queries) < len(wanted):
        warn(f"{len(wanted) - len(queries)} of {len(wanted)} questions of {job.pairs} are not in {live.data}")
    anchors = read_candidates(live.anchors) if live.anchors else ()
    from utilitune.generator import load_generator

    reward = LiveReward(
        queries,
        {name: open_index(folder, dataset) for name, folder in named(live.indexes).items()},
        dataset.corpus,
        utilities,
        load_generator(live.generator),
        k=live.k,
        aggregate=live.aggregate,
        fused=live.fused,
        store=live.store or job.out / "store.sqlite",
        anchors=anchors,
    )
    return train_grpo(queries, job.base, job.out, reward, config, start=job.start, resume=job.resume)


METHODS: dict[str, Callable[[Job], TrainingReport]] = {"sft": _sft, "dpo": _dpo, "grpo": _grpo}


def _config(kind: type[Config], settings: dict[str, Any]) -> Config:
    try:
        return kind(**{name: value for name, value in settings.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(_options_at_fault(error)) from None


def _options_at_fault(error: ValidationError) -> str:
    problems = [
        f"  {''.join(f'--{key}' for key in problem['loc']).replace('_', '-') or '--'}: {problem['msg']} "
        f"(found {problem['input']!r})"
        for problem in error.errors()
    ]
    return "\n".join([f"train rewriter: {len(problems)} problem(s)", *problems])


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a trained rewriter.", show_default=False)],
    out: Out,
    merge: Annotated[bool, typer.Option("--merge", help="Write the whole model, float32, instead of the adapter.")] = (
        False
    ),
    base: Annotated[str | None, typer.Option(help="Where the base is, when it has moved.")] = None,
    recipe: Annotated[str, typer.Option(help="Recipe that made it, for the card.")] = "",
    metric: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the card, such as 'qrecc MRR@10=0.54'; again for more.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Export a rewriter in the form of the Hugging Face Hub, with a model card; it loads without a network.

    Example: utilitune train export my-rewriter --out my-rewriter-hub
    """
    from utilitune.rewrite import export_rewriter

    check_folder(out)
    metrics = {}
    for text in metric or []:
        name, _, value = text.rpartition("=")
        try:
            metrics[name] = float(value)
        except ValueError:
            raise ConfigError(f"--metric: found {text!r}, expected NAME=VALUE with a number") from None
    export_rewriter(folder, out, merge=merge, base=base, recipe=recipe, metrics=metrics)
    typer.echo(f"{'model' if merge else 'adapter'} and card written to {out}")


app.command("retriever")(train_retriever.command)


@app.command("reranker")
def reranker(
    data: Data,
    labels: Annotated[Path, typer.Option(help="Labels of `utilitune label`.")],
    out: Out,
    utility: Annotated[
        list[str] | None, typer.Option("--utility", "-u", help="Which labels to use; all when not given.")
    ] = None,
    base: Annotated[str, typer.Option(help="Encoder or decoder to start from.")] = "packaged:all-minilm-l6-v2",
    head: Annotated[
        str, typer.Option(help="classification: a new layer; similarity: cosine of the texts, ranks before training.")
    ] = "classification",
    decoder: Annotated[
        str | None,
        typer.Option(
            help="A LoRA adapter on a causal language model that scores by yes-no (logits) or classification."
        ),
    ] = None,
    lora_r: Annotated[int, typer.Option(min=1, help="With --decoder: LoRA rank.")] = 16,
    loss: Annotated[str, typer.Option(help="Loss name; a wrong one lists them.")] = "listwise-kl",
    rescale: Annotated[
        str | None,
        typer.Option(help="min-max, z-score, rank, softmax or none, within each query; by the loss when not given."),
    ] = None,
    relevance: Annotated[
        str | None, typer.Option(help="Sign UDCG's utility: gold, answer, or a utility that stands in for relevance.")
    ] = None,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="With --relevance: weight of distraction.")] = 1 / 3,
    choose_by: Annotated[
        str, typer.Option(help="What the best epoch is chosen by: nDCG@10, or utility@5 (UDCG@5 with --relevance).")
    ] = "nDCG@10",
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the groups.")] = 3,
    batch_pairs: Annotated[int, typer.Option(min=1, help="(question, passage) pairs a step.")] = 32,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens of question and passage together.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed.")] = 13,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Train a cross-encoder on utility labels. The folder loads in sentence_transformers.CrossEncoder.

    Example: utilitune train reranker my-data --labels labels.jsonl --out my-reranker
    """
    from utilitune.records import read_labels
    from utilitune.rerank import LOSSES, DecoderConfig, Relevance, RerankerConfig, build_groups, train_reranker
    from utilitune.scoring import make_utility

    check_folder(out)
    config = RerankerConfig(
        head=head,
        loss=loss,
        learning_rate=lr,
        epochs=epochs,
        batch_pairs=batch_pairs,
        max_length=max_length,
        choose_by=choose_by,
        seed=seed,
    )
    config.check()
    names = [make_utility(name).name for name in utility] if utility else None
    groups = build_groups(
        read_labels(labels),
        open_data(data, on_bad_line),
        utilities=names,
        rescale=rescale or LOSSES[loss].rule,
        relevance=Relevance(relevance, gamma=gamma) if relevance else None,
    )
    scoring = DecoderConfig(head=decoder, lora_r=lora_r) if decoder else None
    report = train_reranker(groups, base, out, config, decoder=scoring)
    typer.echo(
        f"{report.groups} groups, {report.pairs} pairs, kept epoch {report.kept_epoch}; "
        f"nDCG@10 on {report.measured_on} groups: untrained {report.untrained.ndcg:.3f}, kept {report.kept.ndcg:.3f}"
    )
    if report.drops:
        typer.echo("counted: " + ", ".join(f"{kind} {count}" for kind, count in report.drops.items()))
    typer.echo(f"reranker written to {out}")
