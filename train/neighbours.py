"""A ring of TCP connections between the processes of a job, which detects that a host is lost.

A host that loses power or network does not close its connections, and MPI waits for this host forever. Here, every
rank is connected with the next rank. The ranks send nothing: the operating systems check the connections with TCP
keepalive, without extra work in training steps.
"""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

#: A connection is lost when it has been silent for 4 s and then four questions, 2 s apart, had no answer: 12 s in all.
_KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPALIVE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 4}  # macOS has the second name
_CONNECT_SECONDS = 10
LOST = 3  # the exit code of the other processes


class Neighbours:
    """The connections of this rank with the previous rank and the next rank.

    If a connection is lost, this process prints one line, passes an exit code to its neighbours, and ends. The
    neighbours then do the same, without the launcher, which may be on the lost host. If some rank can't be reached by
    TCP, a warning is issued, and lost hosts are not detected.

    Args:
        communicator: of MPI, over which the processes find each other.
    """

    def __init__(self, communicator: Any):
        rank, size, self._links = communicator.Get_rank(), communicator.Get_size(), list[socket.socket]()
        own = os.environ.get("PMI_HOSTNAME") or socket.gethostname()  # mpiexec sets the name by which it reached us
        with socket.create_server(("", 0)) as server:
            places = communicator.allgather((own, server.getsockname()[1]))
            names = [f"rank {number} of {size} on {name}" for number, (name, _) in enumerate(places)]
            host, port = places[(rank + 1) % size]
            problem = ""
            try:
                following = socket.create_connection(("localhost" if host == own else host, port), _CONNECT_SECONDS)
            except OSError as error:
                problem = f"{own} can't reach {host} by TCP ({error.strerror or error})"
            if problems := [text for text in communicator.allgather(problem) if text]:
                if rank == 0:
                    warnings.warn(f"{problems[0]}: if a host is lost, the others may wait without end", stacklevel=2)
                return
            self._links = [server.accept()[0], following]
        for link, name, wait in ((self._links[0], names[rank - 1], 0), (following, names[(rank + 1) % size], 1)):
            link.settimeout(None)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE.items():
                if hasattr(socket, option):
                    link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            threading.Thread(target=self._listen, args=(link, name, wait), daemon=True).start()
        atexit.register(self.tell, 0)

    def tell(self, code: int) -> None:
        """Report the end of this process to both neighbours. If the exit code is not 0, they end too."""
        for link in self._links:
            with contextlib.suppress(OSError):
                link.send(bytes([code]))

    def _listen(self, link: socket.socket, name: str, wait: float) -> None:
        """Wait until the connection ends. End this process if the neighbour ended without a report or with an error.

        The delay `wait` lets the other neighbour of a lost rank report it first, so that one line is printed.
        """
        reason = "its process ended"
        try:
            word = link.recv(1)
        except OSError as error:
            word, reason = b"", error.strerror or str(error)
        if word == b"\0":
            return
        if not word:
            time.sleep(wait)
            print(f"error: {name} is lost ({reason}); the job ends. Continue it with --resume", file=sys.stderr)
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            time.sleep(0.5)  # the launcher reads this line only while all processes live
            word = bytes([LOST])
        if word[0] == LOST:
            _end_launcher()
        self.tell(word[0])
        os._exit(word[0])


def _end_launcher() -> None:
    """End the mpiexec that started this process, which would wait for the lost host without end."""
    with contextlib.suppress(OSError):  # it runs on another host or system, or has ended
        launcher = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        if Path(f"/proc/{launcher}/comm").read_text().startswith(("mpiexec", "mpirun")):
            os.kill(launcher, signal.SIGKILL)  # a gentler signal makes it wait for the lost host once more
