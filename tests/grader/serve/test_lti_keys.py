"""The public key of the server, which any platform may read, and nothing else of it."""

from __future__ import annotations

import jwt

from grader.gradebook.tool_key import FILE, made_key
from tests.grader.serve.conftest import Served


def test_a_platform_reads_the_public_key_without_a_token(served: Served) -> None:
    """Also of a server that was started before there was a key."""
    (served.results / FILE).unlink(missing_ok=True)
    assert served.ask("GET", "/lti/keys").json == {"keys": []}
    key = made_key(served.results)
    answer = served.ask("GET", "/lti/keys")
    assert answer.status == 200
    (published,) = jwt.PyJWKSet.from_dict(answer.json).keys
    assert jwt.decode(key.signed({"sub": "x"}), published, ["RS256"])["sub"] == "x"
    assert set(answer.json["keys"][0]) == {"kty", "n", "e", "kid", "use", "alg"}


def test_a_key_that_cannot_be_read_is_a_fault_and_not_shown(served: Served) -> None:
    (served.results / FILE).write_text("SECRET")
    answer = served.ask("GET", "/lti/keys")
    assert answer.status == 500
    assert b"SECRET" not in answer.body
    (served.results / FILE).unlink()
