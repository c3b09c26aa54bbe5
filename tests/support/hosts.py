"""Hosts made of Linux namespaces on this machine: each has its own network, name, processes, memory and ssh server.

A switch connects them, and its cables can be cut. A host ends when its first process does.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

NAMESPACES = ("--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo ready && exec sleep infinity"
# /run, /dev/shm and $FOLDER/own are each host's own; all other folders are shared.
HOST = """
set -e
hostname $NAME
ip link set lo up
for folder in /run /dev/shm $FOLDER/own; do mount -t tmpfs none $folder; done
mkdir /run/sshd
mount --bind $FOLDER/hosts /etc/hosts
echo ready
exec $SSHD -D -f /dev/null -h $FOLDER/key -o AuthorizedKeysFile=$FOLDER/key.pub -o StrictModes=no -o PidFile=none
"""
SSH = """
IdentityFile {folder}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
ServerAliveInterval 3
"""
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


def why_not() -> str:
    """Return the reason why there can be no such hosts here, or ""."""
    missing = [name for name in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen") if shutil.which(name) is None]
    if missing or SSHD is None:
        return f"needs {', '.join(missing or ['sshd'])} (Debian's iproute2, util-linux and openssh-server)"
    tried = subprocess.run(["unshare", *NAMESPACES, "sh", "-c", SWITCH.partition("&& exec")[0]], capture_output=True)
    return f"no namespaces may be made here: {tried.stderr.decode().strip()}" if tried.returncode else ""


class Hosts:
    """`count` hosts called host1, host2, ...; the new `folder` receives their keys."""

    def __init__(self, count: int, folder: Path):
        self.folder = folder
        (folder / "own").mkdir(parents=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
        (folder / "ssh").write_text(SSH.format(folder=folder))
        self.names = [f"host{number}" for number in range(1, count + 1)]
        lines = [f"10.0.0.{number} {name}\n" for number, name in enumerate(self.names, 1)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        self.started: list[subprocess.Popen] = []
        self.first = {"switch": self._start("switch", SWITCH)}
        for number, name in enumerate(self.names, 1):
            self.first[name] = self._start(name, HOST)
            self.switch(f"ip link add {name} type veth peer name eth0 netns {self.first[name]}")
            self.switch(f"ip link set {name} master switch up")
            self.run(name, f"ip addr add 10.0.0.{number}/24 dev eth0 && ip link set eth0 up")

    def _start(self, name: str, script: str) -> int:
        """Start the first process of a host and return its number."""
        line = ["unshare", *NAMESPACES, "sh", "-c", script]
        own = {**os.environ, "NAME": name, "FOLDER": str(self.folder), "SSHD": str(SSHD)}
        self.started.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own))
        unshare = self.started[-1]
        assert unshare.stdout is not None
        assert unshare.stdout.readline() == "ready\n", unshare.communicate()[1]
        return int(Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text())

    def line(self, name: str, command: str) -> list[str]:
        """Return the command line that runs a shell command on a host."""
        return ["nsenter", "-t", str(self.first[name]), "-a", "sh", "-c", f"cd '{Path.cwd()}' && {command}"]

    def run(self, name: str, command: str) -> str:
        return subprocess.run(self.line(name, command), check=True, capture_output=True, text=True).stdout

    def mpiexec(self, names: list[str]) -> str:
        """Return the beginning of a command that starts one process on each of these hosts."""
        launcher = Path(sys.executable).with_name("mpiexec")
        settings = f"HYDRA_LAUNCHER_EXTRA_ARGS='-F {self.folder}/ssh' OPENBLAS_NUM_THREADS=1"
        settings += " MPIR_CVAR_POLLS_BEFORE_YIELD=1"
        return f"{settings} exec '{launcher}' -launcher ssh -hosts {','.join(names)} -ppn 1 '{sys.executable}'"

    def switch(self, command: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.first["switch"]), "--net", *command.split()], check=True)

    def cut(self, name: str) -> None:
        """Cut the cable between the host and the switch."""
        self.switch(f"ip link set {name} down")

    def power_off(self, name: str) -> None:
        """End a host, which sends nothing more."""
        self.cut(name)
        os.kill(self.first[name], signal.SIGKILL)

    def bytes_sent(self, name: str) -> int:
        return json.loads(self.run(name, "ip -s -j link show eth0"))[0]["stats64"]["tx"]["bytes"]

    def command_lines(self, name: str) -> list[str]:
        """Return the command lines of the processes of Python and MPI on a host."""
        return self.run(name, "ps -eo args | grep -E '^[^ ]*(python|mpiexec|pmi_proxy)' || true").splitlines()

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
