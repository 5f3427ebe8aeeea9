"""The sentences about mistakes in a suite, read from its syntax tree; `grade verify` has each of them shown.

A sentence is a key of a dictionary that ends as sentences do: `mistakes` of a check. It may have holes (`{}` of
format, or of an f-string) and a name, if that name stands for one text in its function or in the module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from grader.course.syntax import syntax_tree

_HOLE = "\0"
_SENTENCE = re.compile(r"\w+\W+\w+\W+\w.*[.?!:]\s*$", re.DOTALL)


class Sentence(msgspec.Struct, frozen=True):
    """A sentence of a suite, with `...` for its holes; the line and the function where it stands."""

    line: int
    function: str
    text: str
    pattern: str

    def is_in(self, messages: Iterable[str]) -> bool:
        """Whether a student reads it in one of these messages."""
        return any(re.search(self.pattern, _normal(message), re.DOTALL) for message in messages)


def sentences_of(suite: Path) -> list[Sentence]:
    """The sentences of a suite, each text once."""
    tree = syntax_tree(suite.read_bytes())
    sentences: dict[str, Sentence] = {}
    shared = _texts_by_name(tree.body)
    for part in tree.body:
        own = part.body if isinstance(part, ast.FunctionDef) else []
        names = {**shared, **_texts_by_name(ast.walk(ast.Module(own, [])))}
        for key in _keys(part):
            text = _text(key, names)
            if text is not None and _SENTENCE.search(text):
                pattern = ".*".join(re.escape(_normal(p)) for p in text.split(_HOLE))
                function = getattr(part, "name", "")
                shown = " ".join(text.replace(_HOLE, "...").split())
                sentences.setdefault(text, Sentence(key.lineno, function, shown, pattern))
    return list(sentences.values())


def _normal(text: str) -> str:
    """The text with one blank for any whitespace, as a line break in a message has it."""
    return re.sub(r"\s+", " ", text)


def _keys(part: ast.stmt) -> Iterator[ast.expr]:
    for node in ast.walk(part):
        match node:
            case ast.Dict(keys=keys):
                yield from (key for key in keys if key is not None)
            case ast.DictComp(key=key):
                yield key


def _texts_by_name(nodes: Iterable[ast.AST]) -> dict[str, ast.expr | None]:
    """Names that are given one text; None for a name that is given several things."""
    names: dict[str, ast.expr | None] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    names[name.id] = None if name.id in names else value
    return names


def _text(node: ast.expr | None, names: dict[str, ast.expr | None]) -> str | None:
    """The text of an expression, with holes for values of the run; None if it is not a text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            inner = (v.value if isinstance(v, ast.FormattedValue) else v for v in values)
            parts = [_text(value, names) for value in inner]
            return "".join(_HOLE if part is None else part for part in parts)
        case ast.Name(id=name) if name in names:
            # Not in a circle: a name that is made of itself is a hole.
            return _text(names[name], {n: e for n, e in names.items() if n != name})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left, names), _text(right, names)]
            if parts != [None, None]:
                return "".join(_HOLE if part is None else part for part in parts)
        case ast.Call(func=ast.Attribute(value=form, attr="format")):
            if (pattern := _text(form, names)) is not None:
                return re.sub(r"\{[^{}]*\}", _HOLE, pattern)
    return None
