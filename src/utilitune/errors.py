"""Errors that a user can act on: what was found, what was expected, the one fix."""

from __future__ import annotations


class UtilituneError(Exception):
    """Base of every error that is the input's fault; the command line prints it without a traceback, exit code 1."""


class DataError(UtilituneError):
    """Input files are not as documented; the message names file:line."""


class ConfigError(UtilituneError):
    """A recipe or option is wrong; the message lists all problems at once."""


class ThresholdError(UtilituneError):
    """Too many rows were truncated, skipped, failed or fell back to go on."""
