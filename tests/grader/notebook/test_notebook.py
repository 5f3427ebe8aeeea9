"""Real notebooks, executed by a real kernel: right, wrong, unwritten and hostile cells, and the sample."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pytest

from grader.notebook.composing import SourcePiece, compose

ROOT = Path(__file__).parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"

if "GRADE_CI" in os.environ:
    import nbclient
    import nbformat
else:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")

WRONG = """\
def word_count(text: str) -> dict[str, int]:
    return {each: text.count(each) for each in text}
"""
RIGHT = """\
def words(text):
    return text.lower().split()

def word_count(text: str) -> dict[str, int]:
    counts = dict(START)
    for word in words(text):
        counts[word] = counts.get(word, 0) + 1
    return counts

def most_common(text: str, n: int) -> list[str]:
    if n < SMALLEST:
        raise ValueError(f"n is {n}")
    counts = word_count(text)
    in_order = sorted(counts, key=lambda word: (-counts[word], word))
    return list(itertools.islice(it.chain(in_order), n))
"""

# By name. One kernel runs all of them in this order.
CELLS = {
    "imports": "import itertools\nimport itertools as it\nfrom grader.notebook import check",
    "constants": "START = {}\nSMALLEST = 2 - 1",
    "wrong": WRONG,
    "check wrong": 'check("word_count", word_count)',
    "right": RIGHT,
    "check right": 'check("word_count", word_count, most_common)',
    "check one part": 'check("word_count", word_count)',
    "check all": 'verdict = check("word_count")\n(verdict.passed, verdict.score)',
    "global": "factor = object()\ndef greeting(name):\n    return f'Hello, {name}{factor}!'",
    "check global": 'check("greeting", greeting)',
    "unwritten": 'def greeting(name):\n    raise NotImplementedError("greet")',
    "check unwritten": 'check("greeting", greeting)',
    "unknown exercise": 'check("nonsense", greeting)',
    "unknown part": "def other(): ...\ncheck('greeting', other)",
    "no exercise": "check(greeting)",
    "extension": "%load_ext grader.notebook",
    "magic wrong": "%%grade word_count\n" + WRONG,
    "magic right": "%%grade greeting\n%time 1\n\ndef greeting(name):\n    return f'Hello, {name}!'",
    "magic does not run": "greeting('you')",
    "magic run": "%%grade greeting --run\ndef greeting(name):\n    return f'Hello, {name}!'",
    "magic ran": "greeting('you')",
    "magic usage": "%%grade\ndef greeting(name): ...",
    "magic unknown": "%%grade nonsense\ndef greeting(name): ...",
    "magic quote": "%%grade 'greeting\ndef greeting(name): ...",
    "syntax": "%%grade greeting\n\ndef greeting(name):\n    return (",
    "exit": "%%grade greeting\nraise SystemExit",
    "crash": "%%grade greeting\nimport os\nos._exit(3)",
    "loop": "%%grade greeting\n\ndef greeting(name):\n    while True:\n        pass",
    "html": "%%grade greeting\nprint('<script>alert(3)</script>')\n"
    "def greeting(name):\n    raise ValueError('<img src=x onerror=alert(1)>')",
    "html name": "%%grade greeting\nclass Oops(Exception): ...\n"
    "Oops.__name__ = '<b>Oops</b>'\ndef greeting(name):\n    raise Oops('</div>')",
    "interrupted": "import _thread, threading\n"
    "def greeting(name):\n    while True:\n        pass\n"
    "threading.Timer(0.5, _thread.interrupt_main).start()\ncheck('greeting', greeting)",
    "nested": "def outer():\n    word = 'Hello'\n    def greeting(name):\n"
    "        return f'{word}, {name}!'\n    return greeting\n"
    "greeting = outer()\ncheck('greeting', greeting)",
    "still alive": "%%grade greeting\ndef greeting(name):\n    return f'Hello, {name}!'",
}


def execute(cells: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Run the cells in one kernel that works in this folder. Return the outputs by name."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells.values()]
    )
    run(notebook, folder)
    return {name: cell.outputs for name, cell in zip(cells, notebook.cells, strict=True)}


def run(notebook: Any, folder: Path) -> None:
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("notebook") / "course"
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return execute(CELLS, folder)


def shown(outputs: Any) -> tuple[str, str]:
    """Return the text and the HTML of the verdict that a cell shows."""
    (data,) = [each.data for each in outputs if each.output_type == "execute_result"]
    return data["text/plain"], data.get("text/html", "")


def error(outputs: Any) -> str:
    """Return the last line of the error, or IPython's own message."""
    raised = [f"{each.ename}: {each.evalue}" for each in outputs if each.output_type == "error"]
    said = [each.text for each in outputs if each.output_type == "stream"]
    return "\n".join(raised + said)


def test_a_wrong_cell_gets_the_mistake_and_its_place(outputs: dict[str, Any]) -> None:
    text, html = shown(outputs["check wrong"])
    assert text.startswith("Counting words: partly passed, 1.43 of 10 points")
    assert "You counted characters: split the text first." in text
    assert "In[3], line 1 in word_count" in text
    assert "You counted characters: split the text first." in html
    assert html.startswith("<div")


def test_a_right_cell_brings_its_imports_constants_and_helpers(outputs: dict[str, Any]) -> None:
    text, _ = shown(outputs["check right"])
    assert text == "Counting words: passed, 10 of 10 points\n  6 of 6 tests passed."


def test_a_part_that_is_not_passed_is_still_to_do(outputs: dict[str, Any]) -> None:
    text, _ = shown(outputs["check one part"])
    assert "Counting words: partly passed" in text
    assert "Still to do: most_common: sort the words by how often they occur" in text


def test_without_parts_all_definitions_are_judged(
    outputs: dict[str, Any],
) -> None:
    assert shown(outputs["check all"])[0] == "(True, 10.0)"


def test_other_objects_of_the_notebook_are_not_submitted(outputs: dict[str, Any]) -> None:
    text, _ = shown(outputs["check global"])
    assert "name 'factor' is not defined (In[9], line 3, in greeting)" in text
    assert "factor is used in In[9], but it is a value of type object" in text


def test_a_closure_gets_a_note_about_its_variables(
    outputs: dict[str, Any],
) -> None:
    text, _ = shown(outputs["nested"])
    assert "error, 0 of 2.5 points" in text
    assert "word is used in " in text


def test_a_given_file_is_imported_here_and_by_the_judge(tmp_path: Path) -> None:
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    manifest = tmp_path / "exercises" / "course.toml"
    name = 'id = "greeting"\n'
    given = manifest.read_text("utf-8").replace(name, f'{name}given = ["words.py"]\n')
    manifest.write_text(given, "utf-8")
    words = "def hello(name):\n    return f'Hello, {name}!'\n"
    (tmp_path / "exercises" / "text" / "words.py").write_text(words, "utf-8")
    cells = {
        "imports": "from grader.notebook import check\nfrom words import hello",
        "greeting": "def greeting(name):\n    return hello(name)",
        "check": 'check("greeting", greeting)',
    }
    text, _ = shown(execute(cells, tmp_path / "exercises" / "text")["check"])
    assert text.startswith("A greeting [of a kind]: passed, 2.5 of 2.5 points")


def test_an_unwritten_cell_is_to_do(outputs: dict[str, Any]) -> None:
    text, _ = shown(outputs["check unwritten"])
    assert "to do, 0 of 2.5 points" in text
    assert "Still to do: greet" in text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("unknown exercise", "CourseError: There is no exercise 'nonsense'"),
        ("unknown part", "ValueError: greeting has no 'other'; its parts are greeting."),
        ("no exercise", 'ValueError: Name one exercise: check("glu", GatedLinearUnit).'),
        ("magic usage", "UsageError: the following arguments are required: exercise."),
        ("magic usage", "%%grade EXERCISE [--course FOLDER]"),
        ("magic unknown", "UsageError: There is no exercise 'nonsense'"),
        ("magic quote", "UsageError: no closing quotation."),
        ("interrupted", "KeyboardInterrupt"),
    ],
)
def test_an_invalid_call_is_one_sentence(outputs: dict[str, Any], cell: str, said: str) -> None:
    assert said in error(outputs[cell])


def test_the_magic_judges_a_cell_and_names_its_lines(outputs: dict[str, Any]) -> None:
    text, _ = shown(outputs["magic wrong"])
    assert "You counted characters: split the text first." in text
    number = list(CELLS).index("magic wrong") + 1
    assert f"In[{number}], line 2 in word_count" in text
    assert shown(outputs["magic right"])[0].startswith("A greeting [of a kind]: passed")


def test_the_magic_runs_a_cell_only_with_run(outputs: dict[str, Any]) -> None:
    assert "NotImplementedError" in error(outputs["magic does not run"])
    assert shown(outputs["magic run"])[0].startswith("A greeting [of a kind]: passed")
    assert shown(outputs["magic ran"])[0] == "'Hello, you!'"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("syntax", "is not valid Python: In[{}], line 4: '(' was never closed"),
        ("exit", "Your code raised SystemExit (In[{}], line 2, in <module>)"),
        ("crash", "ended the whole process (exit code 3)"),
        ("loop", "gave no answer within 2 s"),
    ],
)
def test_a_hostile_cell_fails_its_tests_and_harms_nothing_else(
    outputs: dict[str, Any], cell: str, said: str
) -> None:
    text, _ = shown(outputs[cell])
    assert said.format(list(CELLS).index(cell) + 1) in text
    assert ", 0 of 2.5 points" in text
    assert shown(outputs["still alive"])[0].startswith("A greeting [of a kind]: passed")


@pytest.mark.parametrize(
    ("cell", "hostile"),
    [
        ("html", "<img src=x onerror=alert(1)>"),
        ("html", "<script>alert(3)</script>"),
        ("html name", "<b>Oops</b>"),
        ("html name", "</div>"),
    ],
)
def test_text_from_the_code_is_never_markup(
    outputs: dict[str, Any], cell: str, hostile: str
) -> None:
    text, html = shown(outputs[cell])
    assert hostile in text
    assert escape(hostile) in html
    assert html.count("<div") == html.count("</div>")
    assert set(re.findall(r"<(\w+)", html)) == {"div", "b"}
    assert html.count("<b>") == 1


@pytest.mark.thorough
def test_the_sample_does_what_it_says() -> None:
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    run(notebook, ROOT / "examples")
    verdicts = {
        cell.source.partition("\n")[0]: shown(cell.outputs)[0]
        for cell in notebook.cells
        if cell.cell_type == "code" and "html" in str(cell.outputs)
    }
    wrong, right = verdicts['check("glu", GatedLinearUnit)'], verdicts["%%grade glu"]
    assert "the gate is on the first half, it belongs on the second" in wrong
    assert "Still to do: gradient_flow" in wrong
    assert right.startswith("Gated linear unit: passed, 15 of 15 points")
    assert error(notebook.cells[-1].outputs).endswith("of 15.0\n")


def test_a_future_import_comes_first_and_lines_stay_right() -> None:
    cell = SourcePiece(
        "from __future__ import annotations\ndef f(x: Unknown):\n    return x", "In[7]", 1
    )
    composed = compose(
        '"""A stub."""\n\ndef f(x):\n    raise NotImplementedError', [cell], future=True
    )
    lines = composed.source.decode().split("\n")
    assert lines[0] == "from __future__ import annotations"
    assert composed.source.count(b"__future__") == 1
    compile(composed.source, "composed", "exec")
    assert composed.place(1 + lines.index("def f(x: Unknown):")) == ("In[7]", 2)
