"""GitHub's tokens for workflows, from an issuer of these tests: which are valid, and for which student."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa

from grader.cli import main
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.serve import fetching
from grader.serve.http import Refusal
from grader.serve.identity import GitHub
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served

AUDIENCE = "https://grade.example.org"
CLASS = [
    StudentInfo(id="ada", ids={"repository": "org/lab-ada org/Lab2-Ada"}),
    StudentInfo(id="bob", ids={"repository": "org/lab-bob"}),
    StudentInfo(id="eve"),
]


class Issuer:
    """Signs tokens and serves its keys on loopback."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked, self.names = 0, ["first"]
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                body = json.dumps({"keys": [outer.jwk(name) for name in outer.names]}).encode()
                if "token" in self.path:  # answer as the runner of a workflow does
                    assert "audience=http" in self.path
                    body = json.dumps({"value": outer.sign(aud=outer.audience)}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.audience = AUDIENCE
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def jwk(self, name: str) -> dict[str, Any]:
        key: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {**key, "kid": name, "use": "sig", "alg": "RS256"}

    def sign(
        self, *, kid: str = "first", key: Any = None, algorithm: str = "RS256", **claims: Any
    ) -> str:
        """Sign a token as GitHub does, with these claims changed. None leaves a claim out."""
        now = int(time.time())
        whole = {
            "iss": self.address,
            "aud": AUDIENCE,
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "sub": "repo:org/lab-ada:ref:refs/heads/main",
            "repository": "org/lab-ada",
            **claims,
        }
        kept = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(kept, key or self.key, algorithm=algorithm, headers={"kid": kid})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()
    made.server.server_close()


def student_of(github: GitHub, token: str) -> str:
    """The student of a token, once the server has read the issuer's keys."""
    for _ in range(2000):
        try:
            return github.student(token)
        except Refusal as refused:
            if refused.status_code != 503:
                raise
        time.sleep(0.02)
    raise AssertionError("the keys never came")


def test_the_repository_identifies_the_student(issuer: Issuer) -> None:
    github = GitHub(AUDIENCE, CLASS, issuer.address)
    assert student_of(github, issuer.sign()) == "ada"
    assert student_of(github, issuer.sign(repository="ORG/lab2-ada")) == "ada"
    assert student_of(github, issuer.sign(repository="org/lab-bob")) == "bob"
    for stranger in ("org/lab-eve", "other/lab-ada", "", "org/lab-ada/", " org/lab-ada"):
        with pytest.raises(Refusal) as refused:
            student_of(github, issuer.sign(repository=stranger))
        assert refused.value.status_code == 403


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "https://other.example"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"nbf": 4_000_000_000},
        {"repository": None},
        {"kid": "another"},
    ],
    ids=str,
)
def test_a_token_with_other_claims_is_refused(issuer: Issuer, claims: dict[str, Any]) -> None:
    github = GitHub(AUDIENCE, CLASS, issuer.address)
    with pytest.raises(Refusal) as refused:
        student_of(github, issuer.sign(**claims))
    assert refused.value.status_code == 401


def test_a_forged_signature_is_refused(issuer: Issuer) -> None:
    github = GitHub(AUDIENCE, CLASS, issuer.address)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    head, body, signature = issuer.sign().split(".")
    forged = [
        issuer.sign(key=other),
        # The classic attack uses the public key as the secret of a symmetric signature.
        issuer.sign(key="n" * 64, algorithm="HS256"),
        jwt.encode({"repository": "org/lab-ada"}, None, algorithm="none"),  # type: ignore[arg-type]
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        "a.b.c",
        "..",
    ]
    for token in forged:
        with pytest.raises(Refusal) as refused:
            student_of(github, token)
        assert refused.value.status_code == 401


def test_unknown_key_ids_do_not_make_a_request_each(issuer: Issuer) -> None:
    github = GitHub(AUDIENCE, CLASS, issuer.address)
    before = issuer.asked
    for number in range(20):
        with pytest.raises(Refusal):
            student_of(github, issuer.sign(kid=f"made-up-{number}"))
    assert student_of(github, issuer.sign()) == "ada"
    assert issuer.asked == before + 1


def test_an_unreachable_issuer_gives_503() -> None:
    github = GitHub(AUDIENCE, CLASS, "http://127.0.0.1:9")
    while github.is_reading:
        time.sleep(0.02)
    with pytest.raises(Refusal) as refused:
        github.student(jwt.encode({}, "k" * 32, headers={"kid": "x"}))
    assert refused.value.status_code == 503


class Odd:
    """An issuer that answers with `body`, or, if it is empty, sends single bytes without end."""

    def __init__(self, body: bytes = b"") -> None:
        self.over, self.asked = threading.Event(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.set()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)
                with contextlib.suppress(OSError):
                    while not body and not outer.over.wait(0.05):
                        self.wfile.write(b" ")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def test_no_request_waits_for_a_slow_issuer(
    monkeypatch: pytest.MonkeyPatch, issuer: Issuer
) -> None:
    # Long enough for a process to start on a busy machine.
    monkeypatch.setattr(fetching, "_FETCH_SECONDS", 5)
    with contextlib.closing(Odd()) as odd:
        github = GitHub(AUDIENCE, CLASS, odd.address)
        assert odd.asked.wait(60)
        # These are answered while the issuer still sends. It sends until it is cut off.
        for number in range(50):
            with pytest.raises(Refusal) as refused:
                github.student(issuer.sign(kid=f"made-up-{number}"))
            assert refused.value.status_code == 503
        while github.is_reading:
            time.sleep(0.02)
        with pytest.raises(Refusal) as refused:
            github.student(issuer.sign())
        assert refused.value.status_code == 503


@pytest.mark.parametrize(
    "body",
    [b"[]", b"[" * 100_000, b"{}", b'{"keys": 5}', b'{"keys": [{"kty": "RSA", "n": 5}]}', b"\xff"],
    ids=lambda body: repr(body[:20]),
)
def test_invalid_keys_give_503(body: bytes, issuer: Issuer) -> None:
    with contextlib.closing(Odd(body)) as odd:
        github = GitHub(AUDIENCE, CLASS, odd.address)
        while github.is_reading:
            time.sleep(0.02)
        with pytest.raises(Refusal) as refused:
            github.student(issuer.sign())
        assert refused.value.status_code == 503


def test_a_deeply_nested_header_is_refused(issuer: Issuer) -> None:
    header = base64.urlsafe_b64encode(b'{"kid":' + b"[" * 5000).decode()
    with pytest.raises(Refusal) as refused:
        student_of(GitHub(AUDIENCE, CLASS, issuer.address), f"{header}.e30.e30")
    assert refused.value.status_code == 401


def test_repositories_are_compared_as_github_does(issuer: Issuer) -> None:
    # Unicode folds the kelvin sign to a K. GitHub does not.
    listed = [StudentInfo(id="kim", ids={"repository": "org/lab-Kim"})]
    github = GitHub(AUDIENCE, listed, issuer.address)
    assert student_of(github, issuer.sign(repository="ORG/LAB-KIM")) == "kim"
    with pytest.raises(Refusal):
        student_of(github, issuer.sign(repository="org/lab-\N{KELVIN SIGN}im"))


def test_a_repository_of_two_students_is_refused() -> None:
    twice = [*CLASS, StudentInfo(id="zoe", ids={"repository": "ORG/lab-ada"})]
    with pytest.raises(SubmissionError, match="org/lab-ada twice"):
        GitHub(AUDIENCE, twice)
    with pytest.raises(SubmissionError, match="not an https"):
        GitHub(AUDIENCE, CLASS, "http://issuer.example")


def test_a_workflow_submits_without_a_secret(
    serving: Callable[..., Served], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving()
    served.start()
    port = served.port
    served.stop()
    # The workflow asks for a token for the address in --address.
    issuer.audience = f"http://127.0.0.1:{port}"
    served.start("--address", issuer.audience, "--issuer", issuer.address)
    work = served.folder / "checkout"
    shutil.copytree(PLAIN, work, ignore=shutil.ignore_patterns("hidden", "solutions", "wrong"))
    (work / "exercises" / "text" / "greeting.py").write_bytes(SOLUTION)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(served.folder / "config"))
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{issuer.address}/token?api=1")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of the runner")
    result = served.folder / "result.json"
    command = ["submit", "--all", "--course", str(work), "--server", issuer.audience]
    done = CliRunner().invoke(main, [*command, "--json", str(result)])
    assert done.exit_code == 1, done.output
    told = json.loads(result.read_bytes())
    # The points are of the whole course. The class list ties the repository to ada.
    assert (told["score"], told["max_score"]) == (2.5, 20.0)
    assert told["submission"]["name"] == "ada"
    other = issuer.sign(aud=issuer.audience, repository="org/lab-nobody")
    assert served.ask("GET", "/api/standing", other).status == 403
    assert served.ask("GET", "/api/standing", issuer.sign(aud="https://x")).status == 401
