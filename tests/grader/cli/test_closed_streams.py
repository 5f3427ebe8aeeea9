"""Commands that judge work with closed standard streams, as some services and schedulers start them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.mark.skipif(os.name != "posix", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["run", pytest.param("batch", marks=pytest.mark.thorough)])
def test_commands_judge_with_closed_streams(tmp_path: Path, command: str, closed: str) -> None:
    shutil.copytree(PLAIN / "solutions", tmp_path / "class/ada")
    (tmp_path / "results").mkdir(exist_ok=True)
    arguments = {
        "run": f"run greeting --submission {tmp_path}/class/ada --json {tmp_path}/results/ada.json",
        "batch": f"batch {tmp_path}/class --exercise greeting -o {tmp_path}",
    }
    shell = f'exec "$0" -P -m grader.cli {arguments[command]} --course "$1" {closed}'
    done = subprocess.run(["sh", "-c", shell, sys.executable, str(PLAIN)], check=False, timeout=120)
    assert done.returncode == 0
    (result,) = [json.loads(path.read_bytes()) for path in (tmp_path / "results").glob("*.json")]
    assert [exercise["status"] for exercise in result["exercises"]] == ["passed"]
