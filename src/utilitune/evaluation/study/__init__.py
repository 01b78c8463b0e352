"""Studies: how good a utility is as a label. Import from ``utilitune.evaluation``."""
