"""The one exception that means "what you gave can't be used"."""

from __future__ import annotations


class InputError(ValueError):
    """A problem in a file, an option or a text that the user gave.

    The message is one paragraph that names the cause and the cure. The examples print it and exit with code 2;
    a traceback would only hide it.
    """
