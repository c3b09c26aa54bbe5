"""Export the explorer's page, with a model that runs in the browser, to a folder for any web server."""

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import atomic_file, make_folder, temporary_name
from ..tokenizer import BPETokenizer
from ..train.data.downloads import PUBLISHED
from .subject import TranslatorSubject, load_subject

#: The options of a model that `static/local/transformer.js` supports. All others must have their default values.
SUPPORTED = {
    "norm_eps", "source_vocab_size", "target_vocab_size", "d_model", "nhead", "encoder_layers", "decoder_layers",
    "dim_feedforward", "decoder_dim_feedforward", "dropout", "norm_first", "max_length", "pad_id", "share_embeddings",
    "tie_output",
}  # fmt: skip
#: Only content of the page's own server may run, load or be connected to.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
#: What the page shows until its scripts run, which browsers refuse for a page that is opened as a file.
UNSERVED = (
    "Loading … If nothing follows, the page was opened as a file. Serve its folder: <code>python -m http.server</code>"
)
VIEWS = ("model", "translate", "head", "next", "beam", "bpe")  # those that static/local/answers.js computes
ALL_VIEWS = (*VIEWS, "graph", "check", "tiles", "training")


def export(run: Path, folder: Path) -> None:
    """Write the page with the model of `run` to a new folder, or to the folder of an earlier export.

    Raises InputError if the browser can't run the model, the folder contains other files, or a file can't be written.
    """
    subject = load_subject(run)
    config: Any = subject.model.config
    others = [field for field in dataclasses.fields(config) if field.name not in SUPPORTED]
    wrong = [field.name for field in others if getattr(config, field.name) != field.default]
    translates = isinstance(subject, TranslatorSubject)
    if wrong or not translates:
        what = f"its {wrong[0]} is {getattr(config, wrong[0])!r}" if translates else "it is not a translator"
        raise InputError(f"The browser can't run the model of {run}: {what}. Explore it without --export.")
    if not isinstance(subject.tokenizer, BPETokenizer) or subject.tokenizer.pattern != "gpt2":
        raise InputError(f"The browser can't run the tokenizer of {run}: it needs byte-level BPE with GPT-2's pattern.")
    ours = {"facts.json", temporary_name("facts.json")}  # the first file, which marks the folder of an export
    if folder.exists() and (found := {path.name for path in folder.iterdir()}) and not ours & found:
        raise InputError(f"{folder} contains other files. Choose a new folder.")
    facts = subject.facts()
    facts["views"] = [view for view in facts["views"] if view in VIEWS]
    facts |= {"truecases": subject.trained.truecases, "acronyms": PUBLISHED["acronyms"].split()}
    files = {"facts.json": json.dumps(facts).encode()}
    with resources.as_file(resources.files(__package__) / "static") as static:
        files |= {str(path.relative_to(static)): path.read_bytes() for path in static.rglob("*") if path.is_file()}
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<meta name="viewport"'.encode()
    page = files["index.html"].replace(b"<html", b"<html data-alone", 1)
    page = page.replace(b'<p id="facts">', f'<p id="facts">{UNSERVED}'.encode(), 1)
    files["index.html"] = page.replace(b'<meta name="viewport"', policy, 1)
    files |= {name: (run / name).read_bytes() for name in ("model.safetensors", "tokenizer.json")}
    for name, content in files.items():
        make_folder((folder / name).parent)
        with atomic_file(folder / name) as file:
            file.write(content)
