"""``utilitune pairs``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, open_index
from utilitune.cli.options import (
    DEFAULT_GENERATOR,
    Aggregate,
    Data,
    Fused,
    GeneratorSpec,
    Include,
    OnBadLine,
    Out,
    Quiet,
    Scale,
    Split,
    Store,
    warn_of_unused,
)
from utilitune.cli.out import check_file, check_store
from utilitune.errors import ConfigError

if TYPE_CHECKING:
    from utilitune.records import PreferencePair
    from utilitune.rewrite.base_spec import Spec
    from utilitune.scoring import Utility

NAME = "pairs"
SAMPLING = {
    "index": "--index",
    "generator": "--generator",
    "utility": "--utility",
    "n": "-n",
    "temperature": "--temperature",
    "k": "-k",
    "aggregate": "--aggregate",
    "scale": "--scale",
    "fused": "--fused",
    "include": "--include",
    "limit": "--limit",
    "seed": "--seed",
    "store": "--store",
}
"""Options of the work whose result ``--candidates`` holds."""


DEFAULT_UTILITIES = ("question-gain",)


def named(folders: Sequence[Path]) -> dict[str, Path]:
    """Return index folders by their names, which tell them apart in the reward."""
    named: dict[str, Path] = {}
    for folder in folders:
        name = folder.resolve().name
        if name in named:
            raise ConfigError(f"--index: {named[name]} and {folder} are both named {name!r}; rename one folder")
        named[name] = folder
    return named


def _agree(pairs: Sequence[PreferencePair], data: Path, on_bad_line: BadLine, index: Sequence[Path]) -> None:
    """Say how often the reward agrees with the judgements, where there are any."""
    from utilitune.evaluation import find_clusters
    from utilitune.rewrite import gold_agreement

    dataset = open_data(data, on_bad_line)
    if index and dataset.qrels:
        retrievers = {name: open_index(folder, dataset) for name, folder in named(index).items()}
        conversations = find_clusters(dataset.queries, "conversation")
        for name, agreement in gold_agreement(pairs, retrievers, dataset.qrels, conversations).items():
            typer.echo(f"{name}: {agreement}")


def _utilities(names: Sequence[str]) -> list[str | Utility]:
    """Make the utilities, so that an unknown one is named before any work."""
    from utilitune.rewrite.gold_rank import GOLD_RANK
    from utilitune.scoring import make_utility

    return [name if name == GOLD_RANK else make_utility(name) for name in names]


def _base_of(rewriter: str) -> Spec:
    """Return the model that has the tokenizer: an adapter's folder holds none."""
    from utilitune.rewrite.adapter_folder import RewriterCard, is_adapter

    folder = Path(rewriter)
    return RewriterCard.read(folder).locate_base(folder) if is_adapter(folder) else rewriter


def command(
    context: typer.Context,
    data: Data,
    out: Out,
    index: Annotated[
        list[Path] | None,
        typer.Option("--index", "-i", help="Index folder; the reward averages over several."),
    ] = None,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    rewriter: Annotated[
        str, typer.Option(help="Samples the rewrites: a model, or a trained rewriter's folder.")
    ] = DEFAULT_GENERATOR,
    utility: Annotated[
        list[str] | None,
        typer.Option(
            "--utility",
            "-u",
            help="Of the reward; again for an ensemble. Default: question-gain. "
            "Supervised yardsticks: gold-rank (needs qrels), answer-likelihood (needs answers).",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Rewrites sampled a turn.")] = 4,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 0.9,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages a rewrite.")] = 3,
    include: Include = None,
    aggregate: Aggregate = "max",
    scale: Scale = "pooled",
    fused: Fused = False,
    margin: Annotated[float, typer.Option(min=0, help="Smallest difference of utility.")] = 0.0,
    keep: Annotated[float, typer.Option(help="Share of pairs to keep, largest margins first.")] = 0.5,
    per_query: Annotated[int, typer.Option(min=1, help="Pairs a turn at most.")] = 1,
    pairing: Annotated[str, typer.Option(help="best-worst, all or best-few.")] = "best-worst",
    source: Annotated[
        list[str] | None,
        typer.Option(help="Pair only candidates of this source; again for more: sample, greedy, original, ..."),
    ] = None,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens of prompt and rewrite; longer pairs go.")] = 512,
    candidates: Annotated[
        Path | None, typer.Option(help="Rewarded candidates of an earlier call, to build other pairs from.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show some pairs, and how often qrels agree.")] = False,
    split: Split = Part.all,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many turns.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling.")] = 13,
    store: Store = None,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Sample rewrites, retrieve with each, label what they find, and pair the best with the worst.

    Writes the rewarded candidates beside OUT (ending .candidates.jsonl) and prints why turns were dropped. The
    store defaults to OUT with the ending .sqlite; killed and started again, it goes on.

    Example: utilitune pairs my-data --index indexes/bm25 --split train -n 4 -k 3 --out pairs.jsonl
    """
    from utilitune.records import write_pairs
    from utilitune.rewrite import Candidates, build_pairs, read_candidates, write_candidates
    from utilitune.rewrite.aggregate import check_names
    from utilitune.rewrite.pairs import check_pair_options
    from utilitune.rewrite.sample import EXTRA_SOURCES, check_sampling, check_sources

    store = check_store(out, store)
    beside = out.with_suffix(".candidates.jsonl")
    check_pair_options(
        margin=margin,
        keep=keep,
        pairs_per_query=per_query,
        max_length=max_length,
        pairing=pairing,
        sources=source or (),
    )
    check_sampling(temperature)
    check_sources(include or ())
    check_names(aggregate, scale)
    utilities = _utilities(utility or DEFAULT_UTILITIES)
    if candidates is not None:
        warn_of_unused(context, SAMPLING, "pairs: --candidates holds finished candidates")
        rewarded = read_candidates(candidates)
        if split is not Part.all:
            kept = {query.id for query in open_data(data, on_bad_line, split).queries}
            rewarded = Candidates([row for row in rewarded if row.query_id in kept])
    elif index:
        check_file(beside)
        folders = named(index)
        from utilitune.generator import load_generator
        from utilitune.rewrite import Rewriter, reward_candidates, sample_candidates

        dataset = open_data(data, on_bad_line, split)
        turns = [query for query in dataset.queries if query.history][:limit]
        retrievers = {name: open_index(folder, dataset) for name, folder in folders.items()}
        judge = load_generator(generator)
        writer = Rewriter(judge) if rewriter == generator else Rewriter.load(rewriter)
        sampled = sample_candidates(
            turns,
            writer.generator,
            n=n,
            temperature=temperature,
            seed=seed,
            include=include or EXTRA_SOURCES,
            prompt=writer.prompt,
            max_new_tokens=writer.max_new_tokens,
            store=store,
        )
        rewarded = reward_candidates(
            sampled,
            retrievers,
            turns,
            dataset.corpus,
            utilities,
            judge,
            k=k,
            store=store,
            aggregate=aggregate,
            scale=scale,
            fused=fused,
            qrels=dataset.qrels,
        )
        write_candidates(beside, rewarded)
    else:
        raise ConfigError("pairs: found neither --index nor --candidates; give --index INDEX to retrieve with")
    built = build_pairs(
        rewarded,
        margin=margin,
        keep=keep,
        pairs_per_query=per_query,
        pairing=pairing,
        sources=source or (),
        tokenizer=_base_of(rewriter),
        max_length=max_length,
    )
    write_pairs(out, built.pairs)
    typer.echo(built.explain())
    if explain:
        typer.echo(f"\n{built.samples()}\n")
        _agree(built.pairs, data, on_bad_line, index or [])
    typer.echo(f"{len(built.pairs)} pairs written to {out}")
