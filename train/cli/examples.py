"""Shared code of the examples: the command line, using a trained model, and training with tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ...autograd import manual_seed
from ...autograd.backend import check_device
from ...models.hyperparameters import Preset
from ...models.presets import PRESET_NAMES
from ...models.shipped import model_path
from ..distributed import alone, find_process_group
from ..runs.folder import RunFolder
from ..tables.cells import run_cells
from ..tasks.task import AnyTrained, Task, train_model
from ..tasks.translation import Translation
from .command_line import add_training_options, check_text, parse_training_arguments, start_run, watch
from .generation import add_generation_options, check_generation_options, check_lengths, each_text, strategy_of
from .options import OptionParser
from .training import add_preset_options, run_options


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
    """Return a parser with the options common to all examples; more can be added.

    Args:
        doc: the script's docstring, shown by --help.
        preset: the kind of preset whose values can be chosen.
        data: describes --data.
        texts: the input of a trained model, such as "German sentences".
        generates: whether the model generates texts from texts, by beam search; continuations, by sampling; or nothing.
        shipped: the model of `models.shipped` that is used without --checkpoint; "" if there is none.
        choose: function of --preset and the name of the data that returns the preset whose values --help shows.
    """
    parser = OptionParser(description=doc)
    parser.texts, parser.shipped = texts, shipped
    needs = "" if shipped else "with --checkpoint: "
    add_training_options(parser, data=data, presets=PRESET_NAMES, preset="laptop", draws=generates != "nothing")
    add_preset_options(parser, preset, choose)
    if generates != "nothing":
        add_generation_options(parser, translates=generates == "texts")
    add = parser.group("using a trained model", "checkpoint")
    own = f" (default: {shipped}, which comes with handloom)" if shipped else ""
    add("--checkpoint", type=model_path, metavar="MODEL", help="use a trained model: the folder of a run, a "
        f"transformers folder or a name on the Hugging Face Hub{own}")  # fmt: skip
    add("--interactive", action="store_true", help=f"{needs}prompt for texts in the terminal")
    add(
        "--explore",
        action="store_true",
        uses=("train", "resume", "checkpoint"),
        help="show the run in the browser, during training or with --checkpoint; this needs the extra `explorer`",
    )
    add(
        "texts",
        nargs="*",
        default=[],
        metavar="TEXT",
        help=f"{needs}{texts} (default{' with --checkpoint' if shipped else ''}: the lines of standard input)",
    )
    return parser


def parse_example(parser: OptionParser) -> Any:
    """Parse the command line; --resume works as in `parse_training_arguments`.

    Raises OptionError for options that don't go together, InputError for a value that can't be used.
    """
    arguments = parse_training_arguments(parser)
    if hasattr(arguments, "beam"):
        check_generation_options(parser, arguments)
    if arguments.interactive and arguments.texts:
        parser.error("--interactive prompts for texts: leave out the texts or --interactive")
    if arguments.init and arguments.teacher:
        parser.error("--init and --teacher can't go together: leave out one of them")
    for number, text in enumerate(arguments.texts, 1):
        check_text(text, f"Text {number}")
    arguments.what = parser.texts
    if arguments.checkpoint and arguments.explore:
        watch(arguments, arguments.checkpoint)
        sys.exit()
    return arguments


def use(arguments: Any, show: Callable[[str], None]) -> None:
    """Call `show` for each text: from the arguments, typed, or from standard input."""
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
) -> None:
    """Train in a new or resumed run folder, then train each cell (model) of a requested table, and report.

    Several processes train the run's model together. Each model of the table is trained by a single process, and only
    the first process writes and reports.

    Args:
        name: name of the folder under runs/ if there is no --out.
        data: the loaded data, described in config.json.
        task: the task to train, or a function that creates it from the run and the model of --init or --teacher.
        trained, task_name: the class and the task that a model of --init or --teacher must have. They are needed if
            `task` is a function.
        test: (trained, task) -> the model's figures, a row of the table; and its outputs, for the report.
        report: (trained, task, run, rows, outputs) -> the text that is printed at the end. There is a row for the model
            and for each cell, with its parameters and, unless it was resumed, the seconds of training and testing.
        cells: a function of the task; returns further models of the table by name, or what trains them.
        init_options: options of `trained.load` for --init.
    """
    start = time.perf_counter()
    check_device(arguments.device)
    if isinstance(task, Task):
        task_name = task.name
    if isinstance(task, Translation):
        check_lengths(strategy_of(arguments), task.preset.max_length)
    kind: Any = task.trained if isinstance(task, Task) else trained
    teacher = kind.load(arguments.teacher, [task_name]) if arguments.teacher else None
    init = kind.load(arguments.init, [task_name], **(init_options or {})) if arguments.init else None
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
        if others and not arguments.resume:  # a table of one model alone is the same whenever it is made
            rows[0]["seconds"] = seconds

        def make(own: RunFolder, cell: Task[Any, AnyTrained] | AnyTrained, resume: bool) -> Mapping[str, Any]:
            manual_seed(arguments.seed)
            by_itself = {**options, "stop_at": None, "resume": resume, "group": alone()}
            other = train_model(cell, own, **by_itself) if isinstance(cell, Task) else cell
            return {"parameters": other.model.parameter_count(), **test(other, task)[0]}

        rows += run_cells(run, others, make)
        if group.first:
            text = report(model, task, run, rows, outputs)
            seconds = time.perf_counter() - start
            print(f"\n{run.path} holds the model, tables, samples and pictures; {seconds:.0f} s in all\n\n{text}")
