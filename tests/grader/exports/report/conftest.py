"""A browser that reads reports, and the accessibility checker that runs in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A headless Chromium that reaches this machine and no network."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        _missing("Chromium and its driver (the Debian packages chromium and chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        # A container has no namespaces for Chromium's own sandbox, and all pages here are ours.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        "--force-device-scale-factor=1",
    ):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=driver)
    chrome = webdriver.Chrome(options=options, service=service)
    chrome.set_window_size(1200, 900)
    # The accessibility checker is slow with a large class, even more on a busy machine.
    chrome.set_script_timeout(600)
    yield chrome
    chrome.quit()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, the accessibility checker, as `.ci/run` fetches it."""
    root = Path(__file__).resolve().parents[4]
    script = root / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        _missing("axe-core (npm install --prefix build/axe axe-core, as .ci/run does)")
    return script.read_text(encoding="utf-8")


def _missing(what: str) -> NoReturn:
    if os.environ.get("GRADE_CI"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is not installed")
