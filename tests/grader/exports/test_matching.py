"""People and rows of a template are matched only by unique common values, never by guessing."""

from __future__ import annotations

from typing import Any

import pytest

from grader.exports.matching import Grades, Key, TemplateRow, name_key, person_of
from grader.results import Entry, StudentInfo
from tests.grader.builders import checked, entry, exercise, unjudged

KEYS = (Key("ID", "canvas_id"), Key("Login", "login", alias=True), Key("Name", "name"))


def person(id_: str, name: str = "", canvas_id: str = "") -> Entry:
    return entry(student=id_, name=name, ids={"canvas_id": canvas_id} if canvas_id else {})


def row(where: str, name: str = "", canvas_id: str = "", login: str = "") -> TemplateRow:
    cells = {"ID": canvas_id, "Login": login, "Name": name_key(name)}
    return TemplateRow(cells, name, where)


def grades(*people: Entry, out_of: float | None = None) -> Grades:
    return Grades(people, lambda each: person_of(each.student), out_of)


def matched(people: list[Entry], rows: list[TemplateRow]) -> tuple[dict[int, int], list[str]]:
    found = grades(*people)
    return found.match(rows, KEYS), found.notes()


def test_each_row_is_matched_by_its_strongest_key() -> None:
    people = [person("ada", "Ada L.", "7"), person("bob", "Bob M."), person("x9", "Cem N.")]
    rows = [row("row 2", "Cem N."), row("row 3", "B.", login="bob"), row("row 4", "A.", "7")]
    assert matched(people, rows) == ({2: 0, 1: 1, 0: 2}, [])


def test_if_two_rows_fit_neither_is_filled_in() -> None:
    found, notes = matched(
        [person("x1", "Ada L.")], [row("row 2", "Ada L."), row("row 3", "Ada L.")]
    )
    assert found == {}
    assert notes == [
        "x1: more than one row fits (Ada L., row 2; Ada L., row 3), so none was filled in."
    ]


def test_a_row_that_fits_two_people_stays_empty() -> None:
    found, notes = matched(
        [person("x1", "Ada L."), person("x2", "Ada L.")], [row("row 2", "Ada L.")]
    )
    assert found == {}
    assert [note.partition(":")[0] for note in notes] == ["x1", "x2"]
    assert all("more than one row or person fits" in note for note in notes)


def test_a_weaker_key_does_not_match_if_a_stronger_one_differs() -> None:
    found, notes = matched([person("x1", "Ada L.", "7")], [row("row 2", "Ada L.", "8")])
    assert found == {}
    assert notes[0] == "x1: is not in the template."
    assert len(notes) == 2 and "Ada L." in notes[1]


def test_an_id_under_another_name_is_noted() -> None:
    keys = (Key("ID", "canvas_id"), Key("name", "name", alias=True))
    cells = {"ID": "7", "name": name_key("Kim Lee")}
    found = grades(person("ada", "Ada L.", "7"))
    assert found.match([TemplateRow(cells, "Lee, Kim", "row 2")], keys) == {0: 0}
    assert found.notes() == ["Lee, Kim: matches ada (ada l.), but the names differ. Please check."]


def test_a_number_that_each_assignment_uses_again_does_not_match_another_name() -> None:
    keys = (Key("ID", "canvas_id", reused=True), Key("name", "name", alias=True))
    cells = {"ID": "7", "name": name_key("Kim Lee")}
    found = grades(person("ada", "Ada Ok", "7"))
    assert found.match([TemplateRow(cells, "Lee, Kim", "row 2")], keys) == {}
    assert found.notes()[0].startswith("ada: has the number of Lee, Kim, but another name, so none")


def test_ids_that_a_spreadsheet_changed_are_named() -> None:
    _, notes = matched([person("x1", "Ada", "101")], [row("row 2", "Ada", "101.0")])
    assert any(
        note.startswith("A spreadsheet changed ids, for example to 101.0:") for note in notes
    )
    assert matched([person("x1", "Ada", "101")], [row("row 2", "Ada", "101")])[1] == []


def test_an_alias_may_differ() -> None:
    found, _ = matched([person("ada", "Ada L.")], [row("row 2", "Ada L.", login="al99")])
    assert found == {0: 0}


def test_a_matched_row_fits_nobody_else() -> None:
    people = [person("x1", "Ada L.", "7"), person("x2", "Ada L.")]
    found, notes = matched(people, [row("row 2", "Ada L.", "7")])
    assert found == {0: 0}
    assert notes == ["x2: is not in the template."]


def test_empty_values_match_nothing() -> None:
    found, notes = matched([person("x1")], [row("row 2")])
    assert found == {}
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("name", "key"),
    [("Smith, Ada", "ada smith"), (" Ada  Smith ", "ada smith"), ("ÉMILE", "émile"), ("", "")],
)
def test_names_are_compared_without_case_order_and_blanks(name: str, key: str) -> None:
    assert name_key(name) == key


def test_logins_and_addresses_are_compared_without_case() -> None:
    student = StudentInfo(id="Ada", name="L., Ada", email="Ada@X.org", ids={"username": "ADA "})
    told = person_of(student)
    assert (told["id"], told["login"], told["email"]) == ("Ada", "ada", "ada@x.org")
    assert (told["username"], told["name"]) == ("ada", "ada l.")


@pytest.mark.parametrize(
    ("before", "after", "is_noted"),
    [("", "5", False), ("-", "5", False), ("5.00", "5", False), ("4", "5", True), ("A", "5", True)],
)
def test_a_grade_that_is_replaced_by_another_is_noted(
    before: str, after: str, is_noted: bool
) -> None:
    found = grades()
    found.replaces(row("row 2", "Ada L."), before, after)
    told = [f"Ada L.: has {before} in the template, and gets {after}."] if is_noted else []
    assert found.notes()[:1] == told


def test_an_open_total_is_none_with_a_reason() -> None:
    found = grades(entry(exercise(checked(), worth=10.0)), entry(unjudged()), out_of=100)
    assert found.totals == [100, None]
    assert set(found.whys) == {1} and found.whys[1]


@pytest.mark.parametrize(
    ("cell", "is_told"), [("10", False), ("20", True), ("", False), ("x", False)]
)
def test_a_different_maximum_is_noted(cell: str, is_told: bool) -> None:
    found = grades(entry(exercise(checked(), worth=10.0)))
    notes: list[Any] = found.scale_note("The column is out of {}", cell)
    told = ["The column is out of 20, the scores are out of 10: --out-of 20 scales them."]
    assert notes == (told if is_told else [])
