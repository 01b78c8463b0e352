"""The folder of a decoder reranker: a PEFT adapter, the prompt, and a base reference that survives a move."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from utilitune.errors import ConfigError, DataError
from utilitune.records import write_json

FILE = "reranker.json"
PROMPT_FILE = "prompt.yaml"
HEAD_FILE = "head.safetensors"


@dataclass(frozen=True)
class DecoderCard:
    """Contents of ``reranker.json``.

    Attributes:
        base: ``packaged:NAME``, a Hub id, or a path relative to the reranker's folder.
        base_is_folder: Whether it is such a path.
        base_hash: SHA-256 of the base's files; ``""`` for a Hub id.
        base_revision: Commit of a Hub id; ``""`` for files.
        head: A name in ``HEADS``.
        yes: Token id that counts for a passage, ``None`` without such a head.
        no: Token id that counts against it.
        prompt_hash: SHA-256 of the prompt.
        chat_template_hash: SHA-256 of the chat template, or ``plain``.
        max_length: Tokens of query and passage together.
    """

    base: str
    base_is_folder: bool
    base_hash: str
    base_revision: str
    head: str
    yes: int | None
    no: int | None
    prompt_hash: str
    chat_template_hash: str
    max_length: int

    def write(self, folder: Path) -> None:
        """Write ``reranker.json`` into ``folder``."""
        write_json(folder / FILE, {"format": 1, "kind": "decoder", **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> DecoderCard:
        """Read ``reranker.json``.

        Args:
            folder: Folder of a decoder reranker.

        Returns:
            The card.

        Raises:
            DataError: When it is damaged, or of another format.
        """
        try:
            row = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if row["format"] != 1:
                raise DataError(f"{folder / FILE} has format {row['format']!r}, this version reads 1; train it again")
            return cls(**{name: row[name] for name in cls.__dataclass_fields__})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{folder / FILE} is damaged ({error!r}); copy the folder again") from error

    def locate(self, folder: Path) -> str:
        """Return what transformers should load as the base.

        Args:
            folder: Where the reranker is now.

        Returns:
            A folder, or a Hub id.

        Raises:
            ConfigError: When the base is not where the card says, or is another one than was trained on.
        """
        place = os.path.normpath(folder.absolute() / self.base) if self.base_is_folder else self.base
        if self.base_is_folder and not Path(place).is_dir():
            raise ConfigError(
                f"the reranker in {folder} belongs to the base model {Path(place).name!r}, expected at {place}, which "
                f"does not exist; put it there, or its place into {FILE}"
            )
        source, found = resolved(place)
        if self.base_hash and found != self.base_hash:
            raise ConfigError(
                f"the base model at {source} is not the one that the reranker in {folder} was trained on (SHA-256 "
                f"{found[:12]}, expected {self.base_hash[:12]}); put that one there, or train the reranker again"
            )
        return source


def is_decoder(folder: str | Path) -> bool:
    """Tell whether a folder holds a decoder reranker."""
    return (Path(folder) / FILE).is_file()


def resolved(base: str) -> tuple[str, str]:
    """Return what transformers should load for a spec, and the SHA-256 of its files (``""`` for a Hub id)."""
    from utilitune.generator import resolve_model
    from utilitune.generator.weights_hash import model_hash

    source = Path(resolve_model(base)).expanduser()
    return (str(source), model_hash(source)) if source.is_dir() else (base, "")


def portable(base: str, folder: Path) -> tuple[str, bool]:
    """Return ``(reference, is a folder)``: a folder becomes a path relative to the reranker's, anything else stays."""
    if not Path(base).expanduser().is_dir():
        return base, False
    return Path(os.path.relpath(Path(base).expanduser().absolute(), folder.absolute())).as_posix(), True
