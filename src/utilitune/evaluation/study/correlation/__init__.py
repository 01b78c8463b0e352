"""The correlation study, one part a file. Import from ``utilitune.evaluation``."""
