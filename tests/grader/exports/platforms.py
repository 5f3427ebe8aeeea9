"""A small Canvas, Moodle and LTI platform on loopback that behave as their documentation says.

They have users, one assignment, grades and comments, require a token, and return lists in pages. They can
refuse requests as platforms and the proxies in front of them do. Every request is recorded.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt

from grader.exports.push.lti import LINE_ITEM, MEMBERSHIPS, RESULT, SCORE
from grader.gradebook.platforms import Link
from grader.gradebook.platforms import Platform as Registered

TOKEN = "tok~3n"
COURSE, ASSIGNMENT, INSTANCE = 12, 34, 78
# Ways to refuse a request before it is carried out, and after, when the client cannot know.
BEFORE = ("limited", "throttled", "busy")
AFTER = ("lost", "cut")


class Handler(BaseHTTPRequestHandler):
    """Pass requests to the platform, and refuse every nth of them."""

    protocol_version = "HTTP/1.1"
    platform: Platform

    def log_message(self, *_: Any) -> None:
        pass

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        way = self.platform.way(self.command, self.path, body, dict(self.headers))
        if way in BEFORE:
            self._refuse(way)
            return
        status, headers, value = self.platform.answer(self.command, self.path, body, self.headers)
        if way == "cut":
            self.close_connection = True
            return
        if way == "lost":
            self._give(502, {}, b"<html>Bad gateway</html>")
            return
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._give(status, headers, text)

    do_GET = do_PUT = do_POST = _any  # noqa: N815  # as http.server calls them

    def _refuse(self, way: str) -> None:
        if way == "limited":
            self._give(429, {"Retry-After": "3"}, b'{"errors": [{"message": "Too many requests"}]}')
        elif way == "throttled":
            self._give(403, {}, b"403 Forbidden (Rate Limit Exceeded)\n")
        else:
            self._give(503, {}, b"Service unavailable")

    def _give(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        # A killed client does not read the answer.
        with contextlib.suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(body)


class Platform:
    """The common part of a Canvas and a Moodle: users, grades, comments, and a list of requests.

    Every `refuse_every`-th request is refused, using the `ways` in turn. `refused` maps users to the message
    with which their grades are refused.
    """

    def __init__(self, students: int) -> None:
        self.users = list(range(1001, 1001 + students))
        self.grades: dict[int, float] = {}
        self.comments: dict[int, list[str]] = {}
        self.writes: Counter[int] = Counter()
        self.refused: dict[int, str] = {}
        self.locked: set[int] = set()
        self.requests: list[tuple[str, str, str]] = []
        self.refuse_every = 0
        self.ways: tuple[str, ...] = (*BEFORE, *AFTER)
        self.page, self.worth = 100, 10.0
        self.at_write: Callable[[int], None] = lambda _: None
        self.override: Callable[[str], tuple[int, dict[str, str], Any] | None] = lambda _: None
        self.lock = threading.Lock()
        self._refusals = 0
        self.address = ""

    @property
    def url(self) -> str:
        """The assignment's address as a browser shows it."""
        raise NotImplementedError

    def way(self, method: str, path: str, body: str, headers: dict[str, str]) -> str:
        with self.lock:
            self.requests.append((method, path, body))
            if not self.refuse_every or len(self.requests) % self.refuse_every:
                return ""
            self._refusals += 1
            return self.ways[self._refusals % len(self.ways)]

    def answer(
        self, method: str, path: str, body: str, headers: Any
    ) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            return self.override(path) or self._answer(method, path, body, headers)

    def _answer(
        self, method: str, path: str, body: str, headers: Any
    ) -> tuple[int, dict[str, str], Any]:
        raise NotImplementedError

    def _wrote(self, user: int) -> None:
        self.writes[user] += 1
        self.at_write(sum(self.writes.values()))

    @property
    def written(self) -> int:
        """The number of writes that were carried out."""
        return sum(self.writes.values())


class CanvasServer(Platform):
    """`/api/v1` as in Canvas's documentation of submissions, users and assignments."""

    def __init__(self, students: int) -> None:
        super().__init__(students)
        self.assignment: dict[str, Any] = {"grading_type": "points", "post_manually": False}
        self.excused: set[int] = set()
        self.deducted: dict[int, float] = {}

    @property
    def url(self) -> str:
        """The assignment's address as a browser shows it."""
        return f"{self.address}/courses/{COURSE}/assignments/{ASSIGNMENT}"

    def _answer(
        self, method: str, path: str, body: str, headers: Any
    ) -> tuple[int, dict[str, str], Any]:
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {}, {"errors": [{"message": "Invalid access token."}]}
        url = urlsplit(path)
        asked = parse_qs(url.query)
        below = url.path.removeprefix(f"/api/v1/courses/{COURSE}")
        one = re.fullmatch(rf"/assignments/{ASSIGNMENT}/submissions/(\d+)", below)
        if below == f"/assignments/{ASSIGNMENT}":
            worth = {"points_possible": self.worth}
            return 200, {}, {"id": ASSIGNMENT, "name": "Lab 1", **worth, **self.assignment}
        if below == "/users":
            assert asked["enrollment_type[]"] == ["student"]
            return self._paged(path, [self._user(user) for user in self.users])
        if below == f"/assignments/{ASSIGNMENT}/submissions":
            include = asked.get("include[]", [])
            return self._paged(path, [self._submission(user, include) for user in self.users])
        if one and int(one[1]) in self.users:
            user = int(one[1])
            if method == "PUT":
                if user in self.refused:
                    return 400, {}, {"errors": [{"message": self.refused[user]}]}
                self._put(user, dict(parse_qsl(body, keep_blank_values=True)))
            return 200, {}, self._submission(user, ["submission_comments"])
        return 404, {}, {"errors": [{"message": "The specified resource does not exist."}]}

    def _put(self, user: int, fields: dict[str, str]) -> None:
        known = {"submission[posted_grade]", "prefer_points_over_scheme", "comment[text_comment]"}
        assert fields.keys() <= known
        if "submission[posted_grade]" in fields:
            self.grades[user] = float(fields["submission[posted_grade]"])
        if "comment[text_comment]" in fields:
            self.comments.setdefault(user, []).append(fields["comment[text_comment]"])
        self._wrote(user)

    def _user(self, user: int) -> dict[str, Any]:
        return {
            "id": user,
            "name": f"First{user} Last{user}",
            "sortable_name": f"Last{user}, First{user}",
            "sis_user_id": None,
            "login_id": f"s{user}@uni.example",
        }

    def _submission(self, user: int, include: list[str]) -> dict[str, Any]:
        entered = self.grades.get(user)
        score = None if entered is None else entered - self.deducted.get(user, 0.0)
        found: dict[str, Any] = {"user_id": user, "entered_score": entered, "score": score}
        found |= {"excused": user in self.excused, "points_deducted": self.deducted.get(user)}
        if "submission_comments" in include:
            found["submission_comments"] = [
                {"id": at, "comment": text, "created_at": f"2026-10-01T00:00:{at:02}Z"}
                for at, text in enumerate(self.comments.get(user, ()))
            ]
        return found

    def _paged(self, path: str, items: list[Any]) -> tuple[int, dict[str, str], Any]:
        asked = parse_qs(urlsplit(path).query)
        size = min(int(asked.get("per_page", ["10"])[0]), self.page)
        page = int(asked.get("page", ["1"])[0])
        links = [f'<{self.address}{path}>; rel="current"']
        if page * size < len(items):
            base = re.sub(r"&page=\d+", "", path)
            links.append(f'<{self.address}{base}&page={page + 1}>; rel="next"')
        return 200, {"link": ",".join(links)}, items[(page - 1) * size : page * size]


class MoodleServer(Platform):
    """`/webservice/rest/server.php` with the functions that Moodle's documentation describes."""

    def __init__(self, students: int) -> None:
        super().__init__(students)
        self.assignment: dict[str, Any] = {"markingworkflow": 0}
        self.takes_comments = True
        self.states: dict[int, str] = {}
        # Participants' numbers are not users' ids.
        self.numbers = {user: user + 5000 for user in self.users}

    @property
    def url(self) -> str:
        """The assignment's address as a browser shows it."""
        return f"{self.address}/mod/assign/view.php?id={ASSIGNMENT}"

    def _answer(
        self, method: str, path: str, body: str, headers: Any
    ) -> tuple[int, dict[str, str], Any]:
        if path != "/webservice/rest/server.php":
            return 404, {}, b"<html>Not found</html>"
        fields = dict(parse_qsl(body, keep_blank_values=True))
        assert fields.pop("moodlewsrestformat") == "json"
        if fields.pop("wstoken") != TOKEN:
            return 200, {}, self._exception("invalidtoken", "Invalid token - token not found")
        function = fields.pop("wsfunction")
        return 200, {}, getattr(self, function)(fields)

    def _exception(self, code: str, message: str) -> dict[str, str]:
        return {"exception": "moodle_exception", "errorcode": code, "message": message}

    def core_course_get_course_module(self, fields: dict[str, str]) -> Any:
        if fields != {"cmid": str(ASSIGNMENT)}:
            return self._exception("invalidrecord", "Can't find data record in database.")
        module = {"id": ASSIGNMENT, "course": COURSE, "instance": INSTANCE, "modname": "assign"}
        return {"cm": module, "warnings": []}

    def mod_assign_get_assignments(self, fields: dict[str, str]) -> Any:
        assert fields == {"courseids[0]": str(COURSE)}
        config = {"plugin": "comments", "subtype": "assignfeedback", "name": "enabled"}
        configs = [{**config, "value": str(int(self.takes_comments))}]
        mine = {"id": INSTANCE, "name": "Lab 1", "grade": self.worth, "configs": configs}
        return {
            "courses": [{"id": COURSE, "assignments": [{"id": 77}, {**mine, **self.assignment}]}]
        }

    def core_enrol_get_enrolled_users(self, fields: dict[str, str]) -> Any:
        assert fields.pop("courseid") == str(COURSE)
        options = {
            value: fields[name.replace("name", "value")]
            for name, value in fields.items()
            if name.endswith("[name]")
        }
        start = int(options["limitfrom"])
        end = start + int(options["limitnumber"])
        return [
            {"id": user, "fullname": f"First{user} Last{user}", "email": f"s{user}@uni.example"}
            for user in self.users[start:end]
        ]

    def mod_assign_get_user_mappings(self, fields: dict[str, str]) -> Any:
        return self._listed("mappings", [{"id": n, "userid": u} for u, n in self.numbers.items()])

    def mod_assign_get_user_flags(self, fields: dict[str, str]) -> Any:
        flags = [{"userid": u, "workflowstate": state} for u, state in self.states.items()]
        return self._listed("userflags", flags)

    def mod_assign_get_grades(self, fields: dict[str, str]) -> Any:
        # A comment without a grade makes a grade of -1.
        users = [*self.grades, *(user for user in self.comments if user not in self.grades)]
        if not users:
            return {"assignments": [], "warnings": [{"warningcode": "3", "message": "No grades"}]}
        return self._listed("grades", [self._grade(user) for user in users])

    def mod_assign_get_submission_status(self, fields: dict[str, str]) -> Any:
        user = int(fields["userid"])
        assert fields["assignid"] == str(INSTANCE)
        texts = self.comments.get(user, [])
        is_hidden = self.assignment["markingworkflow"] and self.states.get(user) != "released"
        if is_hidden or (user not in self.grades and not texts):
            return {"warnings": []}
        # Moodle cleans a text and wraps it.
        text = "".join(texts).replace("<br>", "<br />")
        field = {"name": "comments", "text": f'<div class="no-overflow">{text}</div>', "format": 1}
        feedback: dict[str, Any] = {"plugins": [{"type": "comments", "editorfields": [field]}]}
        if user in self.grades:
            feedback["grade"] = self._grade(user)
        return {"feedback": feedback, "warnings": []}

    def mod_assign_save_grades(self, fields: dict[str, str]) -> Any:
        assert fields.pop("assignmentid") == str(INSTANCE)
        assert fields.pop("applytoall") == "0"
        given = {name.removeprefix("grades[0]"): value for name, value in fields.items()}
        user = int(given.pop("[userid]"))
        editor = "[plugindata][assignfeedbackcomments_editor]"
        text, form = given.pop(f"{editor}[text]", None), given.pop(f"{editor}[format]", "1")
        assert form == "1"
        assert (text is not None) is self.takes_comments
        if user in self.refused:
            return self._exception("invalidparameter", self.refused[user])
        assert given.keys() == {"[grade]", "[attemptnumber]", "[addattempt]", "[workflowstate]"}
        assert (given["[attemptnumber]"], given["[addattempt]"]) == ("-1", "0")
        if user not in self.locked:
            self.grades[user] = min(float(given["[grade]"]), self.worth)
        if self.states or given["[workflowstate]"]:
            self.states[user] = given["[workflowstate]"]
        if text is not None:
            self.comments[user] = [text] if text else []
        self._wrote(user)
        return None

    def _grade(self, user: int) -> dict[str, Any]:
        grade = self.grades.get(user, -1.0)
        return {"userid": user, "attemptnumber": 0, "grade": f"{grade:.5f}", "grader": 2}

    def _listed(self, key: str, items: list[Any]) -> Any:
        return {"assignments": [{"assignmentid": INSTANCE, key: items}], "warnings": []}


class LtiServer(Platform):
    """An LTI platform that follows the specifications of AGS 2.0, NRPS 2.0 and the security framework.

    It checks the assertion for a token with `jwks` and refuses a score that is not newer than the last one. Its
    addresses have a query, as Moodle's do. With `shows_comments`, a result includes the last comment.
    """

    def __init__(self, students: int) -> None:
        super().__init__(students)
        self.page = 10
        self.jwks: dict[str, Any] = {"keys": []}
        self.shows_comments = True
        self.items: dict[str, dict[str, Any]] = {}
        self.is_linked = True
        self.scopes: tuple[str, ...] = (LINE_ITEM, RESULT, SCORE)
        self.times: dict[int, str] = {}
        self.tokens: dict[str, set[str]] = {}
        self.assertions = set[str]()
        self.members: dict[int, dict[str, Any]] = {}
        self.scores: list[dict[str, Any]] = []
        self.token_seconds: int | str = 3600

    @property
    def url(self) -> str:
        """The name of the column in the memory of pushes."""
        return f"{self.link.issuer} {self.link.client_id} {self.link.lineitem}"

    @property
    def registered(self) -> Registered:
        """The platform as `grade platform add` keeps it."""
        return Registered(
            issuer="https://lti.example.edu",
            client_id="client-7",
            deployments=("1",),
            authorization=f"{self.address}/auth",
            token=f"{self.address}/token",
            keys=f"{self.address}/jwks",
            name="Our LMS",
        )

    @property
    def link(self) -> Link:
        """The course and its link, as a launch describes them."""
        items = f"{self.address}/items?type_id=3"
        item = f"{self.address}/items/1/lineitem?type_id=3"
        if self.is_linked:
            self.items[item] = {"id": item, "label": "Lab 1"}
        return Link(
            issuer="https://lti.example.edu",
            client_id="client-7",
            deployment="1",
            context="c1",
            resource="r1",
            context_title="Deep Learning",
            resource_title="Lab 1",
            lineitem=item if self.is_linked else "",
            lineitems=items,
            scopes=self.scopes,
            memberships=f"{self.address}/members",
        )

    def _answer(
        self, method: str, path: str, body: str, headers: Any
    ) -> tuple[int, dict[str, str], Any]:
        url = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/token":
            return self._token(dict(parse_qsl(body)))
        scopes = self.tokens.get((headers["Authorization"] or "").removeprefix("Bearer "))
        if scopes is None:
            return 401, {}, {"error": "invalid_token"}
        accept, kind = headers["Accept"], headers["Content-Type"]
        one = re.fullmatch(r"/items/(\d+)/lineitem(/results|/scores)?", url.path)
        if url.path == "/members":
            assert accept == "application/vnd.ims.lti-nrps.v2.membershipcontainer+json"
            assert MEMBERSHIPS in scopes
            status, links, members = self._paged(path, [self._member(user) for user in self.users])
            return status, links, {"id": path, "context": {"id": "c1"}, "members": members}
        assert asked.pop("type_id") == "3"
        if url.path == "/items":
            if method == "POST":
                assert (kind, LINE_ITEM in scopes) == (
                    "application/vnd.ims.lis.v2.lineitem+json",
                    True,
                )
                return self._make(json.loads(body))
            assert accept == "application/vnd.ims.lis.v2.lineitemcontainer+json"
            names = {"resource_id": "resourceId", "tag": "tag"}
            wanted = {names[name]: value for name, value in asked.items() if name in names}
            found = [item for item in self.items.values() if wanted.items() <= item.items()]
            return self._paged(path, found)
        item = f"{self.address}/items/{one[1]}/lineitem?type_id=3" if one else ""
        if one is None or item not in self.items:
            return 404, {}, {"error": "no such line item"}
        if one[2] == "/scores":
            assert (method, kind) == ("POST", "application/vnd.ims.lis.v1.score+json")
            assert SCORE in scopes
            return self._score(json.loads(body), headers["Authorization"].split()[1])
        if one[2] == "/results":
            assert accept == "application/vnd.ims.lis.v2.resultcontainer+json"
            assert RESULT in scopes
            users = [u for u in self.users if asked.get("user_id", f"u{u}") == f"u{u}"]
            results = [self._result(user) for user in users if user in self.grades]
            return self._paged(path, results)
        assert accept == "application/vnd.ims.lis.v2.lineitem+json"
        return 200, {}, {"scoreMaximum": self.worth, **self.items[item]}

    def _token(self, fields: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        assert fields["grant_type"] == "client_credentials"
        assert fields["client_assertion_type"].endswith(":jwt-bearer")
        try:
            keys = jwt.PyJWKSet.from_dict(self.jwks)
            name = jwt.get_unverified_header(fields["client_assertion"])["kid"]
            claims = jwt.decode(
                fields["client_assertion"],
                keys[name],
                algorithms=["RS256"],
                audience=f"{self.address}/token",
                options={"require": ["iss", "sub", "aud", "iat", "exp", "jti"]},
            )
        except (jwt.PyJWTError, KeyError) as error:
            return 400, {}, {"error": "invalid_client", "error_description": str(error)}
        assert claims["iss"] == claims["sub"] == "client-7"
        assert claims["jti"] not in self.assertions, "an assertion is valid once"
        self.assertions.add(claims["jti"])
        token = f"{TOKEN}-{len(self.assertions)}"
        self.tokens[token] = {*fields["scope"].split()}
        if not self.tokens[token] <= {*self.scopes, MEMBERSHIPS}:
            return 400, {}, {"error": "invalid_scope"}
        told = {"access_token": token, "token_type": "Bearer", "scope": fields["scope"]}
        return 200, {}, {**told, "expires_in": self.token_seconds}

    def _make(self, item: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        made = {"id": f"{self.address}/items/{len(self.items) + 1}/lineitem?type_id=3", **item}
        self.items[made["id"]] = made
        return 201, {}, made

    def _score(self, score: dict[str, Any], token: str) -> tuple[int, dict[str, str], Any]:
        user = int(score["userId"][1:])
        if user in self.refused:
            words = self.refused[user].replace(TOKEN, token)
            return 400, {}, {"errors": {"message": words}}
        assert score["gradingProgress"] == "FullyGraded"
        assert score["scoreMaximum"] > 0
        if score["timestamp"] <= self.times.get(user, ""):
            return 409, {}, {"error": "Refusing score with an earlier timestamp"}
        self.times[user] = score["timestamp"]
        self.scores.append(score)
        if user not in self.locked:
            self.grades[user] = score["scoreGiven"] * self.worth / score["scoreMaximum"]
        if "comment" in score:
            self.comments.setdefault(user, []).append(score["comment"])
        self._wrote(user)
        # Moodle answers nothing at all.
        return 200, {}, b""

    def _member(self, user: int) -> dict[str, Any]:
        return {
            "user_id": f"u{user}",
            "name": f"First{user} Last{user}",
            "email": f"s{user}@uni.example",
            "status": "Active",
            "roles": ["http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"],
            **self.members.get(user, {}),
        }

    def _result(self, user: int) -> dict[str, Any]:
        found = {
            "userId": f"u{user}",
            "resultScore": self.grades[user],
            "resultMaximum": self.worth,
        }
        if self.shows_comments and user in self.comments:
            found["comment"] = self.comments[user][-1]
        return found

    def _paged(self, path: str, items: list[Any]) -> tuple[int, dict[str, str], Any]:
        asked = parse_qs(urlsplit(path).query)
        size = min(int(asked.get("limit", [str(self.page)])[0]), 100)
        page = int(asked.get("page", ["1"])[0])
        links = {}
        if page * size < len(items):
            base = re.sub(r"[&?]page=\d+", "", path)
            sign = "&" if "?" in base else "?"
            links["Link"] = f'<{self.address}{base}{sign}page={page + 1}>; rel="next"'
        return 200, links, items[(page - 1) * size : page * size]


@contextlib.contextmanager
def on_loopback(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve with this handler and yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def serving(platform: Platform) -> Iterator[None]:
    """Serve a platform on loopback."""
    with on_loopback(type("OfThis", (Handler,), {"platform": platform})) as platform.address:
        yield


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, abs_tol=0.005)
