"""Explore a trained model in the browser.

python -m handloom.explorer                    show the German-English translator that comes with handloom
python -m handloom.explorer --train            train a small translator, and show its training
python -m handloom.explorer runs/translate     show a run that is finished or being trained
python -m handloom.explorer --export site      write a folder for any web server; the model runs in the browser
"""

import shlex
from pathlib import Path

from ..arguments import Whole
from ..cli.command_line import run_main
from ..cli.options import OptionParser
from ..models.shipped import MODELS, TRANSLATORS, model_path
from .exporting import ALL_VIEWS, export
from .serving import explore


def main() -> None:
    parser = OptionParser(prog="python -m handloom.explorer", description=__doc__)
    words = f"run folder of the model to show (default: {TRANSLATORS['en']}, which comes with handloom)"
    parser.add_argument("run", type=model_path, nargs="?", metavar="RUN", help=words)
    parser.add_argument("--train", action="store_true", help="train a small translator and show its training")
    parser.add_argument("--port", type=Whole(0, 65535), default=0, help="port on 127.0.0.1 (default: a free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the page's address, but do not open a browser")
    words = "view to show first, for example head, or the view and its state, as in the page's address after the #"
    parser.add_argument("--view", default="", metavar="STATE", help=f"{words}, for example 'head?head=2&row=4'")
    words = "course folder, whose attention and beam search are shown next to those of handloom"
    parser.add_argument("--yours", type=Path, metavar="FOLDER", help=words)
    words = "write the page and the model to FOLDER, for any web server, and exit"
    parser.add_argument("--export", type=Path, metavar="FOLDER", help=words)
    arguments = parser.parse_args()
    served = (arguments.train, arguments.port, arguments.no_browser, arguments.view, arguments.yours)
    if arguments.export and any(served):
        parser.error("--export starts no server: leave out --train, --port, --no-browser, --view and --yours")
    if arguments.view and arguments.view.partition("?")[0] not in ALL_VIEWS:
        parser.error(f"--view: there is no view {arguments.view!r}; the views are {', '.join(ALL_VIEWS)}")
    if arguments.train and arguments.run is not None:
        parser.error("--train trains a new model: leave out RUN, or --train")
    run = None if arguments.train else arguments.run or MODELS[TRANSLATORS["en"]]
    if arguments.export:
        assert run is not None
        export(run, arguments.export)
        quoted = shlex.quote(str(arguments.export))
        print(f"{arguments.export}: serve it with any web server, such as python -m http.server -d {quoted}")
        return
    explore(run, port=arguments.port, browser=not arguments.no_browser, view=arguments.view, yours=arguments.yours)


if __name__ == "__main__":
    run_main(main)
