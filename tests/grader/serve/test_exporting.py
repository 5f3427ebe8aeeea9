"""Exports on the class page: like `grade export`, but only students in reach, and private to their maker."""

from __future__ import annotations

import io
import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.gradebook import tokens
from grader.gradebook.tokens import Role
from grader.serve.exporting import KEPT_SECONDS, Exports, Made
from grader.serve.roles import Asker
from tests.grader.serve.conftest import SOLUTION, Answer, Served, marked

PAGE = "/class/export"
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Greeting (7)
Points Possible,,,,,2.5
"Test, Ada",1,,ada@example.org,A,
"Nobody, Else",2,,else@example.org,A,
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with judged files of ada in section A and bob in section B."""
    server = Served(tmp_path_factory.mktemp("graded")).start()
    for number, who in enumerate(("ada", "bob")):
        files = {"greeting.py": marked(number)}
        server.judged(who, server.hand_in(who, files).json["id"])
    yield server
    server.stop()


def exported(
    served: Served, who: str, fields: Mapping[str, str], template: tuple[str, str] | None = None
) -> Answer:
    """Send the form as a browser does."""
    parts = [f'name="{name}"\r\n\r\n{text}' for name, text in fields.items()]
    if template is not None:
        name, text = template
        parts.append(f'name="template"; filename="{name}"\r\nContent-Type: text/csv\r\n\r\n{text}')
    body = "".join(f"--b0\r\nContent-Disposition: form-data; {part}\r\n" for part in parts)
    headers = {
        "Origin": f"http://127.0.0.1:{served.port}",
        "Content-Type": "multipart/form-data; boundary=b0",
    }
    return served.ask("POST", PAGE, who, f"{body}--b0--\r\n".encode(), headers)


def link(answer: Answer) -> str:
    """The address of the exported file."""
    assert answer.status == 200, answer
    found = re.search(rf'href="({PAGE}/\w+)"', answer.body.decode())
    assert found is not None, answer
    return found[1]


def fetched(served: Served, who: str, fields: Mapping[str, str]) -> bytes:
    answer = served.ask("GET", link(exported(served, who, fields)), who)
    assert answer.status == 200, answer
    return answer.body


def test_an_export_equals_the_output_of_grade_export(graded: Served) -> None:
    fields = {"format": "csv", "out_of": "20"}
    made = exported(graded, "staff", fields)
    file = graded.ask("GET", link(made), "staff")
    command = ["export", str(graded.results), "--format", "csv", "--out-of", "20"]
    assert file.body.decode().splitlines() == CliRunner().invoke(main, command).output.splitlines()
    assert re.search(r'attachment; filename="csv-\d{4}-\d\d-\d\d\.csv"', str(file.headers))
    assert file.headers["Cache-Control"] == "no-store"
    # The log has the role, but not the name.
    logged = [line for line in graded.log.read_text().splitlines() if '"said": "exported"' in line]
    assert '"format": "csv", "role": "instructor"' in logged[-1] and "prof" not in logged[-1]


def test_a_format_with_a_file_per_student_is_a_zip(graded: Served) -> None:
    with zipfile.ZipFile(io.BytesIO(fetched(graded, "staff", {"format": "gradescope"}))) as zipped:
        assert zipped.namelist() == ["ada.json", "bob.json", "eve.json"]
    pages = fetched(graded, "staff", {"format": "feedback_zip", "layout": "plain"})
    with zipfile.ZipFile(io.BytesIO(pages)) as zipped:
        assert any("ada" in name.casefold() for name in zipped.namelist())


def test_a_template_is_filled_in_with_a_note_about_omissions(graded: Served) -> None:
    made = exported(
        graded, "staff", {"format": "canvas", "column": "Greeting (7)"}, ("noten ü.csv", CANVAS)
    )
    told = made.body.decode()
    assert "Read this first:" in told
    rows = graded.ask("GET", link(made), "staff").body.decode()
    assert re.search(r'"Test, Ada",1,.*2\.5', rows)
    # With an unknown column, the form is shown again with the person's input.
    wrong = exported(graded, "staff", {"format": "canvas", "column": "Nix"}, ("n.csv", CANVAS))
    told = wrong.body.decode()
    assert wrong.status == 422 and 'role="alert"' in told and 'value="Nix"' in told
    assert str(graded.results) not in told and "Usage:" not in told
    unreadable = exported(graded, "staff", {"format": "moodle"}, ("n.csv", "\x00\x01"))
    assert unreadable.status == 422 and "template-n.csv" in unreadable.body.decode()


def test_a_refusal_names_the_fields_as_the_page_does(graded: Served) -> None:
    for fields, said in (
        ({"format": "csv", "out_of": "x"}, "“Out of” is a number of points, such as 20, not"),
        ({"format": "canvas", "column": "Nix"}, "“Column”"),
        ({"format": "canvas", "anonymous": "1"}, "remove “Pseudonyms”"),
    ):
        made = exported(graded, "staff", fields, ("n.csv", CANVAS))
        alert = re.search(r'role="alert"><bdi>(.*?)</bdi>', made.body.decode(), re.DOTALL)
        assert made.status == 422 and alert is not None, made
        assert said in alert[1] and "--" not in alert[1] and "float" not in alert[1]
    assert "; “Template” fills in" in exported(graded, "staff", {"format": "csv"}).body.decode()


def test_an_assistant_exports_only_their_section(graded: Served) -> None:
    for fields in ({"format": "csv"}, {"format": "mailmerge"}, {"format": "jsonl"}):
        own = fetched(graded, "assistant", fields).decode()
        assert "ada@example.org" in own or "ada," in own, fields
        assert not re.findall(r"\b(?:bob|eve)\b", own, re.IGNORECASE), fields
        assert re.findall(r"\b(?:bob|eve)\b", fetched(graded, "staff", fields).decode())
    without = fetched(graded, "assistant", {"format": "csv", "anonymous": "1"}).decode()
    assert without.count("anon-") == 1 and "ada" not in without
    with zipfile.ZipFile(
        io.BytesIO(fetched(graded, "assistant", {"format": "feedback"}))
    ) as zipped:
        assert zipped.namelist() == ["ada.md"]
    # Other options of the command line are ignored in the form.
    odd = {"format": "csv", "section": "B", "output": "/tmp/x", "column": "--help"}
    assert "bob" not in fetched(graded, "assistant", odd).decode()


def test_an_empty_section_exports_nobody(graded: Served) -> None:
    with tokens.changing_tokens(graded.results) as book:
        both, none = (
            tokens.make_token(book, Role.ASSISTANT, name, 0.0, sections)
            for name, sections in (("kim", ["B", "Z"]), ("lee", ["Z"]))
        )
    assert "bob" in fetched(graded, both, {"format": "csv"}).decode()
    assert "ada" not in fetched(graded, both, {"format": "csv"}).decode()
    refused = exported(graded, none, {"format": "csv"})
    assert refused.status == 403 and "nobody to export" in refused.body.decode()


def test_only_its_maker_can_fetch_a_file_until_the_next_export(graded: Served) -> None:
    first = link(exported(graded, "staff", {"format": "csv"}))
    for who, status in (("assistant", 404), ("owner", 404), ("observer", 403), ("ada", 403)):
        assert graded.ask("GET", first, who).status == status, who
    second = link(exported(graded, "staff", {"format": "jsonl"}))
    assert graded.ask("GET", first, "staff").status == 404
    assert graded.ask("GET", second, "staff").status == 200
    folders = list(graded.results.glob(".export-*"))
    assert folders and all(stat.S_IMODE(each.stat().st_mode) == 0o700 for each in folders)


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"format": "nothing"}, 422, "no such format"),
        ({"format": "canvas", "column": "a\0b"}, 422, "a character that no file can have"),
        ({"format": "annotations"}, 422, "no such format"),
        ({}, 422, "no such format"),
        ({"format": "csv", "out_of": "many"}, 422, "many"),
        ({"format": "csv", "out_of": "0"}, 422, "“Out of”"),
        ({"format": "moodle", "disclose": "all"}, 422, "“Hidden tests” is one of"),
        ({"format": "csv", "assignment": "week9"}, 422, "week9"),
        ({"format": "moodle", "column": "x" * 400}, 413, "longer than"),
        ({"format": "csv", "out_of": "1" * 3_000_000}, 413, "larger than"),
    ],
    ids=range(10),
)
def test_an_invalid_form_is_refused(
    graded: Served, fields: Mapping[str, str], status: int, said: str
) -> None:
    answer = exported(graded, "staff", fields)
    assert (answer.status, said in answer.body.decode()) == (status, True), answer


def test_the_page_shows_the_options_of_a_format(graded: Served) -> None:
    csv = graded.ask("GET", PAGE, "staff").body.decode()
    assert 'name="out_of"' in csv and 'name="template"' not in csv
    canvas = graded.ask("GET", f"{PAGE}?format=canvas", "assistant").body.decode()
    assert 'name="template"' in canvas and "Only the students of section" in canvas
    assert graded.ask("GET", f"{PAGE}?format=nothing", "staff").status == 404
    assert f'href="{PAGE}"' in graded.ask("GET", "/class", "assistant").body.decode()
    assert f'href="{PAGE}"' not in graded.ask("GET", "/class", "observer").body.decode()


def test_submissions_do_not_wait_for_an_export(graded: Served) -> None:
    """Of two exports at once, one waits. A submission waits for neither."""
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(exported, graded, who, {"format": "csv"}) for who in ("staff", "owner")]
        handed = graded.hand_in("eve", {"greeting.py": SOLUTION})
        assert handed.status == 202
        assert [each.result().status for each in made] == [200, 200]
    graded.judged("eve", handed.json["id"])


# --- cleaning up ------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_files_are_deleted_at_a_stop_and_after_a_kill(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    link(exported(served, "staff", {"format": "csv"}))
    assert len(list(served.results.glob(".export-*"))) == 1
    served.kill()
    assert len(list(served.results.glob(".export-*"))) == 1
    served.start()
    assert list(served.results.glob(".export-*")) == []
    link(exported(served, "staff", {"format": "csv"}))
    assert served.stop() == 0
    assert list(served.results.glob(".export-*")) == []


def test_files_are_deleted_after_a_while(tmp_path: Path) -> None:
    now = 0.0
    exports = Exports(tmp_path, clock=lambda: now)
    folder = tmp_path / ".export-1"
    folder.mkdir()
    asker = Asker(role=None, name="prof")  # type: ignore[arg-type]
    exports._made["prof"] = Made("id", folder / "x.csv", "x.csv", (), now)
    assert exports.of(asker, "id") is not None and exports.of(asker, "other") is None
    now = KEPT_SECONDS + 1
    assert exports.of(asker, "id") is None and not folder.exists()
