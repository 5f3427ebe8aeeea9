"""Evidence of an attack's success, even on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.audit.catalogue import Proof
from grader.audit.evidence import Trial, _folders, evidence_in


@pytest.mark.parametrize(
    ("late", "loop_late", "proofs"),
    [
        (1.0, 0.0, []),
        (3.0, 0.0, [Proof.TIME]),
        (3.0, 0.2, [Proof.TIME]),
        # If a harmless loop is 5 s late, an attack may be 9 s late.
        (9.0, 5.0, []),
        (30.0, 5.0, [Proof.TIME]),
        # A loop may end before its time is over.
        (3.0, -3.0, [Proof.TIME]),
    ],
)
def test_an_attack_is_late_only_relative_to_a_harmless_loop(
    late: float, loop_late: float, proofs: list[Proof]
) -> None:
    trial = Trial(0.0, "", 4.0 + late, 4.0, loop_late_seconds=loop_late)
    assert [evidence.proof for evidence in evidence_in(trial, {}, "trophy")] == proofs


def test_points_texts_and_claims_are_evidence_however_slow_the_machine() -> None:
    trial = Trial(1.0, "secret and trophy", 60.0, 4.0, loop_late_seconds=60.0)
    found = [evidence.proof for evidence in evidence_in(trial, {"suite": "secret"}, "trophy")]
    assert found == [Proof.SCORE, Proof.TEXT, Proof.CLAIM]


@pytest.mark.skipif(os.name != "posix", reason="needs a table of users with their homes")
def test_both_homes_are_watched_if_home_is_set_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    monkeypatch.setenv("HOME", str(tmp_path))
    assert {tmp_path, Path(pwd.getpwuid(os.getuid()).pw_dir)} <= {*_folders()}
