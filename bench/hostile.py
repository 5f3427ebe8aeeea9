"""`python -m bench.hostile`: the time for hostile files and frames, against honest ones of the same length.

Hostile texts are read for `grade similar`, without Python's own parser, whose time `grader.submissions.source`
bounds. For a reader that backtracks, they would take at least sixty times as long as an honest file. The
hostile frames are the ones of the tests, which count calls.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.table import Table

from grader.course.manifest import load_course
from grader.gradebook.similarity.fingerprints import Reader, _words
from grader.sandbox.wire.messages import Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import LIST, ProtocolError
from tests.grader.sandbox.frames import frame_of, read
from tests.grader.sandbox.test_decoding_work import HEAVY, REFUSED, ext, full

_BYTES = 66_000
# Each text: its beginning, the part that is repeated, and its end.
TEXTS = (
    ("x = '%", "0", "'"),
    ("x = '%", "0", ""),
    ("match", " ", "x\n"),
    ("", "match ", "\n"),
    ("'", "\\'", ""),
    ('"', '\\"', ""),
    ("", '"""', ""),
    ("", "'''\\", ""),
    ("", '""', ""),
    ("", "f'{", ""),
    ("f'", "{x}", "'"),
    ("f'", "{", ""),
    ("", "rb", "'"),
    ("", "r'", ""),
    ("x = ", "1_", ""),
    ("x = ", "1e", ""),
    ("x = ", ".", ""),
    ("x = ", "0.", "e"),
    ("x", ".x", ""),
    ("", "(", ""),
    ("", "[(", ")"),
    ("", "#", ""),
    ("", "\\", ""),
    ("", "\\\n", ""),
    ("", " \n", "x"),
    ("", "\t", ""),
    ("x", "\u0301\u0323", ""),
    ("x.", "\ufdfa", ""),
    ("", "@", ""),
    ("", "<", ""),
    ("", "\0", ""),
)


def processor_seconds(work: Callable[[], object], runs: int) -> float:
    """Return the median of the processor time."""
    taken = []
    for _ in range(runs):
        begin = time.process_time()
        with contextlib.suppress(ProtocolError):
            work()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def hostile_texts() -> Iterator[tuple[str, str]]:
    """Yield the label of each text, and the text."""
    for begin, repeated, end in TEXTS:
        text = begin + repeated * (_BYTES // len(repeated.encode())) + end
        yield f"text of {repeated!a}", text


@click.command()
@click.option("--runs", type=click.IntRange(1), default=3, help="Runs, of which the median counts.")
def main(runs: int) -> None:
    """Measure and print."""
    table = Table("what", "seconds", "an honest one", "ratio", "bound")

    def add(what: str, took: float, honest: float, bound: str) -> None:
        table.add_row(what, f"{took:.4f}", f"{honest:.4f}", f"{took / honest:.1f}", bound)

    course = load_course(".")
    solution = course.solution(course.exercise("glu")).read_text(encoding="utf-8")
    text = solution * (_BYTES // len(solution))
    honest = processor_seconds(lambda: Reader(b"").read(text.encode()), runs)
    for what, hostile in hostile_texts():
        took = processor_seconds(lambda text=hostile: list(_words(text)), runs)  # type: ignore[misc]
        add(what, took, honest, "≤ 20")
    frame = frame_of(Returned(full(lambda n: ext(LIST, [n % 100, 0.5]))), Packing())
    honest = processor_seconds(lambda: read(frame), runs)
    for name, make in {**HEAVY, **REFUSED}.items():
        hostile_frame = frame_of(Returned(make()), Packing())
        took = processor_seconds(lambda frame=hostile_frame: read(frame), runs)  # type: ignore[misc]
        add(f"frame of {name}", took, honest, "≤ 5")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
