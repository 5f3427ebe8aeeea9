"""`grade plot` as students use it, the experiments of the course, and PNGs of strangers."""

from __future__ import annotations

import contextlib
import functools
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.judge.process import Judge, judges
from grader.student.plots.plot import PROGRAM, drawn_by
from grader.student.plots.png import MAX_BYTES, NotAPicture, plain_png
from grader.student.plots.process import Drawn, Request, runs_in_turn
from grader.student.plots.style import share_axes
from tests.grader.cli.conftest import pass_here
from tests.grader.command import grade as grade_here

ROOT = Path(__file__).parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"

# A file by an author: an experiment, its drawing, and a figure of the student's own.
EXPERIMENT = '''\
"""How often each word occurs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

SIZE = (4, 3)
Count = Annotated[int, msgspec.Meta(ge=0, le=1000)]


class Data(msgspec.Struct):
    """The counts by word."""

    counts: Annotated[dict[str, Count], msgspec.Meta(max_length=100)]


def experiment(student: Any) -> dict[str, Any]:
    return {"counts": student.word_count("to be or not to be")}


def own_figure(student: Any, data: dict[str, Any]) -> Any:
    own = getattr(student, "figure", None)
    return own(data["counts"]) if own is not None else student.most_common("a", 1) and PNG


def draw(figure: Any, data: Data) -> None:
    # The panel does not have the title of the picture.
    assert not figure.get_suptitle()
    axes = figure.subplots()
    axes.bar(range(len(data.counts)), list(data.counts.values()))
    axes.set_xticks(range(len(data.counts)), list(data.counts))
'''
Grade = Callable[..., "subprocess.CompletedProcess[str]"]
UNWRITTEN = (
    '"""Count."""\n\n\ndef word_count(text):\n    raise NotImplementedError("word_count: count")\n'
)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int = 2, height: int = 1, extra: bytes = b"", pixels: bytes = b"\0\0\0") -> bytes:
    """Return a gray picture, with extra chunks before its pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(pixels))
    return b"\x89PNG\r\n\x1a\n" + header + extra + data + chunk(b"IEND", b"")


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A clone of the plain course with a plot for one exercise, which is solved."""
    folder = tmp_path / "clone"
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        folder / "exercises", folder / "tests" / "stubs", ignore=shutil.ignore_patterns("*.toml")
    )
    plots = folder / "tests" / "plots" / "text"
    plots.mkdir(parents=True)
    (plots / "plot_word_count.py").write_text(EXPERIMENT.replace("PNG", repr(png())))
    shutil.copy(folder / "solutions" / "text" / "word_count.py", folder / "exercises" / "text")
    return folder


@pytest.fixture(scope="module")
def artist() -> Iterator[Judge]:
    """One process that draws all pictures, so torch and matplotlib are imported once."""
    with judges(program=PROGRAM) as (judge,):
        yield judge


@pytest.fixture
def grade(course: Path, artist: Judge, monkeypatch: pytest.MonkeyPatch) -> Grade:
    """Run `grade` in the clone. The artist draws its pictures."""

    @contextlib.contextmanager
    def kept(**_: object) -> Iterator[list[Judge]]:
        assert artist.alive
        yield [artist]

    monkeypatch.setattr("grader.student.plots.plot.judges", kept)
    return functools.partial(grade_here, cwd=course)


def write(course: Path, source: str) -> None:
    (course / "exercises" / "text" / "word_count.py").write_text(source)


def test_a_picture_is_written_and_its_path_is_shown(grade: Grade, course: Path) -> None:
    done = grade("plot", "word_count")
    assert done.stdout.splitlines() == [
        ".grade/plots/word_count.png  your code at work",
        ".grade/plots/word_count-own.png  the figure drawn by your own code",
    ]
    assert (done.returncode, done.stderr) == (0, "")
    assert size_of(course / ".grade" / "plots" / "word_count.png")[0] > 400
    assert (course / ".grade" / "plots" / "word_count-own.png").read_bytes() == png()
    assert (course / ".grade" / ".gitignore").read_text() == "*\n"


def test_after_passing_the_reference_is_shown_beside_it(grade: Grade, course: Path) -> None:
    grade("plot", "word_count", "-o", "before.png")
    pass_here(course, "word_count")
    done = grade("plot", "word_count", "-o", "after.png")
    assert done.stdout.startswith("after.png  your code at work, with the reference beside it\n")
    alone, both = size_of(course / "before.png"), size_of(course / "after.png")
    assert both == (2 * alone[0], alone[1])


def test_a_measuring_experiment_runs_several_times_in_turn(grade: Grade, course: Path) -> None:
    plot = course / "tests" / "plots" / "text" / "plot_word_count.py"
    source = plot.read_text("utf-8").replace("SIZE =", "RUNS = 3\nSIZE =")
    counting = (
        "def draw(figure: Any, runs: list[Data]) -> None:\n    (data, *_), () = runs, runs[3:]\n"
    )
    counting += "    assert len(runs) == 3 and all(run.counts == data.counts for run in runs)\n"
    plot.write_text(source.replace("def draw(figure: Any, data: Data) -> None:\n", counting))
    done = grade("plot", "word_count", "--give-up")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_runs_take_turns_until_half_of_the_time_is_used() -> None:
    order: list[str] = []
    measures = {name: functools.partial(order.append, name) for name in ("mine", "theirs")}
    assert set(runs_in_turn(measures, 2, 60.0)) == {"mine", "theirs"}
    assert order == ["mine", "theirs", "mine", "theirs"]
    order.clear()
    assert runs_in_turn(measures, 5, 0.0) == {"mine": [None], "theirs": [None]}


def test_pictures_side_by_side_share_axes_and_colors() -> None:
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    panels = figure.subfigures(1, 2, squeeze=False)[0]
    for panel, most in zip(panels, (1.0, 1.95), strict=True):
        lines, inverted, image = panel.subfigures().subplots(1, 3)
        lines.plot([0, 1, most], [0, most, 0])
        inverted.barh([0, 1], [1, most])
        inverted.invert_yaxis()
        panel.colorbar(image.imshow([[0, most], [0, 0]]), ax=image)
    share_axes(panels)
    mine, theirs = (panel.subfigs[0].axes for panel in panels)
    for one, other in zip(mine, theirs, strict=True):
        assert (one.get_xlim(), one.get_ylim()) == (other.get_xlim(), other.get_ylim())
    assert mine[0].get_ylim()[1] > 1.95
    assert mine[1].yaxis_inverted()
    assert mine[2].images[0].get_clim() == (0, 1.95)


def test_axes_of_different_scales_are_not_shared() -> None:
    from matplotlib.figure import Figure

    panels = Figure().subfigures(1, 2, squeeze=False)[0]
    for panel, scale in zip(panels, ("log", "linear"), strict=True):
        axes = panel.subplots()
        axes.plot([1, 2], [1, 1000 if scale == "log" else 2])
        axes.set_yscale(scale)
    share_axes(panels)
    assert panels[1].axes[0].get_ylim()[1] < 3
    share_axes(panels[:1])


def test_another_submission_is_drawn_here_and_changes_no_progress(
    grade: Grade, course: Path
) -> None:
    wrong = course / "tests" / "wrong" / "text" / "word_count" / "characters.py"
    other = course / "other"
    (other / "text").mkdir(parents=True)
    shutil.copy(wrong, other / "text" / "word_count.py")
    done = grade("plot", "word_count", "--submission", "other")
    assert done.stdout.startswith("word_count.png  your code at work\n")
    assert not (course / ".grade").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            UNWRITTEN,
            """\
No picture yet. Still to do: word_count: count
exercises/text/word_count.py:5  in word_count
Write that first; `grade hint word_count` helps.
""",
        ),
        (
            "def word_count(text): return 1 / 0",
            """\
No picture yet. Your code raised ZeroDivisionError: division by zero (line 1, in word_count).
exercises/text/word_count.py:1  in word_count
Correct that first; `grade run word_count` says more.
""",
        ),
        ("def word_count(text:", "word_count.py is not valid Python: line 1: '(' was never closed."),
        ("def word_count(text):\n    while True: pass", "Your code gave no answer within 0.5 s."),
        ("import os\nos._exit(0)", "Your code ended the whole process (exit code 0)"),
        ("raise SystemExit", "Your code raised SystemExit"),
        ("def word_count(text): return object()", "expected a dict, got an object of another type at `counts`"),
        ("def word_count(text): return {'a': -1}", "cannot be drawn: expected `int` >= 0 at `counts"),
        ("def word_count(text): return {'a': 10**9}", "cannot be drawn: expected `int` <= 1000"),
        ("def word_count(text): return dict.fromkeys(map(str, range(101)), 1)", "of length <= 100"),
        ("def word_count(text): return dict.fromkeys(map(str, range(4000)), 1)", "more than 10000 characters"),
        ("def word_count(text): return {'a': 10**19}", "cannot be drawn: a number is beyond 1e+18"),
    ],
)  # fmt: skip
def test_the_reason_for_no_picture_is_one_sentence(
    grade: Grade, course: Path, source: str, said: str
) -> None:
    write(course, source)
    manifest = course / "exercises" / "course.toml"
    manifest.write_text(manifest.read_text("utf-8").replace("seconds = 8", "seconds = 2"))
    done = grade("plot", "word_count")
    assert said in done.stdout
    assert done.stdout.startswith("No picture yet. ")
    assert len(done.stdout.splitlines()) == 3
    assert (done.returncode, done.stderr) == (1, "")
    assert not (course / ".grade" / "plots").exists()


@pytest.mark.parametrize(
    "keys",
    [
        r"'$' + r'\frac{1}{2}' * 5000 + '$',",
        r"*(f'${n}' + r'\sqrt{x}' * 11 + '$' for n in range(90)),",
        r"r'$\frac{1$',",
        "'a' * 500_000,",
        r"'\n' * 500_000,",
        r"'\u202e\u0301' * 5000 + '\x1b[2J$$',",
    ],
    ids=["one formula", "formulas", "broken formula", "long", "lines", "marks"],
)
def test_text_of_the_student_is_drawn_literally_and_cut(
    grade: Grade, course: Path, keys: str
) -> None:
    write(course, f"def word_count(text): return dict.fromkeys([{keys}], 1)")
    plot = course / "tests" / "plots" / "text" / "plot_word_count.py"
    looking = """
    from matplotlib.cbook import is_math_text
    for label in axes.get_xticklabels():
        assert 0 < len(label.get_text()) <= 200
        assert not is_math_text(label.get_text())
        assert "\\n" not in label.get_text()
"""
    plot.write_text(plot.read_text() + looking)
    done = grade("plot", "word_count")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_stub_has_nothing_to_draw_yet(grade: Grade, course: Path) -> None:
    shutil.copy(
        course / "tests" / "stubs" / "text" / "word_count.py", course / "exercises" / "text"
    )
    done = grade("plot", "word_count")
    assert "No picture yet. Not attempted yet: text/word_count.py is still the stub." in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (
            "raise NotImplementedError('draw')",
            "Your own figure was not drawn: NotImplementedError: draw",
        ),
        ("return 'a string'", "Your own figure is not kept: it is none."),
        ("return b'GIF89a'", "Your own figure is not kept: it does not begin like a PNG."),
    ],
)
def test_an_invalid_own_figure_is_a_note(
    grade: Grade, course: Path, figure: str, said: str
) -> None:
    write(course, f"def word_count(text): return {{'a': 1}}\ndef figure(counts): {figure}\n")
    done = grade("plot", "word_count")
    assert done.stdout.splitlines() == [".grade/plots/word_count.png  your code at work", said]
    assert done.returncode == 0


def test_a_broken_reference_is_a_fault_of_the_course(grade: Grade, course: Path) -> None:
    (course / "solutions" / "text" / "word_count.py").write_text("def word_count(text): return 1\n")
    done = grade("plot", "word_count", "--give-up")
    assert (done.returncode, done.stdout) == (3, "")
    assert "fails with the course's own solution" in done.stderr


def test_an_unwritable_picture_is_a_usage_error(grade: Grade, course: Path) -> None:
    (course / "taken.png").mkdir()
    write(course, "def word_count(text): return {'a': 1}")
    done = grade("plot", "word_count", "-o", "taken.png")
    assert done.returncode == 2
    assert "is a directory" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "exercise", sorted(p.stem.removeprefix("plot_") for p in ROOT.glob("tests/plots/*/plot_*.py"))
)
def test_the_real_experiments_draw_the_solutions(artist: Judge, exercise: str) -> None:
    course = load_course(ROOT)
    source = course.solution(course.exercise(exercise)).read_bytes()
    drawn = drawn_by(artist, Request(str(course.folder / "course.toml"), exercise, source))
    assert isinstance(drawn, Drawn)
    assert drawn.note == ""
    assert plain_png(drawn.picture).startswith(b"\x89PNG")
    assert len(drawn.picture) > 20_000
    assert (drawn.own is not None) == (exercise in ("grad_norms", "lr_finder"))


# --- a stranger's PNG -----------------------------------------------------------------------------


def test_only_necessary_chunks_are_kept() -> None:
    resolution = chunk(b"pHYs", struct.pack(">IIB", 1, 1, 1))
    odd = chunk(b"tEXt", b"Comment\0<script>") + chunk(b"iCCP", b"p\0\0" + zlib.compress(b"0" * 9))
    assert plain_png(png(extra=odd + resolution) + b"behind the end") == png(extra=resolution)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not begin like a PNG"),
        (png()[:-4], "one of its parts is damaged|end is missing"),
        (png().replace(b"IDAT", b"IDAX"), "one of its parts is damaged"),
        (png()[:-12], "its end is missing"),
        (png(width=6001), "6001 by 1 pixels"),
        (png(height=0), "2 by 0 pixels"),
        (png(extra=chunk(b"IHDR", b"")), "not in the order of a PNG"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"") + chunk(b"IEND", b""), "it has no pixels"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"") + png()[33:], "its header is damaged"),
        (b"\x89PNG\r\n\x1a\n" + b"\xff" * 20, "one of its parts is damaged"),
        (png(pixels=bytes(range(256)) * 2) + b"0" * MAX_BYTES, "more than 4 MB"),
    ],
)
def test_an_invalid_picture_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotAPicture, match=why):
        plain_png(data)
