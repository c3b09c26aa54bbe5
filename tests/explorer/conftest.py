"""Fixtures for the explorer's tests: a small trained translator, and a browser if it is installed."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.explorer_run import train_small

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run"]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a small translator and return its run folder."""
    folder = tmp_path_factory.mktemp("explorer") / "run"
    train_small(folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a Chromium browser that playwright controls."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no browser: install Debian's chromium, or name one in CHROMIUM")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()
