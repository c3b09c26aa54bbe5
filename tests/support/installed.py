"""Check what `make dist` built: python tests/support/installed.py DIST

The wheel is installed in a new virtual environment and used from an empty folder, as a newcomer would use it. The sdist
must contain the files in NEEDED. Nothing is imported from the checkout.
"""

import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

#: Commands that a newcomer runs first, and a part of the output of each.
USES = [
    ("-m handloom --version", "handloom "),
    ("-c 'import handloom as h; print(h.load(\"tatoeba-de-en\").translate([\"Wo ist der Bahnhof?\"]))'", "station"),
    ("-m handloom translate Hallo.", "Hello."),
    ("-m handloom translate --to de 'I am tired.'", "Ich bin müde."),
    ("-m handloom classify 'Senate Passes Budget Bill'", "POLITICS"),
    ("-m handloom train translate_de_en --preset smoke --steps 3 --set test_size=3 --out run", "run holds the model"),
    ("-m handloom translate --model run --beam 1 --max-length 3 Er.", ""),
    ("-m handloom report run", "validation loss"),
    ("-m handloom export tatoeba-de-en exported", "PegasusForConditionalGeneration"),
    ("-m handloom explore --export page", "serve it"),
    ("-m handloom course start learn", "learn: "),
    ("-m handloom gradcheck", "all ok"),
    ("-m handloom doctor", ""),
]  # fmt: skip
#: Files that an sdist needs to build the wheel, to run the tests and to build the site.
NEEDED = (
    "pyproject.toml", "setup.py", "Makefile", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "docs/conf.py",
    "docs/images/attention.png", "examples/translate_de_en.py", "tests/conftest.py",
    "tests/support/fake_cupy/__init__.py", "tests/support/cuda_emulator/fibers.hpp",
    "models/shipped/tatoeba_de_en/model.safetensors", "benchmarks/bpe.py", ".ci/run",
)  # fmt: skip


def check_sdist(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    missing = [name for name in NEEDED if name not in names]
    if missing:
        sys.exit(f"{archive} lacks {', '.join(missing)}")
    print(f"{archive.name}: {len(names):,} files")


def check_wheel(wheel: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="an empty folder ") as folder:
        venv.create(Path(folder, "env"), with_pip=True)
        python = Path(folder, "env", "Scripts" if os.name == "nt" else "bin", "python")
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HANDLOOM_DATA")}
        subprocess.run([python, "-m", "pip", "install", "--quiet", wheel.resolve()], check=True, env=environment)
        work = Path(folder, "work")
        work.mkdir()
        subprocess.run([python.with_name("handloom"), "--version"], check=True, env=environment, cwd=work)
        for words, says in USES:
            line = [str(python), *shlex.split(words)]
            done = subprocess.run(line, cwd=work, env=environment, capture_output=True, encoding="utf-8", check=False)
            if done.returncode or says not in done.stdout:
                sys.exit(f"python {words} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
            print(f"{wheel.name}: python {words}")


if __name__ == "__main__":
    (sdist,), (built,) = (sorted(Path(sys.argv[1]).glob(pattern)) for pattern in ("*.tar.gz", "*.whl"))
    check_sdist(sdist)
    check_wheel(built)
