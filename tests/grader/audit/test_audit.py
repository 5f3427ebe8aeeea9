"""No attack succeeds here, as root or not, with bubblewrap or not. Each one does in plain pytest.

Two of these four situations run all attacks, the other two every fourth.

The programs take about half a minute each and mostly wait, so a few of them run at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from grader.audit.catalogue import CATALOGUE, Attack, Proof, read_catalogue
from grader.sandbox.walls.bubblewrap import bubblewrapped

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the attacks need Linux"),
    pytest.mark.thorough,
]

ROOT = Path(__file__).resolve().parents[3]
ATTACKS = read_catalogue(CATALOGUE)
PARTS = 2
AT_A_TIME = 3
LIMIT_SECONDS = 1500
# Attacks on plain pytest run in namespaces, which end with them.
AROUND = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--ipc", "--uts", "--kill-child"]

Done = subprocess.CompletedProcess[str]


def run(command: list[str], **environment: str) -> Done:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )


def audit(python: list[str], *options: str) -> Done:
    return run([*python, "-m", "grader.cli", "audit", *options], HOME="/nonexistent")


def demonstrate(chosen: str) -> dict[str, list[str]]:
    """Return the proofs of each attack, for a part of the catalogue (`1/2`) or a single attack."""
    around = AROUND if shutil.which("unshare") and run([*AROUND, "true"]).returncode == 0 else []
    command = [*around, sys.executable, "-m", "tests.grader.audit.demonstration", chosen]
    quiet = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(Path.home())}
    done = run(command, GRADE_AUDIT_CANARY="canary:environ:0123456789abcdef", **quiet)
    assert done.returncode == 0, done.stderr[-3000:]
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["name"]: each["proofs"] for each in read}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_A_TIME) as executor:
        yield executor


@pytest.fixture(scope="module")
def demonstrated(pool: ThreadPoolExecutor) -> list[Future[dict[str, list[str]]]]:
    return [pool.submit(demonstrate, f"{part + 1}/{PARTS}") for part in range(PARTS)]


Audited = dict[tuple[str, str], Future[Done]]


@pytest.fixture(scope="module")
def audited(
    pool: ThreadPoolExecutor,
    as_nobody: list[str],
    demonstrated: list[Future[dict[str, list[str]]]],
) -> Audited:
    """Start all slow programs at once, so that no processor waits for a test."""
    users = {"myself": [sys.executable]} | ({"nobody": as_nobody} if as_nobody else {})
    return {
        (user, walls): pool.submit(audit, python, *options, *named(chosen(user, walls)))
        for user, python in users.items()
        for walls, options in (("bubblewrap", ()), ("inner walls", ("--no-bubblewrap",)))
    }


def chosen(user: str, walls: str) -> list[Attack]:
    """Return the attacks of a situation: all of them as root within bubblewrap and as nobody without it.

    The other two differ from these by one wall each, and test_confinement_attacks tests single walls.
    """
    is_whole = (user, walls) in (("myself", "bubblewrap"), ("nobody", "inner walls"))
    return ATTACKS if is_whole or os.geteuid() != 0 else ATTACKS[::4]


def named(attacks: list[Attack]) -> list[str]:
    """Return the options for these attacks, or none for all of them."""
    if attacks == ATTACKS:
        return []
    return [f"--attack={attack.name}" for attack in attacks]


@pytest.fixture(params=["bubblewrap", "inner walls"])
def walls(request: pytest.FixtureRequest) -> str:
    if (
        request.param == "bubblewrap"
        and bubblewrapped(["true"], readable=[], environment={}) is None
    ):
        missing("bubblewrap is not installed, or does not work here")
    return str(request.param)


def missing(what: str) -> None:
    if os.environ.get("GRADE_CI"):
        pytest.fail(f"{what}, and CI must not skip tests")
    pytest.skip(what)


def check(user: str, walls: str, done: Done) -> None:
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    words = " ".join(done.stdout.split())
    attacks = len(chosen(user, walls))
    assert f"{attacks} of {attacks} attacks stopped." in words
    held = words.partition("The walls that held: ")[2]
    assert ("bubblewrap" in held) == (walls == "bubblewrap")


def test_no_attack_succeeds(walls: str, audited: Audited) -> None:
    check("myself", walls, audited["myself", walls].result())


def test_no_attack_succeeds_against_an_ordinary_user(walls: str, audited: Audited) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: the previous test attacks an ordinary user already")
    if ("nobody", walls) not in audited:
        missing("there is no setpriv, or no Python that another user can start")
    check("nobody", walls, audited["nobody", walls].result())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_real(
    attack: Attack, demonstrated: list[Future[dict[str, list[str]]]]
) -> None:
    if attack.as_root and os.geteuid() != 0:
        pytest.skip("needs root even without walls")
    if attack.dud and attack.proof is not Proof.BYTES:
        pytest.skip(f"shown in test_catalogue: {attack.dud}")
    proofs = {name: found for part in demonstrated for name, found in part.result().items()}
    if attack.proof.value not in proofs[attack.name]:
        # Attacks limit their own time, and many ran beside this one. Repeat it alone.
        proofs = demonstrate(attack.name)
    assert attack.proof.value in proofs[attack.name]


def test_without_walls_the_audit_says_so() -> None:
    names = ["write_file", "fork", "exit_zero", "process_environment"]
    done = audit([sys.executable], "--no-walls", *(f"--attack={name}" for name in names))
    assert done.returncode == 1, done.stderr
    assert "The walls that held: none" in done.stdout
    words = " ".join(done.stdout.split())
    assert "Not stopped: process_environment, fork, write_file." in words


def test_an_installed_grader_has_the_catalogue(tmp_path: Path) -> None:
    """Installed from a wheel, the catalogue is among the packages, which sandboxes may read."""
    wheels, empty = tmp_path / "wheels", tmp_path / "empty"
    empty.mkdir()
    # Copy the sources, since setuptools builds in the project's folder.
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "grader", source / "grader", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps"]
    build = [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels)]
    done = run([*build, str(source)])
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.iterdir()
    # The environment has our packages, but not our editable grader, which a .pth file names.
    environment = tmp_path / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)]).check_returncode()
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    done = run([*pip, "install", *offline, "--target", str(packages), str(wheel)])
    assert done.returncode == 0, done.stderr
    attacks = [f"--attack={name}" for name in ("suite_by_repository", "exit_zero")]
    done = subprocess.run(
        [environment / "bin" / "python", "-I", "-m", "grader.cli", "audit", *attacks],
        cwd=empty,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 attacks stopped." in " ".join(done.stdout.split())
    installed = read_catalogue(packages / "grader" / "audit" / "attacks")
    assert [attack.source for attack in installed] == [attack.source for attack in ATTACKS]


def test_an_unknown_attack_and_an_empty_catalogue_are_reported(tmp_path: Path) -> None:
    unknown = audit([sys.executable], "--attack", "nothing")
    assert unknown.returncode == 2
    assert "There is no attack 'nothing'" in unknown.stderr
    empty = audit([sys.executable], "--catalogue", str(tmp_path))
    assert empty.returncode == 2
    assert "holds no attacks" in empty.stderr
