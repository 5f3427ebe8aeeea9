"""A name that a system, Python or pytest has is refused, and the reason is told."""

from __future__ import annotations

import pytest

from grader.course.names import why_no_exercise, why_no_folder, why_not_given


@pytest.mark.parametrize("name", ["glu", "batch_norm", "console", "com", "testing"])
def test_any_other_name_may_be_had(name: str) -> None:
    assert why_no_folder(name) == why_no_exercise(name) == why_not_given(name) == ""


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9"])
def test_a_device_of_windows_names_nothing(name: str) -> None:
    assert "Windows has a device" in why_no_folder(name)
    assert why_no_folder(name) == why_no_exercise(name) == why_not_given(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("random", "Python would import"),
        ("class", "Python would import"),
        ("torch", "Python would import"),
        ("grader", "Python would import"),
        ("conftest", "pytest runs"),
        ("test", "Python"),
        ("tests", "the folder of the suites"),
    ],
)
def test_what_python_or_pytest_would_take_for_its_own_is_no_exercise(name: str, why: str) -> None:
    assert why in why_no_exercise(name)
    assert why_no_folder(name) == ""


@pytest.mark.parametrize("name", ["test_glu", "probe_glu", "plot_glu"])
def test_what_begins_as_a_suite_is_not_given(name: str) -> None:
    assert "suites, probes and plots" in why_not_given(name)
    assert why_no_exercise(name) == ""
