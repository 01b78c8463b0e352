"""What can be wrong with a recipe beyond its shape, found before anything runs. Nothing of the user's is imported."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from utilitune.errors import ConfigError
from utilitune.recipe.identities import model_identity, named_models, named_utilities, user_module
from utilitune.recipe.schema import Recipe


def problems(recipe: Recipe) -> list[str]:
    """Return everything that would stop the run later, one line each.

    Args:
        recipe: A recipe of the right shape.

    Returns:
        Lines ``key: problem``; empty when there is none.
    """
    found = [*_models(recipe), *_utilities(recipe), *_measures(recipe)]
    if recipe.reranker.enabled:
        found += [*_reranker_training(recipe), *_reranker_relevance(recipe), *_reranker_rivals(recipe)]
    base = recipe.rewriter.base_model
    if recipe.rewriter.enabled and _lacks_chat_template(base):
        found.append(
            f"rewriter.base: {base} has no chat template, and preference pairs are conversations; "
            "expected a chat-tuned model, such as packaged:smollm2-135m-instruct"
        )
    return found


def _models(recipe: Recipe) -> Iterator[str]:
    for key, spec in named_models(recipe).items():
        try:
            model_identity(spec)
        except ConfigError as error:
            yield f"{key}: {error}"


def _utilities(recipe: Recipe) -> Iterator[str]:
    from utilitune.scoring import make_utility

    for key, specs in named_utilities(recipe).items():
        for spec in specs:
            where = user_module(spec)
            if where is None:
                try:
                    make_utility(spec)
                except ConfigError as error:
                    yield f"{key}: {error}"
            elif where.endswith(".py"):
                if not Path(where).is_file():
                    yield f"{key}: utility {spec!r}: there is no file {where}"
            # Finding a module inside a package would run that package, so only the outermost one is looked for.
            elif importlib.util.find_spec(where.partition(".")[0]) is None:
                yield f"{key}: utility {spec!r}: there is no module {where.partition('.')[0]}"


def _measures(recipe: Recipe) -> Iterator[str]:
    from utilitune.evaluation import parse_measure

    section = recipe.evaluation
    lists = {"rewriter_measures": section.rewriter_measures, "reranker_measures": section.reranker_measures}
    for key, names in lists.items():
        for name in names:
            try:
                kind = parse_measure(name).kind
            except ConfigError as error:
                yield f"evaluation.{key}: {error}"
                continue
            if kind != "classical":
                source = "evaluation.udcg_k" if kind == "utility" else "evaluation.answer_k"
                yield f"evaluation.{key}: found {name!r}, expected a retrieval measure; {source} asks for such ones"


def _reranker_training(recipe: Recipe) -> Iterator[str]:
    from utilitune.rerank import LOSSES, RESCALES
    from utilitune.rerank.dev_measure import CHOOSE_BY

    training = recipe.reranker.training
    if training.choose_by not in CHOOSE_BY:
        yield f"reranker.training.choose_by: found {training.choose_by!r}, expected one of: {', '.join(CHOOSE_BY)}"
    if training.loss not in LOSSES:
        yield f"reranker.training.loss: found {training.loss!r}, expected one of: {', '.join(LOSSES)}"
        return
    loss, rule = LOSSES[training.loss], RESCALES[training.rule]
    fits = [name for name, other in RESCALES.items() if loss.low <= other.low and other.high <= loss.high]
    if loss.signed:
        if training.rule != "none":
            yield f"reranker.training.rescale: loss {training.loss!r} reads utilities as such, found {training.rule!r}"
    elif not (loss.low <= rule.low and rule.high <= loss.high):
        yield (
            f"reranker.training.rescale: loss {training.loss!r} takes targets within [{loss.low:g}, {loss.high:g}], "
            f"{training.rule!r} leaves them; expected one of: {', '.join(fits)}, or no `rescale`"
        )
    elif training.rule == "softmax" and loss.softmax_of_targets:
        yield (
            f"reranker.training.rescale: loss {training.loss!r} takes a softmax itself, found 'softmax'; "
            "expected z-score, min-max, rank, or no `rescale`"
        )


def _reranker_relevance(recipe: Recipe) -> Iterator[str]:
    """Relevance signs one utility; the rivals' labels are not signed."""
    from utilitune.rerank import LOSSES
    from utilitune.rerank.relevance import SOURCES

    section = recipe.reranker
    relevance, loss = section.training.relevance, section.training.loss
    if relevance is None:
        if loss in LOSSES and LOSSES[loss].signed:
            yield f"reranker.training.relevance: found none, loss {loss!r} needs gold, answer or one of the utilities"
        return
    if relevance not in SOURCES and relevance not in section.utilities:
        yield f"reranker.training.relevance: found {relevance!r}, expected gold, answer or one of reranker.utilities"
    elif len(section.trained_utilities) != 1:
        yield (
            f"reranker.utilities: found {', '.join(section.utilities)}, expected the one that training.relevance "
            "signs, such as abstention"
        )
    if section.rivals:
        yield f"reranker.rivals: found {', '.join(section.rivals)}, expected none with training.relevance"


def _reranker_rivals(recipe: Recipe) -> Iterator[str]:
    """Rivals are told apart by the utility's name, in labels and in the table."""
    from utilitune.scoring import make_utility

    names: dict[str, str] = {}
    for spec in recipe.reranker.rivals:
        if spec == "gold" or user_module(spec) is not None:
            continue
        try:
            name = make_utility(spec).name
        except ConfigError:
            continue  # said by ``_utilities``
        if name in names:
            yield f"reranker.rivals: {names[name]!r} and {spec!r} are both called {name!r}; expected one of them"
        names[name] = spec


def _lacks_chat_template(spec: str) -> bool:
    """Return whether a model folder has a tokenizer and no chat template; ``False`` when the files are not here."""
    from utilitune.generator import PACKAGED, cache_folder
    from utilitune.generator.packaged import model_folder

    packaged = PACKAGED.get(spec.removeprefix("packaged:")) if spec.startswith("packaged:") else None
    folder = model_folder(packaged, cache_folder()) if packaged else Path(spec).expanduser()
    settings = folder / "tokenizer_config.json"
    if not settings.is_file() or (folder / "chat_template.jinja").is_file():
        return False
    try:
        return not json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    except (ValueError, AttributeError):
        return False
