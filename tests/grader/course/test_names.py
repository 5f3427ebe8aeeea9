"""Names that Windows, Python or pytest use for themselves are refused with the reason."""

from __future__ import annotations

import pytest

from grader.course.names import why_no_exercise, why_no_folder, why_not_given


@pytest.mark.parametrize("name", ["glu", "batch_norm", "console", "com", "testing"])
def test_other_names_are_allowed(name: str) -> None:
    assert why_no_folder(name) == why_no_exercise(name) == why_not_given(name) == ""


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9"])
def test_a_windows_device_is_refused_as_any_name(name: str) -> None:
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
def test_names_of_python_and_pytest_are_refused_for_exercises(name: str, why: str) -> None:
    assert why in why_no_exercise(name)
    assert why_no_folder(name) == ""


@pytest.mark.parametrize("name", ["test_glu", "probe_glu", "plot_glu"])
def test_names_of_suites_probes_and_plots_are_refused_for_given_files(name: str) -> None:
    assert "suites, probes and plots" in why_not_given(name)
    assert why_no_exercise(name) == ""
