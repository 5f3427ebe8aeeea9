"""Any platform may read the server's public key, but no private part."""

from __future__ import annotations

import jwt

from grader.gradebook.tool_key import FILE, made_key
from tests.grader.serve.conftest import Served


def test_a_platform_reads_the_public_key_without_a_token(served: Served) -> None:
    """This works even if the server started before the key was made."""
    (served.results / FILE).unlink(missing_ok=True)
    assert served.ask("GET", "/lti/keys").json == {"keys": []}
    key = made_key(served.results)
    answer = served.ask("GET", "/lti/keys")
    assert answer.status == 200
    (published,) = jwt.PyJWKSet.from_dict(answer.json).keys
    assert jwt.decode(key.signed({"sub": "x"}), published, ["RS256"])["sub"] == "x"
    assert set(answer.json["keys"][0]) == {"kty", "n", "e", "kid", "use", "alg"}


def test_an_unreadable_key_gives_500_and_is_not_shown(served: Served) -> None:
    (served.results / FILE).write_text("SECRET")
    answer = served.ask("GET", "/lti/keys")
    assert answer.status == 500
    assert b"SECRET" not in answer.body
    (served.results / FILE).unlink()
