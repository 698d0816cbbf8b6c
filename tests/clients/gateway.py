"""Starts what the clients talk to, and ends it.

Decides how the gateway's demo (and the simulated provider alone) is launched, when it counts as
ready and what a clean end is. What is asked of it is left to the tests.
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20
STOP_SECONDS = 20


def program() -> Path:
    """The built `tollgate`: `TOLLGATE_BIN`, else where `make build` puts it."""
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    return Path(os.environ.get("TOLLGATE_BIN", target / "debug" / "tollgate"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str) -> bool:
    """Whether a GET of `url` is a success."""
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A child process whose output is kept, ended by its own id and by nothing broader."""

    def __init__(self, *arguments: str):
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [program(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        # Read all the time: a full pipe would stop the server.
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def output(self) -> str:
        return "\n".join(self.lines[-60:])

    def wait_until(self, ready, what: str):
        """Polls until `ready()` is truthy and returns that; fails when the process ends first."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if result := ready():
                return result
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {what}:\n{self.output()}")
            time.sleep(0.02)
        raise AssertionError(f"not {what} within {START_SECONDS} s:\n{self.output()}")

    def end(self, by: signal.Signals, ports: list[int]) -> None:
        """Asks it to end, and sees that it did: exit status 0, no port left open."""
        self.process.send_signal(by)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still alive {STOP_SECONDS} s after {by.name}:\n{self.output()}") from None
        assert status == 0, f"ended with {status}:\n{self.output()}"
        assert not any(map(is_listening, ports)), f"a port of {ports} is still open"


class Demo(Server):
    """`tollgate demo`, by default on free ports, with a state directory of its own."""

    def __init__(self, state: Path, ports: tuple[int, int] | None = None, config: Path | None = None):
        self.ports = ports or (free_port(), free_port())
        self.state = state
        port, admin_port = self.ports
        super().__init__(
            "demo",
            f"--port={port}",
            f"--admin-port={admin_port}",
            f"--state-dir={state}",
            f"--file={config or ROOT / 'conf' / 'demo.yaml'}",
        )
        self.base_url = f"http://127.0.0.1:{port}"
        self.wait_until(lambda: answers(f"http://127.0.0.1:{admin_port}/readyz"), "ready")
        self.key = self.wait_until(self._printed_key, "printing a key")

    def _printed_key(self) -> str | None:
        return next((line.strip() for line in self.lines if line.startswith("sk-")), None)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.end(by, [*self.ports])

    def requests(self) -> list[dict]:
        """The access log so far: one object a request."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]


class Provider(Server):
    """The simulated provider alone."""

    key = "sk-any"

    def __init__(self):
        self.port = free_port()
        super().__init__("sim", f"--listen=127.0.0.1:{self.port}")
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.wait_until(lambda: is_listening(self.port), "listening")

    def stop(self) -> None:
        self.end(signal.SIGINT, [self.port])


class KeyDesk:
    """`tollgate keys`, on the store of a demo or on one of its own."""

    def __init__(self, store: Path, folder: Path):
        self.config = folder / "keys.yaml"
        self.config.write_text(
            f"include: {ROOT}/conf/demo.yaml\n"
            f"store: {{ path: {store} }}\n"
        )

    def run(self, *arguments: str) -> str:
        command = [program(), "keys", "--config", self.config, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()

    def create(self, name: str, *options: str) -> str:
        """A new key, as its owner is given it."""
        return self.run("create", name, *options)
