"""The one exception that means "what you gave can't be used"."""

from __future__ import annotations

import errno


class InputError(ValueError):
    """A problem in a file, an option or a text that the user gave.

    The message is one paragraph that names the cause and the cure. The examples print it and exit with code 2;
    a traceback would only hide it.
    """


def remedy(error: OSError) -> str:
    """What the user can do about a file that can't be written or reached, in a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Make room on the disk, or choose another folder."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "See to the permissions there, or choose another folder."
    return "Choose another path."
