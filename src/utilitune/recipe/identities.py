"""What a stage depends on that the recipe only names: models, utilities, source code, libraries.

Everything here is cheap: no model is loaded, nothing is fetched.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune import __version__
from utilitune.errors import ConfigError
from utilitune.records import file_hash
from utilitune.records.manifest import version

if TYPE_CHECKING:
    from utilitune.recipe.schema import Recipe

PACKAGE = Path(__file__).resolve().parents[1]
# Files of a model folder that are small and can change a number; weights are hashed by ``model_hash``, which remembers.
SMALL_FILES = {".json", ".jinja", ".model", ".txt"}
# Libraries whose version can change what a subpackage computes.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "records": ("pyarrow",),
    "generator": ("torch", "transformers", "peft", "gguf"),
    "retrieval": ("torch", "transformers", "sentence-transformers", "faiss-cpu", "bm25s", "rank-bm25"),
    "evaluation": ("ir-measures", "numpy"),
    "rewrite": ("torch", "transformers", "trl", "peft", "accelerate"),
    "rerank": ("torch", "transformers", "sentence-transformers", "accelerate"),
}


def named_models(recipe: Recipe) -> dict[str, str]:
    """Return ``{recipe key: model spec}`` of every model that the enabled sections name."""
    found = {"generator": recipe.generator}
    if recipe.rewriter.enabled:
        found["rewriter.base"] = recipe.rewriter.base_model
    if recipe.reranker.enabled:
        found["reranker.base"] = recipe.reranker.base
        if recipe.reranker.second_generator:
            found["reranker.second_generator"] = recipe.reranker.second_generator
    encoders = {name: config.encoder for name, config in recipe.retrievers.items() if config.kind == "dense"}
    return {**found, **{f"retrievers.{name}.encoder": encoder for name, encoder in encoders.items()}}


def named_utilities(recipe: Recipe) -> dict[str, list[str]]:
    """Return ``{recipe key: utility specs}`` of every list of utilities in the enabled sections."""
    found = {}
    if recipe.rewriter.enabled:
        # The one reward that is no utility of a generator: it reads judgements.
        found["rewriter.reward.utilities"] = [one for one in recipe.rewriter.reward.utilities if one != "gold-rank"]
    if recipe.reranker.enabled:
        found["reranker.utilities"] = recipe.reranker.utilities
        # The one rival that is no utility of a generator: it reads judgements.
        found["reranker.rivals"] = [one for one in recipe.reranker.rivals if one != "gold"]
    return found


def identities(recipe: Recipe, keys: Iterable[str]) -> dict[str, Any]:
    """Return what the models and utilities under some recipe keys are right now.

    Args:
        recipe: The recipe.
        keys: Keys, such as ``generator`` or ``rewriter.reward``; a section stands for everything in it.

    Returns:
        ``{recipe key: identity}``, JSON-ready.

    Raises:
        ConfigError: If a model folder, prompt file or utility cannot be found.
    """
    prefixes = tuple(f"{key}." for key in keys)
    models = {key: spec for key, spec in named_models(recipe).items() if f"{key}.".startswith(prefixes)}
    utilities = {key: specs for key, specs in named_utilities(recipe).items() if f"{key}.".startswith(prefixes)}
    return {
        **{key: model_identity(spec) for key, spec in models.items()},
        **{key: [utility_identity(spec) for spec in specs] for key, specs in utilities.items()},
    }


def model_identity(spec: str) -> dict[str, Any]:
    """Return what a model spec stands for: pinned digests, or the hash of a local folder.

    A Hub id stands for itself: which revision it will be is only known once it is loaded.

    Args:
        spec: ``packaged:NAME``, a folder, or a Hub id.

    Returns:
        JSON-ready identity.

    Raises:
        ConfigError: For an unknown packaged name, or a path that does not exist.
    """
    from utilitune.generator import PACKAGED

    if spec.startswith("packaged:"):
        name = spec.removeprefix("packaged:")
        if name not in PACKAGED:
            raise ConfigError(f"unknown packaged model {spec!r}; known: {', '.join(f'packaged:{n}' for n in PACKAGED)}")
        return {"model": spec, "sha256": [wheel.sha256 for wheel in PACKAGED[name].wheels]}
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return {"model": spec, "sha256": _folder_sha256(folder)}
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1:
        raise ConfigError(f"model folder {spec!r} does not exist; give a folder, a Hub id, or packaged:NAME")
    return {"model": spec}


def _folder_sha256(folder: Path) -> str:
    from utilitune.generator.weights_hash import model_hash

    digest = hashlib.sha256()
    for part in [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]:
        digest.update(f"{part.relative_to(folder)} {model_hash(part)}\n".encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in SMALL_FILES):
        digest.update(f"{path.relative_to(folder)} {file_hash(path)}\n".encode())
    return digest.hexdigest()


def user_module(spec: str) -> str | None:
    """Return the ``module`` or ``file.py`` of a utility spec ``module:Class,...``; ``None`` for one of our own."""
    from utilitune.scoring import UTILITIES

    name = spec.partition(",")[0].strip()
    where = name.rpartition(":")[0]
    return where if name not in UTILITIES and where and where not in UTILITIES else None


def utility_identity(spec: str) -> dict[str, Any]:
    """Return everything that a utility's numbers depend on, the generator aside.

    This imports a user's own utility, so it belongs into a run and not into the loading of a recipe.

    Args:
        spec: As ``make_utility`` takes it.

    Returns:
        Name, parameters (with the hash of the prompt), and the hash of a user's own source file.
    """
    from utilitune.scoring import make_utility

    utility = make_utility(spec)
    found: dict[str, Any] = {"utility": utility.name, "parameters": dict(utility.parameters)}
    where = user_module(spec)
    if where is not None:
        source = where if where.endswith(".py") else getattr(importlib.util.find_spec(where), "origin", None)
        found["source"] = file_hash(source) if source and Path(source).is_file() else str(source)
    return found


@cache
def with_imports(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return some subpackages of utilitune and all that they import, directly or not, in alphabetical order."""
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        package = waiting.pop()
        if package not in found and (PACKAGE / package).is_dir():
            found.add(package)
            for path in (PACKAGE / package).rglob("*.py"):
                waiting += re.findall(r"^\s*(?:from|import) utilitune\.(\w+)", path.read_text(encoding="utf-8"), re.M)
    return tuple(sorted(found))


# Kept for the process: sources that are edited under a run are not the ones that it has imported.
@cache
def source_hash(packages: tuple[str, ...], files: tuple[Path, ...] = ()) -> str:
    """Return a hash of the sources and data files of some subpackages and single files, and of the version."""
    inside = [path for package in packages for path in (PACKAGE / package).rglob("*")]
    digest = hashlib.sha256(__version__.encode())
    for path in sorted({path.resolve() for path in [*inside, *files] if path.suffix in {".py", ".yaml"}}):
        name = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path.name
        digest.update(f"{name}\0{file_hash(path)}\n".encode())
    return digest.hexdigest()


def library_versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the installed versions of the libraries that some subpackages compute with."""
    names = sorted({name for package in packages for name in LIBRARIES.get(package, ())})
    return {name: version(name) for name in names}
