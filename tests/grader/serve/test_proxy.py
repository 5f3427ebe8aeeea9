"""The server behind Caddy with the configuration of examples/serve."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.grader.serve.conftest import PATIENCE_SECONDS, Served, in_json, marked

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "serve" / "Caddyfile"
# Certificates from a local authority, no files outside the test's folder, no port below 1,024.
OPTIONS = """{{
    admin off
    local_certs
    skip_install_trust
    http_port {http}
    default_bind 127.0.0.1
    storage file_system {folder}
}}
"""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        shutil.which("caddy") is None and not os.environ.get("GRADE_CI"), reason="no Caddy here"
    ),
]


class Proxy(NamedTuple):
    """The public port of the server, and the certificates that a client trusts."""

    port: int
    trust: ssl.SSLContext
    patience: float = PATIENCE_SECONDS

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.port}"

    @contextlib.contextmanager
    def asked(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and yield the answer."""
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=self.patience, context=self.trust
        )
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            yield connection.getresponse()


@pytest.fixture(scope="module")
def proxy(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("caddy")
    http_port, port = free_ports(2)
    text = EXAMPLE.read_text(encoding="utf-8")
    for name, here in (
        ("grade.example.org", f"localhost:{port}"),
        ("127.0.0.1:8080", f"127.0.0.1:{served.port}"),
    ):
        assert name in text
        text = text.replace(name, here)
    config = folder / "Caddyfile"
    config.write_text(OPTIONS.format(http=http_port, folder=folder) + text, encoding="utf-8")
    with (folder / "log").open("wb") as log:
        caddy = subprocess.Popen(
            ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)],
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        )
    try:
        authority = folder / "pki" / "authorities" / "local" / "root.crt"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert caddy.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
            with contextlib.suppress(OSError):
                proxy = Proxy(port, ssl.create_default_context(cafile=authority))
                with proxy._replace(patience=5).asked("GET", "/healthz") as answer:
                    assert answer.status == 200
                break
        yield proxy
    finally:
        caddy.terminate()
        caddy.wait(PATIENCE_SECONDS)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def test_the_cookie_is_sent_only_over_tls(served: Served, proxy: Proxy) -> None:
    form = urllib.parse.urlencode({"token": served.tokens["ada"]}).encode()
    with proxy.asked("POST", "/sign-in", form, Origin=proxy.origin) as answer:
        cookie = answer.headers["set-cookie"]
    assert answer.status == 303 and "Secure" in cookie and "HttpOnly" in cookie
    with proxy.asked("GET", "/", Cookie=cookie.partition(";")[0]) as answer:
        assert "Ada Test" in answer.read().decode()
    with proxy.asked("POST", "/sign-in", form, Origin="https://evil.example") as answer:
        assert answer.status == 403


def test_events_of_a_stream_are_not_buffered(served: Served, proxy: Proxy) -> None:
    token = f"Bearer {served.tokens['bob']}"
    served.pause()
    files = in_json({"greeting.py": marked(1)})
    with proxy.asked("POST", "/api/submissions", files, Authorization=token) as answer:
        assert answer.status == 202
        path = answer.headers["location"]
    with proxy.asked("GET", f"{path}/events", Authorization=token) as stream:
        # A buffering proxy would hold this back, since nothing follows until judging resumes.
        assert stream.readline() == b"event: state\n"
        served.resume()
        events = stream.read().decode()
    assert "event: test" in events and "done" in events


def test_a_body_over_the_limit_is_refused(served: Served, proxy: Proxy) -> None:
    token = f"Bearer {served.tokens['eve']}"
    large = b" " * 3_000_000
    with proxy.asked("POST", "/api/submissions", large, Authorization=token) as answer:
        assert answer.status == 413
