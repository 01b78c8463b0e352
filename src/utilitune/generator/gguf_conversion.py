"""A GGUF file becomes an ordinary safetensors folder that loads in two seconds instead of half a minute."""

from __future__ import annotations

from pathlib import Path

from utilitune.errors import DataError

# Spaces, line breaks, apostrophes, digits, accents, CJK, special-token look-alikes: where splits differ.
_PROBES = (
    "Hello, world",
    "  two  spaces\n\nand lines ",
    "I don't know’s 1234",
    "café 東京 🙂",
    "<|im_start|>user\nx<eos>",
)


def convert_gguf(source: Path, target: Path) -> None:
    """Convert a GGUF language model to float32 safetensors with tokenizer, configs and chat template.

    ``save_pretrained`` refuses models loaded from GGUF, so the weights are copied into a fresh model of
    the same configuration. What was written is read again and compared before it counts.

    Args:
        source: The GGUF file.
        target: Folder to make.

    Raises:
        DataError: When the copy is not the same model or tokenizer.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(source.parent), source.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    config = type(loaded.config).from_dict(
        {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    )
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fresh.load_state_dict(loaded.state_dict(), strict=True)
    fresh.tie_weights()
    fresh.generation_config = loaded.generation_config
    fresh.save_pretrained(target, max_shard_size="100GB")
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(target)

    again = AutoTokenizer.from_pretrained(target, local_files_only=True)
    for text in _PROBES:
        if again(text)["input_ids"] != tokenizer(text)["input_ids"]:
            raise DataError(f"the tokenizer of {name} does not survive conversion: {text!r} is split differently")
    if again.chat_template != tokenizer.chat_template:
        raise DataError(f"the chat template of {name} does not survive conversion")
    written = AutoModelForCausalLM.from_pretrained(target, local_files_only=True, dtype=torch.float32).state_dict()
    original = loaded.state_dict()
    changed = [key for key in original if key not in written or not torch.equal(original[key], written[key])]
    if changed:
        raise DataError(f"weights of {name} do not survive conversion: {changed[:5]}")
