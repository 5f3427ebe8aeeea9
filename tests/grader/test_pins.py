"""Installed versions equal the pins of constraints.txt, and the hashed file has the same pins."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
# Packages that PyTorch's build for CUDA requires, at versions that it pins itself.
CUDA = re.compile(r"(cuda|nvidia)-|triton$")


def pins(name: str) -> dict[str, Requirement]:
    """Read the pins of a file by package, without hashes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [line.removesuffix("\\") for line in lines if re.match("[a-z]", line)]
    read = [Requirement(line) for line in pinned]
    assert len({each.name for each in read}) == len(read), "a package is pinned twice"
    return {canonicalize_name(each.name): each for each in read}


def installed() -> dict[str, str]:
    """Return the packages of `pip install '.[test]'` with their versions in this interpreter."""
    versions: dict[str, str] = {}
    wanted = [Requirement("lab-bench[test]")]
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        distribution = metadata.distribution(requirement.name)
        versions[canonicalize_name(requirement.name)] = distribution.version
        for line in distribution.requires or ():
            needed = Requirement(line)
            extras = ("", *requirement.extras)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                wanted.append(needed)
    del versions["lab-bench"]
    return versions


def test_installed_versions_are_pinned() -> None:
    constraints = pins("constraints.txt")
    here = {name: version for name, version in installed().items() if not CUDA.match(name)}
    assert len(here) > 50, "the requirements of the tests were not found"
    assert here.keys() - constraints.keys() == set(), "installed and not pinned: `make pins`"
    for name, version in here.items():
        assert str(constraints[name].specifier) == f"=={version.partition('+')[0]}", name


def test_no_pin_is_left_over() -> None:
    applies = {
        name
        for name, pin in pins("constraints.txt").items()
        if pin.marker is None or pin.marker.evaluate()
    }
    assert applies - installed().keys() == set()


def test_the_hashed_file_has_the_same_pins_with_hashes() -> None:
    constraints, hashed = pins("constraints.txt"), pins("requirements-hashed.txt")
    assert hashed.keys() == constraints.keys()
    # PyTorch has several builds of one version for Linux, so its hashes are left out there.
    assert str(hashed.pop("torch").marker) == 'sys_platform != "linux"'
    assert {name: str(pin) for name, pin in hashed.items()} == {
        name: str(constraints[name]) for name in hashed
    }
    text = (ROOT / "requirements-hashed.txt").read_text(encoding="utf-8")
    for each in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert re.search(r" \\\n    --hash=sha256:[0-9a-f]{64}\b", each), each
