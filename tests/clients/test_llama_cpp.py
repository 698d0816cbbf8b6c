"""The ready file of llama.cpp, driven against its real server with a model of random weights."""

import json
import subprocess
import sys
from pathlib import Path

import anthropic
import openai
import pytest

import llama
from gateway import ROOT, Demo, answers, free_port

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
pytestmark = pytest.mark.gateway

MODEL = f"llama-cpp/{llama.NAME}"
FIXED = {"temperature": 0, "model": MODEL}
SAY = [{"role": "user", "content": "red apples"}]
OUTPUT = 8
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris"]}},
    "required": ["city"],
    "additionalProperties": False,
}


class Llama:
    """A gateway with the ready file, and the server behind it."""

    def __init__(self, folder: Path):
        port = free_port()
        script = Path(llama.__file__)
        with (folder / "llama.log").open("wb") as log:
            self.server = subprocess.Popen(
                [sys.executable, script, folder / "tiny.gguf", str(port)], stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        config = folder / "tollgate.yaml"
        include = [str(ROOT / "conf" / name) for name in ("demo.yaml", "providers/llama-cpp.yaml")]
        address = f"http://127.0.0.1:{port}"
        config.write_text(json.dumps({"include": include, "providers": {"llama-cpp": {"address": address}}}))
        self.gateway = Demo(folder, config=config)
        self.gateway.wait_until(lambda: answers(f"{address}/health"), "a server of llama.cpp")

    def stop(self) -> None:
        self.gateway.stop()
        self.server.stdin.close()
        self.server.wait(20)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    real = Llama(tmp_path_factory.mktemp("llama"))
    yield real
    real.stop()


@pytest.fixture(scope="module")
def chat(real):
    with openai.OpenAI(base_url=f"{real.gateway.base_url}/v1", api_key=real.gateway.key, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def messages(real):
    with anthropic.Anthropic(base_url=real.gateway.base_url, api_key=real.gateway.key, max_retries=0) as client:
        yield client


def assert_charged(real, request: str, tokens: int) -> None:
    """The charge of a request is what the server has reported."""
    line = real.gateway.wait_until(
        lambda: next((it for it in real.gateway.requests() if it["id"] == request), None), "a record"
    )
    assert (line["count"], line["charged"]) == ("reported", tokens), line


def test_chat_answers_and_streams_the_same(real, chat):
    ask = {**FIXED, "messages": SAY, "max_tokens": OUTPUT}
    whole = chat.chat.completions.create(**ask)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == OUTPUT
    assert_charged(real, whole._request_id, whole.usage.total_tokens)
    stream = chat.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content != ""
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    # A client that does not ask for usage gets none, and pays the same.
    silent = chat.chat.completions.create(**ask, stream=True)
    assert all(chunk.choices and not chunk.usage for chunk in silent)
    for sent in (stream, silent):
        assert_charged(real, sent.response.headers["x-request-id"], whole.usage.total_tokens)


def test_responses_answer_and_stream_the_same(chat):
    ask = {**FIXED, "input": "red apples", "max_output_tokens": 16}
    whole = chat.responses.create(**ask)
    assert whole.usage.output_tokens == 16
    events = list(chat.responses.create(**ask, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text != ""
    assert events[-1].response.usage.output_tokens == 16


def test_messages_answer_stream_and_count_the_same(real, messages):
    # The SDK knows no temperature.
    ask = {"model": MODEL, "messages": SAY, "max_tokens": OUTPUT, "extra_body": {"temperature": 0}}
    whole = messages.messages.create(**ask)
    assert whole.stop_reason == "max_tokens"
    usage = whole.usage
    read = usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert usage.output_tokens == OUTPUT
    with messages.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text != ""
    counted = messages.messages.with_raw_response.count_tokens(model=MODEL, messages=SAY)
    assert counted.headers["x-token-count-source"] == "upstream"
    assert counted.parse().input_tokens == read


def test_an_answer_follows_its_schema(chat):
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    answer = chat.chat.completions.create(**FIXED, messages=SAY, max_tokens=200, response_format=form)
    assert json.loads(answer.choices[0].message.content) == {"city": "Paris"}


def test_tools_are_taken(chat, messages):
    function = {"name": "get_weather", "parameters": SCHEMA}
    ask = {**FIXED, "messages": SAY, "max_tokens": OUTPUT}
    assert chat.chat.completions.create(**ask, tools=[{"type": "function", "function": function}]).usage
    tool = {"name": "get_weather", "input_schema": SCHEMA}
    ask = {"model": MODEL, "messages": SAY, "max_tokens": OUTPUT}
    assert messages.messages.create(**ask, tools=[tool]).usage


def test_texts_become_vectors(real, chat):
    answer = chat.embeddings.create(model=MODEL, input=["red apples", "red"], encoding_format="float")
    assert [len(vector.embedding) for vector in answer.data] == [llama.SIZE, llama.SIZE]
    assert_charged(real, answer._request_id, answer.usage.prompt_tokens)


def test_input_beyond_the_context_is_refused_by_name(chat, messages):
    long = [{"role": "user", "content": "red " * 2 * llama.CONTEXT}]
    with pytest.raises(openai.BadRequestError) as fault:
        chat.chat.completions.create(**FIXED, messages=long)
    assert fault.value.code == "context_length_exceeded"
    with pytest.raises(anthropic.BadRequestError):
        messages.messages.create(model=MODEL, messages=long, max_tokens=OUTPUT)


def test_an_image_is_the_fault_of_the_request(chat):
    url = {"url": "data:image/png;base64,iVBORw0KGgo="}
    content = [{"type": "text", "text": "red"}, {"type": "image_url", "image_url": url}]
    with pytest.raises(openai.BadRequestError):
        chat.chat.completions.create(**FIXED, messages=[{"role": "user", "content": content}])


def test_a_model_without_vectors_ranks_nothing(chat):
    with pytest.raises(openai.APIStatusError) as fault:
        chat.post("/rerank", body={"model": MODEL, "query": "red", "documents": ["red"]}, cast_to=object)
    # The server is not started for it.
    assert fault.value.status_code == 400
