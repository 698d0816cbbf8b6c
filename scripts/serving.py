"""A gateway on the simulated provider, for scripts that watch one serve."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

# In seconds; what is watched is slow, and so may the machine be.
PATIENCE = 300

CONFIG = """
server: {{ listen: [{{ address: '127.0.0.1:{port}' }}], threads: 1 }}
admin: {{ listen: '127.0.0.1:{admin}' }}
store: {{ path: tollgate.db }}
keys: {{ pepper: 'literal:a pepper for a layout and nothing else' }}
providers:
  chat: {{ address: 'http://127.0.0.1:{provider}', formats: [chat], credentials: ['file:credential.txt'], pass_headers: [x-sim], health: {{ enabled: false }} }}
  messages: {{ address: 'http://127.0.0.1:{provider}', formats: [messages], credentials: ['file:credential.txt'], pass_headers: [x-sim], health: {{ enabled: false }} }}
  responses: {{ address: 'http://127.0.0.1:{provider}', formats: [responses], credentials: ['file:credential.txt'], pass_headers: [x-sim], health: {{ enabled: false }} }}
  gemini: {{ address: 'http://127.0.0.1:{provider}', formats: [{{ name: gemini, path: '/v1/chat/completions?{{model}}', stream_path: '/v1/chat/completions?{{model}}' }}], credentials: ['file:credential.txt'], pass_headers: [x-sim], health: {{ enabled: false }} }}
families:
  chat: {{ group: other, deployments: [chat] }}
  messages: {{ group: other, deployments: [messages] }}
  responses: {{ group: other, deployments: [responses] }}
  gemini: {{ group: other, deployments: [gemini] }}
models:
  spoken: {{ family: chat, reasoning: provider_default }}
  translated: {{ family: messages, reasoning: provider_default }}
  answering: {{ family: responses, reasoning: provider_default }}
  generating: {{ family: gemini, reasoning: provider_default }}
plans: {{ plenty: {{ tokens: 1000G, validity: 365d }} }}
"""


class Served:
    """A gateway that serves: its ports, a key, its process."""

    def __init__(self, port, admin, key, process):
        self.port, self.admin, self.key, self.process = port, admin, key, process

    def connect(self, port=None):
        return connect(port or self.port, self.process)


@contextmanager
def serving(binary, provider_binary, folder, config_text=CONFIG, under=(), provider_arguments=()):
    """Serves while it is entered; at the end the gateway is asked to end, and waited for.

    If the caller fails, the end of both logs is printed. LLVM_PROFILE_FILE is set for the gateway only: the
    command that makes the key is the same program. `under` runs the gateway, such as valgrind;
    `provider_arguments` come before the provider's address.
    """
    port, admin, provider = free_port(), free_port(), free_port()
    config, said = folder / "tollgate.yaml", folder / "said.log"
    (folder / "credential.txt").write_text("any will do")
    config.write_text(config_text.format(port=port, admin=admin, provider=provider))
    apart = {"cwd": folder, "stderr": said.open("w"), "env": {**os.environ, "LLVM_PROFILE_FILE": os.devnull}}
    quiet = {"stdout": subprocess.DEVNULL}
    running = []
    try:
        made = subprocess.run(
            [binary, "keys", "create", "--config", config, "script", "--plan", "plenty"],
            stdout=subprocess.PIPE, text=True, check=True, **apart,
        )
        key = re.search(r"^\s*(sk-\S+)", made.stdout, re.MULTILINE).group(1)
        sim = subprocess.Popen([provider_binary, *provider_arguments, f"127.0.0.1:{provider}"], **quiet, **apart)
        running.append(sim)
        serve = [*under, binary, "serve", "--config", config]
        gateway = subprocess.Popen(serve, **quiet, **{**apart, "env": None})
        running.append(gateway)
        connect(provider, sim).close()
        yield Served(port, admin, key, gateway)
        gateway.terminate()
        if gateway.wait(PATIENCE) != 0:
            sys.exit("the gateway did not end in order")
    except BaseException:
        sys.stderr.write("".join(said.open(errors="replace").readlines()[-50:]))
        raise
    finally:
        for process in running:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, process):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except OSError:
            time.sleep(0.1)
    # In a thread, Python ignores `sys.exit`.
    raise OSError(f"nothing listens on port {port}")


def head(served, line, body=None, more=()):
    """A request's head and body, as bytes. A body that is bytes is sent as it is."""
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [line + " HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {served.key}", *more]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(text)}"]
    return "\r\n".join([*lines, "", ""]).encode() + text
