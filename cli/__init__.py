"""The command line: options of the examples and commands, sweeps, comparisons of runs, export."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from ..arguments import Parser, path, positive, whole
    from .command_line import check_text, results_folder, run_main
    from .examples import ExampleRun, example_parser, example_run, load_data, parse_example
    from .generation import strategy_of
    from .options import OptionParser, length
    from .texts import apply_model
    from .training import changed, preset_of
    from .translation import languages, training_pairs, translation_parser, translation_task

__all__ = [
    "ExampleRun", "OptionParser", "Parser", "apply_model", "changed", "check_text", "example_parser", "example_run",
    "languages", "length", "load_data", "parse_example", "path", "positive", "preset_of", "results_folder", "run_main",
    "strategy_of", "training_pairs", "translation_parser", "translation_task", "whole",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
