"""The package as it is installed: every folder is listed, every module imports, versions agree."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

import handloom

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]


def test_every_folder_of_the_package_is_listed() -> None:
    subjects = ("autograd", "nn", "models", "tokenizer", "train", "explorer")
    folders = {path.parent.relative_to(ROOT) for subject in subjects for path in (ROOT / subject).rglob("*.py")}
    found = {"handloom", *(".".join(("handloom", *folder.parts)) for folder in folders)}
    assert sorted(PACKAGES) == sorted(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports_and_says_what_it_is(package: str) -> None:
    if package == "handloom.explorer":
        pytest.importorskip("starlette", reason="the extra `explorer` is not installed")
    folder = ROOT.joinpath(*package.split(".")[1:])
    names = [path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__")]
    if package == "handloom":
        names = ["doctor", "errors"]
    for name in [package, *(f"{package}.{name}" for name in names)]:
        assert importlib.import_module(name).__doc__, f"{name} has no docstring"


def test_the_version_stands_in_one_voice() -> None:
    assert handloom.__version__ == PROJECT["project"]["version"]


def test_kernel_sources_are_package_data() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["handloom.autograd.kernels"]
    assert patterns == ["*.cu", "*.cuh"]


def test_the_page_of_the_explorer_is_package_data() -> None:
    assert PROJECT["tool"]["setuptools"]["package-data"]["handloom.explorer"] == ["static/*"]
    assert all(path.is_file() for path in (ROOT / "explorer" / "static").iterdir())


def test_the_readme_lists_every_file() -> None:
    listed, folder = set(), ""
    tree = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[-1].split("```")[0]
    for line in tree.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
        listed.add(name if line.startswith(name) else folder + name)
    for subject in ("autograd", "nn", "models", "tokenizer", "train", "examples", "benchmarks"):
        for path in (ROOT / subject).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            assert path.name == "__init__.py" or name in listed, f"{name} is missing from the README's tree"
    for name in listed:
        assert name.startswith("tests") or (ROOT / name).exists(), f"the README's tree lists {name}, which is gone"
