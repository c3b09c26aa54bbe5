"""Check the package: every folder and data file is listed, versions agree, and the shipped models are complete."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import handloom
import handloom.cli
from handloom.models.shipped import MODELS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]


def test_every_folder_of_the_package_is_listed() -> None:
    subjects = [path.parent for path in ROOT.glob("*/__init__.py")]
    folders = {path.parent.relative_to(ROOT) for subject in subjects for path in subject.rglob("*.py")}
    found = {"handloom", *(".".join(("handloom", *folder.parts)) for folder in folders)}
    assert sorted(PACKAGES) == sorted(found)


def test_all_versions_agree() -> None:
    version = PROJECT["project"]["version"]
    assert handloom.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1] == version


def test_every_dependency_has_one_lower_bound() -> None:
    """Every dependency has one lower bound, and .ci/run runs the tests with these versions."""
    bounds: dict[str, set[str]] = {}
    for group in [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]:
        for dependency in group:
            name, _, bound = re.split("(>=|==)", dependency.partition(";")[0])
            bounds.setdefault(name.partition("[")[0], set()).add(bound)
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_files_beside_the_sources_are_package_data() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    listed = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    folders = {ROOT.joinpath(package.split(".")[1]) for package in PACKAGES if "." in package}
    present = {path for folder in folders for path in folder.rglob("*.*") if "__pycache__" not in path.parts}
    assert {path for path in present if path.suffix != ".py"} - listed == set()


@pytest.mark.parametrize("package", [handloom, handloom.train, handloom.cli])
def test_public_names_are_listed_once_more_for_editors(package) -> None:
    """A package whose names are imported on first use lists them in `__all__` and, for type checkers, as imports."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    seen = [name.name for node in typed.body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert sorted(seen) == sorted(package.__all__) == dir(package)
    assert all(getattr(package, name) is not None for name in dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_the_shipped_models_are_whole() -> None:
    for folder in MODELS.values():
        assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= {x.name for x in folder.iterdir()}


@pytest.mark.parametrize(("extra", "wheel"), [("gpu", "cupy-cuda13x"), ("gpu-cuda12", "cupy-cuda12x")])
def test_the_extras_for_a_gpu_bring_cuda_s_compiler_and_headers(extra, wheel) -> None:
    """Without CuPy's extra [ctk], every kernel fails on a machine that has only the driver."""
    (asked,) = PROJECT["project"]["optional-dependencies"][extra]
    assert asked.startswith(f"{wheel}[ctk]>=")
