"""What notebooks show: progress bars."""

import sys
from types import ModuleType
from typing import Any

from handloom.notebook import progress_bar


def test_a_notebook_without_ipywidgets_has_a_bar_of_text_and_no_warning(monkeypatch, capsys) -> None:
    shell: Any = ModuleType("IPython")
    shell.get_ipython = object
    for name, module in (("IPython", shell), ("ipykernel.zmqshell", shell), ("ipywidgets", None)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for shown in (True, False):
        with progress_bar(shown, total=3, unit="sentence", bar_format="{percentage:3.0f}%|{bar:16}| {n_fmt}") as bar:
            bar.update(3)
            bar.set_postfix_str("loss 1.5")
        seen = capsys.readouterr()
        assert (seen.out, "100%|" in seen.err) == ("", shown)


def test_outside_a_terminal_and_a_notebook_there_is_no_bar(capsys) -> None:
    assert "ipykernel.zmqshell" not in sys.modules
    with progress_bar(total=3) as bar:
        bar.update(3)
    assert capsys.readouterr() == ("", "")
