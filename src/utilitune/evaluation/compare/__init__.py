"""Two or more systems side by side: same queries, what changed most, with the texts behind it."""

from utilitune.evaluation.compare.changes import largest_changes
from utilitune.evaluation.compare.comparison import Comparison, compare
from utilitune.evaluation.compare.side import Side
from utilitune.evaluation.compare.system import System, read_systems

__all__ = ["Comparison", "Side", "System", "compare", "largest_changes", "read_systems"]
