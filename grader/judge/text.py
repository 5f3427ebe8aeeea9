"""Texts that keep their words, which anyone may read, apart from the values of a run."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from grader.course.syntax import syntax_tree
from grader.findings import escaped, filled, parsed
from grader.results import Cause, Finding
from grader.text import clean

_CHECKS = Path(__file__).with_name("checks")
_LONGEST_VALUE = 500
_BREAK = re.compile(r"\s*\n\s*")
_WORD = re.compile(r"[^\W\d_]{2,}")
# Words of a source that are values when they appear in a message.
_VALUES = frozenset(("True", "False", "None", "NaN", "nan", "inf", "infinite"))


class Text(str):
    """A text with values in it.

    `words` is a format string with a name in braces for each of the `values`, and nothing from a run.
    """

    words: str
    values: Mapping[str, str]

    def __new__(cls, words: str, values: Mapping[str, str]) -> Text:
        """Make the text with the values in the places of their names."""
        made = super().__new__(cls, filled(words, values))
        made.words, made.values = words, values
        return made


def text(words: str, /, *values: object) -> str:
    """Make a text from its words, a format string with a name in braces for each of the values, in order.

        text("{name} has shape {shape}, expected {expected}.", name, tuple(x.shape), (4, 3))

    A repeated name means the same value. A value that is itself a text contributes its words.
    """
    made: list[str] = []
    named: dict[str, str] = {}
    texts: dict[str, Text] = {}
    for literal, name, form, conversion in parsed(words):
        made.append(escaped(literal))
        if name is None:
            continue
        if name not in texts:
            value = values[len(texts)]
            if form or conversion:
                value = f"{{:{form}}}".format(_converted(value, conversion))
            texts[name] = value if isinstance(value, Text) else _only(name, value)
        made.append(_joined(named, texts[name]))
    if len(texts) != len(values):
        raise TypeError(f"{len(values)} values for the {len(texts)} names of {words!r}")
    return Text("".join(made), named)


def join(separator: str, texts: Iterable[str]) -> str:
    """Join several texts into one, with their words and their values."""
    named: dict[str, str] = {}
    words = [
        _joined(named, each if isinstance(each, Text) else _only("text", each)) for each in texts
    ]
    return Text(escaped(separator).join(words), named)


def capitalized(line: str) -> str:
    """Return the text with a capital letter."""
    return _with_first(line, str.upper)


def uncapitalized(line: str) -> str:
    """Return the text with a small letter."""
    return _with_first(line, str.lower)


def _with_first(line: str, change: Callable[[str], str]) -> str:
    """Change the first letter of a text; a value at its beginning gets a name of its own."""
    if not isinstance(line, Text):
        return change(line[:1]) + line[1:]
    if not line.words.startswith("{"):
        return Text(change(line.words[:1]) + line.words[1:], line.values)
    name = line.words[1:].partition("}")[0]
    first = f"{name}_first" if line.words.count(f"{{{name}}}") > 1 else name
    changed = {first: _with_first(line.values[name], change)}
    return Text(f"{{{first}}}" + line.words[len(name) + 2 :], {**line.values, **changed})


def finding(lines: Iterable[str], cause: Cause = Cause.MISTAKE, plain: str = "") -> Finding:
    """Make a finding of sentences, the most informative one first."""
    named: dict[str, str] = {}
    texts = [line if isinstance(line, Text) else _only("text", line) for line in lines if line]
    words = [_joined(named, each) for each in texts]
    first, *others = words or [""]
    # A tensor is printed on several lines.
    on_a_line = {name: _BREAK.sub(" ", value) for name, value in named.items()}
    values = {name: clean(value, _LONGEST_VALUE) for name, value in on_a_line.items()}
    return Finding(first, tuple(others), values, cause, (plain,) if plain else ())


def _converted(value: object, conversion: str | None) -> object:
    return repr(value) if conversion == "r" else value


def _only(name: str, value: object) -> Text:
    """Return a text that is only a value, or an empty text if the value is empty."""
    shown = str(value)
    return Text(f"{{{name}}}", {name: shown}) if shown else Text("", {})


def _joined(named: dict[str, str], added: Text) -> str:
    """Return the words of a text, after renaming its values if their names are taken; adds them to `named`."""
    names: dict[str, str] = {}
    for name, value in added.values.items():
        free, count = name, 1
        while named.get(free, value) != value:
            count += 1
            free = f"{name}_{count}"
        named[free] = value
        names[name] = f"{{{free}}}"
    return _replaced(added.words, names)


def _replaced(words: str, names: Mapping[str, str]) -> str:
    """Replace each of these names in braces."""
    return "".join(
        escaped(literal) + ("" if name is None else names.get(name, f"{{{name}}}"))
        for literal, name, _, _ in parsed(words)
    )


# --- suites -------------------------------------------------------------------------------------------

# The function that an f-string of a suite calls.
TEXT = "__text__"


def telling(suite: bytes) -> ast.Module:
    """Return the syntax tree of a suite with its f-strings as texts, which keep words apart from values.

    Only f-strings with several words are changed, since students read these, and none with a computed format.
    """
    tree = syntax_tree(suite)
    _Telling().visit(tree)
    return ast.fix_missing_locations(tree)


class _Telling(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        words = ""
        values: dict[str, ast.expr] = {}
        for part in node.values:
            match part:
                case ast.Constant(value=str(literal)):
                    words += escaped(literal)
                case ast.FormattedValue(value=value, conversion=conversion):
                    form = _format_of(part)
                    if form is None:
                        return node
                    name = _name_of(value, values)
                    values[name] = value
                    words += (
                        "{" + name + (f"!{chr(conversion)}" if conversion > 0 else "") + form + "}"
                    )
        if not values or " " not in words or len(_WORD.findall(words)) < 1:
            return node
        call = ast.Call(ast.Name(TEXT, ast.Load()), [ast.Constant(words), *values.values()], [])
        return ast.copy_location(call, node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        node.value = self.visit(node.value)
        return node


def _format_of(part: ast.FormattedValue) -> str | None:
    """Return the format of a value, or None if it is an expression."""
    match part.format_spec:
        case None:
            return ""
        case ast.JoinedStr(values=[ast.Constant(value=str(form))]):
            return f":{form}"
    return None


def _name_of(value: ast.expr, taken: Mapping[str, ast.expr]) -> str:
    """Return a name for a value of an f-string: its own, its attribute's, or a generic one."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            pass
        case _:
            name = "value"
    free, count = name, 1
    while free in taken:
        if ast.dump(taken[free]) == ast.dump(value):
            return free
        count += 1
        free = f"{name}_{count}"
    return free


# --- the author's words -------------------------------------------------------------------------------


def with_words_of(found: Finding, suite: Path) -> Finding:
    """Return the finding, with values that are constants in the suite or the checks as words.

    Such a value is not from a run: for example the suite's name for a tensor, or "twice as long as".
    """
    (several, _), (several_of_checks, single) = (
        _constants(suite.read_bytes()),
        _constants_of_checks(),
    )
    known: dict[str, str] = {}
    for name, value in found.values.items():
        either = {value, value[:1].lower() + value[1:]}
        if value in single or not (
            either.isdisjoint(several) and either.isdisjoint(several_of_checks)
        ):
            known[name] = escaped(value)
    lines = [_inlined(line, known, single) for line in (found.sentence, *found.details)]
    values = {
        name: value
        for name, value in found.values.items()
        if any(f"{{{name}}}" in line for line in lines)
    }
    return msgspec.structs.replace(
        found, sentence=lines[0], details=tuple(lines[1:]), values=values
    )


def _inlined(line: str, known: Mapping[str, str], single: frozenset[str]) -> str:
    made = ""
    for literal, name, _, _ in parsed(line):
        made += escaped(literal)
        if name is None:
            continue
        # After "expected" or "got", even a word is a value.
        is_value = made.endswith(("expected ", "got ")) and known.get(name, "") in single
        made += known[name] if name in known and not is_value else f"{{{name}}}"
    return made


@functools.lru_cache(maxsize=64)
def _constants(source: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """Return the string constants of a source: those with several words, and single words."""
    texts = {
        node.value
        for node in ast.walk(syntax_tree(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    several = {each for each in texts if len(_WORD.findall(each)) > 1}
    single = {each for each in texts - several if each[:1].isalpha()} - _VALUES
    return frozenset(several), frozenset(single)


@functools.cache
def _constants_of_checks() -> tuple[frozenset[str], frozenset[str]]:
    found = [_constants(file.read_bytes()) for file in sorted(_CHECKS.rglob("*.py"))]
    several, single = (frozenset().union(*each) for each in zip(*found, strict=True))
    return several, single
