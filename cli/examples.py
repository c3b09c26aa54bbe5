"""Shared code of the examples: parse the command line, use a trained model, and train models for tables."""

import argparse
import atexit
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..arguments import in_options, path, positive, whole
from ..autograd import manual_seed
from ..autograd.backend import check_device
from ..autograd.quick import libraries
from ..errors import InputError
from ..models.hyperparameters import Preset
from ..models.presets import PRESET_NAMES
from ..tokenizer import Tokenizer
from ..train.cells import Row, run_cells
from ..train.distributed import find_process_group, run_of_group
from ..train.runs.folder import RunFolder
from ..train.runs.results import checksum, code_digest
from ..train.tasks.task import AnyTrained, Task, choose_tokenizer, train_model
from ..train.tasks.trained import TrainedModel
from ..train.updates import keep_freed_memory
from .command_line import free_run_folder
from .generation import add_generation_options, check_generation_options
from .options import OptionParser, plain
from .training import add_preset_options

AnyData = TypeVar("AnyData")

# Options that are not saved with a run, because they concern only one invocation of the program.
_OF_THE_PROCESS = ("out", "overwrite", "resume", "stop_at", "explore")


def example_parser(
    doc: str | None,
    choose: Callable[[str, str], Preset],
    *,
    data: str,
    generates: Literal["texts", "continuations", "nothing"] = "texts",
) -> OptionParser:
    """Return a parser with the options of training that all examples share. An example can add further options.

    `doc` and `data` are help texts, of the script and of --data. `choose` returns the preset for the values of --preset
    and --data. The model `generates` "texts" by beam search, "continuations" by sampling, or "nothing".
    """
    parser = OptionParser(description=f"{doc}\nThe options for a trained model: --help --checkpoint")
    add = parser.group("training")
    add("--data", default="embedded", help=data)
    words = "model sizes and training settings (default: laptop)"
    add("--preset", choices=PRESET_NAMES, default="laptop", help=words)
    add("--out", type=path, metavar="RUN", help="folder of the new run (default: a new folder in runs/)")
    add("--overwrite", action="store_true", help="if --out already contains a run, first rename it to RUN.old-1")
    add("--seed", type=whole, default=0, help="random seed (default: 0)")
    add("--device", default="cpu", help="device: cpu, cuda or cuda:N (default: cpu)", resumes=True)
    add("--resume", type=path, metavar="RUN", resumes=True)
    words = "stop after update STEP and save the run, so that --resume can continue it"
    add("--stop-at", type=positive, metavar="STEP", help=words, resumes=True)
    words = "show the training run in the browser (requires the extra `explorer`)"
    add("--explore", action="store_true", help=words, resumes=True)
    add_preset_options(parser, choose)
    if generates != "nothing":
        add_generation_options(parser, translates=generates == "texts", trains=True)
    return parser


def parse_example(parser: OptionParser) -> Any:
    """Return the parsed options of `parse_training_arguments`, after further checks."""
    arguments = parse_training_arguments(parser)
    check_equal_options({name: plain(value) for name, value in vars(arguments).items() if name in parser.defaults})
    if "beam" in arguments:
        check_generation_options(parser, arguments)
    if arguments.init and arguments.teacher:
        parser.error("--init and --teacher can't be combined: leave out one of them")
    return arguments


def check_equal_options(options: dict[str, Any]) -> None:
    """Raise InputError if the processes that train together have other options than the first one."""
    first, *others = find_process_group().gather({**options, "device": None, "explore": None})
    for rank, own in enumerate(others, 1):
        if names := ", ".join(sorted(f"--{name.replace('_', '-')}" for name in first if own[name] != first[name])):
            raise InputError(f"Rank {rank} was started with another {names} than rank 0. Give all the same options.")


def parse_training_arguments(parser: OptionParser, arguments: Sequence[str] | None = None) -> Any:
    """Return the parsed options. With --resume, they are the saved options of the run, and `out` is the run's folder.

    The result has three more attributes: `given` contains the names of the options on the command line, `options`
    contains the options that a new run saves, and `typed` is a command line with `options`.
    """
    typed = vars(parser.parse_args(arguments))
    values = dict(parser.defaults)
    if "resume" in typed:
        values |= _options_of_run(parser, typed["resume"])
        for name, value in typed.items():
            if name not in parser.resumable and (name in _OF_THE_PROCESS or value != values[name]):
                parser.error(f"{parser.spelled(name)} can't be changed when a run is resumed: leave it out")
        values["out"] = typed["resume"]
    elif "overwrite" in typed and "out" not in typed:
        parser.error("--overwrite needs the folder to replace: add --out")
    values |= typed
    options = {name: plain(values[name]) for name in parser._options if name not in _OF_THE_PROCESS}
    typed_again = shlex.join(parser.typed(options))
    return argparse.Namespace(**values, given=frozenset(typed), options=options, typed=typed_again)


def _program() -> str:
    """Return the file name of the running example, even if it was started as `handloom train NAME`."""
    name = Path(sys.argv[0].split(" ")[-1]).stem
    return f"{'translate_de_en' if name == 'translate' else name}.py"  # "translate" is another name for the same file


def _options_of_run(parser: OptionParser, folder: Path) -> dict[str, Any]:
    run = RunFolder.open(folder)
    stored = run.config.get("options")
    if not isinstance(stored, dict):
        raise InputError(f"{folder} can't be resumed: its config.json has no options. Start a new run.")
    own, program = _program(), run.config.get("program")
    if program not in (None, own):
        raise InputError(f"{folder} is a run of {program}, not of {own}: resume it with {program}.")
    options = {name: value for name, value in stored.items() if name not in _OF_THE_PROCESS}
    return parser.stored(options, str(folder / "config.json"))


def load_data(load: Callable[..., AnyData], *arguments: argparse.Namespace, **options: Any) -> AnyData:
    """Call `load` in the first process, for all processes. Print the summary and the notes of the data set."""
    data: Any = find_process_group().from_first(lambda: load(*arguments, **options))
    print(data.summary(), *data.notes, sep="\n")
    return data


@contextmanager
def example_run(
    arguments: argparse.Namespace,
    data: Any,
    trained: type[TrainedModel],
    tasks: Sequence[str],
    named: Collection[str],
    **options: Any,
) -> Iterator["ExampleRun"]:
    """Yield the run of an example, in a new folder or in that of --resume.

    `tasks` are the name of the task, and further tasks for which the model of --init may have been trained; `options`
    are those of `trained.load` for this model. `named` are the data sets for which the presets were made.
    """
    start = time.perf_counter()
    keep_freed_memory()
    check_device(arguments.device)
    teacher = arguments.teacher and trained.load(arguments.teacher, tasks[:1])
    init = arguments.init and trained.load(arguments.init, tasks, **options)
    reported = {part.partition(",")[0] for part in data.name.split("+")} <= {*named}
    with start_run(arguments, data) as folder:
        yield ExampleRun(arguments, folder, find_process_group().first, teacher, init, reported, start)


@dataclass
class ExampleRun:
    """A run of an example. Under mpirun, all processes train each model together, and the first one does the rest.

    `reported` says whether the presets were made for the data set. Otherwise, training is `bounded` (see
    `train_model`), unless options set the number of steps. `start` and `begun` are the times at which the run and its
    training began.
    """

    arguments: argparse.Namespace
    folder: RunFolder
    first: bool
    teacher: Any
    init: Any
    reported: bool
    start: float
    begun: float = 0.0

    def tokenizer(self, make: Callable[[], Tokenizer]) -> Tokenizer:
        """Return the tokenizer of a resumed run, or of the model of --init or --teacher, or else a new one."""
        known, resume = self.init or self.teacher, self.arguments.resume is not None
        return find_process_group().from_first(lambda: choose_tokenizer(self.folder, resume, known, make))

    def fit(self, task: Task[Any, AnyTrained]) -> AnyTrained:
        """Train the model of the run."""
        arguments, changes = self.arguments, {change.partition("=")[0] for change in self.arguments.set}
        if self.init is not None and "dropout" in changes:
            self.init.set_dropout(task.preset.dropout)
        if not (self.reported or arguments.resume or arguments.steps or changes & {"steps", "epochs"}):
            self.folder.config["bounded"] = True  # a resumed run keeps it
            if self.first:
                self.folder.write_config()
        self.begun = time.perf_counter()
        models = {"teacher": self.teacher, "init": self.init}
        return self._train(task, self.folder, arguments.resume is not None, stop_at=arguments.stop_at, **models)

    def _train(self, task: Task[Any, AnyTrained], folder: RunFolder, resume: bool, **options: Any) -> AnyTrained:
        arguments = self.arguments
        options |= {"bounded": not arguments.steps and self.folder.config.get("bounded", False), "resume": resume}
        options["say"] = lambda text: print(in_options(text))
        manual_seed(arguments.seed)
        return train_model(task, folder, seed=arguments.seed, device=arguments.device, **options)

    def score(
        self,
        model: AnyTrained,
        test: Callable[[AnyTrained], tuple[Mapping[str, Any], Any]],
        cells: Mapping[str, Task[Any, AnyTrained] | AnyTrained] | None = None,
    ) -> tuple[list[Row], Any]:
        """Test the result of `fit`, and train and test the other models of a table: `cells` are models, or tasks that
        train them. `test` returns the figures of a model, and its outputs for the report.

        Returns a row for each model, with the number of its parameters and, in the table of a new run, the seconds of
        training and testing; and the outputs of `model`.
        """
        figures, outputs = test(model) if self.first else ({}, None)
        row = {"parameters": model.model.parameter_count(), **figures}
        if cells and not self.arguments.resume:  # a table of a single model has no times, so that it is reproducible
            row["seconds"] = time.perf_counter() - self.begun

        def make(folder: RunFolder, cell: Task[Any, AnyTrained] | AnyTrained, resume: bool) -> Row:
            other = self._train(cell, folder, resume) if isinstance(cell, Task) else cell
            return {"parameters": other.model.parameter_count(), **(test(other)[0] if self.first else {})}

        return [row, *run_cells(self.folder, cells or {}, make)], outputs

    def report(self, text: str) -> None:
        """Print a text at the end of the run."""
        seconds = time.perf_counter() - self.start
        print(f"\n{self.folder.path} holds the model, tables, samples and pictures; {seconds:.0f} s in all\n\n{text}")


@contextmanager
def start_run(arguments: argparse.Namespace, data: Any) -> Iterator[RunFolder]:
    """Yield the folder of the run to resume (--resume), or a new run folder, runs/PROGRAM without --out.

    The config.json of a new folder contains the options and a description of `data`. If the run can be resumed after a
    KeyboardInterrupt, the message of the exception says how.
    """
    program = _program()
    started = sys.argv[0] if sys.argv[0].startswith("handloom ") else f"python examples/{program}"
    config: dict[str, Any] = {"program": program, "command": f"{started} {arguments.typed}".rstrip()}
    config |= {"options": arguments.options, "data": data.summary(), "data_sha256": checksum(data)}
    now = {name: library for name, (library, _) in libraries().items()}
    config |= {"notes": list(data.notes), "code": code_digest(), **now}

    resume = arguments.resume is not None
    path = arguments.resume or arguments.out or find_process_group().from_first(partial(free_run_folder, program[:-3]))
    run = run_of_group(path, config, resume=resume, overwrite=arguments.overwrite)
    if run.replaced:
        print(f"the old run is now {run.replaced}", flush=True)
    for said in other_libraries(run.config, config) if arguments.resume else []:
        print(said)
    watch(arguments, run.path)
    run.config = run.config | config | run.config  # an older run may lack some of these records
    if arguments.given & arguments.options.keys():  # a resumed run may have other options now
        run.config |= {name: config[name] for name in ("command", "options")}
    with run:
        try:
            yield run
        except KeyboardInterrupt as stop:
            if run.stays:
                raise type(stop)(run.continuation) from None
            raise


def other_libraries(config: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield a message if a resumed run started with other library versions, or other code of handloom."""
    if config.get("code", now.get("code")) != now.get("code"):
        yield "This run began with another version of handloom's code: its numbers may differ from those of a new run."
    names = {"compiled_loops": ("loops compiled by {}", "no compiled loops"), "mkl": ("{}", "NumPy's products")}
    for key, (with_it, without) in names.items():
        if key in config and config[key] != now[key]:  # an older run has no such key
            began, goes_on = (with_it.format(name) if name else without for name in (config[key], now[key]))
            yield f"This run began with {began} and continues with {goes_on}: the last bits of its numbers may change."


def watch(arguments: argparse.Namespace, run: Path) -> None:
    """With --explore, show the run in the browser from a separate process, and wait for that process at the end."""
    if arguments.explore and find_process_group().first:
        explorer = subprocess.Popen([sys.executable, "-m", f"{__name__.partition('.')[0]}.explorer", str(run)])

        def wait() -> None:
            with suppress(KeyboardInterrupt):  # Ctrl-C ends the explorer too
                explorer.wait()

        atexit.register(wait)
