"""What a newcomer does with the demo: paste its lines, stop it, start it again."""

import json
import signal
import subprocess
import time

import pytest

from gateway import Demo

pytestmark = pytest.mark.gateway


@pytest.fixture
def demo(tmp_path):
    demo = Demo(tmp_path)
    yield demo
    if demo.process.poll() is None:
        demo.stop()


def paste(line: str) -> str:
    """What a printed line prints in turn."""
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_printed_lines_work_as_they_stand(demo):
    lines = [line for line in demo.lines if line.startswith("curl ")]
    streamed, message, models = (paste(line) for line in lines)
    assert streamed.rstrip().endswith("data: [DONE]")
    assert json.loads(message)["type"] == "message"
    assert "beta-5.6-terra" in {model["id"] for model in json.loads(models)["data"]}


def test_the_first_answer_streams_within_two_seconds_of_the_start(tmp_path):
    begin = time.monotonic()
    demo = Demo(tmp_path)
    try:
        line = next(line for line in demo.lines if line.startswith("curl -sN"))
        assert "data: " in paste(line)
        assert time.monotonic() - begin < 2
    finally:
        demo.stop()


def test_ctrl_c_frees_the_ports_and_the_next_start_keeps_the_key(tmp_path):
    first = Demo(tmp_path)
    first.stop(signal.SIGINT)
    second = Demo(tmp_path, first.ports)
    second.stop(signal.SIGINT)
    assert second.key == first.key


def test_ctrl_c_lets_a_stream_end(demo):
    headers = {"authorization": f"Bearer {demo.key}", "content-type": "application/json", "x-sim": "tokens-20+chunk-delay-50ms"}
    body = {"model": "beta-5.6-terra", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    options = [option for header in headers.items() for option in ("-H", ": ".join(header))]
    stream = subprocess.Popen(
        ["curl", "-sN", f"{demo.base_url}/v1/chat/completions", *options, "-d", json.dumps(body)],
        stdout=subprocess.PIPE,
        text=True,
    )
    first = stream.stdout.readline()
    demo.stop(signal.SIGINT)
    rest, _ = stream.communicate(timeout=20)
    assert first.startswith("data: ")
    assert rest.rstrip().endswith("data: [DONE]")
