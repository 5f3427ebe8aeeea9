"""An LTI platform built on a library that is not ours (`lti1p3platform`). Tests can make it lie."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from lti1p3platform.ltiplatform import LTI1P3PlatformConfAbstract
from lti1p3platform.message_launch import LTIAdvantageMessageLaunchAbstract
from lti1p3platform.oidc_login import OIDCLoginAbstract
from lti1p3platform.registration import Registration
from lti1p3platform.request import Request

CLIENT, DEPLOYMENT, COURSE = "10000000000007", "1:abc", "course-1"
LTI = "https://purl.imsglobal.org/spec/lti/claim/"
MEMBERSHIP = "http://purl.imsglobal.org/vocab/lis/v2/membership#"
TOOL = "https://purl.imsglobal.org/spec/lti-tool-configuration"
# Shows the message that a registration in its frame sends at the end.
CLOSED = (
    "<title>Register</title><p id=heard></p>"
    "<script>addEventListener('message', (e) => { heard.textContent = e.data.subject })</script>"
)
SENT_BY_ITSELF = "<script>document.forms[0].submit()</script>"


class _Registration(Registration):  # type: ignore[misc]  # it comes without types
    """A registration whose key is read once; the library reads and checks it twice for each launch."""

    def __init__(self, key: rsa.RSAPrivateKey, pem: bytes) -> None:
        super().__init__()
        self.set_platform_private_key(key)
        self._kid = self.get_jwk(pem.decode())["kid"]

    def get_kid(self) -> str:
        return str(self._kid)


class _Configured(LTI1P3PlatformConfAbstract):  # type: ignore[misc]
    def init_platform_config(self, registration: Registration) -> None:
        self._registration = registration

    def get_registration_by_params(self, **_: Any) -> Registration:
        return self._registration


class _Login(OIDCLoginAbstract):  # type: ignore[misc]
    def set_lti_message_hint(self, hint: str) -> None:
        self._lti_message_hint = hint

    def get_redirect(self, url: str) -> str:
        return url


class _Asked(Request):  # type: ignore[misc]
    def build_metadata(self, request: dict[str, str]) -> Any:
        return {"method": "GET", "form_data": {}, "get_data": request}


class _Launch(LTIAdvantageMessageLaunchAbstract):  # type: ignore[misc]
    def render_launch_form(self, launch_data: dict[str, str], **_: Any) -> dict[str, str]:
        return launch_data


class Platform:
    """A platform with one link to the server at `tool`. `user` is signed in and has `roles` in the course."""

    def __init__(self, tool: str) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.user: dict[str, Any] = {"user_id": "u-1", "email_address": "ada@example.org"}
        self.roles, self.hint = [MEMBERSHIP + "Learner"], "resource-1"
        self.target, self.selects = f"{tool}/lti/launch", False
        # The items that deep linking returned, as the library reads them.
        self.selected: list[dict[str, Any]] = []
        # A hostile platform changes these claims, and signs with `forge` instead of the library.
        self.claims: dict[str, Any] = {}
        self.forge: Callable[[dict[str, Any]], str] | None = None
        self.asked: list[dict[str, str]] = []
        # Dynamic registration, which the library lacks: the platform's configuration, its answer and status,
        # and the token and body of each request.
        self.configuration: dict[str, Any] = {}
        self.registered: dict[str, Any] = {"client_id": CLIENT, TOOL: {"deployment_id": DEPLOYMENT}}
        self.status = 201
        self.registrations: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path == "/keys":
                    self.answer(json.dumps(outer.configured.get_jwks()), "application/json")
                elif path == "/authorize":
                    asked = dict(urllib.parse.parse_qsl(query))
                    outer.asked.append(asked)
                    posted = outer.launch(asked)
                    fields = "".join(
                        f"<input type=hidden name={name} value='{posted[name]}'>"
                        for name in ("id_token", "state")
                    )
                    action = posted["launch_url"]
                    self.answer(
                        f"<form method=post action='{action}'>{fields}</form>{SENT_BY_ITSELF}"
                    )
                elif path == "/openid-configuration":
                    outer.registrations.append((self.headers["Authorization"] or "", {}))
                    self.answer(json.dumps(outer.configuration), "application/json")
                elif path == "/registering":
                    self.answer(f"{CLOSED}<iframe src='{outer.target}'></iframe>")
                elif path == "/framed":
                    self.answer(f"<title>Course</title><iframe src='{outer.login()}'></iframe>")
                else:
                    self.answer(f"<title>Course</title><a href='{outer.login()}'>The lab</a>")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if self.path == "/register":
                    assert self.headers["Content-Type"] == "application/json"
                    token = self.headers["Authorization"] or ""
                    outer.registrations.append((token, json.loads(body)))
                    answer = json.dumps(outer.registered)
                    return self.answer(answer, "application/json", outer.status)
                return self.answer(f"<title>Selected</title>{outer.select(body)} selected")

            def answer(self, body: str, kind: str = "text/html", status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # To a browser, localhost is another site than 127.0.0.1.
        self.address = f"http://localhost:{self.server.server_port}"
        self.configuration |= {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
            "registration_endpoint": f"{self.address}/register",
            "https://purl.imsglobal.org/spec/lti-platform-configuration": {
                "product_family_code": "moodle",
                "messages_supported": ["LtiResourceLinkRequest", "LtiDeepLinkingRequest"],
            },
        }
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        pem = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.registration = (
            _Registration(self.key, pem)
            .set_iss(self.address)
            .set_client_id(CLIENT)
            .set_deployment_id(DEPLOYMENT)
            .set_launch_url(self.target)
            .set_deeplink_launch_url(f"{tool}/lti/select")
            .set_oidc_login_url(f"{tool}/lti/login")
            .set_tool_key_set_url(f"{tool}/lti/keys")
            .set_platform_public_key(public.decode())
        )
        self.configured = _Configured(registration=self.registration)

    @property
    def options(self) -> list[str]:
        """The options of `grade platform add` for this platform."""
        return [
            *("--issuer", self.address, "--client-id", CLIENT, "--deployment", DEPLOYMENT),
            *("--authorization", f"{self.address}/authorize", "--token", f"{self.address}/token"),
            *("--keys", f"{self.address}/keys", "--name", "The Platform"),
        ]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def login(self) -> str:
        """The address at which the platform starts a login at our server."""
        login = _Login(None, self.configured)
        login.set_lti_message_hint(self.hint)
        if self.selects:
            login.set_deeplinking_launch_url()
        return str(login.initiate_login(str(self.user["user_id"])))

    def launch(self, asked: dict[str, str]) -> dict[str, str]:
        """The form that answers our authorization request: by the library, unless a test forges it."""
        launch = _Launch(_Asked(asked), self.configured)
        launch.set_user_data(lis_roles=self.roles, **self.user)
        launch.set_resource_link_claim(self.hint, title="The lab")
        launch.set_launch_context_claim(COURSE, context_title="Machine Learning")
        launch.set_launch_url(self.target)
        launch.set_ags(f"{self.address}/lineitems", f"{self.address}/lineitems/1")
        launch.set_nrps(f"{self.address}/members")
        if self.selects:
            launch.set_dl(f"{self.address}/selected", extra_data={"of": "the platform"})
        launch.set_extra_claims(self.claims)
        posted = dict(launch.lti_launch())
        if self.forge is not None or None in self.claims.values():
            claims = jwt.decode(posted["id_token"], options={"verify_signature": False})
            claims = {
                name: value
                for name, value in {**claims, **self.claims}.items()
                if value is not None
            }
            posted["id_token"] = (self.forge or self.sign)(claims)
        return posted

    def select(self, body: str) -> int:
        """Take the answer to a deep linking request and return how many links it has."""
        answer = dict(urllib.parse.parse_qsl(body))
        items = self.configured.validate_deeplinking_resp(answer)
        claims = jwt.decode(answer["JWT"], options={"verify_signature": False})
        assert claims["aud"] == self.address and claims["iss"] == CLIENT
        assert claims[LTI + "deployment_id"] == DEPLOYMENT
        assert claims["https://purl.imsglobal.org/spec/lti-dl/claim/data"] == {"of": "the platform"}
        self.selected += items
        return len(items)

    def sign(self, claims: dict[str, Any], *, kid: str = "", key: Any = None) -> str:
        headers = {"kid": kid or str(self.registration.get_kid())}
        return jwt.encode(claims, key or self.key, algorithm="RS256", headers=headers)


def times(**shifts: int) -> dict[str, int]:
    """Claims whose values are times, each given in seconds from now."""
    return {name: int(time.time()) + shift for name, shift in shifts.items()}
