"""The explorer, which shows a model's attention, searches, graph, gradients, tokens and training in a browser.

`python -m handloom.explorer [RUN]` starts a web server for one page on this machine. `server` answers the page's
requests, and `subject` contains the explored model. Each view has a module that computes its content and layout, and
`static/` contains the page.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .recording import record

__all__ = ["record"]

__getattr__, __dir__ = lazy_names(__name__)
