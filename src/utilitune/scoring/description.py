"""What a utility says of itself: read off its class docstring, so that there is one place to write it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from utilitune.scoring.confidence import CONFIDENCES
from utilitune.scoring.grogu import Grogu
from utilitune.scoring.protocol import Utility
from utilitune.scoring.registry import make_utility

FIELDS = ("Formula", "Source", "Range", "Needs", "Cost")
# A field runs to the next line that starts with one word or a few and a colon, or to a blank line.
_FIELD = re.compile(r"^(?P<name>[A-Z][\w ]*): (?P<text>.*(?:\n(?![A-Z][\w ]*: ).+)*)", re.MULTILINE)


@dataclass(frozen=True)
class Description:
    """What there is to know before asking for a utility.

    Attributes:
        name: Its name.
        meaning: One line.
        needs_answers: Whether queries need gold answers.
        fields: The docstring's fields by name, white space squeezed: formula, source, range, needs, cost.
        marked: The same fields with formulas in backquotes, for Markdown.
        parameters: The default parameters that can change a number.
    """

    name: str
    meaning: str
    needs_answers: bool
    fields: Mapping[str, str]
    marked: Mapping[str, str]
    parameters: Mapping[str, Any]

    @property
    def cost(self) -> str:
        """What one passage set costs the generator; empty when the utility does not say."""
        return self.fields.get("Cost", "")


def describe(spec: str | Mapping[str, Any] | Utility) -> Description:
    """Describe a utility.

    Args:
        spec: As ``make_utility``; a user's own utility is described by its own docstring.

    Returns:
        The description.

    Raises:
        ConfigError: As ``make_utility``.
    """
    utility = make_utility(spec)
    text = inspect.getdoc(type(utility)) or ""
    meaning = _plain(text.partition("\n\n")[0])
    marked = {match["name"]: _squeezed(match["text"]).replace("``", "`") for match in _FIELD.finditer(text)}
    if isinstance(utility, Grogu):
        own = (CONFIDENCES[utility.gamma].__doc__ or "").partition("\n\n")[0]
        meaning = f"{meaning.rstrip('.')}; confidence = {_plain(own)}"
        marked["Formula"] = f"`γ(y_g | q, D) - γ(y_u | q)`, `γ(y)` = {_squeezed(own).replace('``', '`')}"
    fields = {match["name"]: _plain(match["text"]) for match in _FIELD.finditer(text)}
    return Description(utility.name, meaning, utility.needs_answers, fields, marked, dict(utility.parameters))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    return _squeezed(text.replace("``", ""))
