"""Prints pyproject.toml's requirements, with those of the extras named, at exactly their lower bounds."""

import sys
import tomllib
from pathlib import Path

file = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
extras = [file["project"]["optional-dependencies"][name] for name in sys.argv[1:]]
for group in [file["build-system"]["requires"], file["project"]["dependencies"], *extras]:
    print(*(requirement.replace(">=", "==") for requirement in group), sep="\n")
