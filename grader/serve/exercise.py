"""Texts on the page of an exercise: the task, rules for all exercises, the public checks, and the file."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from grader.course.manifest import EVERY_EXERCISE, Course, Exercise
from grader.course.suites import tests_of
from grader.course.syntax import syntax_tree
from grader.results import Visibility

_CODE_INDENT = "    "
_ITEM, _HEADING = "- ", "## "
# `code`, or *emphasis*, which is no product: it has neither a letter nor a star beside its stars.
_MARKED = re.compile(
    r"`(?P<code>[^`]+)`|(?<![\w*])\*(?P<emphasis>[^\s*`](?:[^*`]*[^\s*`])?)\*(?![\w*])"
)


class Kind(enum.Enum):
    """How a paragraph of a task is shown."""

    TEXT = "text"
    CODE = "code"
    LIST = "list"
    HEADING = "heading"


class Paragraph(NamedTuple):
    """A paragraph of a task: lines of text or code, or items of a list."""

    kind: str
    lines: list[str]


def task_of(stub: bytes) -> list[Paragraph]:
    """Return the paragraphs of a stub's docstring; none if it has no docstring."""
    tree = syntax_tree(stub)
    text = ast.get_docstring(tree, clean=False) if isinstance(tree, ast.Module) else None
    return _paragraphs(inspect.cleandoc(text or ""))


def rules_of(course: Course) -> list[Paragraph]:
    """Return the paragraphs of the course's rules for every exercise; empty if there are none."""
    page = course.root / EVERY_EXERCISE
    if not page.is_file():
        return []
    title, *paragraphs = _paragraphs(page.read_text(encoding="utf-8"))
    return paragraphs if title.lines[0].startswith("# ") else [title, *paragraphs]


def _paragraphs(text: str) -> list[Paragraph]:
    return [_paragraph(part) for part in text.split("\n\n") if part.strip()]


def _paragraph(text: str) -> Paragraph:
    lines = text.strip("\n").split("\n")
    if all(line.startswith(_CODE_INDENT) for line in lines):
        return Paragraph(Kind.CODE.value, [line.removeprefix(_CODE_INDENT) for line in lines])
    if lines[0].startswith(_HEADING):
        return Paragraph(Kind.HEADING.value, [lines[0].removeprefix(_HEADING)])
    if lines[0].startswith(_ITEM):
        return Paragraph(Kind.LIST.value, list(_items(lines)))
    return Paragraph(Kind.TEXT.value, [line.strip() for line in lines])


def _items(lines: list[str]) -> Iterator[str]:
    """Yield the items of a list, each on one line."""
    item = ""
    for line in lines:
        if line.startswith(_ITEM) and item:
            yield item
            item = ""
        item = f"{item} {line.removeprefix(_ITEM).strip()}".strip()
    yield item


def marked(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a line of text: "text", "code" or "emphasis", and the words without their marks."""
    end = 0
    for match in _MARKED.finditer(text):
        yield "text", text[end : match.start()]
        kind = match.lastgroup or "text"
        yield kind, match[kind]
        end = match.end()
    yield "text", text[end:]


def checked_in(course: Course, exercise: Exercise) -> list[str]:
    """Return the titles of an exercise's public tests."""
    return [test.title for test in tests_of(course, exercise, (Visibility.PUBLIC,))]


def text_of(source: bytes) -> str:
    """Return the text of a file for the editor: with line feeds, and without a byte order mark."""
    text = source.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
