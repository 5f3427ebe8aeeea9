"""The pages of a report on disk: their readers, their links, and existing files."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from grader.errors import GraderError, SubmissionError
from grader.exports.report import write_report
from grader.gradebook.review import Attention, Reason
from grader.gradebook.similarity.findings import Similarity, SimilarPair, source_digest
from grader.results import Entry, Status
from tests.grader.exports.report.classes import (
    SOURCE,
    a_class,
    a_long_course,
    an_entry,
    an_exercise,
    sources,
)

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "{{ 7 * 7 }}",
    "</style></title><h1>owned</h1>",
    "evil\u202egnp.exe",
    "\x1b[2J\x00nul",
    "=cmd|' /C calc'!A0",
    "../../../etc/passwd",
    "con",
    "e\u0301" + "\u0300" * 500,
    "n" * 3000,
]


class Page(HTMLParser):
    """The words, links and other references of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            if name in ("src", "srcset", "data", "action", "style") or name.startswith("on"):
                self.loads.append(f"{name}={value}")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def pages(folder: Path) -> dict[str, Page]:
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


def two_students() -> list[Entry]:
    """Return one student with many messages, and one whose gelu was not judged."""
    messages = {0: "A public message.", 1: "A hidden message."}
    loud = an_exercise("glu", "ffpp", messages=messages, output="Printed in a hidden test.")
    unjudged = an_exercise("gelu", "ff", status=Status.UNJUDGED, message="The judge was lost.")
    return [
        an_entry("ada", [loud], name="Ada L.", email="ada@example.org", origin="all.zip/ada"),
        an_entry("bob", [an_exercise("glu", "pppp"), unjudged], name="Bob M.", late=True),
    ]


def test_a_student_page_shows_no_other_student_and_no_hidden_values(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources, title="A course")
    page = Page(tmp_path / "students" / "ada.html")
    for there in ("Ada L.", "A public message.", "Look at case 0.", "one/glu.py:5", "A course"):
        assert there in page.text
    for title in ("The glu holds in case 1", "The glu holds in case 3"):
        assert title in page.text
    text = (tmp_path / "students" / "ada.html").read_text(encoding="utf-8")
    for secret in (
        *("A hidden message.", "Look at case 1.", "test_glu_1", "Printed in a hidden test."),
        *("bob", "Bob", "staff/", "torch.sigmoid", "all.zip", "ada@example.org", "d1gest"),
    ):
        assert secret not in text
    assert "2 of 4 tests passed; the hidden ones do not show every detail" in page.text


def test_a_student_page_needs_no_other_file(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources)
    for path in (tmp_path / "students").iterdir():
        page = Page(path)
        assert all(link.startswith("#") for link in page.links)
        assert page.loads == []
        assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)


def test_a_page_starts_with_the_exercises_by_chapter(tmp_path: Path) -> None:
    write_report([a_long_course()], tmp_path, sources=sources)
    for folder in ("students", "staff/students"):
        page = Page(tmp_path / folder / "ada.html")
        assert "first 45 of 50 ✓ e0 passed ✓ e1 passed ◐ e2 partly" in page.text
        assert "second 40 of 50" in page.text
        assert set(page.links) >= {f"#ex-e{number}" for number in range(10)}


def test_an_unjudged_exercise_costs_nothing_and_asks_staff_to_look(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources)
    student = Page(tmp_path / "students" / "bob.html").text
    assert "Not final." in student
    assert "You lose nothing by it." in student
    assert "The judge was lost." not in student
    assert "! not judged A person has to look at this one" in student
    assert "A person must look" in Page(tmp_path / "staff" / "index.html").text
    staff = Page(tmp_path / "staff" / "students" / "bob.html").text
    assert "The judge was lost." in staff
    assert "so far" in staff


def test_a_staff_page_has_everything(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources, attempts={"ada": 4})
    page = Page(tmp_path / "staff" / "students" / "ada.html")
    for there in (
        *("A hidden message.", "Look at case 1.", "test_glu_1", "Printed in a hidden test."),
        *("return a * torch.sigmoid(b)", "all.zip/ada", "ada@example.org", "1 of 4"),
    ):
        assert there in page.text
    # The place of a message is a link to that line.
    assert "#glu-5" in page.links
    assert "glu-5" in page.ids


def an_absent_one() -> Entry:
    nothing = an_exercise("con", "nn", settled=True, message="Nothing was handed in.")
    return an_entry("zed", [nothing], name="Zed N.", attempt=0)


def test_absent_students_have_pages_but_do_not_change_the_figures(tmp_path: Path) -> None:
    def nothing(_: Entry) -> dict[str, bytes]:
        return {}

    ada = an_entry("ada", [an_exercise("con", "pf")])
    write_report([ada, an_absent_one()], tmp_path, sources=nothing)
    index = Page(tmp_path / "staff" / "index.html").text
    for figure in ("Students 1", "Mean 50 %", "Not handed in 1", "Nothing written 0"):
        assert figure in index
    for page in ("students", "staff/students"):
        text = Page(tmp_path / page / "zed.html").text
        assert "Nothing was handed in." in text and "0 of 10" in text
        assert "Attempt 0" not in text


def test_every_link_has_a_target_within_the_report(tmp_path: Path) -> None:
    class_of = [
        *a_class(7),
        *(an_entry(name, [an_exercise("con", "pf")], name=name) for name in HOSTILE),
        an_absent_one(),
    ]
    pair = a_pair("s0001", HOSTILE[0], "con")
    write_report(
        class_of,
        tmp_path,
        sources=sources,
        similarity=Similarity(threshold=0.6, exercises=(), pairs=(pair,)),
        attention=[
            Attention(Reason.ODD_CODE, HOSTILE[0], ("con",), "line 3 imports ctypes"),
            Attention(Reason.FAULT, "s0002", ("con",), "told where the verdicts are"),
        ],
    )
    found = pages(tmp_path)
    index = (tmp_path / "staff" / "index.html").read_text(encoding="utf-8")
    assert "line 3 imports ctypes" in index
    assert "told where the verdicts are" not in index
    assert len(found) == 2 * len(class_of) + 6
    for name, page in found.items():
        assert len(page.ids) == len(set(page.ids)), f"{name} uses an id twice"
        for link in page.links:
            target, fragment = urldefrag(link)
            path = (tmp_path / name).parent / unquote(target) if target else tmp_path / name
            assert path.resolve().is_relative_to(tmp_path.resolve()), f"{name}: {link}"
            assert path.is_file(), f"{name}: {link}"
            if fragment:
                assert fragment in found[path.resolve().relative_to(tmp_path).as_posix()].ids


def test_a_student_with_thousands_of_entries_hides_nobody(tmp_path: Path) -> None:
    hostile = [
        Attention(Reason.ODD_CODE, "s0000", ("glu",), f"line {line} imports ctypes {'x' * 4000}")
        for line in range(3_000)
    ]
    others = [
        Attention(Reason.TIMEOUT, f"s{n:04}", ("glu",), f"No answer: {n}.") for n in range(1, 9)
    ]
    write_report(a_class(9), tmp_path, sources=sources, attention=[*hostile, *others])
    index = tmp_path / "staff" / "index.html"
    text = Page(index).text
    assert index.stat().st_size < 100_000
    assert "3008 places" in text
    for number in range(1, 9):
        assert f"No answer: {number}." in text
        assert f"No answer: {number}." in Page(tmp_path / f"staff/students/s{number:04}.html").text
    assert text.count("imports ctypes") == 22
    assert "and 2978 more of s0000" in text
    page = tmp_path / "staff" / "students" / "s0000.html"
    assert page.stat().st_size < 200_000
    assert "imports ctypes" in Page(page).text
    assert "imports ctypes" not in Page(tmp_path / "students" / "s0000.html").text


@pytest.mark.thorough
def test_the_index_shows_all_of_many_students_to_look_at(tmp_path: Path) -> None:
    attention = [Attention(Reason.TIMEOUT, f"s{n:04}", ("glu",), "No answer.") for n in range(250)]
    write_report(a_class(250), tmp_path, sources=sources, attention=attention)
    index = tmp_path / "staff" / "index.html"
    assert Page(index).text.count("timeout: No answer.") == 250
    # All of them are listed under "a person must look".
    assert index.read_text(encoding="utf-8").count('<tr data-tags="look ') == 250
    assert "No answer." in Page(tmp_path / "staff" / "students" / "s0249.html").text


def test_hostile_names_and_texts_are_text(tmp_path: Path) -> None:
    def of_hostile(entry: Entry) -> dict[str, bytes]:
        return {"glu": entry.student.name.encode()}

    entries = [
        an_entry(
            name,
            [an_exercise("glu", "fp", messages={0: name}, message=name, output=name)],
            name=name,
            email=name,
            origin=name,
            submitted_at=name,
        )
        for name in HOSTILE
    ]
    write_report(entries, tmp_path, sources=of_hostile, title=HOSTILE[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.txt", "staff", "students"]
    for name, page in pages(tmp_path).items():
        assert page.loads == [], name
        assert page.tags.count("script") == (name == "staff/index.html")
        assert page.tags.count("style") == page.tags.count("h1") == 1
        assert page.tags.count("img") == 0
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not [c for c in text if not c.isprintable() and c not in "\n"], name
    assert "{{ 7 * 7 }}" in Page(tmp_path / "staff" / "index.html").text


def a_pair(left: str, right: str, exercise: str = "glu", digest: str = "") -> SimilarPair:
    return SimilarPair(
        exercise=exercise,
        left=left,
        right=right,
        similarity=0.87,
        left_lines=((5, 6),),
        right_lines=((6, 6),),
        left_digest=digest or source_digest(SOURCE),
        right_digest=digest or source_digest(SOURCE),
    )


def pair_page(folder: Path, *pairs: SimilarPair) -> Page:
    write_report(
        two_students(),
        folder,
        sources=sources,
        similarity=Similarity(threshold=0.6, exercises=(), pairs=pairs),
    )
    return Page(folder / "staff" / "alike" / "glu-1.html")


def test_a_pair_is_shown_side_by_side_with_its_lines_marked(tmp_path: Path) -> None:
    page = pair_page(tmp_path, a_pair("ada", "bob"))
    text = (tmp_path / "staff" / "alike" / "glu-1.html").read_text(encoding="utf-8")
    assert text.count('class="marked"') == 3
    assert "87 % alike" in page.text
    assert "Shared: lines 5\N{EN DASH}6." in page.text
    assert not any(word in page.text.lower() for word in ("cheat", "plagiar", "suspic", "guilt"))
    for student, other in (("ada", "bob"), ("bob", "ada")):
        staff = Page(tmp_path / "staff" / "students" / f"{student}.html")
        assert f"glu 87 % with {other}" in staff.text
        assert "alike" not in Page(tmp_path / "students" / f"{student}.html").text


def test_a_file_that_changed_since_the_comparison_has_no_marks(tmp_path: Path) -> None:
    page = pair_page(tmp_path, a_pair("ada", "bob", digest="0ld"))
    assert "has changed since" in page.text
    text = (tmp_path / "staff" / "alike" / "glu-1.html").read_text(encoding="utf-8")
    assert 'class="marked"' not in text


def test_a_pair_with_an_erased_student_says_so(tmp_path: Path) -> None:
    assert "no longer in the gradebook" in pair_page(tmp_path, a_pair("ada", "gone")).text


def test_a_student_is_written_before_the_next_is_read(tmp_path: Path) -> None:
    read: list[str] = []

    def lazily() -> Iterator[Entry]:
        for entry in a_class(5):
            written = {path.name for path in tmp_path.rglob("students/*.html")}
            assert written == {f"{each}.html" for each in read}
            read.append(entry.student.id)
            yield entry

    assert write_report(lazily(), tmp_path, sources=sources).students == 5


def test_the_same_class_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_report(a_class(30), tmp_path / name, sources=sources)
    first, second = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in files(tmp_path / name)}
        for name in "ab"
    )
    assert len(first) == 65
    assert first == second


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_report_replaces_a_report(tmp_path: Path) -> None:
    write_report(a_class(9), tmp_path, sources=sources)
    (tmp_path / ".draft-killed").mkdir()
    write_report(two_students(), tmp_path, sources=sources)
    assert sorted(path.name for path in (tmp_path / "students").iterdir()) == [
        "ada.html",
        "bob.html",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.txt", "staff", "students"]


def test_a_report_replaces_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "students").mkdir()
    (tmp_path / "students" / "precious.txt").write_text("mine")
    with pytest.raises(SubmissionError, match="other than a report; name a new or an empty folder"):
        write_report(two_students(), tmp_path, sources=sources)
    with pytest.raises(SubmissionError, match="is a file"):
        write_report(two_students(), tmp_path / "students" / "precious.txt", sources=sources)
    assert files(tmp_path) == [tmp_path / "students" / "precious.txt"]


def test_a_failed_report_leaves_the_old_one(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources)
    before = {path: path.read_bytes() for path in files(tmp_path)}

    def broken() -> Iterator[Entry]:
        yield from a_class(3)
        raise OSError(28, "No space left on device")

    with pytest.raises(GraderError, match="No space left"):
        write_report(broken(), tmp_path, sources=sources)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


def test_an_empty_class_has_a_report(tmp_path: Path) -> None:
    written = write_report([], tmp_path / "new", sources=sources, title="Empty")
    assert written.students == 0
    assert "Empty" in Page(written.index).text


def test_the_readme_says_what_may_be_sent(tmp_path: Path) -> None:
    write_report(two_students(), tmp_path, sources=sources)
    readme = (tmp_path / "README.txt").read_text(encoding="utf-8")
    assert "never send or publish anything in it" in readme
    assert "Send each student only their own page" in readme
