"""Export the explorer's page, with a model that runs in the browser, to a folder for any web server."""

import json
import shutil
from importlib import resources
from pathlib import Path

from ..errors import InputError
from ..tokenizer import BPETokenizer
from .subject import TranslatorSubject, load_subject

#: The options that `static/local/transformer.js` supports; a model with other values is refused.
KNOWN = {
    "norm": "layer",
    "bias": "all",
    "kv_heads": None,
    "rotary": None,
    "sinusoid_halves": False,
    "activation": "relu",
    "positions": "sinusoidal",
    "pattern": "full",
    "scale_embedding": True,
    "copy": False,
    "title_case": False,
    "lowercase": False,
    "decoder_nhead": None,
    "decoder_max_length": None,
}
VIEWS = ("model", "translate", "head", "next", "beam", "bpe")  # those that static/local/answers.js computes
ALL_VIEWS = (*VIEWS, "graph", "check", "tiles", "training")


def export(run: Path, folder: Path) -> None:
    """Write the page with the model of `run` to a new folder, or to the folder of an earlier export.

    Raises InputError if the browser can't run the model, or if the folder contains other files.
    """
    subject = load_subject(run)
    config = vars(subject.model.config)  # type: ignore[attr-defined]
    wrong = [name for name, value in KNOWN.items() if config.get(name) != value]
    if not isinstance(subject, TranslatorSubject) or wrong:
        what = f"its {wrong[0]} is {config.get(wrong[0])!r}" if wrong else "it is not a translator"
        raise InputError(f"The browser can't run the model of {run}: {what}. Explore it without --export.")
    if not isinstance(subject.tokenizer, BPETokenizer) or subject.tokenizer.pattern != "gpt2":
        raise InputError(f"The browser can't run the tokenizer of {run}: it needs byte-level BPE with GPT-2's pattern.")
    if folder.exists() and any(folder.iterdir()) and not (folder / "facts.json").is_file():
        raise InputError(f"{folder} contains other files. Choose a new folder.")
    with resources.as_file(resources.files(__package__) / "static") as static:
        shutil.copytree(static, folder, dirs_exist_ok=True)
    page = folder / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("<html", "<html data-alone", 1), encoding="utf-8")
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copyfile(run / name, folder / name)
    facts = subject.facts()
    facts["views"] = [view for view in facts["views"] if view in VIEWS]
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
