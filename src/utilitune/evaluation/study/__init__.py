"""Studies: utilities as labels, metrics as predictors of the answer. Import from ``utilitune.evaluation``."""
