"""``utilitune train rewriter`` and ``utilitune train reranker``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from utilitune.cli.data import BadLine, open_data
from utilitune.cli.options import DEFAULT_GENERATOR, Data, OnBadLine, Out, Quiet
from utilitune.cli.out import check_folder
from utilitune.errors import ConfigError

app = typer.Typer(help="Train a rewriter on pairs, or a reranker on labels.", no_args_is_help=True)


@app.command("rewriter")
def rewriter(
    pairs: Annotated[Path, typer.Option(help="Pairs of `utilitune pairs`.")],
    out: Out,
    base: Annotated[str, typer.Option(help="Model to tune.")] = DEFAULT_GENERATOR,
    beta: Annotated[float, typer.Option(help="DPO's beta.")] = 0.1,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    epochs: Annotated[float, typer.Option(help="Passes over the pairs.")] = 2,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs a step.")] = 4,
    lora_r: Annotated[int, typer.Option(min=1, help="LoRA rank.")] = 16,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens of prompt and rewrite together.")] = 512,
    seed: Annotated[int, typer.Option(help="Seed.")] = 13,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest complete checkpoint.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a query rewriter by preference: DPO on a LoRA adapter.

    Example: utilitune train rewriter --pairs pairs.jsonl --out my-rewriter
    """
    from utilitune.records import read_pairs
    from utilitune.rewrite import DpoConfig, train_dpo

    check_folder(out)
    try:
        config = DpoConfig(
            beta=beta,
            lr=lr,
            epochs=epochs,
            batch_size=batch_size,
            lora_r=lora_r,
            max_length=max_length,
            seed=seed,
        )
    except ValidationError as error:
        raise ConfigError(_options_at_fault(error)) from None
    report = train_dpo(list(read_pairs(pairs)), base, out, config, resume=resume)
    typer.echo(report.reading)
    typer.echo(f"adapter written to {out}")


def _options_at_fault(error: ValidationError) -> str:
    problems = [
        f"  --{str(problem['loc'][0]).replace('_', '-')}: {problem['msg']} (found {problem['input']!r})"
        for problem in error.errors()
    ]
    return "\n".join([f"train rewriter: {len(problems)} problem(s)", *problems])


@app.command("reranker")
def reranker(
    data: Data,
    labels: Annotated[Path, typer.Option(help="Labels of `utilitune label`.")],
    out: Out,
    utility: Annotated[
        list[str] | None, typer.Option("--utility", "-u", help="Which labels to use; all when not given.")
    ] = None,
    base: Annotated[str, typer.Option(help="Encoder to start from.")] = "packaged:all-minilm-l6-v2",
    loss: Annotated[str, typer.Option(help="Loss name; a wrong one lists them.")] = "listwise-kl",
    rescale: Annotated[str, typer.Option(help="min-max, z-score, rank or softmax, within each query.")] = "z-score",
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
    from utilitune.rerank import RerankerConfig, build_groups, train_reranker
    from utilitune.scoring import make_utility

    check_folder(out)
    config = RerankerConfig(
        loss=loss, learning_rate=lr, epochs=epochs, batch_pairs=batch_pairs, max_length=max_length, seed=seed
    )
    config.check()
    names = [make_utility(name).name for name in utility] if utility else None
    groups = build_groups(read_labels(labels), open_data(data, on_bad_line), utilities=names, rescale=rescale)
    report = train_reranker(groups, base, out, config)
    typer.echo(
        f"{report.groups} groups, {report.pairs} pairs, kept epoch {report.kept_epoch}; "
        f"nDCG@10 on {report.measured_on} groups: untrained {report.untrained.ndcg:.3f}, kept {report.kept.ndcg:.3f}"
    )
    typer.echo(f"reranker written to {out}")
