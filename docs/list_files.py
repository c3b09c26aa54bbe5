"""Write docs/files.md: every file with the first line of its docstring.

python docs/list_files.py            write the page
python docs/list_files.py --check    exit code 1 if it is not up to date
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "files.md"
#: Folders beside those of the package, which pyproject.toml lists.
OTHERS = {
    "autograd/kernels/ladder": "Five attention kernels of rising skill, to learn from: docs/flash_attention.md.",
    "examples": "One script a report, and one that writes the training loop out.",
    "benchmarks": "Side by side with a peer: `python -m benchmarks.NAME`.",
    "tests/support": "Tools of the tests; beside it `tests/` mirrors the package.",
}
INTRODUCTION = """# Files

Every file with the first line of its docstring. `python docs/list_files.py` writes this page; a test compares it
with the files. Imports point one way: `errors` <- `autograd` <- `nn` <- `models` <- `train` <- `explorer`, `course`
<- `examples`, with `tokenizer` beside `models`, and there are no import circles; tests hold this too. Beside the
folders are `Makefile`, `pyproject.toml` (dependencies, and the settings of all tools) and `.ci/run`, what continuous
integration runs.
"""


def caption(path: Path) -> str:
    """The first line of a module's docstring, or the first sentence of the comment that a CUDA file begins with.

    Raises ValueError if there is none.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    else:
        comment = re.match(r"(?:// ?.*\n)+", text)
        lines = comment[0].replace("//", "").split("\n\n")[0].split() if comment else []
        first = re.split(r"(?<=\.)\s", " ".join(lines) + " ")[0]
    if not first:
        raise ValueError(f"{path} has no docstring for its caption")
    return first.replace("|", "\\|")


def tables() -> str:
    """One table for each folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["setuptools"]["packages"]
    folders = ["/".join(name.split(".")[1:]) for name in packages]  # the package handloom is the root
    page = [INTRODUCTION]
    for folder in [*folders, *OTHERS]:
        files = sorted(path for path in (ROOT / folder).iterdir() if path.suffix in (".py", ".cu", ".cuh"))
        about = OTHERS.get(folder) or caption(ROOT / folder / "__init__.py")
        page += [f"## {folder or 'handloom'}/", "", about, "", "| file | what it holds |", "|---|---|"]
        page += [
            f"| [{path.name}](../{path.relative_to(ROOT).as_posix()}) | {caption(path)} |"
            for path in files
            if path.name != "__init__.py"
        ]
        page.append("")
    return "\n".join(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not up to date")
    if not parser.parse_args().check:
        PAGE.write_text(tables(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != tables():
        sys.exit(f"{PAGE.relative_to(ROOT)} is not up to date: run python docs/list_files.py")


if __name__ == "__main__":
    main()
