"""A floor imports only lower floors."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "utilitune"
FLOORS = {
    "errors": 0,
    "progress": 0,
    "records": 1,
    "retrieval": 2,
    "generator": 2,
    "sample": 2,
    "scoring": 3,
    "evaluation": 4,
    "rewrite": 5,
    "rerank": 5,
    "recipe": 6,
    "cli": 7,
}
# Packages on one floor that may still import each other: retrieval asks the generator floor where packaged models lie.
SAME_FLOOR = {("retrieval", "generator")}


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        parts |= {module.split(".")[1] for module in modules if module.startswith("utilitune.")}
    return parts


@pytest.mark.parametrize("part", FLOORS)
def test_imports_only_lower_floors(part):
    sources = sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]
    for source in sources:
        for other in imported_parts(source) - {part}:
            below = FLOORS[other] < FLOORS[part] or (part, other) in SAME_FLOOR
            assert below, f"{source.relative_to(PACKAGE)} imports {other}, which is not below {part}"


def test_every_part_has_a_floor():
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__"} == set(FLOORS)
