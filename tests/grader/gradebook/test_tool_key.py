"""The server's key as an LTI tool: a single private key, published to platforms as a JWKS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jwt
import pytest

from grader.errors import GraderError
from grader.gradebook.tool_key import ALGORITHM, FILE, jwks, kept_key, made_key

MAKE = "import sys, pathlib; from grader.gradebook.tool_key import made_key;"
MAKE += "print(made_key(pathlib.Path(sys.argv[1])).name)"


def test_a_platform_can_verify_signatures_with_the_published_key(tmp_path: Path) -> None:
    assert jwks(tmp_path) == {"keys": []}
    token = made_key(tmp_path).signed({"iss": "client", "aud": "https://platform.example"})
    (published,) = jwt.PyJWKSet.from_dict(jwks(tmp_path)).keys
    assert published.key_id == jwt.get_unverified_header(token)["kid"]
    claims = jwt.decode(
        token,
        published,
        algorithms=[ALGORITHM],
        audience="https://platform.example",
        options={"require": ["iat", "exp", "jti"]},
    )
    assert claims["iss"] == "client"
    assert "d" not in jwks(tmp_path)["keys"][0]


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    assert kept_key(tmp_path) is None
    made = made_key(tmp_path)
    assert made_key(tmp_path).name == made.name
    assert os.name != "posix" or (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.thorough
def test_processes_that_make_a_key_at_once_get_the_same_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    names = {process.communicate()[0] for process in running}
    assert len(names) == 1
    assert names != {b""}


def test_an_unreadable_key_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no key")
    with pytest.raises(GraderError, match="move it away"):
        jwks(tmp_path)
