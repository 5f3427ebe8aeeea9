"""Launches from an LTI platform that is not our code. Forged, stolen or repeated ones sign nobody in."""

from __future__ import annotations

import html
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization

from grader.cli import main
from grader.course.assignments import CourseAssignment
from grader.course.manifest import load_course
from grader.exports.push.lti import work_of
from grader.gradebook import Gradebook, platforms
from grader.gradebook.tool_key import made_key
from grader.serve.identity import COOKIE
from grader.serve.sign_in.launch import DEEP_LINKING, LAUNCH, Launch, Selection, page_of
from grader.serve.sign_in.selection import choices
from tests.grader.serve.conftest import PLAIN, Answer, Served
from tests.grader.serve.issuer import Visitor, free_port
from tests.grader.serve.lti_platform import (
    CLIENT,
    COURSE,
    DEPLOYMENT,
    LTI,
    MEMBERSHIP,
    Platform,
    times,
)
from tests.grader.serve.test_university import OTHER_KEY, faults_of, query, segments, symmetric

INSTRUCTOR = MEMBERSHIP + "Instructor"
ADA = {"user_id": "u-1", "email_address": "ada@example.org"}


def register(served: Served, platform: Platform, *options: str) -> None:
    """Register the platform with `grade platform add`, while the server runs."""
    command = ["platform", "add", str(served.results), *platform.options, *options]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output


def start(served: Served) -> Served:
    served.port = served.port or free_port()
    # The issuer keeps the server from asking GitHub for keys: no test uses the network.
    address = f"http://127.0.0.1:{served.port}"
    return served.start("--address", address, "--issuer", "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Platform]]:
    """A server and the platform on which it is registered."""
    served = start(Served(tmp_path_factory.mktemp("school")))
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform)
    yield served, platform
    served.stop()
    platform.close()


@pytest.fixture
def tool(school: tuple[Served, Platform]) -> Served:
    return school[0]


@pytest.fixture
def platform(school: tuple[Served, Platform]) -> Iterator[Platform]:
    """The platform, with Ada as a student. After each test it is honest again."""
    made = school[1]
    yield made
    made.user, made.roles = dict(ADA), [MEMBERSHIP + "Learner"]
    made.claims, made.forge, made.selects = {}, None, False
    made.target = f"http://127.0.0.1:{school[0].port}/lti/launch"


def begun(visitor: Visitor, platform: Platform) -> dict[str, str]:
    """Begin a launch and return the parameters of our authorization request."""
    answer = visitor.get(platform.login())
    assert answer.status == 303, answer
    return query(str(answer.headers["Location"]))


def post(visitor: Visitor, posted: dict[str, str]) -> Answer:
    body = urllib.parse.urlencode({name: posted[name] for name in ("id_token", "state")})
    return visitor.get("/lti/launch", "POST", body, Origin="http://localhost")


def launched(tool: Served, platform: Platform) -> tuple[Visitor, Answer]:
    """Launch. Returns the visitor and the page that answers."""
    visitor = Visitor(tool.port)
    return visitor, post(visitor, platform.launch(begun(visitor, platform)))


def refused(visitor: Visitor, answer: Answer, *statuses: int) -> None:
    assert answer.status in statuses, answer
    assert b"You are not signed in" in answer.body
    assert COOKIE not in visitor.cookies
    assert visitor.get("/api/standing").status == 401


# --- valid launches ---------------------------------------------------------------------------------


def test_a_student_launches_and_is_signed_in(tool: Served, platform: Platform) -> None:
    visitor, page = launched(tool, platform)
    assert page.status == 200 and b'content="0; url=/"' in page.body
    assert b"Ada Test" in visitor.get("/").body
    told = {"scope": "openid", "response_type": "id_token", "response_mode": "form_post"}
    told |= {"prompt": "none", "client_id": CLIENT, "login_hint": "u-1"}
    asked = begun(visitor, platform)
    assert told.items() <= asked.items() and asked["lti_message_hint"] == platform.hint
    (cookie,) = {line for line in visitor.kept if line.startswith("lab_bench_launch")}
    for word in ("HttpOnly", "Secure", "SameSite=None"):
        assert word in cookie
    with Gradebook.open_beside_writer(tool.results) as book:
        (link,) = platforms.links(book)
        assert platforms.users(book, platform.address, CLIENT) == {"u-1": "ada"}
    ids = (link.issuer, link.client_id, link.deployment, link.context, link.resource)
    assert ids == (platform.address, CLIENT, DEPLOYMENT, COURSE, platform.hint)
    assert link.context_title == "Machine Learning" and link.resource_title == "The lab"
    assert link.lineitem == f"{platform.address}/lineitems/1"
    assert link.memberships == f"{platform.address}/members" and len(link.scopes) > 1


def test_a_platform_may_begin_with_a_form(tool: Served, platform: Platform) -> None:
    visitor = Visitor(tool.port)
    answer = visitor.get("/lti/login", "POST", platform.login().partition("?")[2])
    posted = platform.launch(query(str(answer.headers["Location"])))
    assert post(visitor, posted).status == 200


def test_a_form_of_thousands_of_fields_is_refused(tool: Served) -> None:
    for path in ("/lti/login", "/lti/launch"):
        answer = tool.ask("POST", path, "", b"a=&" * 40_000)
        assert answer.status == 413 and b"more than 500 fields" in answer.body


def test_a_link_opens_its_page_but_no_other_site(tool: Served, platform: Platform) -> None:
    here = f"http://127.0.0.1:{tool.port}"
    platform.target = f"{here}/exercise/greeting"
    assert b"url=/exercise/greeting" in launched(tool, platform)[1].body
    for target in ("https://evil.example/", f"{here}.evil.example/x", f"{here}//evil.example"):
        platform.target = target
        assert b'content="0; url=/"' in launched(tool, platform)[1].body
    for target in (f"{here}/lti/launch?x=1", f"{here}/lti/login", f"{here}@evil", "//[", here):
        assert page_of(target, here) == "/"


def test_the_registration_names_the_claim_that_identifies_people(
    serving: Callable[..., Served],
) -> None:
    served = start(serving())
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform, "--claim", "lis_person_sourcedid", "--column", "id")
    platform.claims = {LTI + "lis": {"person_sourcedid": "bob"}}
    visitor, _ = launched(served, platform)
    assert b"Bob Test" in visitor.get("/").body
    for lis in ({"person_sourcedid": ["bob"]}, {}, "bob"):
        platform.claims = {LTI + "lis": lis}
        refused(*launched(served, platform), 403)
    # Changing the rule ends the sessions, and so does removing the platform.
    register(served, platform)
    assert visitor.get("/api/standing").status == 401
    visitor, _ = launched(served, platform)
    assert visitor.get("/api/standing").status == 200
    remove = ["platform", "remove", str(served.results), "The Platform"]
    assert CliRunner().invoke(main, remove).exit_code == 0
    assert visitor.get("/api/standing").status == 401
    assert Visitor(served.port).get(platform.login()).status == 403
    platform.close()


def test_people_outside_the_class_are_refused(tool: Served, platform: Platform) -> None:
    platform.user = {"user_id": "u-9", "email_address": "mallory@example.org"}
    visitor, page = launched(tool, platform)
    refused(visitor, page, 403)
    assert b"mallory@example.org" in page.body and b"class list" in page.body
    platform.user = {"user_id": "u-9"}
    visitor, page = launched(tool, platform)
    refused(visitor, page, 403)
    assert b"does not send" in page.body


def test_instructors_are_staff_only_in_the_staff_course(
    serving: Callable[..., Served],
) -> None:
    served = start(serving())
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform)
    platform.user = {"user_id": "u-5", "email_address": "prof@example.org"}
    platform.roles = [INSTRUCTOR]
    visitor, page = launched(served, platform)
    refused(visitor, page, 403)
    assert f"--staff-course {COURSE}".encode() in page.body
    # The refused launch still makes the link known, for pass-back.
    with Gradebook.open_beside_writer(served.results) as book:
        assert len(platforms.links(book)) == 1
    register(served, platform, "--staff-course", "another course")
    refused(*launched(served, platform), 403)
    register(served, platform, "--staff-course", COURSE)
    visitor, page = launched(served, platform)
    assert b"url=/class" in page.body and visitor.get("/class").status == 200
    # Canvas sends the role of an instructor for teaching assistants, too.
    for word in ("instructor", "Instructor"):
        role = f"http://purl.imsglobal.org/vocab/lis/v2/membership/{word}#TeachingAssistant"
        for roles in ([role, INSTRUCTOR], [INSTRUCTOR, role]):
            platform.roles = roles
            refused(*launched(served, platform), 403)
    # A student of this course may teach elsewhere, and some roles only look similar.
    institution = "http://purl.imsglobal.org/vocab/lis/v2/institution/person#Instructor"
    for role in (institution, MEMBERSHIP + "Learner", "Instructor", INSTRUCTOR + "s"):
        platform.user, platform.roles = dict(ADA), [role]
        visitor, _ = launched(served, platform)
        assert visitor.get("/api/staff/queue").status == 403
    register(served, platform)
    platform.close()


# --- forged launches ----------------------------------------------------------------------------------


def by_public_key(platform: Platform, honest: dict[str, Any]) -> str:
    public = platform.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return symmetric(public, honest, str(platform.registration.get_kid()))


Forge = Callable[[Platform, dict[str, Any]], str]
# The changed claims or the forged signature, and the reason of the refusal.
FORGED: dict[str, tuple[dict[str, Any] | Forge, str]] = {
    "issuer": ({"iss": "https://evil.example"}, "Invalid issuer"),
    "audience": ({"aud": "another"}, "Audience doesn't match"),
    "no audience": ({"aud": None}, '"aud"'),
    "audiences without azp": ({"aud": [CLIENT, "another"], "azp": None}, "azp"),
    "azp": ({"azp": "another"}, "azp"),
    "nonce": ({"nonce": "of another launch"}, "nonce"),
    "no nonce": ({"nonce": None}, "nonce"),
    "deployment": ({LTI + "deployment_id": "2:xyz"}, "deployment 2:xyz is not registered"),
    "no deployment": ({LTI + "deployment_id": None}, "deployment_id"),
    "version": ({LTI + "version": "1.1"}, "LTI 1.1"),
    "message": ({LTI + "message_type": "LtiSubmissionReviewRequest"}, "LtiSubmissionReview"),
    "no message": ({LTI + "message_type": None}, "message_type"),
    "no link": ({LTI + "resource_link": None}, "resource_link"),
    "empty link": ({LTI + "resource_link": {"id": ""}}, "empty"),
    "no selection": ({LTI + "message_type": "LtiDeepLinkingRequest"}, "deep_linking_settings"),
    "long link": ({LTI + "resource_link": {"id": "x" * 2000}}, "too long"),
    "roles": ({LTI + "roles": INSTRUCTOR}, "roles"),
    "grades": ({"https://purl.imsglobal.org/spec/lti-ags/claim/endpoint": [1]}, "object"),
    "expired": (times(exp=-3600), "expired"),
    "no end": ({"exp": None}, '"exp"'),
    "from the future": (times(iat=7200, exp=7500), "(iat)"),
    "no subject": ({"sub": None}, '"sub"'),
    "no algorithm": (lambda _, c: segments({"alg": "none"}, c) + ".", "alg value is not allowed"),
    "public key as secret": (by_public_key, "alg value is not allowed"),
    "another key": (lambda p, c: p.sign(c, key=OTHER_KEY), "Signature verification failed"),
    "unknown key": (lambda p, c: p.sign(c, kid="x", key=OTHER_KEY), "not signed with a key"),
    "no token": (lambda *_: "x", "Not enough segments"),
    "huge": (lambda p, c: p.sign({**c, "more": "x" * 60_000}), "too long"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_launch_signs_nobody_in(tool: Served, platform: Platform, forgery: str) -> None:
    change, reason = FORGED[forgery]
    if isinstance(change, dict):
        shifted = {"exp", "iat"} & change.keys()
        platform.claims = {name: value for name, value in change.items() if name not in shifted}
        platform.forge = lambda claims: platform.sign(
            {name: value for name, value in {**claims, **change}.items() if value is not None}
        )
    else:
        platform.forge = lambda claims: change(platform, claims)
    platform.user["user_id"] = "u-forged"
    visitor, page = launched(tool, platform)
    refused(visitor, page, 502)
    assert reason in faults_of(tool)[-1]
    assert "Traceback" not in tool.log.read_text()
    with Gradebook.open_beside_writer(tool.results) as book:
        assert "u-forged" not in platforms.users(book, platform.address, CLIENT)


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "\ud800"},
        {LTI + "context": {"id": COURSE, "title": "half a smile: \ud83d"}},
        {LTI + "resource_link": {"id": "\udfff"}},
        {"email": "\ud800@example.org"},
    ],
    ids=["user", "title", "link", "address"],
)
def test_surrogates_in_claims_are_refused(
    tool: Served, platform: Platform, claims: dict[str, Any]
) -> None:
    platform.forge, platform.claims = platform.sign, claims
    for roles in ("Learner", "Instructor"):
        platform.roles = [MEMBERSHIP + roles]
        refused(*launched(tool, platform), 502)
    assert "Traceback" not in tool.log.read_text()


def test_the_forger_can_also_sign_an_honest_launch(tool: Served, platform: Platform) -> None:
    """Otherwise the forgeries above could be refused for the wrong reason."""
    platform.forge = platform.sign
    assert launched(tool, platform)[1].status == 200
    platform.claims = {"aud": [CLIENT, "another"], "azp": CLIENT}
    assert launched(tool, platform)[1].status == 200


# --- stolen, repeated and confused launches -------------------------------------------------------------


def test_a_launch_works_once_and_in_its_own_browser(tool: Served, platform: Platform) -> None:
    visitor, thief = Visitor(tool.port), Visitor(tool.port)
    posted = platform.launch(begun(visitor, platform))
    # Another browser posts it, before and after it begins a launch of its own.
    refused(thief, post(thief, posted), 403)
    own = begun(thief, platform)["state"]
    refused(thief, post(thief, posted), 403)
    # With the thief's own state, the nonce does not match.
    refused(thief, post(thief, {**posted, "state": own}), 502)
    for state in ("", "x", "0.0.0.0", "é", "x" * 5000):
        refused(visitor, post(visitor, {**posted, "state": state}), 403)
    assert post(visitor, posted).status == 200
    del visitor.cookies[COOKIE]
    refused(visitor, post(visitor, posted), 403)
    again = begun(visitor, platform)["state"]
    refused(visitor, post(visitor, {**posted, "state": again}), 502)


def test_a_platform_cannot_answer_for_another(
    serving: Callable[..., Served],
) -> None:
    served = start(serving())
    address = f"http://127.0.0.1:{served.port}"
    one, other = Platform(address), Platform(address)
    register(served, one)
    register(served, other, "--name", "Another")
    visitor = Visitor(served.port)
    asked = begun(visitor, one)
    refused(visitor, post(visitor, other.launch(asked)), 502)
    # It cannot even if it copies the other platform's issuer and key id.
    other.forge = lambda claims: other.sign(
        {**claims, "iss": one.address}, kid=str(one.registration.get_kid())
    )
    refused(visitor, post(visitor, other.launch(asked)), 502)
    assert post(visitor, one.launch(asked)).status == 200
    for made in (one, other):
        made.close()


def test_only_registered_platforms_can_begin_a_launch(tool: Served, platform: Platform) -> None:
    visitor = Visitor(tool.port)
    login = urllib.parse.urlsplit(platform.login())
    asked = query(platform.login())
    for change in (
        {"iss": "https://evil.example"},
        {"iss": ""},
        {"client_id": "another"},
        {"lti_deployment_id": "2:xyz"},
        {"login_hint": ""},
    ):
        changed = urllib.parse.urlencode({**asked, **change})
        answer = visitor.get(f"{login.path}?{changed}")
        assert answer.status in (400, 403), (change, answer)
        assert "Location" not in answer.headers
    assert visitor.get("/lti/login").status == 403
    # A platform may leave out its client id if its issuer is registered with only one.
    del asked["client_id"], asked["lti_deployment_id"]
    answer = visitor.get(f"{login.path}?{urllib.parse.urlencode(asked)}")
    assert answer.status == 303


def test_the_deployment_must_not_change_during_a_launch(tool: Served, platform: Platform) -> None:
    register(tool, platform, "--deployment", "second")
    platform.claims = {LTI + "deployment_id": "second"}
    refused(*launched(tool, platform), 502)
    register(tool, platform)
    assert "another deployment" in faults_of(tool)[-1]


def test_an_error_from_the_platform_is_shown(tool: Served, platform: Platform) -> None:
    visitor = Visitor(tool.port)
    state = begun(visitor, platform)["state"]
    body = urllib.parse.urlencode({"error": "login_required<script>", "state": state})
    page = visitor.get("/lti/launch", "POST", body)
    refused(visitor, page, 403)
    assert b"login_required" in page.body and b"required<script>" not in page.body
    # A GET of the address leads to the home page.
    assert visitor.get("/lti/launch").headers["Location"] == "/"


def test_in_a_frame_the_page_offers_a_new_tab(tool: Served, platform: Platform) -> None:
    visitor = Visitor(tool.port)
    page = visitor.get(platform.login(), Sec_Fetch_Dest="iframe")
    assert page.status == 200 and b'target="_blank"' in page.body
    assert "frame-ancestors" not in page.headers["Content-Security-Policy"]
    assert visitor.cookies == {}
    for path in ("/", "/lti/login", "/sign-in/university"):
        policy = visitor.get(path, Sec_Fetch_Dest="iframe").headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy


@pytest.mark.thorough
def test_a_launch_needs_our_address_and_the_platforms_keys(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform)
    visitor = Visitor(served.port)
    for answer in (visitor.get(platform.login()), visitor.get("/lti/launch", "POST", "")):
        assert answer.status == 404 and b"--address" in answer.body
    served.stop()
    start(served)
    began = time.time()
    asked = begun(visitor, platform)
    posted = platform.launch(asked)
    platform.close()
    page = post(visitor, posted)
    refused(visitor, page, 503)
    assert jwt.decode(posted["id_token"], options={"verify_signature": False})["exp"] > began


# --- the target of a link -------------------------------------------------------------------------------


def test_instructors_choose_the_target_of_a_link(tool: Served, platform: Platform) -> None:
    platform.selects, platform.roles = True, [INSTRUCTOR]
    platform.user = {"user_id": "u-5", "email_address": "prof@example.org"}
    visitor, page = launched(tool, platform)
    assert page.status == 200 and COOKIE not in visitor.cookies
    policy = page.headers["Content-Security-Policy"]
    assert f"form-action {platform.address};" in policy
    assert f"frame-ancestors {platform.address}" in policy
    text = html.unescape(page.body.decode())
    assert set(re.findall(r'action="([^"]*)"', text)) == {f"{platform.address}/selected"}
    answers = re.findall(r'name="JWT" value="([^"]*)"', text)
    for answer in answers:
        assert platform.select(urllib.parse.urlencode({"JWT": answer})) == 1
    whole, *others = platform.selected
    assert whole["url"] == f"http://127.0.0.1:{tool.port}/lti/launch"
    assert whole["lineItem"]["scoreMaximum"] == 20
    with Gradebook.open_beside_writer(tool.results) as book:
        assert whole["lineItem"]["resourceId"] == work_of(book)
        assert "" in {link.resource for link in platforms.links(book)}
    assert f"http://127.0.0.1:{tool.port}/exercise/greeting" in {each["url"] for each in others}


def test_each_assignment_of_a_course_offers_a_column(tmp_path: Path) -> None:
    course = load_course(PLAIN)
    first, *others = course.exercises
    weeks = (
        CourseAssignment(id="week1", title="Week 1", exercises=(first.id,)),
        CourseAssignment(id="week2", title="Week 2", exercises=tuple(e.id for e in others[:-1])),
    )
    known = platforms.Platform(
        issuer="https://x.example",
        client_id="1",
        deployments=("1",),
        authorization="https://x.example/auth",
        token="https://x.example/token",
        keys="https://x.example/jwks",
    )
    link = platforms.Link(issuer=known.issuer, client_id="1", deployment="1")
    launch = Launch(known, link, "u", "", is_instructor=True, target="", selection=None)
    works = {"": "plain", "week1": "plain/week1", "week2": "plain/week2"}
    made = choices(
        launch,
        Selection("https://x.example/back", None),
        msgspec.structs.replace(course, assignments=weeks),
        [course.exercises[-1].id],
        made_key(tmp_path),
        "https://grade.example.org",
        works,
    )
    items = [
        jwt.decode(each.answer, options={"verify_signature": False})[
            DEEP_LINKING + "content_items"
        ][0]
        for each in made
    ]
    columns = {item["url"]: item["lineItem"] for item in items if "lineItem" in item}
    assert columns["https://grade.example.org/assignment/week1"] == {
        "label": "Week 1",
        "scoreMaximum": first.points,
        "resourceId": "plain/week1",
        "tag": "lab-bench",
    }
    assert len(columns) == 3
    # The column of the whole course leaves out practice exercises.
    whole = columns[f"https://grade.example.org{LAUNCH}"]["scoreMaximum"]
    assert whole == sum(each.points for each in course.exercises[:-1])


def test_a_link_to_an_assignment_is_kept_with_it(
    serving: Callable[..., Served],
) -> None:
    served = serving(policy="attempts = 'newest'\n")
    (served.course / "exercises/assignments.toml").write_text(
        '[[assignment]]\nid = "week1"\ntitle = "Week 1"\nexercises = ["greeting"]\n', "utf-8"
    )
    start(served)
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform)
    platform.target = f"http://127.0.0.1:{served.port}/assignment/week1"
    visitor, page = launched(served, platform)
    assert page.status == 200 and b"/assignment/week1" in page.body
    platform.close()
    with Gradebook.open_beside_writer(served.results) as book:
        assert [link.assignment for link in platforms.links(book)] == ["week1"]
    answer = visitor.get("/assignment/week1")
    assert (answer.status, answer.headers["Location"]) == (303, "/#assignment-week1")
    assert visitor.get("/assignment/week7").status == 404


def test_deep_linking_is_refused_to_others(tool: Served, platform: Platform) -> None:
    platform.selects = True
    settings = "https://purl.imsglobal.org/spec/lti-dl/claim/deep_linking_settings"
    refused(*launched(tool, platform), 403)
    platform.roles = [INSTRUCTOR]
    honest = {"deep_link_return_url": f"{platform.address}/x", "accept_types": ["link"]}
    platform.forge = lambda claims: platform.sign({**claims, settings: honest})
    refused(*launched(tool, platform), 403)
    evil = "https://evil.example;frame-ancestors*/x"
    for address in ("javascript:alert(1)", "http://evil.example/x", "", evil):
        honest = {"deep_link_return_url": address, "accept_types": ["ltiResourceLink"]}
        refused(*launched(tool, platform), 502)
