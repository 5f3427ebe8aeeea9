"""Drafts on the server: durable once confirmed, private, and safe with two tabs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import load_course
from grader.gradebook import Gradebook, drafts
from grader.gradebook.times import moment
from grader.serve.desk import Desk
from grader.serve.http import Refusal
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, marked
from tests.grader.serve.test_chaos import a_desk, lines_before_kills

ADDRESS = "/api/exercises/greeting"
STUB = (PLAIN / "exercises" / "text" / "greeting.py").read_text(encoding="utf-8")
HOSTILE = "</textarea><script>alert(1)</script>\x1b[2J\u202e{{ 7 * 7 }}\x00\n"


def save(served: Served, who: str, source: str, revision: int, *, keep: bool = False) -> Answer:
    sent = {"source": source, "revision": revision, "keep": keep}
    return served.ask("PUT", f"{ADDRESS}/draft", who, json.dumps(sent).encode())


def draft(served: Served, who: str) -> Any:
    answer = served.ask("GET", f"{ADDRESS}/draft", who)
    assert answer.status == 200, answer
    return answer.json


def test_the_first_draft_is_the_newest_submission_or_the_stub(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    begun = draft(served, "ada")
    assert (begun["source"], begun["revision"], begun["versions"]) == (STUB, 0, [])
    for source in (marked(1), SOLUTION.replace(b"\n", b"\r\n")):
        served.judged("ada", served.hand_in("ada", {"greeting.py": source}).json["id"])
    handed = draft(served, "ada")
    assert (handed["source"], handed["stub"]) == (SOLUTION.decode(), STUB)
    # Files submitted without the editor become versions of the draft. They do not replace it.
    assert save(served, "ada", "# mine\n", 0).status == 200
    mine = draft(served, "ada")
    assert (mine["source"], mine["revision"]) == ("# mine\n", 1)
    assert [each["number"] for each in mine["versions"]] == [0]
    version = served.ask("GET", f"{ADDRESS}/versions/0", "ada").json
    assert version == {"source": SOLUTION.decode()}


def test_times_are_written_as_on_the_pages(serving: Callable[..., Served]) -> None:
    served = serving(policy='timezone = "Asia/Kolkata"\n').start()
    saved = save(served, "ada", "# mine\n", 0, keep=True).json
    save(served, "ada", "# mine, too\n", 1, keep=True)
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])
    now = draft(served, "ada")
    for told in (saved, now, *now["versions"]):
        assert told["saved_words"] == moment(told["saved_at"], "Asia/Kolkata")
        assert told["saved_words"].endswith(" IST")
    assert len(now["versions"]) == 2


def test_a_submitted_draft_is_listed_once(serving: Callable[..., Served]) -> None:
    served = serving().start()
    texts = ("# begun\n", SOLUTION.decode(), "# after it\n")
    for revision, text in enumerate(texts[:2]):
        assert save(served, "ada", text, revision, keep=True).status == 200
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])
    # The submitted draft also becomes a version.
    assert save(served, "ada", texts[2], 2, keep=True).status == 200
    numbers = [each["number"] for each in draft(served, "ada")["versions"]]
    assert numbers[-1] == 0 and len(numbers) == 2
    kept = served.ask("GET", f"{ADDRESS}/versions/{numbers[0]}", "ada").json
    assert kept == {"source": texts[0]}


def test_a_tab_with_an_older_draft_is_refused(serving: Callable[..., Served]) -> None:
    served = serving().start()
    assert save(served, "ada", "one\n", 0).json["revision"] == 1
    # Two tabs have revision 1.
    assert save(served, "ada", "first tab\n", 1).json["revision"] == 2
    late = save(served, "ada", "second tab\n", 1)
    assert late.status == 409 and "newer draft" in late.json["error"]
    assert draft(served, "ada")["source"] == "first tab\n"
    # A client that had no answer saves the same text again.
    assert save(served, "ada", "first tab\n", 1).json["revision"] == 2
    # If the student keeps the second tab's text, the first tab's text becomes a version.
    assert save(served, "ada", "second tab\n", 2, keep=True).json["revision"] == 3
    newest, *_ = draft(served, "ada")["versions"]
    version = served.ask("GET", f"{ADDRESS}/versions/{newest['number']}", "ada").json
    assert version == {"source": "first tab\n"}


def test_another_students_draft_is_not_found(served: Served) -> None:
    for number, source in enumerate((HOSTILE, "secret\n")):
        assert save(served, "ada", source, number, keep=True).status == 200
    number = draft(served, "ada")["versions"][0]["number"]
    own = served.ask("GET", f"{ADDRESS}/versions/{number}", "ada")
    assert own.json == {"source": HOSTILE}
    other = served.ask("GET", f"{ADDRESS}/versions/{number}", "bob")
    nothing = served.ask("GET", f"{ADDRESS}/versions/999999", "bob")
    assert (other.status, other.body) == (nothing.status, nothing.body) and other.status == 404
    assert draft(served, "bob")["source"] == STUB
    assert b"secret" not in served.ask("GET", "/exercise/greeting/file", "bob").body
    assert served.ask("GET", "/exercise/greeting/file", "ada").body == b"secret\n"
    for path in ("/api/exercises/nothing/draft", "/exercise/nothing", "/exercise/nothing/file"):
        assert served.ask("GET", path, "ada").status == 404


def test_an_unsubmitted_draft_is_shown_to_the_student_and_after_the_due_time_to_staff(
    serving: Callable[..., Served],
) -> None:
    due = 'timezone = "UTC"\n[[due]]\nat = {}-01-12T12:00:00\n'
    served = serving(policy=due.format(2066)).start()

    def pages() -> tuple[str, str]:
        students = served.ask("GET", "/", "ada").body.decode()
        return students, served.ask("GET", "/class", "staff").body.decode()

    assert save(served, "ada", STUB, 0).status == 200
    assert "is not handed in" not in pages()[0]
    assert save(served, "ada", SOLUTION.decode(), 1).status == 200
    home, of_class = pages()
    assert "your draft of" in home and "is not handed in" in home
    assert "draft: No file" not in of_class, "it is not due yet"
    assert served.stop() == 0
    policy = served.course / "exercises" / "policy.toml"
    policy.write_text(due.format(2026), encoding="utf-8")
    served.start()
    assert save(served, "bob", SOLUTION.decode(), 0).status == 200
    told = "draft: No file was handed in until 2026-01-12 12:00 UTC, but a draft was saved at"
    assert pages()[1].count(told) == 2
    # The assistant does not see Bob, who is in another section.
    assert served.ask("GET", "/class", "assistant").body.decode().count(told) == 1
    # Submitting the draft clears the notice, and so does submitting another, later file.
    for source in (SOLUTION, marked(1)):
        served.judged("ada", served.hand_in("ada", {"greeting.py": source}).json["id"])
        home, of_class = pages()
        assert "is not handed in" not in home and of_class.count(told) == 1


def test_invalid_drafts_and_other_origins_are_refused(served: Served) -> None:
    before = draft(served, "bob")
    assert save(served, "bob", "#" * 200_001, 0).status == 413
    assert save(served, "bob", "é" * 150_000, 0).status == 413
    for body in (b"", b"{}", b'{"source": 7, "revision": 0}', b'{"source": "", "revision": "0"}'):
        assert served.ask("PUT", f"{ADDRESS}/draft", "bob", body).status == 400
    headers = {"Cookie": f"lab_bench_token={served.tokens['bob']}", "Origin": "http://evil.example"}
    body = b'{"source": "x", "revision": 0}'
    for method, path in (("PUT", f"{ADDRESS}/draft"), ("POST", f"{ADDRESS}/practice")):
        assert served.ask(method, path, "", body, headers).status == 403
    assert draft(served, "bob") == before


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_confirmed_draft_survives_a_kill_at_any_statement(memory_path: Path) -> None:
    course, results = load_course(PLAIN), memory_path / "results"
    texts = [f"text {number}\n" for number in range(4)]

    def act(desk: Desk, _: Gradebook, say: Callable[[str], object]) -> None:
        for revision, text in enumerate(texts):
            desk.save_draft("ada", "greeting", text.encode(), revision, keep=True)
            say("+")

    confirmed_before = set()
    for said in lines_before_kills(course, results, act, lambda desk, _: desk.open()):
        confirmed = len(said)
        confirmed_before.add(confirmed)
        with a_desk(course, results) as (desk, book):
            desk.open()
            found = drafts.draft_of(book, "ada", "greeting")
            revision = 0 if found is None else found.revision
            # Confirmed drafts are on the disk. One more may be, without its answer.
            assert revision in (confirmed, confirmed + 1)
            assert found is None or found.source.decode() == texts[revision - 1]
            kept = [
                drafts.version_of(book, "ada", "greeting", version.number)
                for version in drafts.versions_of(book, "ada", "greeting")
            ]
            assert kept == [text.encode() for text in reversed(texts[: max(revision - 1, 0)])]
            if found is not None:
                with pytest.raises(Refusal):
                    desk.save_draft("ada", "greeting", b"another", revision - 1, keep=False)
            desk.save_draft("ada", "greeting", b"goes on", revision, keep=False)
    assert confirmed_before == set(range(len(texts)))
