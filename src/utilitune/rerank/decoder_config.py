"""Settings of a decoder that is made a reranker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError

HEADS: dict[str, str] = {
    "yes-no": "logit(yes) - logit(no) of the word after the prompt: knows something before training",
    "classification": "a new linear layer on the last position of the prompt: noise before training",
}
"""What gives the score, by name."""
WHOLE_QUERY = 0.999
"""Share of the room that a query may take: all of it, but for what a passage needs to be there at all."""
PROMPT = Path(__file__).parent / "prompts" / "helps.yaml"


@dataclass(frozen=True)
class DecoderConfig:
    """How a causal language model scores a pair, and the LoRA adapter that learns to.

    Attributes:
        head: A name in ``HEADS``.
        prompt: YAML file of the prompt, as the generator's are; its placeholders are ``question`` and ``passages``.
            ``None``: the packaged one. It travels with the trained reranker.
        yes: Word whose logit counts for a passage.
        no: Word whose logit counts against it.
        lora_r: LoRA rank.
        lora_alpha: LoRA scale; the update is multiplied by ``lora_alpha / lora_r``.
        lora_dropout: LoRA dropout in [0, 1).
        lora_targets: Names of the layers to adapt, or ``all-linear``.
    """

    head: str = "yes-no"
    prompt: str | None = None
    yes: str = "yes"
    no: str = "no"
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_targets: str | tuple[str, ...] = "all-linear"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values."""
        return asdict(self)

    def check(self) -> None:
        """Look at every setting.

        Raises:
            ConfigError: With all problems at once.
        """
        wrong = [
            (self.head not in HEADS, f"head {self.head!r} is unknown; known: {', '.join(HEADS)}"),
            (self.prompt is not None and not Path(self.prompt).is_file(), f"prompt file {self.prompt} does not exist"),
            (not self.yes.strip() or not self.no.strip(), "the words yes and no must not be blank"),
            (self.lora_r < 1, f"lora_r {self.lora_r} must be >= 1"),
            (self.lora_alpha < 1, f"lora_alpha {self.lora_alpha} must be >= 1"),
            (not 0 <= self.lora_dropout < 1, f"lora_dropout {self.lora_dropout} must be in [0, 1)"),
            (not self.lora_targets, "lora_targets is empty"),
        ]
        problems = [message for is_wrong, message in wrong if is_wrong]
        if problems:
            raise ConfigError("decoder reranker: " + "; ".join(problems))
