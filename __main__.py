"""The command `handloom`: a table of subcommands. A part of handloom is imported only when a subcommand uses it."""

import difflib
import importlib
import os
import signal
import sys
from typing import Any, NoReturn

from . import __version__

#: For each command: its module in this package, the function to call, and a description of the command.
COMMANDS = {
    "translate": ("cli.texts:translate", "translate German into English, or with --to de the other way"),
    "generate": ("cli.texts:generate", "continue texts"),
    "classify": ("cli.texts:classify", "classify texts by the category of news"),
    "summarize": ("cli.texts:summarize", "write headlines for articles"),
    "paraphrase": ("cli.texts:paraphrase", "paraphrase sentences"),
    "train": ("", "train a model and show its scores: handloom train PROGRAM"),
    "explore": ("explorer.__main__:main", "explore a trained model in the browser"),
    "course": ("course.__main__:main", "build a Transformer in sixteen chapters, each step checked"),
    "gradcheck": ("autograd.gradcheck.__main__:main", "check the gradient of every op"),
    "doctor": ("doctor:main", "find what slows handloom down on this machine"),
    "sweep": ("cli.sweep:main", "train over a grid of options, and compare the runs"),
    "export": ("cli.export:main", "save a trained model in the format of Hugging Face transformers"),
    "report": ("cli.report:main", "compare runs in one picture and one table"),
}
#: The programs of `handloom train`; each is a file of `examples`, and "translate" is translate_de_en.
PROGRAMS = {
    "translate": "any language into any other: --from es --to en --data FILE",
    "translate_de_en": "German into English",
    "translate_en_fr": "English into French, with six position encodings",
    "paraphrase_coco": "paraphrases of captions",
    "summarize_news": "headlines for articles",
    "classify_news": "categories of news",
    "generate_text": "language models by characters or subwords",
}
_LAST = """
`{} --help` lists the options. HANDLOOM_DATA is the folder of data sets; without it,
they are downloaded on first use. The embedded data need neither."""


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored in the background of a shell
        signal.signal(signal.SIGINT, _stop)
    sys.exit(run(sys.argv[1:]))


def _stop(number: int, frame: Any) -> NoReturn:
    """End the process while modules are imported. An exception would become another one in NumPy's import."""
    os.write(2, b"\nstopped\n")
    os._exit(130)


def run(words: list[str]) -> int | str | None:
    """Run a command and return its exit status."""
    if words[:1] == ["--version"]:
        return _say(f"handloom {__version__}")
    if words[:1] in ([], ["--help"], ["-h"]):
        return _say(_table("handloom COMMAND ...", COMMANDS))
    command, *rest = words
    if unknown := _unknown(command, COMMANDS, "handloom"):
        return _refused(unknown)
    module, _, function = COMMANDS[command][0].partition(":")
    if command == "train":
        if rest[:1] in ([], ["--help"], ["-h"]):
            return _say(_table("handloom train PROGRAM ...", PROGRAMS))
        name, *rest = rest
        if unknown := _unknown(name, PROGRAMS, "handloom train"):
            return _refused(unknown)
        file = "translate_de_en" if name == "translate" else name
        command, module, function = f"train {name}", f"examples.{file}", "main"
    sys.argv = [f"handloom {command}", *rest]
    chosen = getattr(importlib.import_module(f".{module}", __package__), function)
    from .cli.command_line import run_main

    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run_main(lambda: sys.exit(chosen()), several_processes=module.startswith(("examples.", "cli.sweep")))


def _table(usage: str, rows: dict[str, tuple[str, str]] | dict[str, str]) -> str:
    words = {name: row if isinstance(row, str) else row[1] for name, row in rows.items()}
    width = max(map(len, words)) + 2
    lines = [f"  {name:<{width}}{text}" for name, text in words.items()]
    return "\n".join([f"usage: {usage}", "", *lines, _LAST.format(usage.removesuffix(" ..."))])


def _unknown(name: str, known: dict, usage: str) -> str:
    """Return an error message for an unknown name, and "" for a known name."""
    if name in known:
        return ""
    close = [one for one in known if one.startswith(name)] or difflib.get_close_matches(name, known, 1, 0.5)
    cure = f"Did you mean {close[0]}?" if close else f"{usage} --help lists the choices."
    return f"error: there is no `{usage} {name[:40]!s}`. {cure}"


def _say(text: str) -> int:
    try:
        print(text, flush=True)
    except OSError:  # the disk is full or the reading program has ended: every command handles these errors
        from .cli.command_line import run_main

        run_main(lambda: print(text, flush=True))
    return 0


def _refused(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
