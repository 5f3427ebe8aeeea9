"""Every judge has the same clean environment, so the asserts of a suite run."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.errors import GraderError
from grader.judge import process
from grader.judge.assignment import JudgeFault, Judgment
from grader.judge.pool import Task
from grader.judge.warm import WarmJudge

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
ODD = {
    "PYTHONOPTIMIZE": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONBREAKPOINT": "nowhere.to_be_found",
    "PYTHONDEVMODE": "1",
    "PYTHONINTMAXSTRDIGITS": "640",
    "PYTEST_ADDOPTS": "--no-such-option",
    "PYTEST_PLUGINS": "no_such_plugin",
}
SUITE = '''
"""A suite that warns, and stands on an assert."""

import warnings

import pytest

warnings.warn("old", DeprecationWarning)


@pytest.mark.place("greeting")
def test_greeting(student):
    """The greeting names whom it greets."""
    assert student.function("greeting")("Eve") == "Hello, Eve!", str(10**700)
'''
PLOT = '''
"""A plot that warns, and shows whether asserts count."""

import warnings

import msgspec

warnings.warn("old", DeprecationWarning)
SIZE = (1, 1)


class Data(msgspec.Struct):
    """A text."""

    text: str


def experiment(student):
    return {"text": student.greeting("Eve")}


def draw(figure, data):
    figure.text(0, 0, str(__debug__))
'''
HEAD = "# wrong: no name | central: greeting | told: 1000\n"
WRONG = f"{HEAD}def greeting(name):\n    return 'Hello!'\n"
NOTEBOOK = """
from grader.notebook import check

def greeting(name):
    return 'Hello!'

print(repr(check("greeting", greeting)))
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(folder / "exercises", folder / "tests" / "stubs", ignore=ignored)
    for name, text in {
        "tests/public/text/test_greeting.py": SUITE.lstrip(),
        "tests/plots/text/plot_greeting.py": PLOT.lstrip(),
        "exercises/text/greeting.py": WRONG,
        "notebook.py": NOTEBOOK,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for wrong in (folder / "tests/wrong/text/greeting").iterdir():
        wrong.write_text(WRONG, encoding="utf-8")
    return folder


def _output(course: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=course,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def run(course: Path) -> str:
    done = _output(course, "-m", "grader.cli", "run", "greeting", "--json", "result.json")
    assert "1000000" in (course / "result.json").read_text()
    return "\n".join(line for line in done.splitlines() if " s." not in line)


def verify(course: Path) -> str:
    shutil.copy(course / "tests/stubs/text/greeting.py", course / "exercises/text")
    return _output(course, "-m", "grader.cli", "verify", "greeting", "--seeds", "1")


def plot(course: Path) -> str:
    done = _output(course, "-m", "grader.cli", "plot", "greeting", "-o", "picture.png")
    return done + str((course / "picture.png").read_bytes())


def notebook(course: Path) -> str:
    return _output(course, "notebook.py")


def watch(course: Path) -> str:
    loaded = load_course(course)
    answers: queue.SimpleQueue[Judgment | JudgeFault | Exception] = queue.SimpleQueue()
    judge = WarmJudge(
        loaded,
        answer=lambda task, judged: answers.put(judged),
        test=lambda task, count: None,
        crashed=answers.put,
    )
    judge.ask([Task(1, "greeting", WRONG.encode())])
    judged = answers.get(timeout=60)
    judge.close()
    assert isinstance(judged, Judgment), judged
    return str([(test.outcome, test.message) for test in judged.result.tests])


@pytest.mark.parametrize(
    "judge",
    [
        *(run, watch),
        # These start their judges like `run`.
        *(pytest.param(judge, marks=pytest.mark.thorough) for judge in (notebook, verify, plot)),
    ],
)
def test_the_callers_environment_does_not_affect_judging(
    course: Path, judge: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = judge(course)
    assert "Traceback" not in before
    if judge is not plot:
        assert "10000" in before or "proved" in before
    for name, value in ODD.items():
        monkeypatch.setenv(name, value)
    assert judge(course) == before


@pytest.mark.parametrize("module", [None, "broken"])
def test_a_missing_or_broken_torch_is_named_with_the_command_that_installs_it(
    module: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if module is None:
        monkeypatch.setitem(sys.modules, "torch", None)
    else:  # as on Windows without a library of C++
        (tmp_path / "torch.py").write_text("raise OSError(126, 'c10.dll is not found')\n")
        monkeypatch.syspath_prepend(tmp_path)
    told = r"^PyTorch cannot be imported: .* -m pip install --force-reinstall -c constraints\.txt"
    with pytest.raises(GraderError, match=told):
        process.import_torch()
