"""Put an adapter into its base's weights, in float32, and check that the model still says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from utilitune.errors import UtilituneError
from utilitune.progress import say
from utilitune.records.query import Query, Turn
from utilitune.rewrite.adapter_folder import RewriterCard
from utilitune.rewrite.base_spec import BaseSpec, Spec
from utilitune.rewrite.chat_format import ChatFormat
from utilitune.rewrite.quiet_libraries import quiet_libraries
from utilitune.rewrite.sample import messages
from utilitune.rewrite.tokens import load_tokenizer

TOLERANCE = 1e-3
"""Largest difference of a logit, relative to the largest logit, at which the merge counts as the same model."""

PROBES = (
    Query("1", "When did she die?", (Turn("user", "Who founded the works?"), Turn("assistant", "Mira Tolve did."))),
    Query("2", "And the largest?", (Turn("user", "How many islands has Sarn?"), Turn("assistant", "Eleven."))),
)


def merge_rewriter(folder: Path | str, out: Path | str, *, base: Spec | None = None) -> float:
    """Write the whole model of a trained adapter: an ordinary model folder that loads without PEFT.

    Args:
        folder: Folder of a trained rewriter.
        out: Folder for ``config.json``, ``model.safetensors``, the tokenizer and ``rewriter.json``.
        base: Where the base is, when it is not where the folder says.

    Returns:
        Largest difference of a logit on a few prompts, relative to the largest logit.

    Raises:
        DataError: When the folder is no rewriter.
        ConfigError: When the base is missing.
        UtilituneError: When the merged model's logits differ by more than 1e-3 of the largest.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder, out = Path(folder), Path(out)
    card = RewriterCard.read(folder)
    spec = BaseSpec.of(base or card.locate_base(folder))
    source, options = spec.locate()
    tokenizer = load_tokenizer(spec.spec)
    with quiet_libraries():
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, use_safetensors=True, **options)
        tuned = PeftModel.from_pretrained(model, str(folder)).eval()
        before = _logits(tuned, tokenizer, card.prompt)
        merged = tuned.merge_and_unload(safe_merge=True)
        after = _logits(merged, tokenizer, card.prompt)
        off = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(before, after, strict=True))
        if not off <= TOLERANCE:
            raise UtilituneError(f"the merged model's logits differ by {off:.2g} of the largest; nothing was written")
        out.mkdir(parents=True, exist_ok=True)
        merged.save_pretrained(str(out))
        tokenizer.save_pretrained(str(out))  # type: ignore[attr-defined]
    replace(card, base_kind="merged").write(out)
    say(f"merged in float32: logits differ by at most {off:.1g} of the largest")
    return off


def _logits(model: Any, tokenizer: Any, prompt: str) -> list[Any]:
    """Return the logits of the last position of each probe."""
    import torch

    from utilitune.generator import load_prompt

    chat, template = ChatFormat.of(tokenizer), load_prompt(prompt)
    asked = [messages(template.render(question=query.text, history=query.history)) for query in PROBES]
    ids = [chat.ids(chat.prompt(one), add_generation_prompt=True) for one in asked]
    with torch.no_grad():
        return [model(torch.tensor([one])).logits[0, -1].float() for one in ids]
