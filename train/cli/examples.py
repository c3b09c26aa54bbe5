"""Shared code of the examples: parse the command line, use a trained model, and train models for tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ...autograd import manual_seed
from ...autograd.backend import check_device
from ...models.hyperparameters import Preset
from ...models.presets import PRESET_NAMES
from ...models.shipped import model_path
from ..distributed import find_process_group
from ..runs.folder import RunFolder
from ..tables.cells import run_cells
from ..tasks.task import AnyTrained, Task, train_model
from ..tasks.translation import Translation
from .command_line import add_training_options, check_text, parse_training_arguments, start_run, watch
from .generation import add_generation_options, check_generation_options, check_lengths, each_text, strategy_of
from .options import OptionParser, add_preset_options, run_options


def example_parser(
    doc: str | None,
    preset: type[Preset],
    *,
    data: str,
    texts: str,
    generates: Literal["texts", "continuations", "nothing"] = "texts",
    shipped: str = "",
    choose: Callable[[str, str], Preset] | None = None,
) -> OptionParser:
    """Return a parser with the options that all examples share. An example can add further options.

    Args:
        doc: the script's docstring, shown by --help.
        preset: the kind of preset whose values can be chosen.
        data: the help text of --data.
        texts: the input of a trained model, such as "German sentences".
        generates: "texts" if the model translates or rewrites texts, by beam search; "continuations" if it continues
            texts, by sampling; "nothing" if it is a classifier.
        shipped: name in `models.shipped` of the model that is used without --checkpoint; "" if there is none.
        choose: function that returns the preset for the values of --preset and --data; --help shows its values.
    """
    parser = OptionParser(description=doc)
    parser.texts, parser.shipped = texts, shipped
    needs, when = ("", " with --checkpoint") if shipped else ("with --checkpoint: ", "")
    add_training_options(parser, data=data, presets=PRESET_NAMES, preset="laptop", draws=generates != "nothing")
    add_preset_options(parser, preset, choose)
    if generates != "nothing":
        add_generation_options(parser, translates=generates == "texts")
    add = parser.group("using a trained model", "checkpoint")
    own = f" (default: {shipped}, which comes with handloom)" if shipped else ""
    add("--checkpoint", type=model_path, metavar="MODEL", help="use this trained model: a run folder, a folder "
        f"of a Hugging Face transformers model, or a name on the Hugging Face Hub{own}")  # fmt: skip
    add("--interactive", action="store_true", help=f"{needs}prompt for texts in the terminal")
    words = "show the training run, or the model of --checkpoint, in the browser (requires the extra `explorer`)"
    add("--explore", action="store_true", uses=("train", "resume", "checkpoint"), help=words)
    words = f"{needs}input of the model: {texts} (default{when}: the lines of standard input)"
    add("texts", nargs="*", default=[], metavar="TEXT", help=words)
    return parser


def parse_example(parser: OptionParser) -> Any:
    """Return the parsed options of `parse_training_arguments`, after further checks.

    Raises OptionError for options that can't be combined, and InputError for a value that can't be used.
    """
    arguments = parse_training_arguments(parser)
    if hasattr(arguments, "beam"):
        check_generation_options(parser, arguments)
    if arguments.interactive and arguments.texts:
        parser.error("--interactive prompts for texts: leave out the texts or --interactive")
    if arguments.init and arguments.teacher:
        parser.error("--init and --teacher can't be combined: leave out one of them")
    for number, text in enumerate(arguments.texts, 1):
        check_text(text, f"Text {number}")
    arguments.what = parser.texts
    if arguments.checkpoint and arguments.explore:
        watch(arguments, arguments.checkpoint)
        sys.exit()
    return arguments


def use(arguments: Any, show: Callable[[str], None]) -> None:
    """Call `show` for each text of the command line, of the terminal (--interactive) or of standard input."""
    each_text(arguments, arguments.texts, arguments.what, show)


def train_and_report(
    arguments: Any,
    name: str,
    data: Any,
    task: Task[Any, AnyTrained] | Callable[[RunFolder, AnyTrained | None], Task[Any, AnyTrained]],
    trained: type[AnyTrained] | None = None,
    task_name: str = "",
    *,
    test: Callable[[AnyTrained, Any], tuple[Mapping[str, Any], Any]],
    report: Callable[[AnyTrained, Any, RunFolder, list[dict[str, Any]], Any], str],
    cells: Callable[[Any], Mapping[str, Task[Any, AnyTrained] | AnyTrained]] = lambda task: {},
    init_options: Mapping[str, Any] | None = None,
    init_tasks: Sequence[str] = (),
) -> None:
    """Train a model in a new or resumed run folder, train the other models of a requested table, and print a report.

    Under mpirun, all processes train each model together. Only the first process tests, writes files and prints.

    Args:
        name: name of the folder in runs/ that is used without --out.
        data: the loaded data set, which config.json describes.
        task: the task to train, or a function that creates it from the run and the model of --init or --teacher.
        trained, task_name: required class and task of a model of --init or --teacher. They are needed if `task` is a
            function.
        test: (trained, task) -> the model's row of the table, and its outputs for the report.
        report: (trained, task, run, rows, outputs) -> the text that is printed at the end. `rows` has a row for each
            model, with the number of its parameters and, for a new run, the seconds of training and testing.
        cells: function of the task that returns the other models of the table, or the tasks that train them, by name.
        init_options: options of `trained.load` for the model of --init.
        init_tasks: further tasks that the model of --init may have been trained for.
    """
    start = time.perf_counter()
    check_device(arguments.device)
    if isinstance(task, Task):
        task_name = task.name
    if isinstance(task, Translation):
        check_lengths(strategy_of(arguments), task.preset.max_length)
    kind: Any = task.trained if isinstance(task, Task) else trained
    teacher = kind.load(arguments.teacher, [task_name]) if arguments.teacher else None
    init = kind.load(arguments.init, [task_name, *init_tasks], **(init_options or {})) if arguments.init else None
    options, group = run_options(arguments), find_process_group()
    with start_run(arguments, name, data) as run:
        manual_seed(arguments.seed)
        task = task if isinstance(task, Task) else task(run, init or teacher)
        if init is not None and any(change.startswith("dropout=") for change in arguments.set):
            init.set_dropout(task.preset.dropout)
        begun = time.perf_counter()
        model = train_model(task, run, **options, teacher=teacher, init=init)
        row, outputs = test(model, task) if group.first else ({}, None)
        seconds, others = time.perf_counter() - begun, cells(task)
        rows = [{"parameters": model.model.parameter_count(), **row}]
        if others and not arguments.resume:  # a table of a single model has no times, so that it is reproducible
            rows[0]["seconds"] = seconds

        def make(own: RunFolder, cell: Task[Any, AnyTrained] | AnyTrained, resume: bool) -> Mapping[str, Any]:
            manual_seed(arguments.seed)
            again = {**options, "stop_at": None, "resume": resume}
            other = train_model(cell, own, **again) if isinstance(cell, Task) else cell
            return {"parameters": other.model.parameter_count(), **(test(other, task)[0] if group.first else {})}

        rows += run_cells(run, others, make)
        if group.first:
            text = report(model, task, run, rows, outputs)
            seconds = time.perf_counter() - start
            print(f"\n{run.path} holds the model, tables, samples and pictures; {seconds:.0f} s in all\n\n{text}")
