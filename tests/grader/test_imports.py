"""Imports point one way, what runs beside student code knows nothing of judging, and start-up stays light."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "grader"
# Without the catalogue of attacks, which is data.
MODULES = sorted(
    path.relative_to(PACKAGE).with_suffix("")
    for path in PACKAGE.rglob("*.py")
    if "attacks" not in path.parts
)
PACKAGES = [module for module in MODULES if module.name == "__init__"]

# From the ground up: a room imports from its own line and the lines above it.
LAYERS = (
    {"errors", "results", "text"},
    {"course", "sandbox"},
    {"submissions"},
    {"judge"},
    {"grading"},
    {"gradebook", "student", "authoring"},
    {"exports", "notebook", "audit"},
    {"serve"},
    {"cli"},
)
# What a sandbox may import of ours; for all of that package, so that nothing new in it is forgotten.
BESIDE_STUDENTS = {"errors", "sandbox"}
BESIDE_STUDENTS_FILES = [module for module in MODULES if module.parts[0] == "sandbox"]


def imported(module: Path) -> set[str]:
    """The top parts of the package that a module imports, wherever in it."""
    tree = ast.parse((PACKAGE / module).with_suffix(".py").read_bytes())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            if node.module == "grader":
                names |= {f"grader.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "grader" and len(part) > 1} - {"__version__"}


def layer_of(part: str) -> int:
    found = [number for number, layer in enumerate(LAYERS) if part in layer]
    assert found, f"grader/{part} stands in no layer of this test; say where it belongs"
    return found[0]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_point_upstream(module: Path) -> None:
    if module.name == "__init__" and len(module.parts) == 1:
        return  # the package itself, which imports lazily what it exports
    here = layer_of(module.parts[0])
    assert {part for part in imported(module) if layer_of(part) > here} == set()


@pytest.mark.parametrize("module", BESIDE_STUDENTS_FILES, ids=str)
def test_what_runs_beside_student_code_knows_only_the_wire_and_the_walls(module: Path) -> None:
    assert imported(module) <= BESIDE_STUDENTS


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_public_names_are_declared_once_a_package_and_there(package: Path) -> None:
    loaded = importlib.import_module(".".join(("grader", *package.parts[:-1])))
    for name in getattr(loaded, "__all__", ()):
        assert hasattr(loaded, name), (
            f"{loaded.__name__}.__all__ names {name!r}, which is not there"
        )


def test_one_module_of_the_gradebook_knows_sql_and_none_of_its_classes_inherits_another() -> None:
    """But for the queue, which has tables of its own."""
    trees = {
        module.name: ast.parse((PACKAGE / module).with_suffix(".py").read_bytes())
        for module in MODULES
        if module.parts[0] == "gradebook"
    }
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    classes = {node.name: node for _, node in nodes if isinstance(node, ast.ClassDef)}
    bases = {ast.unparse(base) for node in classes.values() for base in node.bases}
    assert bases.isdisjoint(classes)
    executing = {
        name
        for name, node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("execute", "executescript")
    }
    assert executing == {"store", "queue"}


def test_no_name_of_a_class_stands_for_two() -> None:
    names: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(ast.parse((PACKAGE / module).with_suffix(".py").read_bytes())):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(f"{module}:{node.lineno}")
    assert {name: places for name, places in names.items() if len(places) > 1} == {}


def test_the_package_exports_this_and_no_more() -> None:
    import grader

    assert sorted(grader.__all__) == ["Result", "__version__", "grade"]


def test_the_core_needs_nothing_of_the_server() -> None:
    """Who does not serve installs no extra: nothing outside of `serve` imports what it brings."""
    extra = ("starlette", "uvicorn", "jwt", "prometheus_client")
    for module in MODULES:
        if module.parts[0] == "serve":
            continue
        for node in ast.walk(ast.parse((PACKAGE / module).with_suffix(".py").read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in extra], module


@pytest.mark.parametrize("code", ["import grader.cli", "import grader.grading", "import grader"])
def test_torch_and_pytest_are_imported_only_where_they_are_used(code: str) -> None:
    check = f"{code}; import sys; print(sorted({{'torch', 'pytest', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
