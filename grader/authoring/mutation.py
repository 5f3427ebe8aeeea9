"""Mutation testing: mechanical changes of a solution. The suites should notice each of them.

A mutant is the solution with one place changed, and otherwise the same byte for byte: an operator, a
comparison, a constant, a negated condition, a dropped statement, decorator, `with`, keyword argument,
return value or call such as `.detach()`. Docstrings, type hints, imports, `__all__`, messages of exceptions
and code given by the stub stay. A mutant that keeps full marks shows a gap in the tests. It is offered as an
entry of the exercise's mutants file (`grader.course.mutants`); its author adds a sentence to it, and a test
to the suite. If it does the same as the solution, the author marks it there:

    [[equivalent]]
    line = "total = x.detach().sum()"
    mutant = "total = x.sum()"
    reason = "x is detached by the caller already"
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

import msgspec

from grader.course.manifest import Course, Exercise
from grader.course.mutants import (
    EquivalentMutant,
    WrongAnswers,
    equivalent_mutants,
    joined,
    places_of,
    wrong_answers,
)
from grader.course.syntax import syntax_tree
from grader.errors import CourseError, GraderError
from grader.judge.assignment import AuthorOptions, GradingOptions
from grader.judge.pool import Judges
from grader.judge.recognition import is_unnamed
from grader.judge.session import TEST_PART
from grader.results import ExerciseResult, Outcome

_SEED = 0
# A mutant's test may take this many times as long as the slowest of the solution, plus a second.
_PATIENCE = 10
_LONGEST_ID = 40

_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# The neighbor first, then the opposite, which for a condition equals its negation.
_COMPARISONS = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
# Methods that return the object in another form; without the call, the code still runs.
_CONVERSIONS = re.compile(
    "abs|bool|clone|contiguous|copy|cpu|detach|double|flatten|float|int|item|long|lower|numpy|"
    "requires_grad_|reshape|squeeze|strip|t|to|tolist|upper|unsqueeze|view"
)


class Mutant(msgspec.Struct, frozen=True):
    """The solution with one place changed: its line and function, the changed lines as one, the source."""

    number: int
    function: str
    line: str
    mutant: str
    source: bytes


class Offer(msgspec.Struct, frozen=True):
    """A mutant that no sentence names, and an entry of the mutants file without its sentence.

    `caught_by` is the first test that catches it, if any.
    """

    mutant: Mutant
    id: str
    entry: dict[str, str]
    caught_by: str = ""


class MutationReport(msgspec.Struct, frozen=True):
    """The fates of one exercise's mutants: `made` is their number, `judged` the number tried."""

    exercise: str
    solution: str
    made: int
    judged: int = 0
    caught: int = 0
    timed_out: int = 0
    equivalent: int = 0
    offers: tuple[Offer, ...] = ()
    complaints: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def survivors(self) -> tuple[Mutant, ...]:
        """The mutants that no test catches."""
        return tuple(offer.mutant for offer in self.offers if not offer.caught_by)


# --- making them ----------------------------------------------------------------------------------


def mutants_of(source: bytes, stub: bytes = b"") -> list[Mutant]:
    """Return all mutants of a source, top to bottom, except mutants that compile to the same code.

    Functions, classes and constants unchanged from the stub were given to the student.
    """
    tree = syntax_tree(source)
    seen = {ast.dump(tree)}
    mutants = []
    shapes = {_shape(statement) for statement in _parts(syntax_tree(stub))}
    given = {statement for statement in _parts(tree) if _shape(statement) in shapes}
    finder = _EditFinder(source, given)
    finder.visit(tree)
    for edit in sorted(finder.edits):
        mutated = source[: edit.start] + edit.text + source[edit.end :]
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = syntax_tree(mutated)
                compile(tree, "mutant", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        if (shape := ast.dump(tree)) not in seen:
            seen.add(shape)
            mutants.append(_mutant(source, mutated, edit))
    return mutants


def _parts(tree: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    """Yield the statements of a module and of its classes."""
    for statement in tree.body:
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from _parts(statement)


def _shape(statement: ast.stmt) -> str:
    """Return a statement's meaning to Python, without its docstring: a stub's explains more."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(statement):
        statement = copy.copy(statement)
        statement.body = statement.body[1:]
    return ast.dump(statement)


class _Edit(msgspec.Struct, frozen=True, order=True):
    """Replace the bytes from `start` to `end` by `text`."""

    start: int
    end: int
    text: bytes
    function: str


def _mutant(source: bytes, mutated: bytes, edit: _Edit) -> Mutant:
    """Return the mutant of an edit, with the changed lines as its author reads them."""
    first = source.rfind(b"\n", 0, edit.start) + 1
    last = source.find(b"\n", edit.end)
    last = len(source) if last < 0 else last
    number = source.count(b"\n", 0, edit.start) + 1
    line = joined(source[first:last].decode())
    changed = joined(mutated[first : last + len(mutated) - len(source)].decode())
    return Mutant(number, edit.function, line, changed, mutated)


class _EditFinder(ast.NodeVisitor):
    """Collects the edits that make mutants of a source."""

    def __init__(self, source: bytes, given: Set[ast.AST]) -> None:
        self.edits: list[_Edit] = []
        self._source, self._given = source, given
        lines = source.splitlines(keepends=True)
        self._line_starts = [0, *itertools.accumulate(map(len, lines))]
        self._scope: list[str] = []
        # Their negation is a mutant already, and the opposite of a comparison is the same.
        self._negated: set[ast.expr] = set()

    def visit(self, node: ast.AST) -> None:
        if node not in self._given:
            super().visit(node)

    # --- places

    def _span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends, in bytes: ast counts in bytes of UTF-8."""
        assert isinstance(node, (ast.expr, ast.stmt, ast.keyword))
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _edit(self, start: int, end: int, text: str) -> None:
        self.edits.append(_Edit(start, end, text.encode(), ".".join(self._scope)))

    def _replace(self, node: ast.AST, text: str) -> None:
        self._edit(*self._span(node), text)

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _replace_between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator between two nodes, with at most brackets and comments around it."""
        start, end = self._span(left)[1], self._span(right)[0]
        # Blanks as long as a comment, which might contain an operator.
        between = re.sub(rb"#[^\n]*", lambda at: b" " * len(at[0]), self._source[start:end])
        if (at := re.search(old.encode(), between)) is not None:
            self._edit(start + at.start(), start + at.end(), new)

    # --- definitions: neither their type hints nor their docstrings

    def _visit_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        """Drop one decorator at a time, then visit defaults and the body."""
        self._scope.append(node.name)
        for decorator in node.decorator_list:
            start, end = self._span(decorator)
            self._edit(self._source.rfind(b"@", 0, start), end, "")
            self.visit(decorator)
        if not isinstance(node, ast.ClassDef):
            self._visit_defaults(node.args)
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_definition  # noqa: N815 (names of ast)

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_defaults(node.args)
        self.visit(node.body)

    # --- statements

    def _stays(self, node: ast.AST) -> None:
        """Leave the node unchanged: it has no code of its own, or nothing that a contract promises."""

    visit_Import = visit_ImportFrom = visit_Global = visit_Nonlocal = visit_Pass = _stays  # noqa: N815

    def _drop(self, node: ast.stmt) -> None:
        self._replace(node, "pass")
        self.generic_visit(node)

    visit_Break = visit_Continue = visit_Delete = visit_For = visit_AsyncFor = _drop  # noqa: N815

    def visit_Assert(self, node: ast.Assert) -> None:
        self._replace(node, "pass")
        self.visit(node.test)

    def visit_Raise(self, node: ast.Raise) -> None:
        # Its message is only wording.
        self._replace(node, "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets):
            self._drop(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._replace(node, "pass")
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        old, new = _OPERATORS[type(node.op)]
        for replacement in (f"{new}=", "="):
            self._replace_between(node.target, node.value, re.escape(old) + "=", replacement)
        self._drop(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or three dots
        self._replace(node, "pass")
        if isinstance(node.value, ast.Call):
            # A method whose value is not used does not convert.
            self.visit(node.value.func)
            self._visit_arguments(node.value)
        else:
            self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._replace(node, "return")
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        test = ast.unparse(node.test)
        if "TYPE_CHECKING" in test or "__name__" in test:
            return
        self._negate(node.test)
        if not node.orelse and self._source.startswith(b"if", self._span(node)[0]):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self._drop(node)

    def visit_With(self, node: ast.With) -> None:
        last = node.items[-1].optional_vars or node.items[-1].context_expr
        start, end = self._span(node)[0], self._span(last)[1]
        self._edit(start, self._source.index(b":", end), "if True")
        self.generic_visit(node)

    # --- expressions

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.UnaryOp):
            self._replace(test, f"not ({self._text(test)})")
        self._negated.add(test)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, (left, right) in zip(node.ops, itertools.pairwise(operands), strict=True):
            old, *replacements = _COMPARISONS[type(operator)]
            if node in self._negated and len(node.ops) == 1:
                replacements.pop()
            for new in replacements:
                self._replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in itertools.pairwise(node.values):
            self._replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        old, new = _OPERATORS[type(node.op)]
        self._replace_between(node.left, node.right, re.escape(old), new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.UAdd):
            start, operand = self._span(node)[0], self._span(node.operand)[0]
            sign = (
                "not" if isinstance(node.op, ast.Not) else self._source[start : start + 1].decode()
            )
            # Not up to the operand, since a bracket may be before it.
            self._edit(start, min(start + len(sign), operand), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool(value):
                self._replace(node, repr(not value))
            case int(value):
                near = [2 * value] if value > 100 else [value + 1, value - 1][: 1 + (value > 0)]
                for number in near:
                    self._replace(node, repr(number))
            case float(value):
                self._replace(node, repr(2 * value if value else 1.0))
            case str(value):
                self._replace(node, '""' if value else '"mutant"')

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Before Python 3.12, parts of an f-string have no positions of their own.
        self._replace(node, '""')

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name("cast") | ast.Attribute(attr="cast"):
                self.visit(node.args[-1])
                return
            case ast.Attribute(receiver, attr) if _CONVERSIONS.fullmatch(attr):
                # Not from the end of the receiver, since a bracket may close after it.
                start, end = self._span(receiver)[1], self._span(node)[1]
                self._edit(self._source.index(b".", start), end, "")
        self.visit(node.func)
        self._visit_arguments(node)

    def _visit_arguments(self, node: ast.Call) -> None:
        """Drop a keyword argument at a time, with the comma before or after it."""
        for keyword in node.keywords:
            start, end = self._span(keyword)
            before = self._source[:start].rstrip()
            if before.endswith(b","):
                self._edit(len(before) - 1, end, "")
            else:
                after = re.match(rb"\s*,?\s*", self._source[end:])
                self._edit(start, end + (after.end() if after else 0), "")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)


# --- judging them ---------------------------------------------------------------------------------


def mutate(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    most: int,
    jobs: int = 1,
    told: bool = False,
    shared: Judges | None = None,
    begin: Callable[[str, int], object] = lambda exercise, count: None,
    done: Callable[[], object] = lambda: None,
) -> Iterator[MutationReport]:
    """Judge mutants of each solution, `most` at most; `done` is called for every one of them.

    The judges are `shared`, or `jobs` new ones. With `told`, mutants are judged to the end, and caught ones are
    also offered if no message names the mistake. Raises CourseError for an exercise without a solution.
    """
    for exercise in exercises:
        if not (path := course.solution(exercise)).is_file():
            raise CourseError(f"There is nothing to mutate for {exercise.id!r}: {path} is missing.")
    with (
        Judges.shared_or_new(shared, course, exercises, jobs) as judges,
        ThreadPoolExecutor(1, thread_name_prefix="solution") as ahead,
    ):
        judges.start()
        mutations = [_Mutations(course, e, judges, jobs, told) for e in exercises]
        times = [ahead.submit(each.time_solution) for each in mutations[:1]]
        for place, each in enumerate(mutations):
            # The next solution is judged beside these mutants, so no judge waits for another.
            times += [
                ahead.submit(later.time_solution) for later in mutations[place + 1 : place + 2]
            ]
            yield each.report(times[place].result(), most, begin, done)


class _Mutations:
    """Judges the mutants of one exercise, several at a time, and compares with the marks."""

    def __init__(
        self,
        course: Course,
        exercise: Exercise,
        judges: Judges,
        jobs: int,
        told: bool,
    ) -> None:
        self._course, self._exercise, self._told = course, exercise, told
        self._judges, self._jobs = judges, jobs
        self._file = course.name_of(course.mutants(exercise))
        self._solution = course.name_of(course.solution(exercise))

    def report(
        self,
        time_limit: tuple[float, str],
        most: int,
        begin: Callable[[str, int], object],
        done: Callable[[], object],
    ) -> MutationReport:
        """Judge the mutants, or a random choice of `most` of them, and report their fates."""
        source = self._course.solution(self._exercise).read_bytes()
        stub = self._course.stub(self._exercise).source
        if complaint := self._unreadable(source, stub):
            return MutationReport(self._exercise.id, self._solution, 0, complaints=(complaint,))
        mutants = mutants_of(source, stub)
        marked, complaints = self._marked(mutants)
        # Mutants of shares that are not judged here survive in any case.
        closed = {need.share for need in self._exercise.unmet}
        mutants = [m for m in mutants if self._exercise.share_of(m.function) not in closed]
        chosen = mutants
        if most < len(mutants):
            numbers = sorted(random.Random(_SEED).sample(range(len(mutants)), most))  # noqa: S311 (a draw that stays the same)
            chosen = [mutants[number] for number in numbers]
        seconds, complaint = time_limit
        if complaint:
            complaints.append(complaint)
            chosen = []
        begin(self._exercise.id, len(chosen))
        started = time.monotonic()

        def judge(mutant: Mutant) -> ExerciseResult | str:
            try:
                result = self._judge(mutant.source, seconds, stop=not self._told)
                # A machine that was busy for a moment does not disprove an entry.
                if mutant.source in marked and _ended_by_time(result):
                    result = self._judge(mutant.source, self._exercise.seconds, stop=True)
                return result
            finally:
                done()

        unnamed: list[tuple[Mutant, str]] = []
        faults: dict[str, Mutant] = {}
        wrongs = wrong_answers(self._course, self._exercise)
        known = _known(wrongs)
        caught = timed_out = 0
        for mutant, result in zip(chosen, self._judges.threads.map(judge, chosen), strict=True):
            if isinstance(result, str):
                faults.setdefault(result, mutant)
            elif failed := [test for test in result.tests if test.outcome not in _FINE]:
                caught += 1
                timed_out += failed[0].outcome is Outcome.TIMEOUT
                if mutant.source in marked:
                    complaints.append(
                        f"{self._file}: {mutant.mutant!r} is marked equivalent, yet "
                        f"{failed[0].name} catches it; remove the entry."
                    )
                elif self._told and all(map(is_unnamed, failed)):
                    unnamed.append((mutant, failed[0].name))
            elif mutant.source in marked:
                continue
            elif name := known.get(ast.dump(syntax_tree(mutant.source))):
                complaints.append(f"{name}: no test catches it.")
            else:
                unnamed.append((mutant, ""))
        complaints += [
            f"{self._solution}, line {mutant.number}, as {mutant.mutant!r}: {fault}"
            for fault, mutant in faults.items()
        ]
        return MutationReport(
            self._exercise.id,
            self._solution,
            len(mutants),
            judged=len(chosen),
            caught=caught,
            timed_out=timed_out,
            equivalent=sum(mutant.source in marked for mutant in chosen),
            offers=self._offers(unnamed, wrongs, source.decode("utf-8-sig")),
            complaints=tuple(complaints),
            seconds=time.monotonic() - started,
        )

    def _offers(
        self, unnamed: Sequence[tuple[Mutant, str]], wrongs: WrongAnswers, source: str
    ) -> tuple[Offer, ...]:
        """Make entries of mutants, under unused ids; each mutant comes with a test that catches it."""
        ids = {wrong.id for wrong in wrongs.answers}
        offers = []
        for mutant, test in unnamed:
            entry = {"line": mutant.line}
            if len(places_of(mutant.line, source)) > 1:
                entry["inside"] = mutant.function
            entry["mutant"] = mutant.mutant
            if wrongs.base not in ("", self._solution):
                entry["base"] = self._solution
            stem = id_ = _stem(mutant)
            numbers = itertools.count(2)
            while id_ in ids:
                id_ = f"{stem}_{next(numbers)}"
            ids.add(id_)
            offers.append(Offer(mutant, id_, entry, test))
        return tuple(offers)

    def _unreadable(self, source: bytes, stub: bytes) -> str:
        """Return why the solution or the stub has no syntax tree; empty if both have one."""
        stub_name = self._course.name_of(self._course.folder / self._exercise.file)
        for name, text in ((self._solution, source), (stub_name, stub)):
            try:
                syntax_tree(text.decode("utf-8-sig"))
            except (SyntaxError, ValueError) as error:
                line = f", line {error.lineno}," if isinstance(error, SyntaxError) else ""
                return f"{name}{line} is not valid Python: {getattr(error, 'msg', error)}."
        return ""

    def _marked(self, mutants: Sequence[Mutant]) -> tuple[set[bytes], list[str]]:
        """Return the sources of mutants that are marked as equivalent, and complaints about the marks."""
        entries, complaints = equivalent_mutants(self._course, self._exercise)
        marked: set[bytes] = set()
        for entry in entries:
            matching = {mutant.source for mutant in mutants if _is_marked(entry, mutant)}
            marked |= matching
            if not matching:
                complaints.append(
                    f"{self._file}: no such mutant as {entry.mutant!r}: the line changed; remove the "
                    "entry or judge it anew."
                )
        return marked, complaints

    def time_solution(self) -> tuple[float, str]:
        """Return the time limit for a mutant, from the solution's time; or why there is nothing to judge."""
        source, own = self._course.solution(self._exercise).read_bytes(), self._exercise.seconds

        def judge(_: int) -> ExerciseResult | str:
            return self._judge(source, own, stop=False)

        # Once for each judge, which imports the suites, and then to measure.
        list(self._judges.threads.map(judge, range(self._jobs)))
        (result,) = self._judges.threads.map(judge, range(1))
        if isinstance(result, str):
            return own, f"{self._solution}: {result}"
        if failed := [test.name for test in result.tests if test.outcome is not Outcome.PASSED]:
            return (
                own,
                f"{self._solution} is right, but {failed[0]} does not pass: correct that first.",
            )
        slowest = max((test.duration_seconds for test in result.tests), default=0.0)
        whole = sum(test.duration_seconds for test in result.tests)
        return min(own, max((1 + _PATIENCE * slowest) / TEST_PART, _PATIENCE * whole)), ""

    def _judge(self, source: bytes, seconds: float, *, stop: bool) -> ExerciseResult | str:
        options = GradingOptions(recognize=self._told and not stop)
        author = AuthorOptions(seconds=seconds, stop_at_first_failure=stop)
        try:
            return self._judges.judge(
                self._course, self._exercise, source, options, author=author
            ).result
        except GraderError as error:
            return str(error)


_FINE = (Outcome.PASSED, Outcome.SKIPPED)


def _ended_by_time(result: ExerciseResult | str) -> bool:
    return not isinstance(result, str) and any(
        test.outcome is Outcome.TIMEOUT for test in result.tests
    )


def _known(wrongs: WrongAnswers) -> dict[str, str]:
    """Return the names of the wrong answers, by the meaning of their sources to Python."""
    known = {}
    for wrong in wrongs.answers:
        with contextlib.suppress(SyntaxError, ValueError):
            known[ast.dump(syntax_tree(wrong.source))] = wrong.name
    return known


def _stem(mutant: Mutant) -> str:
    """Return an id for a mutant, from the words in its line."""
    is_dropped = mutant.mutant in ("", "pass")
    words = re.findall("[a-z0-9]+", (mutant.line if is_dropped else mutant.mutant).lower())
    if is_dropped or not words or words[0].isdecimal():
        words = ["without" if is_dropped else "mutant", *words]
    lengths = itertools.accumulate(len(word) + 1 for word in words)
    fitting = [word for word, end in zip(words, lengths, strict=True) if end <= _LONGEST_ID]
    return "_".join(fitting) or words[0][:_LONGEST_ID]


def _is_marked(entry: EquivalentMutant, mutant: Mutant) -> bool:
    inside = not entry.inside or entry.inside == mutant.function
    return inside and (entry.line, entry.mutant) == (mutant.line, mutant.mutant)
