"""Imports point one way, code beside student code never imports judging code, and start-up stays light."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "grader"
# The catalogue of attacks is data, so it is left out.
MODULES = sorted(
    path.relative_to(PACKAGE).with_suffix("")
    for path in PACKAGE.rglob("*.py")
    if "attacks" not in path.parts
)
PACKAGES = [module for module in MODULES if module.name == "__init__"]

# From the ground up: a room imports only from its own line and the lines above it.
LAYERS = (
    {"errors", "files", "findings", "results", "text", "toml"},
    {"course", "sandbox"},
    {"submissions"},
    {"judge"},
    {"grading"},
    {"gradebook", "student", "authoring"},
    {"exports", "notebook", "audit"},
    {"serve"},
    {"cli"},
)
# The parts of the grader that a sandbox may import. This holds for the whole package, including new modules.
BESIDE_STUDENTS = {"errors", "sandbox"}
BESIDE_STUDENTS_FILES = [module for module in MODULES if module.parts[0] == "sandbox"]


def imported(module: Path) -> set[str]:
    """Return the top-level parts of the package that a module imports anywhere."""
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


# The rooms that judge a submission, once or at each save.
KERNEL_ROOMS = {
    "course",
    "errors",
    "files",
    "findings",
    "grading",
    "judge",
    "results",
    "sandbox",
    "submissions",
    "text",
    "toml",
}
KERNEL_COMMANDS = ("cli.run", "cli.watch.command")
ROOMS_BESIDE = ("audit", "authoring", "gradebook", "notebook", "serve", "student.plots")


def imported_modules(module: str) -> set[str]:
    """Return the modules of the package that a module imports at run time, named below the package."""
    path = PACKAGE.joinpath(*module.split("."))
    tree = ast.parse(
        (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes()
    )
    names: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            waiting.append(node)
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    own = {name.removeprefix("grader.") for name in names if name.startswith("grader.")}
    return {name for name in own if _is_module(name)}


def _is_module(name: str) -> bool:
    path = PACKAGE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_the_kernel_never_imports_the_rooms_beside_it() -> None:
    modules = (".".join(module.parts).removesuffix(".__init__") for module in MODULES)
    waiting = [m for m in modules if m.split(".")[0] in KERNEL_ROOMS] + list(KERNEL_COMMANDS)
    importer: dict[str, str] = dict.fromkeys(waiting, "the kernel")
    while waiting:
        module = waiting.pop()
        assert not module.startswith(ROOMS_BESIDE), f"{importer[module]} imports {module}"
        for name in imported_modules(module) - set(importer):
            importer[name] = module
            waiting.append(name)


def test_a_command_is_imported_only_when_called() -> None:
    check = "import grader.cli, sys; print([m for m in sys.modules if m.startswith('grader.cli.')])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['grader.cli.border']"


def layer_of(part: str) -> int:
    found = [number for number, layer in enumerate(LAYERS) if part in layer]
    assert found, f"grader/{part} stands in no layer of this test; say where it belongs"
    return found[0]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_point_upstream(module: Path) -> None:
    if module.name == "__init__" and len(module.parts) == 1:
        return  # the package itself, which imports its exports lazily
    here = layer_of(module.parts[0])
    assert {part for part in imported(module) if layer_of(part) > here} == set()


@pytest.mark.parametrize("module", BESIDE_STUDENTS_FILES, ids=str)
def test_modules_beside_student_code_import_only_the_sandbox(module: Path) -> None:
    assert imported(module) <= BESIDE_STUDENTS


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_names_in_all_exist(package: Path) -> None:
    loaded = importlib.import_module(".".join(("grader", *package.parts[:-1])))
    for name in getattr(loaded, "__all__", ()):
        assert hasattr(loaded, name), (
            f"{loaded.__name__}.__all__ names {name!r}, which is not there"
        )


def test_sql_is_in_few_modules_of_the_gradebook_and_its_classes_do_not_inherit() -> None:
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
    # The server and `grade push` keep their own tables in the same file, and older files have tables that no
    # longer exist.
    assert executing == {
        *("tables", "queue", "drafts", "sessions", "platforms", "invitations", "pushed", "outbox"),
        *("database", "personal", "migration", "tokens"),
    }


def test_the_package_exports_exactly_these_names() -> None:
    import grader

    assert sorted(grader.__all__) == ["Result", "__version__", "grade"]


def test_only_serve_imports_packages_of_the_server() -> None:
    """Commands other than `serve` need no extra, since nothing outside of `serve` imports its packages.

    The only exception is the key for LTI platforms, which imports them within functions for `grade push --lti`.
    """
    extra = ["starlette", "uvicorn", "jwt", "cryptography", "prometheus_client"]
    extra += ["authlib", "joserfc"]
    for module in MODULES:
        if module.parts[0] == "serve":
            continue
        tree = ast.parse((PACKAGE / module).with_suffix(".py").read_bytes())
        for node in tree.body if module.name == "tool_key" else ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in extra], module


@pytest.mark.parametrize("code", ["import grader.cli", "import grader.grading", "import grader"])
def test_torch_and_pytest_are_imported_only_when_used(code: str) -> None:
    check = f"{code}; import sys; print(sorted({{'torch', 'pytest', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
