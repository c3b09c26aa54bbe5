"""What a notebook shows: progress bars."""

import sys
import warnings
from typing import Any


def progress_bar(shown: bool = True, **options: Any) -> Any:
    """Return tqdm's bar, which is shown in a terminal and, as a widget if ipywidgets is installed, in a notebook."""
    if "ipykernel.zmqshell" not in sys.modules:  # tqdm.auto has the same condition, and takes longer to import
        from tqdm import tqdm

        return tqdm(disable=None if shown else True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the widget is experimental, or ipywidgets is missing
        from tqdm.auto import tqdm
    form = options.pop("bar_format", "{l_bar}{bar}{r_bar}").replace("{bar:16}", "{bar}")  # a widget knows only this one
    return tqdm(disable=not shown, bar_format=form, **options)
