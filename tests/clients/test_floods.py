"""Floods and bombs of HTTP/2, as the Python package `h2` makes them.

The gateway's own tests build their frames by hand; here another implementation makes them. Each
attack must come to an end by itself, well before everything was sent or within the time-out that
is for it; meanwhile others are served, and afterwards nothing of it is left.
"""

import http.client
import json
import socket
import struct
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, ResponseReceived, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import ContinuationFrame, HeadersFrame

from gateway import ROOT, Demo

pytestmark = pytest.mark.gateway

MODEL = "beta-5.6-terra"
PATH = "/v1/chat/completions"
# What an attack may make the gateway keep, in bytes: a small part of what it sends or spells out.
MOST_KEPT = 48 << 20
WRITE_TIMEOUT = 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A demo whose time-out for callers that read nothing is short."""
    folder = tmp_path_factory.mktemp("floods")
    config = folder / "floods.yaml"
    config.write_text(
        f"include: {ROOT}/conf/demo.yaml\n"
        f"server: {{ limits: {{ downstream_write_timeout: {WRITE_TIMEOUT}s }} }}\n"
    )
    demo = Demo(folder / "state", config=config)
    yield demo
    if demo.process.poll() is None:
        demo.stop()


def metric(demo: Demo, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{demo.ports[1]}/metrics", timeout=5) as page:
        for line in page.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
    return 0.0


def eventually(found, what: str, seconds: float = 10):
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)
    return result


def question(**more) -> bytes:
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **more}).encode()


class Others:
    """Another caller, which asks over HTTP/1.1 all the time and must be answered."""

    def __init__(self, demo: Demo):
        self.demo = demo
        self.served = 0
        self.faults: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        headers = {"authorization": f"Bearer {self.demo.key}", "content-type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.demo.ports[0], timeout=10)
        while not self.over.is_set():
            try:
                connection.request("POST", PATH, question(), headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as fault:
                self.faults.append(repr(fault))
                return
            if answer.status != 200:
                self.faults.append(f"{answer.status}: {text[:200]!r}")
                return
            self.served += 1
        connection.close()


@contextmanager
def beside_others(demo: Demo):
    """The attack inside affects no other caller, and leaves nothing."""
    before = metric(demo, "tollgate_resident_memory_bytes")
    others = Others(demo)
    others.thread.start()
    eventually(lambda: others.served or others.faults, "the first answer")
    served = others.served
    yield
    # Callers in the middle of an answer when the attack ends count too.
    eventually(lambda: others.served > served or others.faults, "an answer beside the attack")
    grown = lambda: metric(demo, "tollgate_resident_memory_bytes") - before
    print(f"{others.served} answers to others; {grown() / (1 << 20):.1f} MiB more in memory")
    # What is let go goes back to the system over some seconds.
    eventually(lambda: grown() < MOST_KEPT, "the memory is given back", seconds=30)
    others.over.set()
    others.thread.join(15)
    assert not others.faults, others.faults
    eventually(lambda: metric(demo, "tollgate_requests_in_flight") == 0, "no request is left")
    eventually(lambda: metric(demo, "tollgate_connections") == 0, "no connection is left")


class Attacker:
    """A connection of HTTP/2 that sends given frames, and notices when it is ended."""

    def __init__(self, demo: Demo, settings: dict | None = None):
        self.socket = socket.create_connection(("127.0.0.1", demo.ports[0]), timeout=10)
        self.h2 = H2Connection(H2Configuration(validate_outbound_headers=False))
        if settings:
            self.h2.local_settings = Settings(client=True, initial_values=settings)
        self.h2.initiate_connection()
        self.key = demo.key
        self.sent = 0
        self.ended = None
        self.answers: dict[int, str] = {}
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def head(self, length: int | None = None) -> list[tuple[str, str]]:
        head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "gateway"),
            (":path", PATH),
            ("authorization", f"Bearer {self.key}"),
            ("content-type", "application/json"),
        ]
        return head if length is None else [*head, ("content-length", str(length))]

    def flush(self, more: bytes = b"") -> None:
        """Writes what is to be written, and reads what has come; keeps in mind when it is over."""
        data = self.h2.data_to_send() + more
        try:
            self.socket.setblocking(True)
            self.socket.settimeout(10)
            self.socket.sendall(data)
            self.sent += len(data)
            self.socket.setblocking(False)
            while True:
                self.read(self.socket.recv(1 << 16))
                if self.ended is not None:
                    return
        except BlockingIOError:
            return
        except (ConnectionError, TimeoutError) as fault:
            self.ended = self.ended or repr(fault)

    def wait(self, seconds: float) -> None:
        """Reads until the connection ends, or for so long."""
        deadline = time.monotonic() + seconds
        while self.ended is None and (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                self.read(self.socket.recv(1 << 16))
            except TimeoutError:
                return
            except ConnectionError as fault:
                self.ended = repr(fault)

    def read(self, data: bytes) -> None:
        if not data:
            self.ended = self.ended or "closed"
            return
        try:
            events = self.h2.receive_data(data)
        except ProtocolError as fault:
            self.ended = self.ended or repr(fault)
            return
        for event in events:
            if isinstance(event, ConnectionTerminated):
                self.ended = event.error_code
            elif isinstance(event, ResponseReceived):
                headers = {bytes(name): bytes(value) for name, value in event.headers}
                self.answers[event.stream_id] = headers[b":status"].decode()
            elif isinstance(event, StreamReset):
                before = self.answers.get(event.stream_id, "no answer")
                self.answers[event.stream_id] = f"reset after {before}"


def flood(attacker: Attacker, step, most: int) -> int:
    """Repeats a step until the connection is ended, which must come before `most`."""
    for number in range(most):
        try:
            step(number)
        except ProtocolError as fault:
            # The library knows that the connection is closed.
            attacker.ended = attacker.ended or repr(fault)
        if number % 10 == 0:
            attacker.flush()
        if attacker.ended is not None:
            print(f"ended by {attacker.ended!r} after {number} steps, {attacker.sent} bytes")
            return number
    raise AssertionError(f"the connection stayed open: {most} steps, {attacker.sent} bytes")


def test_a_rapid_reset_is_ended(demo):
    with beside_others(demo), Attacker(demo) as attacker:
        body = question()

        def step(_):
            stream = attacker.h2.get_next_available_stream_id()
            attacker.h2.send_headers(stream, attacker.head(len(body)))
            attacker.h2.send_data(stream, body, end_stream=True)
            attacker.h2.reset_stream(stream, ErrorCodes.CANCEL)

        flood(attacker, step, 20_000)


@pytest.mark.parametrize("kind", ["ping", "settings"])
def test_a_flood_of_control_frames_is_ended(demo, kind):
    floods = metric(demo, "tollgate_http2_floods_total")
    with beside_others(demo), Attacker(demo) as attacker:
        steps = {
            "ping": lambda number: attacker.h2.ping(struct.pack(">Q", number)),
            "settings": lambda number: attacker.h2.update_settings(
                {SettingCodes.INITIAL_WINDOW_SIZE: 65_535 + number % 2}
            ),
        }
        flood(attacker, steps[kind], 100_000)
    assert metric(demo, "tollgate_http2_floods_total") == floods + 1


def test_a_head_that_goes_on_for_ever_is_ended(demo):
    with beside_others(demo), Attacker(demo) as attacker:
        begun = HeadersFrame(1)
        begun.data = attacker.h2.encoder.encode(attacker.head())
        attacker.flush(begun.serialize())

        def step(number):
            more = ContinuationFrame(1)
            more.data = attacker.h2.encoder.encode([(f"x-{number}", "a" * 1000)])
            attacker.flush(more.serialize())

        flood(attacker, step, 20_000)


def test_many_small_heads_for_ever_in_one_block_are_ended(demo):
    """Empty continuations cost nothing to send and never end the block."""
    with beside_others(demo), Attacker(demo) as attacker:
        begun = HeadersFrame(1)
        begun.data = attacker.h2.encoder.encode(attacker.head())
        attacker.flush(begun.serialize())
        flood(attacker, lambda _: attacker.flush(ContinuationFrame(1).serialize()), 100_000)


def test_a_small_block_that_spells_out_to_much_is_refused(demo):
    """HPACK: one long header in the table of the connection, and thousands of references to it."""
    with beside_others(demo), Attacker(demo) as attacker:
        for _ in range(20):
            stream = attacker.h2.get_next_available_stream_id()
            value = b"a" * 3900
            entry = b"\x40\x06x-bomb" + b"\x7f" + integer(len(value) - 127) + value
            block = attacker.h2.encoder.encode(attacker.head()) + entry
            # The newest entry of the table has the index 62.
            references = b"\xbe" * (16_000 - len(block))
            frame = HeadersFrame(stream)
            frame.flags |= {"END_HEADERS", "END_STREAM"}
            frame.data = block + references
            # The library has to know that the stream is open, and must not send it.
            attacker.h2.send_headers(stream, attacker.head(), end_stream=True)
            attacker.h2.data_to_send()
            attacker.flush(frame.serialize())
            attacker.wait(0.2)
            if attacker.ended is not None:
                break
        print(f"ended by {attacker.ended!r}, streams {attacker.answers}")
        assert attacker.ended is not None or attacker.answers
        refused = ("431", "reset")
        assert all(it.startswith(refused) for it in attacker.answers.values()), attacker.answers


def integer(value: int) -> bytes:
    """What is left of an integer of HPACK behind its prefix (RFC 7541, section 5.1)."""
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def test_windows_that_stay_closed_are_given_up_in_time(demo):
    streams = 50
    with beside_others(demo), Attacker(demo, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as attacker:
        body = question(stream=True)
        for _ in range(streams):
            stream = attacker.h2.get_next_available_stream_id()
            # One megabyte each, which the provider in the demo keeps once for all of them.
            orders = ("x-sim", "canned-stream-1000x1000")
            attacker.h2.send_headers(stream, [*attacker.head(len(body)), orders])
            attacker.h2.send_data(stream, body, end_stream=True)
        begun = time.monotonic()
        attacker.flush()
        while attacker.ended is None and sum(it.startswith("reset") for it in attacker.answers.values()) < streams:
            assert time.monotonic() - begun < WRITE_TIMEOUT + 10, attacker.answers
            attacker.wait(0.2)
        took = time.monotonic() - begun
        print(f"given up after {took:.1f} s: {attacker.ended!r}, streams {sorted(set(attacker.answers.values()))}")
        assert took > WRITE_TIMEOUT / 2, "they were never served"
        # Nothing was sent of what they asked for, and nothing is held for them.
        eventually(lambda: metric(demo, "tollgate_requests_in_flight") <= 1, "the streams are let go")
