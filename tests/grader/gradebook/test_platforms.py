"""LTI platforms in the gradebook: registered, replaced and removed, with their links and users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from grader.errors import SubmissionError
from grader.gradebook import Gradebook, platforms
from grader.gradebook.platforms import Link, Platform, TurnedOn, changing_platforms, is_safe

CANVAS = Platform(
    issuer="https://canvas.example.edu",
    client_id="10000000000007",
    deployments=("1:abc",),
    authorization="https://sso.example.edu/api/lti/authorize_redirect",
    token="https://sso.example.edu/login/oauth2/token",
    keys="https://sso.example.edu/api/lti/security/jwks",
    name="Canvas",
)
LINK = Link(
    issuer=CANVAS.issuer,
    client_id=CANVAS.client_id,
    deployment="1:abc",
    context="c12",
    resource="r34",
    lineitem="https://canvas.example.edu/api/lti/courses/12/line_items/34",
    lineitems="https://canvas.example.edu/api/lti/courses/12/line_items",
    scopes=("https://purl.imsglobal.org/spec/lti-ags/scope/score",),
    memberships="https://canvas.example.edu/api/lti/courses/12/names_and_roles",
)

SAFE = (
    "https://a.example",
    "https://a.example:8443/b?c=d",
    "https://[2001:db8::1]/",
    "http://127.0.0.1:8080/",
    "http://localhost/",
    "http://[::1]:80/",
)
UNSAFE = (
    *("", "a.example", "//a.example", "http://a.example", "http://127.0.0.1.evil.example"),
    *("file:///etc/passwd", "ftp://a.example", "javascript:alert(1)", "data:,x"),
    *("https://", "https:///x", "https://a b", "https://a\n", "https://\u00e4.example", "http://["),
    *("https://user@a.example", "https://a.example;x", "https://a.example'", "https://a.example,b"),
    *("https://a_b.example/x", "https://a.example:port/", "https://a.example:99999/"),
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def book(results: Path) -> Iterator[Gradebook]:
    with changing_platforms(results) as book:
        yield book


def test_a_platform_is_added_replaced_and_removed(results: Path) -> None:
    other = msgspec.structs.replace(CANVAS, client_id="8", name="Beta")
    with changing_platforms(results) as book:
        assert not platforms.add_platform(book, CANVAS)
        assert not platforms.add_platform(book, other)
        assert platforms.add_platform(book, msgspec.structs.replace(CANVAS, name="Our Canvas"))
    with Gradebook.open(results) as book:
        names = [each.name for each in platforms.platforms(book)]
    assert names == ["Our Canvas", "Beta"]
    with changing_platforms(results) as book:
        assert platforms.remove_platform(book, other.issuer, other.client_id)
        assert not platforms.remove_platform(book, other.issuer, other.client_id)
    with Gradebook.open(results) as book:
        assert [each.name for each in platforms.platforms(book)] == ["Our Canvas"]


def test_a_gradebook_without_platforms_lists_none(results: Path) -> None:
    with Gradebook.open_to_write(results):
        pass
    with Gradebook.open(results) as book:
        assert not platforms.platforms(book)
        assert not platforms.links(book)
        assert platforms.users(book, CANVAS.issuer, CANVAS.client_id) == {}


def test_a_launch_records_its_link_and_the_student_of_its_user(book: Gradebook) -> None:
    platforms.add_platform(book, CANVAS)
    platforms.keep_launch(book, LINK, "u1", "ada")
    platforms.keep_launch(book, LINK, "teacher")
    assert platforms.links(book) == [LINK]
    assert platforms.users(book, CANVAS.issuer, CANVAS.client_id) == {"u1": "ada"}
    assert platforms.users(book, CANVAS.issuer, "another client") == {}
    newer = msgspec.structs.replace(LINK, lineitem="https://canvas.example.edu/line_items/35")
    platforms.keep_launch(book, newer, "u1", "bob")
    assert platforms.links(book) == [newer]
    assert platforms.users(book, CANVAS.issuer, CANVAS.client_id) == {"u1": "bob"}


def test_a_link_moved_to_another_assignment_is_turned_off(
    book: Gradebook,
) -> None:
    platforms.add_platform(book, CANVAS)
    week1 = msgspec.structs.replace(LINK, assignment="week1")
    platforms.keep_launch(book, week1)
    platforms.turn_on(book, week1.key, TurnedOn("prof", "2026-11-30T00:00:00Z"))
    platforms.keep_launch(book, week1, "u1", "ada")
    assert [*platforms.turned_on(book)] == [week1.key]
    platforms.keep_launch(book, msgspec.structs.replace(LINK, assignment="week2"))
    assert not platforms.turned_on(book)


def test_removing_a_platform_removes_its_links_and_users(book: Gradebook) -> None:
    other = msgspec.structs.replace(CANVAS, client_id="8")
    for platform in (CANVAS, other):
        platforms.add_platform(book, platform)
        link = msgspec.structs.replace(LINK, client_id=platform.client_id)
        platforms.keep_launch(book, link, "u1", "ada")
    platforms.remove_platform(book, CANVAS.issuer, CANVAS.client_id)
    assert [link.client_id for link in platforms.links(book)] == ["8"]
    assert platforms.users(book, CANVAS.issuer, CANVAS.client_id) == {}
    assert platforms.users(book, CANVAS.issuer, "8") == {"u1": "ada"}


@pytest.mark.parametrize("address", SAFE)
def test_https_and_this_machine_are_safe(address: str) -> None:
    assert is_safe(address)


@pytest.mark.parametrize("address", UNSAFE)
def test_other_addresses_are_unsafe(address: str) -> None:
    assert not is_safe(address)


@pytest.mark.parametrize("field", ["authorization", "token", "keys"])
@pytest.mark.parametrize("address", [*UNSAFE, "https://a.example/" + 2000 * "x"])
def test_an_unsafe_address_of_a_platform_is_refused(
    book: Gradebook, field: str, address: str
) -> None:
    with pytest.raises(SubmissionError, match=f"--{field}"):
        platforms.add_platform(book, msgspec.structs.replace(CANVAS, **{field: address}))
    assert platforms.platforms(book) == []


def test_an_unsafe_address_of_a_launch_is_not_kept(book: Gradebook) -> None:
    unsafe = msgspec.structs.replace(LINK, lineitems="http://canvas.example.edu/line_items")
    platforms.keep_launch(book, unsafe)
    (kept,) = platforms.links(book)
    assert (kept.lineitem, kept.lineitems) == (LINK.lineitem, "")


HERE = [
    "http://127.0.0.1:9200/_all",
    "https://localhost/column",
    "https://LOCALHOST.:443/",
    "https://a.localhost/",
    "https://ip6-localhost/",
    "https://127.1/",
    "https://127.0.0.2:9200/",
    "https://2130706433/",
    "https://0x7f.0.0.1/",
    "https://0.0.0.0/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::]/",
]


@pytest.mark.parametrize("address", HERE)
def test_a_platform_elsewhere_has_no_column_on_this_machine(book: Gradebook, address: str) -> None:
    """Otherwise the platform could make the server send signed requests to services that listen only here."""
    platforms.add_platform(book, CANVAS)
    launched = msgspec.structs.replace(
        LINK, lineitem=address, lineitems=address, memberships=address
    )
    platforms.keep_launch(book, launched)
    (kept,) = platforms.links(book)
    assert (kept.lineitem, kept.lineitems, kept.memberships) == ("", "", "")


@pytest.mark.parametrize(
    "address", ["https://localhost.example.edu/", "https://10.0.0.7/", "https://[2001:db8::1]/"]
)
def test_an_address_elsewhere_is_kept(address: str) -> None:
    assert platforms.safe_address(address, may_be_here=False) == address


def test_a_platform_on_this_machine_needs_no_tls(book: Gradebook) -> None:
    here = msgspec.structs.replace(CANVAS, token="http://127.0.0.1:8000/token")
    platforms.add_platform(book, here)
    assert platforms.platforms(book) == [here]


def test_links_without_a_column_share_the_one_of_their_course(book: Gradebook) -> None:
    """Links that open single exercises have no column."""
    platforms.add_platform(book, CANVAS)
    columnless = msgspec.structs.replace(LINK, lineitem="")

    def keep(link: Link, **changes: str) -> Link:
        platforms.keep_launch(book, changed := msgspec.structs.replace(link, **changes))
        return changed

    def linked() -> list[Link]:
        return [link for _, link in platforms.linked(book)]

    selected = keep(columnless, resource="")
    assert linked() == [selected]
    first = keep(columnless, resource="r1")
    keep(columnless, resource="r2")
    assert linked() == [first]
    platforms.turn_on(book, first.key, TurnedOn("prof", "2026-11-30T00:00:00Z"))
    graded = keep(LINK, resource="r3")
    assert linked() == [first, graded], "a link that is turned on stays listed"
    platforms.turn_off(book, first.key)
    assert linked() == [graded]
    elsewhere = keep(LINK, context="c13")
    assert linked() == [graded, elsewhere]
    assert platforms.chosen_link(book, "c13") == (CANVAS, elsewhere)
    platforms.remove_platform(book, CANVAS.issuer, CANVAS.client_id)
    assert linked() == []


def test_an_assignment_names_the_link_that_opens_it(book: Gradebook) -> None:
    """In a course with a link for each assignment, naming the assignment is enough."""
    platforms.add_platform(book, CANVAS)
    week1, week2 = (
        msgspec.structs.replace(
            LINK, resource=name, assignment=name, lineitem=f"{LINK.lineitem}/{name}"
        )
        for name in ("week1", "week2")
    )
    for link in (LINK, week1, week2):
        platforms.keep_launch(book, link)
    assert platforms.chosen_link(book, assignment="week2") == (CANVAS, week2)
    assert platforms.chosen_link(book) == (CANVAS, LINK), "the whole course"
    assert platforms.chosen_link(book, "week1") == (CANVAS, week1)
    with pytest.raises(
        SubmissionError, match="Name one link with --link, by words of its platform"
    ):
        platforms.chosen_link(book, assignment="week3")
