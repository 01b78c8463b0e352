"""The generator LLM behind one interface: prompts as data, packaged models, the transformers backend."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it; imported on first use, so that naming a prompt does not load torch.
_HOME = {
    "Continuation": "protocol",
    "ContrastScorer": "protocol",
    "Generation": "protocol",
    "Generator": "protocol",
    "GeneratorIdentity": "protocol",
    "Prompt": "protocol",
    "Task": "protocol",
    "TaskResult": "protocol",
    "PromptTemplate": "prompt_template",
    "load_prompt": "prompt_template",
    "packaged_prompts": "prompt_template",
    "PACKAGED": "packaged",
    "PackagedModel": "packaged",
    "cache_folder": "packaged",
    "resolve_model": "packaged",
    "load_generator": "loading",
    "TransformersGenerator": "transformers_generator",
    "PromptTooLong": "window",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from utilitune.generator.loading import load_generator as load_generator
    from utilitune.generator.packaged import PACKAGED as PACKAGED
    from utilitune.generator.packaged import PackagedModel as PackagedModel
    from utilitune.generator.packaged import cache_folder as cache_folder
    from utilitune.generator.packaged import resolve_model as resolve_model
    from utilitune.generator.prompt_template import PromptTemplate as PromptTemplate
    from utilitune.generator.prompt_template import load_prompt as load_prompt
    from utilitune.generator.prompt_template import packaged_prompts as packaged_prompts
    from utilitune.generator.protocol import Continuation as Continuation
    from utilitune.generator.protocol import ContrastScorer as ContrastScorer
    from utilitune.generator.protocol import Generation as Generation
    from utilitune.generator.protocol import Generator as Generator
    from utilitune.generator.protocol import GeneratorIdentity as GeneratorIdentity
    from utilitune.generator.protocol import Prompt as Prompt
    from utilitune.generator.protocol import Task as Task
    from utilitune.generator.protocol import TaskResult as TaskResult
    from utilitune.generator.transformers_generator import TransformersGenerator as TransformersGenerator
    from utilitune.generator.window import PromptTooLong as PromptTooLong


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'utilitune.generator' has no attribute {name!r}")
    value = getattr(import_module(f"utilitune.generator.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
