"""Signing in at a university. Forged, stolen or repeated answers sign nobody in."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import psutil
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from grader.cli import main
from grader.gradebook import Gradebook, sessions, tokens
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.http import Refusal
from grader.serve.identity import COOKIE
from grader.serve.sign_in.handshakes import Handshake
from grader.serve.sign_in.sign_in_file import Secrets, SignIn
from grader.serve.sign_in.university import University
from tests.grader.serve.conftest import PATIENCE_SECONDS, Answer, Served, sql
from tests.grader.serve.issuer import CLIENT, SECRET, Issuer, Visitor, free_port

ADA = "ada@example.org"
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def configured(folder: Path, issuer: str, **keys: Any) -> Path:
    """Write a file for `--sign-in`, with the secret beside it."""
    (folder / "secret.txt").write_text(SECRET + "\n", encoding="utf-8")
    table = {
        "issuer": issuer,
        "client_id": CLIENT,
        "client_secret_file": "secret.txt",
        "name": "Example University",
        "staff": ["Prof@example.org"],
        **keys,
    }
    file = folder / "sign-in.toml"
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in table.items()]
    file.write_text("".join(lines), encoding="utf-8")
    return file


def start(served: Served, issuer: str, **keys: Any) -> Served:
    """Start a server whose people sign in at this issuer."""
    served.port = served.port or free_port()
    file = configured(served.folder, issuer, **keys)
    # The issuer keeps the server from asking GitHub for keys: no test uses the network.
    no_workflows = ("--issuer", "http://127.0.0.1:9")
    address = f"http://127.0.0.1:{served.port}"
    return served.start("--sign-in", str(file), "--address", address, *no_workflows)


@pytest.fixture(scope="module")
def university() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
def issuer(university: Issuer) -> Iterator[Issuer]:
    """The issuer. After each test it is honest again."""
    yield university
    university.forge, university.user_info, university.moved_to = university.sign, {}, ""
    university.checks_pkce, university.metadata = True, {}


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory, university: Issuer) -> Iterator[Served]:
    """A server whose students sign in at the issuer."""
    server = Served(tmp_path_factory.mktemp("campus"))
    yield start(server, university.address, staff_claim="groups", staff_values=["ml-staff"])
    server.stop()


def signed_in(
    campus: Served, issuer: Issuer, then: str = "", **claims: Any
) -> tuple[Visitor, Answer]:
    """Sign in at the issuer. Returns the visitor and the page that answers."""
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(then), **claims)
    return visitor, visitor.get(back)


def refused(visitor: Visitor, answer: Answer, *statuses: int) -> None:
    """Check that the page refuses the visitor, who is not signed in."""
    assert answer.status in statuses, answer
    assert b"You are not signed in" in answer.body
    assert COOKIE not in visitor.cookies
    assert visitor.get("/api/standing").status == 401


# --- valid sign-ins ---------------------------------------------------------------------------------


def test_a_student_signs_in_and_out(campus: Served, issuer: Issuer) -> None:
    visitor, page = signed_in(campus, issuer, "/exercise/greeting", email="ADA@example.org ")
    assert page.status == 200
    assert b'content="0; url=/exercise/greeting"' in page.body
    (cookie,) = [line for line in visitor.kept if line.startswith(COOKIE)]
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
    home = visitor.get("/")
    assert home.status == 200 and b"Ada Test" in home.body
    token = visitor.cookies[COOKIE]
    assert token.encode() not in home.body + page.body
    assert token not in str(sql(campus, "SELECT * FROM sessions"))
    # Another site cannot use the session.
    assert visitor.get("/sign-out", "POST", Origin="https://evil.example").status == 403
    assert visitor.get("/api/standing").status == 200
    assert visitor.get("/sign-out", "POST", Origin=f"http://127.0.0.1:{campus.port}").status == 303
    assert COOKIE not in visitor.cookies
    # The server also forgets the session, not only the browser.
    visitor.cookies[COOKIE] = token
    assert visitor.get("/api/standing").status == 401
    assert visitor.get("/").status == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "prof@example.org"},
        {"email": "new@example.org", "groups": ["all", "ml-staff"]},
        {"email": "new@example.org", "groups": "ml-staff"},
    ],
    ids=str,
)
def test_staff_is_recognized_by_list_or_claim(
    campus: Served, issuer: Issuer, claims: dict[str, Any]
) -> None:
    visitor, page = signed_in(campus, issuer, **claims)
    assert b'url=/class"' in page.body
    assert visitor.get("/class").status == 200
    assert visitor.get("/").status == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "mallory@example.org"},
        {"email": "<script>x</script>"},
        {"email": ""},
        {"email": None},
        {"email": [ADA]},
        {"email": {"value": ADA}},
        {"email": True},
        {"email": ADA, "email_verified": False},
        # Letters that only look similar must not match another person's address.
        {"email": "ada@example.org".replace("a", "\N{FULLWIDTH LATIN SMALL LETTER A}")},
        {"email": "mallory@example.org", "groups": ["ml-staff-of-others", {"ml-staff": 1}]},
        {"email": "mallory@example.org", "groups": 5},
        {"email": "mallory@example.org", "groups": {"ml-staffs": "ml-staff"}},
    ],
    ids=str,
)
def test_people_outside_the_class_are_refused(
    campus: Served, issuer: Issuer, claims: dict[str, Any]
) -> None:
    visitor, page = signed_in(campus, issuer, **claims)
    refused(visitor, page, 403, 502)
    assert b"<script>" not in page.body
    if claims["email"] == "mallory@example.org" and len(claims) == 1:
        assert b"mallory@example.org" in page.body and b"class list" in page.body


def test_missing_claims_come_from_the_user_info(campus: Served, issuer: Issuer) -> None:
    issuer.user_info = {"email": "bob@example.org"}
    visitor, page = signed_in(campus, issuer)
    assert page.status == 200
    assert b"Bob Test" in visitor.get("/").body
    issuer.user_info = {"email": "bob@example.org", "sub": "another"}
    refused(*signed_in(campus, issuer), 502)


# --- forged tokens ------------------------------------------------------------------------------------


def with_claims(**claims: Any) -> Callable[[Issuer, dict[str, Any]], str]:
    """Sign with the right key after changing these claims. None leaves a claim out."""

    def forge(issuer: Issuer, honest: dict[str, Any]) -> str:
        whole = {**honest, **claims}
        return issuer.sign({key: value for key, value in whole.items() if value is not None})

    return forge


def segments(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (json.dumps(part).encode() for part in (header, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def symmetric(secret: bytes, claims: dict[str, Any], kid: str = "first") -> str:
    """A token signed with HMAC."""
    said = segments({"alg": "HS256", "typ": "JWT", "kid": kid}, claims)
    seal = hmac.digest(secret, said.encode(), hashlib.sha256)
    return f"{said}.{base64.urlsafe_b64encode(seal).decode().rstrip('=')}"


def by_public_key(issuer: Issuer, honest: dict[str, Any]) -> str:
    public = issuer.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return symmetric(public, honest)


def tampered(issuer: Issuer, honest: dict[str, Any]) -> str:
    head, _, signature = issuer.sign({**honest, "email": "bob@example.org"}).split(".")
    body = issuer.sign(honest).split(".")[1]
    return f"{head}.{body}.{signature}"


FORGED: dict[str, Callable[[Issuer, dict[str, Any]], str]] = {
    "issuer": with_claims(iss="https://evil.example"),
    "no issuer": with_claims(iss=None),
    "audience": with_claims(aud="another-client"),
    "no audience": with_claims(aud=None),
    "audiences without azp": with_claims(aud=[CLIENT, "another-client"]),
    "azp": with_claims(azp="another-client"),
    "nonce": with_claims(nonce="of another sign-in"),
    "no nonce": with_claims(nonce=None),
    "expired": with_claims(exp=int(time.time()) - 3600),
    "no end": with_claims(exp=None),
    "from the future": with_claims(iat=4_000_000_000, exp=4_000_000_300),
    "not yet": with_claims(nbf=4_000_000_000),
    "no subject": with_claims(sub=None),
    "access token": with_claims(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "no algorithm": lambda _, honest: segments({"alg": "none"}, honest) + ".",
    "None algorithm": lambda _, honest: segments({"alg": "None", "kid": "first"}, honest) + ".",
    "public key as secret": by_public_key,
    "client's secret": lambda _, honest: symmetric(SECRET.encode(), honest),
    "another key": lambda issuer, honest: issuer.sign(honest, key=OTHER_KEY),
    "unknown key": lambda issuer, honest: issuer.sign(honest, kid="second", key=OTHER_KEY),
    "own key in the header": lambda _, honest: jwt.encode(
        honest,
        OTHER_KEY,
        algorithm="RS256",
        headers={"jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OTHER_KEY.public_key()))},
    ),
    "tampered": tampered,
    "no token": lambda *_: "",
    "no signature": lambda issuer, honest: issuer.sign(honest).rpartition(".")[0] + ".",
    "huge": lambda issuer, honest: issuer.sign({**honest, "more": "x" * 100_000}),
    "nested": lambda *_: base64.urlsafe_b64encode(b'{"kid":' + b"[" * 9000).decode() + ".e30.e30",
}


# The reason for which each is refused.
REASONS = {
    "issuer": "Invalid issuer",
    "no issuer": '"iss"',
    "audience": "Audience doesn't match",
    "no audience": '"aud"',
    "audiences without azp": "azp",
    "azp": "azp",
    "nonce": "nonce",
    "no nonce": "nonce",
    "expired": "expired",
    "no end": '"exp"',
    "from the future": "(iat)",
    "not yet": "(nbf)",
    "no subject": '"sub"',
    "access token": "at_hash",
    "no algorithm": "alg value is not allowed",
    "None algorithm": "alg value is not allowed",
    "public key as secret": "alg value is not allowed",
    "client's secret": "alg value is not allowed",
    "another key": "Signature verification failed",
    "unknown key": "not signed with a key of its issuer",
    "own key in the header": "Signature verification failed",
    "tampered": "Signature verification failed",
    "no token": "Not enough segments",
    "no signature": "Signature verification failed",
    "huge": "too long",
    "nested": "header",
}


def test_the_forger_can_also_sign_an_honest_token(campus: Served, issuer: Issuer) -> None:
    issuer.forge = lambda honest: with_claims(aud=[CLIENT, "other"], azp=CLIENT)(issuer, honest)
    assert signed_in(campus, issuer, email=ADA)[1].status == 200


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_token_signs_nobody_in(campus: Served, issuer: Issuer, forgery: str) -> None:
    issuer.forge = lambda honest: FORGED[forgery](issuer, honest)
    visitor, page = signed_in(campus, issuer, email=ADA)
    refused(visitor, page, 502)
    assert REASONS[forgery] in faults_of(campus)[-1]
    assert campus.ask("GET", "/healthz").status == 200
    assert "Traceback" not in campus.log.read_text()


@pytest.mark.parametrize(
    "answer",
    [
        (400, {"error": "invalid_grant", "error_description": "<script>x</script>"}),
        (200, {}),
        (200, []),
        (200, {"id_token": 5, "access_token": {}}),
        (200, {"error": ["x"], "id_token": "x"}),
        (200, {"id_token": "x", "access_token": "x", "expires_in": "soon"}),
        (500, {"id_token": "x"}),
    ],
    ids=str,
)
def test_an_invalid_answer_of_the_issuer_signs_nobody_in(
    campus: Served, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(issuer, "token", lambda *_: answer)
    visitor, page = signed_in(campus, issuer, email=ADA)
    refused(visitor, page, 502)
    assert b"<script>x" not in page.body
    assert "<script>" not in campus.log.read_text()
    assert "Traceback" not in campus.log.read_text()


def test_surrogates_in_claims_are_refused(campus: Served, issuer: Issuer) -> None:
    for address in ("ada\ud800@example.org", "\udfff"):
        refused(*signed_in(campus, issuer, email=address, groups=["ml-staff"]), 502)
    assert "Traceback" not in campus.log.read_text()


def test_an_invalid_access_token_is_not_logged(
    campus: Served, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = issuer.token

    def odd(*asked: Any) -> Any:
        status, told = honest(*asked)
        return status, {**told, "access_token": "s3cret-access\ntoken"}

    monkeypatch.setattr(issuer, "token", odd)
    # Without the claim, the server asks for the user info, with the token in a header.
    visitor, page = signed_in(campus, issuer)
    refused(visitor, page, 502)
    assert "s3cret-access" not in campus.log.read_text()


def test_many_sign_ins_of_strangers_do_not_block_others(
    campus: Served, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers, order, go_on = 24, list[str](), threading.Semaphore(0)
    honest = issuer.token

    def slow(form: Mapping[str, str], authorization: str) -> Any:
        order.append(form["code"])
        go_on.acquire(timeout=PATIENCE_SECONDS)
        return honest(form, authorization)

    monkeypatch.setattr(issuer, "token", slow)
    begun = [(visitor, visitor.leave()) for visitor in [Visitor(campus.port)] * strangers]
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(), email=ADA)

    def stranger(number: int) -> int:
        own, left = begun[number]
        told = {"state": query(left)["state"], "code": f"x{number}", "iss": issuer.address}
        answer = f"/sign-in/university/callback?{urllib.parse.urlencode(told)}"
        return own.get(answer, X_Forwarded_For="192.0.2.66").status

    def student() -> int:
        return visitor.get(back, X_Forwarded_For="198.51.100.7").status

    def connections() -> int:
        there = psutil.Process(campus.pid).net_connections()
        return sum(each.status == psutil.CONN_ESTABLISHED for each in there)

    with ThreadPoolExecutor(strangers + 1) as threads:
        try:
            many = [threads.submit(stranger, number) for number in range(strangers)]
            waited_for(lambda: len(order) >= 4 and connections() >= strangers)
            mine = threads.submit(student)
            waited_for(lambda: connections() > strangers)
            go_on.release()
            waited_for(lambda: len(order) > 4)
        finally:
            go_on.release(2 * strangers)
        assert mine.result() == 200
        assert {each.result() for each in many} == {502}
    # The student is not last, although all strangers came before.
    assert order.index(query(back)["code"]) < strangers // 2, order


# --- stolen, repeated and confused answers ------------------------------------------------------------


def test_a_state_works_once_and_in_its_own_browser(campus: Served, issuer: Issuer) -> None:
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(), email=ADA)
    # A victim opens the link of an attacker's own sign-in.
    victim = Visitor(campus.port)
    refused(victim, victim.get(back), 403)
    victim.leave()
    refused(victim, victim.get(back), 403)
    for state in ("", "x", "x.y.z.w", "0.0..0", "\ud800"):
        made_up = back.replace(query(back)["state"], urllib.parse.quote(state, errors="replace"))
        refused(visitor, visitor.get(made_up), 403)
    assert visitor.get(back).status == 200
    del visitor.cookies[COOKIE]
    refused(visitor, visitor.get(back), 403)


def query(address: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))


def test_a_stolen_code_is_refused(campus: Served, issuer: Issuer) -> None:
    victim, thief = Visitor(campus.port), Visitor(campus.port)
    for checks_pkce in (True, False):
        issuer.checks_pkce = checks_pkce
        stolen = query(issuer.allow(victim.leave(), email=ADA))["code"]
        own = issuer.allow(thief.leave(), email="bob@example.org")
        # The verifier protects it, and if the issuer does not check that, the nonce does.
        refused(thief, thief.get(own.replace(query(own)["code"], stolen)), 502)


def test_a_code_works_once(campus: Served, issuer: Issuer) -> None:
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(), email=ADA)
    assert visitor.get(back).status == 200
    del visitor.cookies[COOKIE]
    again = query(visitor.leave())["state"]
    refused(visitor, visitor.get(back.replace(query(back)["state"], again)), 502)


def test_a_code_is_not_sent_if_the_issuer_differs(campus: Served, issuer: Issuer) -> None:
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(), email=ADA)
    asked = issuer.asked.count("/token")
    name = urllib.parse.quote_plus(issuer.address)
    for address in (back.replace(f"iss={name}", "iss=https%3A%2F%2Fevil.example"),
                    back.replace(f"&iss={name}", "")):  # fmt: skip
        refused(visitor, visitor.get(address), 403)
    assert issuer.asked.count("/token") == asked


def test_the_secret_is_not_sent_to_a_redirect(campus: Served, issuer: Issuer) -> None:
    with_another = Issuer()
    issuer.moved_to = with_another.address + "/token"
    refused(*signed_in(campus, issuer, email=ADA), 502)
    assert with_another.asked == []
    with_another.close()


def test_a_denied_consent_signs_nobody_in(campus: Served, issuer: Issuer) -> None:
    visitor = Visitor(campus.port)
    state = urllib.parse.quote(query(visitor.leave())["state"])
    iss = urllib.parse.quote_plus(issuer.address)
    for error in ("access_denied", "<script>x</script>"):
        path = f"/sign-in/university/callback?error={error}&state={state}&iss={iss}"
        page = visitor.get(path)
        refused(visitor, page, 403)
        assert b"<script>x" not in page.body
    refused(visitor, visitor.get(f"/sign-in/university/callback?state={state}&iss={iss}"), 403)


@pytest.mark.parametrize(
    "then",
    [
        "https://evil.example",
        "//evil.example",
        "/%5Cevil.example",
        "/%09/evil.example",
        "javascript:alert(1)",
        "/exercise/..%2F..",
        "/exercise/greeting%22%3E%3Cscript%3E",
        "/x" * 500,
        "/sign-in/university",
    ],
)
def test_sign_in_leads_only_to_our_pages(campus: Served, issuer: Issuer, then: str) -> None:
    _, page = signed_in(campus, issuer, then, email=ADA)
    assert b'content="0; url=/"' in page.body and b'class="go" href="/"' in page.body


def test_secrets_are_neither_logged_nor_on_a_command_line(
    campus: Served, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    honest = issuer.token

    def watched(*asked: Any) -> Any:
        for process in psutil.Process(campus.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it ended
                lines.append(" ".join(process.cmdline()))
        return honest(*asked)

    monkeypatch.setattr(issuer, "token", watched)
    visitor = Visitor(campus.port)
    back = issuer.allow(visitor.leave(), email=ADA)
    assert visitor.get(back).status == 200
    assert any("urllib" in line for line in lines)
    said = campus.log.read_text() + "\n".join(lines)
    secrets = (SECRET, query(back)["code"], query(back)["state"], ADA, visitor.cookies[COOKIE])
    assert [secret for secret in secrets if secret in said] == []


# --- an issuer that is down, and the end of sessions --------------------------------------------------


@pytest.mark.thorough
def test_without_the_issuer_tokens_still_work(
    serving: Callable[..., Served],
) -> None:
    port = free_port()
    served = start(serving(), f"http://127.0.0.1:{port}")
    visitor = Visitor(served.port)
    told = b"does not answer now"
    waited_for(lambda: told in visitor.get("/").body)
    page = visitor.get("/sign-in/university")
    assert page.status == 503 and told in page.body
    assert served.ask("GET", "/api/standing", "ada").status == 200
    assert visitor.get("/sign-in/university/callback?code=x&state=y").status == 403
    issuer = Issuer(port)
    waited_for(lambda: told not in visitor.get("/").body)
    assert signed_in(served, issuer, email=ADA)[1].status == 200
    issuer.close()
    visitor = Visitor(served.port)
    back = issuer.allow(visitor.leave(), email=ADA)
    refused(visitor, visitor.get(back), 502, 503)


def faults_of(served: Served) -> list[str]:
    """The reasons in the log for refused sign-ins."""
    lines = (json.loads(line) for line in served.log.read_text().splitlines())
    return [line["fault"] for line in lines if line["said"] == "a sign-in is refused"]


def waited_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "http://127.0.0.1:1"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://192.0.2.1/keys"},
        {"token_endpoint": "http://192.0.2.1/token"},
        {"token_endpoint": 5},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
def test_an_invalid_discovery_document_is_refused(issuer: Issuer, metadata: dict[str, Any]) -> None:
    secrets = Secrets(SignIn(issuer=issuer.address, client_id=CLIENT), SECRET)
    students = [StudentInfo(id="ada", email=ADA)]
    handshake = Handshake("state", "nonce", "verifier" * 8, "")
    honest = University(secrets, "http://127.0.0.1/back", students)
    assert honest.authorization(handshake).startswith(f"{issuer.address}/")
    issuer.metadata = metadata
    with pytest.raises(Refusal, match="does not answer now") as refusal:
        University(secrets, "http://127.0.0.1/back", students).authorization(handshake)
    assert refusal.value.status_code == 503


@pytest.mark.thorough
def test_sessions_end_if_rules_change_or_staff_revokes_them(
    serving: Callable[..., Served], issuer: Issuer
) -> None:
    served = start(serving(), issuer.address)
    visitor, _ = signed_in(served, issuer, email=ADA)
    staff, _ = signed_in(served, issuer, email="prof@example.org")
    assert visitor.get("/api/standing").status == staff.get("/api/staff/queue").status == 200
    # The same rules after a restart, then without this member of staff.
    served.stop()
    start(served, issuer.address)
    assert visitor.get("/api/standing").status == staff.get("/api/staff/queue").status == 200
    served.stop()
    start(served, issuer.address, staff=[])
    assert visitor.get("/api/standing").status == staff.get("/api/staff/queue").status == 401
    # Correct a wrong address in the class list, which let somebody else in.
    visitor, _ = signed_in(served, issuer, email=ADA)
    other, _ = signed_in(served, issuer, email="bob@example.org")
    served.stop()
    roster = served.folder / "class.csv"
    text = roster.read_text(encoding="utf-8")
    roster.write_text(text.replace(ADA, "ada@right.example.org"), encoding="utf-8")
    start(served, issuer.address, staff=[])
    assert visitor.get("/api/standing").status == 401
    assert other.get("/api/standing").status == 200
    served.stop()
    roster.write_text(text, encoding="utf-8")
    start(served, issuer.address, staff=[])
    visitor, _ = signed_in(served, issuer, email=ADA)
    revoke = ["tokens", str(served.results), "--revoke", "ada"]
    done = CliRunner().invoke(main, revoke)
    assert done.exit_code == 0 and "signed out everywhere" in done.output, done.output
    assert visitor.get("/api/standing").status == 401
    assert CliRunner().invoke(main, revoke).exit_code == 2
    # Without a university, no session is valid.
    served.stop()
    served.start()
    assert visitor.get("/api/standing").status == 401
    assert visitor.get("/sign-in/university").status == 404
    assert visitor.get("/sign-in/university/callback").status == 404


def test_a_session_expires_and_is_valid_only_for_its_origin(tmp_path: Path) -> None:
    with Gradebook.open_to_write(tmp_path) as book:
        sessions.prepare(book)
        token = sessions.start_session(book, Role.STUDENT, "ada", "here", 10.0, 20.0)
        origins = {"here"}
        assert sessions.holder_of(book, token, origins, 19.9) == tokens.Holder(Role.STUDENT, "ada")
        assert sessions.holder_of(book, token, origins, 20.0) is None
        assert sessions.holder_of(book, token, {"there"}, 11.0) is None
        assert sessions.holder_of(book, token[:-1], origins, 11.0) is None
