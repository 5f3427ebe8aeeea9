"""An OpenID Connect issuer, honest unless a test changes it, and a visitor that needs no browser."""

from __future__ import annotations

import base64
import hashlib
import http.client
import http.server
import json
import secrets
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.grader.serve.conftest import PATIENCE_SECONDS, Answer

CLIENT, SECRET = "lab-bench", "s3cret+of/the~client"
_GRANTED = 200


class Grant(NamedTuple):
    """A person's consent: the parameters of the authorization request and the claims about the person."""

    asked: dict[str, str]
    claims: dict[str, Any]


class Issuer:
    """Serves discovery, keys, tokens and user info on loopback. Tests can make it lie."""

    def __init__(self, port: int = 0) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.grants: dict[str, Grant] = {}
        self.users: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        # A test changes these to make the issuer hostile.
        self.metadata: dict[str, Any] = {}
        self.forge: Callable[[dict[str, Any]], str] = self.sign
        self.user_info: dict[str, Any] = {}
        self.checks_pkce, self.moved_to = True, ""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.path == "/userinfo":
                    token = self.headers["Authorization"].removeprefix("Bearer ")
                    self.answer(200, {**outer.users[token], **outer.user_info})
                elif self.path == "/keys":
                    self.answer(200, {"keys": [outer.jwk("first")]})
                elif self.path == "/.well-known/openid-configuration":
                    self.answer(200, outer.discovery())
                else:
                    self.answer(404, {})

            def do_POST(self) -> None:
                outer.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if outer.moved_to:
                    self.send_response(307)
                    self.send_header("Location", outer.moved_to)
                    self.end_headers()
                    return
                form = dict(urllib.parse.parse_qsl(body))
                self.answer(*outer.token(form, self.headers["Authorization"]))

            def answer(self, status: int, value: Any) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize?realm=students",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
            "userinfo_endpoint": f"{self.address}/userinfo",
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def jwk(self, name: str) -> dict[str, Any]:
        key: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {**key, "kid": name, "use": "sig", "alg": "RS256"}

    def sign(self, claims: dict[str, Any], *, kid: str = "first", key: Any = None) -> str:
        return jwt.encode(claims, key or self.key, algorithm="RS256", headers={"kid": kid})

    def allow(self, address: str, **claims: Any) -> str:
        """Sign a person in for an authorization request and return the address to go back to."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))
        assert asked["client_id"] == CLIENT and asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_hex(8)
        self.grants[code] = Grant(asked, {"sub": "of-" + str(claims.get("email", "?")), **claims})
        answer = {"code": code, "state": asked["state"], "iss": self.address}
        return f"{asked['redirect_uri']}?{urllib.parse.urlencode(answer)}"

    def token(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Redeem a code. Each works once."""
        pair = f"{CLIENT}:{urllib.parse.quote_plus(SECRET)}"
        expected = "Basic " + base64.b64encode(pair.encode()).decode()
        grant = self.grants.pop(form.get("code", ""), None)
        if authorization != expected:
            return 401, {"error": "invalid_client"}
        if grant is None or form["redirect_uri"] != grant.asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if self.checks_pkce and challenge != grant.asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now, access_token = int(time.time()), secrets.token_hex(8)
        claims = {
            "iss": self.address,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": grant.asked["nonce"],
            **grant.claims,
        }
        self.users[access_token] = {"sub": claims["sub"]}
        token = self.forge(claims)
        return _GRANTED, {"access_token": access_token, "token_type": "Bearer", "id_token": token}


class Visitor:
    """A client that keeps cookies, as a browser does, but does not follow redirects."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, dict[str, str]()
        self.kept: list[str] = []

    def get(
        self, address: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        """Request an address of the server. Write _ for - in names of headers."""
        url = urllib.parse.urlsplit(address)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        path = url.path + (f"?{url.query}" if url.query else "")
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, headers={"Cookie": cookie, **told})
        answer = connection.getresponse()
        whole = Answer(answer.status, answer.headers, answer.read())
        connection.close()
        for line in answer.headers.get_all("Set-Cookie") or []:
            self.kept.append(line)
            name, _, value = line.partition(";")[0].partition("=")
            if value.strip('"'):
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        return whole

    def leave(self, then: str = "") -> str:
        """Begin to sign in and return the address at the issuer."""
        answer = self.get("/sign-in/university" + (f"?then={then}" if then else ""))
        assert answer.status == 303, answer
        return str(answer.headers["Location"])


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
