"""Finds files of named data sets in the folder HANDLOOM_DATA or in the cache, or downloads and verifies them."""

import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import read_json

#: Of published data sets: checksums of files, names of books.
PUBLISHED = read_json(Path(__file__).with_name("sets.json"))
EMBEDDED_WORKS = "The data set embedded needs no download."


def find_local(relative: str) -> Path | None:
    """Return the path of `relative` in the folder HANDLOOM_DATA, or None if that variable or file does not exist."""
    named = os.environ.get("HANDLOOM_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise InputError(
            f"HANDLOOM_DATA is set to {named}, which is not a folder. Set it to the folder that holds your data sets, "
            "or unset it."
        )
    path = Path(named, relative)
    try:
        return path if stat.S_ISREG(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}. Check the permissions of HANDLOOM_DATA.") from None


def unverified(name: str, content: bytes) -> str:
    """Return a sentence with the SHA-256 of a file that no checksum can verify, because its publisher updates it."""
    return (
        f"{name}: its publisher updates the files, so no checksum can verify them; the file that was read has SHA-256 "
        f"{hashlib.sha256(content).hexdigest()}."
    )


def fetch(base_url: str, folder: str, name: str, sha256: str | None, *, all_names: Sequence[str] = ()) -> Path:
    """Return the path of a data set's file: `$HANDLOOM_DATA/folder/name`, or the file in the cache.

    A file that is in neither place is downloaded to the cache, with up to three attempts. Only complete and verified
    files are added to the cache. `sha256` is None for a file that its publisher updates; an error lists `all_names`.
    """
    local = find_local(f"{folder}/{name}")
    if local is not None:
        if sha256 is not None and hashlib.sha256(local.read_bytes()).hexdigest() != sha256:
            raise InputError(
                f"{local} is not the official file: its SHA-256 checksum is not {sha256}. Replace it by "
                f"{base_url}{name}, or remove it to have it downloaded."
            )
        return local
    import pooch  # imported only if something is downloaded

    registry = {name: f"sha256:{sha256}" if sha256 else None}
    store = pooch.create(pooch.os_cache("handloom") / folder, base_url, registry=registry, retry_if_failed=2)
    # Some servers refuse clients that don't identify themselves.
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), headers={"User-Agent": "handloom/0.1"})
    try:
        return Path(store.fetch(name, downloader=downloader))
    except (OSError, ValueError) as error:  # requests' errors are OSErrors, a wrong checksum is a ValueError
        raise InputError(
            f"{base_url}{name} could not be downloaded: {_reason(error)}. Try again, or fetch "
            f"{', '.join(all_names) or name} from {base_url} by other means, put them into a folder DATA/{folder} "
            f"(with any folder DATA), and set the environment variable HANDLOOM_DATA to DATA. {EMBEDDED_WORKS}"
        ) from None


def _reason(error: Exception) -> str:
    """Return the message of the innermost exception that requests and urllib3 have wrapped."""
    if isinstance(error, ValueError):
        return "the downloaded file has a wrong checksum, so it is not the official file"
    while True:
        inner = getattr(error, "reason", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, Exception):
            return str(error).rstrip(".")
        error = inner


def load_hub(name: str, configuration: str) -> Any:
    """Return a data set of the Hugging Face hub as a dictionary of its training, validation and test sets."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            f"{name} is read through the library datasets, which is not installed. Install it with "
            f"pip install datasets. {EMBEDDED_WORKS}"
        ) from None
    try:
        return datasets.load_dataset(name, configuration)
    except Exception as error:  # the library and its HTTP client raise dozens of kinds, all meaning "can't be had"
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"{name} could not be loaded from the Hugging Face hub: {reason}. Check the network and the free space on "
            f"the disk. Or download the training text from https://www.statmt.org/wmt17/translation-task.html, save "
            f"it as PATH.de and PATH.en with one sentence a line, and give PATH. {EMBEDDED_WORKS}"
        ) from None
