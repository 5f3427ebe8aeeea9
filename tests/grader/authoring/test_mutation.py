"""Mutants are made mechanically, and marking one as equivalent hides it until its line changes."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from grader.authoring.mutation import Mutant, MutationReport, mutants_of, mutate
from grader.course.caught import write_caught
from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


# --- making them ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "mutants"),
    [
        ("x = a + b", ["pass", "x = a - b"]),
        ("x = (a) ** (b)  # ** c", ["pass  # ** c", "x = (a) * (b)  # ** c"]),
        ("x = a < b", ["pass", "x = a <= b", "x = a >= b"]),
        ("x = a is not b", ["pass", "x = a is b"]),
        ("x = a not in b", ["pass", "x = a in b"]),
        ("x = a and b and c", ["pass", "x = a or b and c", "x = a and b or c"]),
        ("x = not (a)", ["pass", "x =  (a)"]),
        ("x = -a", ["pass", "x = a"]),
        ("x = 0", ["pass", "x = 1"]),
        ("x = 3", ["pass", "x = 4", "x = 2"]),
        ("x = 1000", ["pass", "x = 2000"]),
        ("x = 1e-3", ["pass", "x = 0.002"]),
        ("x = True", ["pass", "x = False"]),
        ("x = None", ["pass"]),
        ("x = 'a'", ["pass", 'x = ""']),
        ("x = ''", ["pass", 'x = "mutant"']),
        ("x = f'{a + 1}'", ["pass", 'x = ""']),
        ("x: int = a", ["pass"]),
        ("x += a", ["pass", "x -= a", "x = a"]),
        ("x = a.detach().b", ["pass", "x = a.b"]),
        ("x = (a).t()", ["pass", "x = (a)"]),
        ("f(dim=-1)", ["pass", "f()", "f(dim=1)", "f(dim=-2)", "f(dim=-0)"]),
        ("x = f(a, b=c, **d)", ["pass", "x = f(a, **d)", "x = f(a, b=c)"]),
        ("x = f(b=(c), d=e)", ["pass", "x = f(d=e)", "x = f(b=(c))"]),
        ("x = a if b else c", ["pass", "x = a if not (b) else c"]),
        ("f(a for a in b if c < a)",
         ["pass", "f(a for a in b if not (c < a))", "f(a for a in b if c <= a)"]),
        ("x = cast('T', a + b)", ["pass", "x = cast('T', a - b)"]),
        ("del a", ["pass"]),
        ("assert a, 'words'", ["pass"]),
        ("a.eval()", ["pass"]),
        ("a.t()", ["pass"]),
        ("raise E(f'{1 + 1} words', 2)", ["pass"]),
        ("import a.b", []),
        ("__all__ = ['a', 'b']", []),
        ("'''Words.'''", []),
        ("...", []),
        ("if TYPE_CHECKING: x = 1", []),
    ],
)  # fmt: skip
def test_each_operator_makes_its_mutants(line: str, mutants: list[str]) -> None:
    made = [mutant.mutant for mutant in mutants_of(line.encode())]
    assert sorted(made) == sorted(mutants)
    assert len(made) == len(set(made))


def test_statements_are_mutated_in_order() -> None:
    source = """\
@wraps
def f(a: int = 0, *, b: "str" = "c") -> "list[int]":
    \"\"\"Words.\"\"\"
    for x in a:
        if x:
            continue
        elif b:
            break
        while c:
            x.y()
    with no_grad() as z:
        return d
"""
    made = [(mutant.function, mutant.mutant) for mutant in mutants_of(source.encode())]
    assert [text for function, text in made if function == ""] == []
    assert [text for _, text in made] == [
        "",
        'def f(a: int = 1, *, b: "str" = "c") -> "list[int]":',
        'def f(a: int = 0, *, b: "str" = "") -> "list[int]":',
        "pass",
        "if not (x):",
        "pass",
        "elif not (b):",
        "pass",
        "pass",
        "while not (c):",
        "pass",
        "if True:",
        "return",
    ]
    assert {function for function, _ in made} == {"f"}


GIVEN = """\
SIZE = 3


def helper(x):
    return x + 1


class A:
    size = 4

"""


def test_given_code_is_not_mutated() -> None:
    solution = GIVEN + "    def f(self): return helper(self.size) + 5\n"
    stub = GIVEN.replace("    return", "    'At length.'\n    return")
    stub += "    def f(self): raise NotImplementedError\n"
    made = [mutant.mutant for mutant in mutants_of(solution.encode(), stub.encode())]
    assert made == [
        "def f(self): return",
        "def f(self): return helper(self.size) - 5",
        "def f(self): return helper(self.size) + 4",
        "def f(self): return helper(self.size) + 6",
    ]
    # Code that differs in the stub belongs to the student.
    stub = stub.replace("x + 1", "x - 1").replace("SIZE = 3", "SIZE = 5")
    numbers = {mutant.number for mutant in mutants_of(solution.encode(), stub.encode())}
    assert numbers == {1, 5, 11}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_rest_of_the_file_is_unchanged(end: str) -> None:
    lines = ["# é", "class C:", '\tx = "ä", 1 + 2  # ö', "\tif x : y = f( 'ü',z = x )", ""]
    source = end.join(lines).encode()
    mutants = mutants_of(source)
    assert len(mutants) > 8
    for mutant in mutants:
        changed = mutant.source.decode().split(end)
        rest = [number for number in range(len(lines)) if number + 1 != mutant.number]
        assert [changed[number] for number in rest] == [lines[number] for number in rest]
        assert changed[mutant.number - 1].strip() == mutant.mutant
        assert lines[mutant.number - 1].strip() == mutant.line


def test_a_mutant_of_several_lines_is_shown_as_one() -> None:
    source = b"x = f(\n    a,\n    b=1,\n)\n"
    made = [(mutant.number, mutant.line, mutant.mutant) for mutant in mutants_of(source)]
    assert (1, "x = f( a, b=1, )", "pass") in made
    assert (2, "a, b=1,", "a,") in made


def test_mutants_differ_as_syntax_trees_and_all_compile() -> None:
    for solution in sorted((PLAIN / "solutions").rglob("*.py")):
        source = solution.read_bytes()
        shapes = [ast.dump(ast.parse(mutant.source)) for mutant in mutants_of(source)]
        assert len({ast.dump(ast.parse(source)), *shapes}) == len(shapes) + 1
    # A declaration without a value makes no mutants.
    assert mutants_of(b"x = 0 + 0") and not mutants_of(b"nonsense: int")
    # Both branches are `pass` already, so dropping a statement changes nothing.
    assert [mutant.mutant for mutant in mutants_of(b"if a:\n    pass\nelse:\n    pass\n")] == [
        "if not (a):"
    ]


# --- judging them ---------------------------------------------------------------------------------

SOLUTION = '''\
"""Greet somebody."""


def greeting(name: str) -> str:
    """`Hello, NAME!`, for a name with blanks around it too."""
    if len(name) > 3:
        name = name.strip()
    return f"Hello, {name}!"
'''


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """Return a course whose suite greets only a short name."""
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    course = load_course(tmp_path / "course")
    course.solution(course.exercise("greeting")).write_text(SOLUTION, encoding="utf-8")
    return course


def report_of(course: Course, most: int = 1000, *, told: bool = False) -> MutationReport:
    (report,) = mutate(course, [course.exercise("greeting")], most=most, told=told)
    return report


def mark(course: Course, *mutants: Mutant, reason: str = "no name is that short") -> None:
    entries = [
        f"[[equivalent]]\nline = '{mutant.line}'\nmutant = '{mutant.mutant}'\nreason = '{reason}'\n"
        for mutant in mutants
    ]
    path = course.mutants(course.exercise("greeting"))
    path.write_text("\n".join(entries), encoding="utf-8")


def test_survivors_of_a_weak_suite_are_listed(course: Course) -> None:
    report = report_of(course)
    assert (report.made, report.judged, report.caught) == (9, 9, 2)
    unseen = [(mutant.number, mutant.mutant) for mutant in report.survivors]
    assert unseen == [
        (6, "pass"),
        (6, "if not (len(name) > 3):"),
        (6, "if len(name) >= 3:"),
        (6, "if len(name) > 2:"),
        (6, "if len(name) > 4:"),
        (7, "pass"),
        (7, "name = name"),
    ]
    assert report.complaints == ()
    # Marked mutants are not listed. Once their line changes, they are listed again, with a complaint.
    mark(course, *report.survivors)
    marked = report_of(course)
    assert (marked.caught, marked.equivalent, marked.survivors, marked.complaints) == (2, 7, (), ())
    solution = course.solution(course.exercise("greeting"))
    solution.write_text(SOLUTION.replace("name.strip()", "name.strip(' ')"), encoding="utf-8")
    changed = report_of(course)
    assert [mutant.mutant for mutant in changed.survivors if mutant.number == 7] == [
        "pass",
        "name = name",
        'name = name.strip("")',
    ]
    gone = "tests/wrong/text/greeting.toml: no such mutant as 'name = name': the line changed; "
    assert gone + "remove the entry or judge it anew." in changed.complaints


def test_each_survivor_is_offered_as_an_entry_that_makes_the_same_mutant(course: Course) -> None:
    twice = '    return f"Hello, {name}!"\n'
    other = f"def other(name: str) -> str:\n    name = (\n        name + str(1)\n    )\n{twice}"
    exercise = course.exercise("greeting")
    course.solution(exercise).write_text(f"{SOLUTION}\n\n{other}", encoding="utf-8")
    report = report_of(course)
    unseen = {offer.id: offer for offer in report.offers}
    assert len(unseen) == len(report.survivors) > 9
    assert unseen["name_name"].entry == {"line": "name = name.strip()", "mutant": "name = name"}
    assert unseen["without_name_name_str_1"].entry["line"] == "name = ( name + str(1) )"
    assert unseen["return"].entry["inside"] == "other"
    # With a sentence it becomes a described mistake, and is not offered again.
    text = "".join(
        f"[mistake.{offer.id}]\nsays = 'No.'\n"
        + "".join(f"{k} = '{v}'\n" for k, v in offer.entry.items())
        for offer in report.offers
    )
    course.mutants(exercise).write_text(text, encoding="utf-8")
    described = report_of(course)
    assert described.offers == ()
    name = course.name_of(course.mutants(exercise))
    assert set(described.complaints) == {f"{name}: {id_}: no test catches it." for id_ in unseen}


def test_an_entry_names_the_solution_if_the_file_has_another_base(course: Course) -> None:
    exercise = course.exercise("greeting")
    right = course.name_of(course.variants(exercise, "right")[0])
    course.mutants(exercise).write_text(
        f"base = '{right}'\n[[equivalent]]\nline = 'name = name.strip()'\nmutant = 'pass'\nreason = 'r'\n",
        encoding="utf-8",
    )
    bases = {offer.entry["base"] for offer in report_of(course).offers}
    assert bases == {"solutions/text/greeting.py"}


def test_caught_mutants_without_a_sentence_are_offered_on_request(course: Course) -> None:
    offers = report_of(course, told=True).offers
    caught = [(offer.id, offer.caught_by) for offer in offers if offer.caught_by]
    assert caught == [("return", "test_greeting"), ("return_2", "test_greeting")]
    line = 'return f"Hello, {name}!"'
    entry = f"[mistake.nothing]\nline = '{line}'\nmutant = 'return'\nsays = 'Return the text.'\n"
    exercise = course.exercise("greeting")
    course.mutants(exercise).write_text(entry, encoding="utf-8")
    write_caught(course, exercise, {"nameless": ["test_greeting"], "nothing": ["test_greeting"]})
    offers = report_of(course, told=True).offers
    assert [offer.id for offer in offers if offer.caught_by] == ["return"]


def test_a_draw_is_the_same_every_time(course: Course) -> None:
    first, second = report_of(course, 3), report_of(course, 3)
    assert (first.made, first.judged) == (9, 3)
    assert first.survivors == second.survivors


def test_a_mark_on_a_caught_mutant_is_reported(course: Course) -> None:
    caught = Mutant(8, "greeting", 'return f"Hello, {name}!"', "return", b"")
    mark(course, caught)
    (complaint,) = report_of(course).complaints
    assert complaint == (
        "tests/wrong/text/greeting.toml: 'return' is marked equivalent, yet test_greeting catches it; "
        "remove the entry."
    )


def test_invalid_marks_are_reported(course: Course) -> None:
    exercise = course.exercise("greeting")
    mark(course, Mutant(1, "", "a", "b", b""), reason=" ")
    name = "tests/wrong/text/greeting.toml"
    expected = f"{name}: equivalent 'b': a reason may not be empty."
    assert wrong_answers(course, exercise).complaints == (expected,)
    assert expected in report_of(course).complaints
    twice = Mutant(1, "", "a", "b", b"")
    mark(course, twice, twice)
    assert wrong_answers(course, exercise).complaints == (
        f"{name}: equivalent 'b': it is marked twice; remove one.",
    )
    course.mutants(exercise).write_text("[[equivalent]]\nlines = 'a'\n", encoding="utf-8")
    (complaint,) = wrong_answers(course, exercise).complaints
    assert complaint.startswith(f"{name}: equivalent 'entry 1': ")
    course.mutants(exercise).write_text("nothing", encoding="utf-8")
    (complaint,) = wrong_answers(course, exercise).complaints
    assert complaint.startswith(f"{name}: ")
    assert complaint in report_of(course).complaints


def test_equal_lines_are_distinguished_by_function(course: Course) -> None:
    again = SOLUTION.replace('"""Greet somebody."""\n', "").replace("greeting", "other")
    solution = course.solution(course.exercise("greeting"))
    solution.write_text(SOLUTION + again, encoding="utf-8")
    line = "[[equivalent]]\nline = 'name = name.strip()'\nmutant = 'pass'\nreason = 'r'\n"
    mutants_file = course.mutants(course.exercise("greeting"))
    mutants_file.write_text(line, encoding="utf-8")
    assert report_of(course).equivalent == 2
    mutants_file.write_text(line + "inside = 'other'\n", encoding="utf-8")
    report = report_of(course)
    assert report.equivalent == 1
    assert ("greeting", "pass") in {(mutant.function, mutant.mutant) for mutant in report.survivors}


def test_an_endless_loop_costs_little_and_counts_as_caught(course: Course) -> None:
    manifest = course.root / "exercises" / "course.toml"
    text = manifest.read_text(encoding="utf-8").replace("seconds = 8", "seconds = 400")
    manifest.write_text(text, encoding="utf-8")
    course = load_course(course.root)
    solution = course.solution(course.exercise("greeting"))
    loop = "    while len(name) > 10:\n        name = name[:10]\n"
    solution.write_text(SOLUTION.replace("    return", loop + "    return"), encoding="utf-8")
    report = report_of(course)
    assert report.timed_out == 1
    # A quarter of the exercise's time would be 100 s.
    assert report.seconds < 60


def test_a_slow_marked_mutant_gets_the_time_of_the_exercise(course: Course) -> None:
    manifest = course.root / "exercises" / "course.toml"
    text = manifest.read_text(encoding="utf-8").replace("seconds = 8", "seconds = 400")
    manifest.write_text(text, encoding="utf-8")
    slow = SOLUTION.replace("    return", "    time.sleep(3 if len(name) > 3 else 0)\n    return")
    course = load_course(course.root)
    course.solution(course.exercise("greeting")).write_text("import time\n\n\n" + slow, "utf-8")
    line = "time.sleep(3 if len(name) > 3 else 0)"
    mark(course, Mutant(12, "greeting", line, line.replace("> 3", "> 2"), b""))
    report = report_of(course)
    assert (report.equivalent, report.complaints) == (1, ())


def test_a_wrong_solution_is_reported(course: Course) -> None:
    solution = course.solution(course.exercise("greeting"))
    solution.write_text(SOLUTION.replace("Hello", "Hi"), encoding="utf-8")
    report = report_of(course)
    assert report.judged == 0
    assert report.complaints == (
        "solutions/text/greeting.py is right, but test_greeting does not pass: correct that first.",
    )
    solution.write_text("def f(:\n", encoding="utf-8")
    (complaint,) = report_of(course).complaints
    assert complaint == "solutions/text/greeting.py, line 1, is not valid Python: invalid syntax."
    solution.write_bytes(b"x = '\xe9'\n")
    (complaint,) = report_of(course).complaints
    assert complaint.startswith(
        "solutions/text/greeting.py is not valid Python: 'utf-8' codec can't"
    )


def test_a_suite_that_raises_for_a_mutant_catches_it(course: Course) -> None:
    suite = course.root / "tests/public/text/test_greeting.py"
    text = suite.read_text("utf-8")
    call = 'student.function("greeting")("Ada")'
    suite.write_text(text.replace(call, f"{call}[:11]"), encoding="utf-8")
    assert report_of(course).caught == 2
    # If it raises for the solution, the suite is at fault.
    suite.write_text(text.replace(call, f"{call} + 1"), encoding="utf-8")
    report = report_of(course)
    (complaint,) = report.complaints
    assert complaint.startswith(
        "solutions/text/greeting.py: The suite of 'greeting' is at fault in"
    )
    assert (report.made, report.judged) == (9, 0)
