"""Utilities by name, and how a user's own utility comes in."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from utilitune.errors import ConfigError, UtilituneError
from utilitune.scoring.abstention import Abstention
from utilitune.scoring.answer_likelihood import AnswerLikelihood
from utilitune.scoring.confidence import CONFIDENCES
from utilitune.scoring.contrastive_ppl import ContrastivePpl
from utilitune.scoring.dig import Dig
from utilitune.scoring.entropy_drop import EntropyDrop
from utilitune.scoring.erag import Erag
from utilitune.scoring.grogu import Grogu
from utilitune.scoring.information_gain import InformationGain
from utilitune.scoring.joint_gain import JointGain
from utilitune.scoring.key_entropy import KeyEntropy
from utilitune.scoring.llm_relevance import LlmRelevance
from utilitune.scoring.loop import Loop
from utilitune.scoring.protocol import Utility
from utilitune.scoring.question_gain import QuestionGain
from utilitune.scoring.sper import Sper

UTILITIES: dict[str, Callable[..., Utility]] = {
    "information-gain": InformationGain,
    "entropy-drop": EntropyDrop,
    "question-gain": QuestionGain,
    "joint-gain": JointGain,
    "abstention": Abstention,
    "grogu": partial(Grogu, "mean-entropy"),
    **{f"grogu:{gamma}": partial(Grogu, gamma) for gamma in CONFIDENCES},
    "grogu:key-entropy": KeyEntropy,
    "erag": Erag,
    "sper": Sper,
    "answer-likelihood": AnswerLikelihood,
    "loop": Loop,
    "dig": Dig,
    "contrastive-ppl": ContrastivePpl,
    "llm-relevance": LlmRelevance,
}
"""Constructors by name; their keyword arguments are the parameters of a spec."""

DEFAULT_UTILITY = "question-gain"
"""The strongest label of the reference-free ones with every packaged model (docs/utilities.md), and the cheapest."""

_MEMBERS = ("name", "needs_answers", "parameters", "requests", "value")


def make_utility(spec: str | Mapping[str, Any] | Utility) -> Utility:
    """Make a utility.

    Args:
        spec: ``"name"``, ``"name,parameter=value,..."``, ``{"name": ..., parameter: value}``, or a
            ``Utility`` itself. A name that is not in ``UTILITIES`` may be ``module:Class`` or
            ``file.py:Class``: any class that has the members of ``Utility``.

    Returns:
        The utility. Its ``name`` spells out parameters other than the default ones.

    Raises:
        ConfigError: For an unknown name or parameter (with the known ones), or a bad value.
    """
    if isinstance(spec, str):
        name, settings = _parse(spec)
    elif isinstance(spec, Mapping):
        settings = dict(spec)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"a utility given as a mapping needs a 'name'; found keys: {', '.join(spec)}")
    else:
        return _checked(spec, repr(spec))
    make = UTILITIES.get(name) or _user_defined(name)
    known = _parameters(make)
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ConfigError(
            f"utility {name!r} has no parameter {', '.join(map(repr, unknown))}; known: {', '.join(known) or 'none'}"
        )
    lacking = [key for key in _parameters(make, required=True) if key not in settings]
    if lacking:
        raise ConfigError(
            f"utility {name!r} needs the parameter {', '.join(map(repr, lacking))}: give {name},{lacking[0]}=…"
        )
    try:
        return _checked(make(**settings), name)
    except UtilituneError:
        raise
    except Exception as error:
        raise ConfigError(f"utility {name!r} cannot be made: {type(error).__name__}: {error}") from error


def _parse(spec: str) -> tuple[str, dict[str, Any]]:
    name, *pairs = [part.strip() for part in spec.split(",")]
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"utility {spec!r}: found {pair!r}, expected parameter=value after the comma")
        try:
            settings[key.strip()] = json.loads(text)  # numbers, true, false, null
        except ValueError:
            settings[key.strip()] = text.strip()
    return name, settings


def _parameters(make: Callable[..., Utility], required: bool = False) -> list[str]:
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [found for found in inspect.signature(make).parameters.values() if found.kind in kinds]
    return [found.name for found in known if not required or found.default is inspect.Parameter.empty]


def _user_defined(name: str) -> Callable[..., Utility]:
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or where in UTILITIES:
        raise ConfigError(
            f"unknown utility {name!r}; known: {', '.join(UTILITIES)}, or your own as module:Class or file.py:Class"
        )
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except (Exception, SystemExit) as error:  # a user's code raises whatever it likes, or ends the process
        raise ConfigError(
            f"utility {name!r}: cannot import {where!r} ({type(error).__name__}: {error}); known names: "
            f"{', '.join(UTILITIES)}"
        ) from error
    if not callable(getattr(module, attribute, None)):
        raise ConfigError(f"utility {name!r}: {where!r} has no class {attribute!r}")
    return cast("Callable[..., Utility]", getattr(module, attribute))


def _module_of_file(path: Path) -> Any:
    # A name of its own: neither an installed module nor another file of the same name is shadowed.
    name = f"utilitune_user_{sha256(str(path.resolve()).encode()).hexdigest()[:8]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up their annotations
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _checked(utility: Any, name: str) -> Utility:
    lacking = [member for member in _MEMBERS if not hasattr(utility, member)]
    if lacking:
        raise ConfigError(f"utility {name} lacks {', '.join(lacking)}; a utility has: {', '.join(_MEMBERS)}")
    named = utility.name
    if not isinstance(named, str) or not named.strip() or "@" in named or not named.isprintable():
        raise ConfigError(
            f"utility {name} is named {named!r}; expected text without '@', which ends the name in a label set, and on "
            "one line"
        )
    if not isinstance(utility.needs_answers, bool):
        raise ConfigError(f"utility {name}: needs_answers is {utility.needs_answers!r}; expected True or False")
    try:
        json.dumps(dict(utility.parameters), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"utility {name}: its parameters cannot be hashed into a label set ({error}); give strings, finite "
            "numbers, true or false, None, and lists or mappings of them"
        ) from error
    return cast("Utility", utility)
