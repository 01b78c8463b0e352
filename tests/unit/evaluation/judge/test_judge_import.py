"""Counting judgements needs no model library."""

import subprocess
import sys


def test_import_needs_no_torch():
    unwanted = "{'torch', 'transformers', 'sklearn'}"
    code = f"import sys, utilitune.evaluation.judge; sys.exit(bool({unwanted} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
