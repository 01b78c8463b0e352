"""``utilitune labels``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.options import MAX_FAILED, MaxFailed, Out, Quiet, command_line
from utilitune.cli.out import check_file
from utilitune.errors import ConfigError, DataError

if TYPE_CHECKING:
    from utilitune.scoring.store import LabelStore
    from utilitune.scoring.store_gc import Condition

app = typer.Typer(help="Look after label stores: what is in them, whether they are whole.", no_args_is_help=True)
StorePath = Annotated[Path, typer.Argument(help="Label store (.sqlite).", show_default=False)]
Generator = Annotated[
    str | None,
    typer.Option("--generator", help="Only of this generator: its first digits in `labels stats`, or - for unknown."),
]


@app.command("stats")
def stats(store: StorePath, quiet: Quiet = False) -> None:
    """Show what a store holds: rows, bytes and dates by generator, kind of request and prompt.

    Example: utilitune labels stats labels.sqlite
    """
    from utilitune.scoring.store import LabelStore
    from utilitune.scoring.store_rows import SHORT, UNKNOWN_GENERATOR
    from utilitune.scoring.store_stats import file_bytes, shares

    with LabelStore(store, create=False) as opened:
        found = shares(opened)
        typer.echo("generator\tmodel\tkind\tprompt\trows\tbytes\tfirst\tlast\tfailed")
        for each in found:
            source = each.source
            prompt = f"{source.prompt}@{source.prompt_hash[:SHORT]}" if source.prompt_hash else "-"
            short = source.generator[:SHORT] or UNKNOWN_GENERATOR
            times = (_time(each.first), _time(each.last))
            parts = (short, each.model, source.kind or "-", prompt, each.rows, each.size, *times, each.failed)
            typer.echo("\t".join(map(str, parts)))
        rows, failed = sum(each.rows for each in found), sum(each.failed for each in found)
        typer.echo(f"{rows} responses, {failed} failed requests, {file_bytes(store)} bytes in the file")


@app.command("export")
def export(
    store: StorePath,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSONL, .gz or .parquet.", show_default=False)],
    generator: Generator = None,
    quiet: Quiet = False,
) -> None:
    """Write a store's rows with identity, status and evidence, for other tools to read.

    Example: utilitune labels export labels.sqlite --out responses.parquet
    """
    from utilitune.scoring.store import LabelStore
    from utilitune.scoring.store_export import export_rows

    check_file(out)
    of_store = [store.resolve().with_name(f"{store.resolve().name}{end}") for end in ("", "-wal", "-shm", "-journal")]
    if out.resolve() in of_store:
        raise ConfigError(f"--out: {out} is the store itself; name another file, such as {store.stem}.jsonl")
    with LabelStore(store, create=False) as opened:
        counts = export_rows(opened, out, generator)
    typer.echo(f"{counts['ok']} responses and {counts['failed']} failed requests written to {out}")


@app.command("verify")
def verify(store: StorePath, quiet: Quiet = False) -> None:
    """Read every row of a store; ends with an error that counts what is wrong and says what to do.

    Example: utilitune labels verify labels.sqlite
    """
    from utilitune.scoring.store import LabelStore
    from utilitune.scoring.store_check import FILE, IDENTITY, faults

    with LabelStore(store, create=False) as opened:
        bad, seen = faults(opened)
    typer.echo(", ".join(f"{count} {kind}" for kind, count in seen.items()))
    if bad:
        what = ", ".join(f"{count} {kind}" for kind, count in bad.items())
        fix = f"`utilitune labels gc {store} --damaged` drops such rows, and the next `label` computes them again"
        if set(bad) == {IDENTITY}:
            fix = "responses are whole; the next `label` that adds one of that generator writes its identity anew"
        if bad[FILE]:
            fix = f"`utilitune labels merge {store} --into NEW` copies what can be read into a new file"
        raise DataError(f"{store}: {what}; {fix}")
    typer.echo(f"{store} is whole")


@app.command("merge")
def merge(
    stores: Annotated[list[Path], typer.Argument(help="Stores; the first one that has a response wins.")],
    into: Annotated[Path, typer.Option("--into", help="Store that they go into; its own rows win.")],
    quiet: Quiet = False,
) -> None:
    """Join stores. The given ones stay as they are, but for an older format, which is upgraded.

    Example: utilitune labels merge monday.sqlite tuesday.sqlite --into all.sqlite
    """
    from utilitune.scoring.store_merge import merge as merge_stores

    check_file(into, "--into")
    counts = merge_stores(into, stores)
    typer.echo(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if counts["unread"]:
        raise DataError(f"{counts['unread']} store(s) could be read in part only; what came before the damage is there")


@app.command("gc")
def gc(
    store: StorePath,
    generator: Generator = None,
    before: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Only rows made before, in UTC.")
    ] = None,
    unused_by: Annotated[
        list[Path] | None,
        typer.Option(help="Only rows whose query and passages have no row in these labels; give it again for more."),
    ] = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="Only rows that cannot be read.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    quiet: Quiet = False,
) -> None:
    """Drop rows that meet all conditions given (at least one), and give their space back.

    Example: utilitune labels gc labels.sqlite --before 2026-01-31 --unused-by labels.jsonl --dry-run
    """
    from utilitune.scoring.store import LabelStore
    from utilitune.scoring.store_gc import gc as drop

    with LabelStore(store, create=False) as opened:
        freed = drop(opened, _conditions(opened, generator, before, unused_by or [], damaged), dry_run=dry_run)
    what = f"{freed.responses} responses ({freed.size} bytes) and {freed.failures} failed requests"
    if dry_run:
        typer.echo(f"would drop {what}, {freed.kept} responses stay; nothing was changed")
    else:
        sizes = f"{freed.before} bytes before, {freed.after} now"
        typer.echo(f"dropped {what}, {freed.kept} responses stay; the file had {sizes}")


@app.command("rescore")
def rescore(
    labels: Annotated[Path, typer.Argument(help="Labels with their manifest beside them.", show_default=False)],
    utility: Annotated[list[str], typer.Option("--utility", "-u", help="Utility name; give it again for more.")],
    out: Out,
    data: Annotated[
        Path | None, typer.Option(help="Their data set, for utilities that read the question.", show_default=False)
    ] = None,
    max_failed: MaxFailed = MAX_FAILED,
    quiet: Quiet = False,
) -> None:
    """Compute another γ, τ or selector from the evidence of labels: no model, no store.

    Example: utilitune labels rescore labels.jsonl -u grogu:key-entropy,tau=0.5 --out other.jsonl
    """
    from utilitune.cli.data import BadLine, Part, open_data
    from utilitune.records import read_labels, write_labels
    from utilitune.records.labels import manifest_path
    from utilitune.records.share import check_share
    from utilitune.scoring.rescoring import rescore as rescore_labels

    check_file(out)
    if out.resolve() in (labels.resolve(), manifest_path(labels).resolve()):
        raise ConfigError(f"--out: {out} is what is read; give another name")
    if manifest_path(out).resolve() == manifest_path(labels).resolve():
        raise ConfigError(
            f"--out: {out} would have the manifest of {labels}, {manifest_path(labels)}; give another name"
        )
    dataset = None if data is None else open_data(data, BadLine.error, Part.all)
    rescored = rescore_labels(read_labels(labels), utility, dataset=dataset)
    rescored.manifest["command"] = command_line()
    write_labels(out, rescored)
    typer.echo(f"{len(rescored)} labels written to {out}")
    for kind in ("failed", "invalid"):
        check_share(rescored.manifest["counts"], kind, len(rescored), max_failed, "labels")


def _time(seconds: int) -> str:
    from utilitune.scoring.store_rows import day_and_time

    try:
        return day_and_time(seconds) or "-"
    except ValueError:
        return "?"


def _conditions(
    store: LabelStore, generator: str | None, before: datetime | None, labels: list[Path], damaged: bool
) -> list[Condition]:
    from utilitune.records import read_labels
    from utilitune.scoring import store_gc
    from utilitune.scoring.store_rows import chosen_sources

    conditions: list[Condition] = []
    if generator is not None:
        conditions.append(store_gc.of_sources(chosen_sources(store, generator)))
    if before is not None:
        conditions.append(store_gc.made_before(before.replace(tzinfo=UTC).timestamp()))
    if labels:
        used = {path: read_labels(path) for path in labels}
        if empty := next((path for path, rows in used.items() if not len(rows)), None):
            raise ConfigError(
                f"--unused-by: {empty} holds no labels, so every row would go; leave it out, or give others"
            )
        conditions.append(store_gc.unused_by(list(used.values())))
    if damaged:
        conditions.append(store_gc.damaged(store))
    if not conditions:
        raise ConfigError("say what may go: --generator, --before, --unused-by or --damaged; together they narrow")
    return conditions
