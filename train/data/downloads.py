"""Files of named data sets: from the folder HANDLOOM_DATA, from the cache, or downloaded, with checksums."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError

EMBEDDED_WORKS = "--data embedded works without any download."


def data_folder() -> Path | None:
    """Return the folder of data sets named by the environment variable HANDLOOM_DATA, or None if it isn't set.

    Raises:
        InputError: the variable names something that is not a folder.
    """
    named = os.environ.get("HANDLOOM_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise InputError(
            f"HANDLOOM_DATA is set to {named}, which is not a folder. Set it to the folder that holds your data sets, "
            "or unset it."
        )
    return Path(named)


def find_local(relative: str) -> Path | None:
    """Return the path of `relative` in the folder HANDLOOM_DATA, or None if that file does not exist."""
    folder = data_folder()
    return folder / relative if folder is not None and (folder / relative).is_file() else None


def unverified(name: str, content: bytes) -> str:
    """Return a sentence with the SHA-256 of a set that can't be verified because its publisher updates its files."""
    return (
        f"{name}: its publisher updates the files, so no checksum can verify them; the file that was read has SHA-256 "
        f"{hashlib.sha256(content).hexdigest()}."
    )


def fetch(base_url: str, folder: str, name: str, sha256: str | None, *, all_names: Sequence[str] = ()) -> Path:
    """Return the path of a data set's file: `$HANDLOOM_DATA/folder/name`, the cached file, or a download.

    A download shows its progress and is tried three times. It enters the cache only when it is complete and verified.

    Args:
        base_url: where the official files are, up to the last slash.
        folder: the set's folder in HANDLOOM_DATA and in the cache.
        name: name of the file.
        sha256: its checksum in hexadecimal; None for a file that its publishers renew from time to time.
        all_names: all files that the set needs, for the message.

    Raises:
        InputError: the local file has another checksum, or the download failed; the message names an alternative.
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
            f"(DATA can be any folder), and set the environment variable HANDLOOM_DATA to DATA. {EMBEDDED_WORKS}"
        ) from error


def _reason(error: Exception) -> str:
    """Return the cause of a network error; requests and urllib3 wrap it in several layers of repr."""
    if isinstance(error, ValueError):
        return "the downloaded file has a wrong checksum, so it is not the official file"
    while True:
        inner = getattr(error, "reason", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, Exception):
            return str(error).rstrip(".")
        error = inner
