"""Answers that were translated, through the official Python SDKs with strict validation.

A server on loopback hands out the golden results of the translation crate, each of them as a
provider of the caller's format would; the SDKs' typed parsers and streaming helpers must take
every one, and say what the Rust tests say of it. No gateway is needed.
"""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

CALLERS = ("chat", "responses", "messages")
GOLDEN = Path(__file__).parents[2] / "crates/translate/tests/answers/golden"


def results(caller: str, kind: str) -> list[str]:
    names = sorted(path.name for path in GOLDEN.glob(f"*.to_{caller}.{kind}"))
    assert len(names) >= 3, f"only {len(names)} results for {caller}"
    return names


def is_error(name: str) -> bool:
    text = (GOLDEN / name).read_text()
    return '"code":"service_unavailable"' in text or '"reason":"SERVICE_UNAVAILABLE"' in text or not text.startswith(("{", "data", "event", ":", "\n"))


class Handler(BaseHTTPRequestHandler):
    """Answers every request with the file that its header names."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        path = GOLDEN / Path(self.headers["x-golden"]).name
        body = path.read_bytes()
        self.send_response(200)
        kind = "text/event-stream" if path.suffix == ".sse" else "application/json"
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


OPTIONS = {"api_key": "sk-any", "max_retries": 0, "timeout": 20, "_strict_response_validation": True}
SAY = [{"role": "user", "content": "hello"}]


@pytest.fixture
def openai_client(address):
    return openai.OpenAI(base_url=f"{address}/v1", **OPTIONS)


@pytest.fixture
def anthropic_client(address):
    return anthropic.Anthropic(base_url=address, **OPTIONS)


def golden(name: str) -> dict:
    return {"extra_headers": {"x-golden": name}}


@pytest.mark.parametrize("name", results("messages", "sse"))
def test_messages_streams(anthropic_client, name):
    ask = {"model": "the-model", "max_tokens": 100, "messages": SAY} | golden(name)
    if is_error(name):
        with pytest.raises(anthropic.APIError), anthropic_client.messages.stream(**ask) as stream:
            stream.until_done()
        return
    with anthropic_client.messages.stream(**ask) as stream:
        texts = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert "".join(block.text for block in message.content if block.type == "text") == texts
    calls = [block for block in message.content if block.type == "tool_use"]
    assert all(isinstance(call.input, dict) for call in calls)
    # A limit or a filter can cut a call.
    assert bool(calls) == (message.stop_reason == "tool_use") or message.stop_reason in ("max_tokens", "refusal")
    assert message.stop_reason is not None
    raw = (GOLDEN / name).read_text()
    # The helper gives thinking and its signature whole.
    signed = [block.signature for block in message.content if block.type == "thinking" and block.signature]
    assert all(signature in raw for signature in signed)
    if '"prompt_tokens":20' in source(name) or '"input_tokens":20' in source(name):
        assert message.usage.output_tokens == 9
        assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) + (
            message.usage.cache_creation_input_tokens or 0
        ) == 20


def source(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    return (GOLDEN / f"{stem.rpartition('.')[0]}.{kind}").read_text()


def output_tokens(name: str) -> int:
    """The output that the provider's answer reports: 9 in all formats but Gemini's and Converse's."""
    answer = json.loads(source(name))
    if reported := answer.get("usageMetadata"):
        return reported.get("candidatesTokenCount", 0) + reported.get("thoughtsTokenCount", 0)
    return (answer.get("usage") or {}).get("outputTokens", 9)


@pytest.mark.parametrize("name", results("chat", "sse"))
def test_chat_streams(openai_client, name):
    ask = {"model": "the-model", "messages": SAY, "stream_options": {"include_usage": True}} | golden(name)
    if is_error(name):
        with pytest.raises(openai.APIError), openai_client.chat.completions.stream(**ask) as stream:
            stream.until_done()
        return
    try:
        with openai_client.chat.completions.stream(**ask) as stream:
            completion = stream.get_final_completion()
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as end:
        # The helper raises on these; the answer is within.
        reasons = ("cut", "limit", "exceeded", "max", "filter", "refusal", "safety", "guardrail")
        assert any(reason in name for reason in reasons), end
        return
    except openai.APIResponseValidationError as unknown:
        # The types know custom tools in whole answers alone.
        assert "custom" in name, unknown
        return
    (choice,) = completion.choices
    calls = choice.message.tool_calls or []
    assert bool(calls) == (choice.finish_reason == "tool_calls")
    assert all(json.loads(call.function.arguments) is not None for call in calls)
    assert completion.usage is None or completion.usage.total_tokens > 0


@pytest.mark.parametrize("name", results("responses", "sse"))
def test_responses_streams(openai_client, name):
    ask = {"model": "the-model", "input": "hello"} | golden(name)
    if is_error(name):
        with pytest.raises(openai.APIError), openai_client.responses.stream(**ask) as stream:
            stream.until_done()
            raise AssertionError("it looks finished")
        return
    texts: dict[tuple, str] = {}
    final = None
    with openai_client.responses.stream(**ask) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                key = (event.output_index, event.content_index)
                texts[key] = texts.get(key, "") + event.delta
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
    assert final is not None
    assert final.output_text == "".join(texts.values())
    assert final.status in ("completed", "incomplete")
    for item in final.output:
        if item.type == "function_call" and item.status == "completed" and "broken" not in name:
            json.loads(item.arguments)


@pytest.mark.parametrize("name", [n for n in results("messages", "json") if not is_error(n)])
def test_whole_messages(anthropic_client, name):
    message = anthropic_client.messages.create(model="the-model", max_tokens=100, messages=SAY, **golden(name))
    assert message.stop_reason
    assert message.usage.output_tokens == output_tokens(name)


@pytest.mark.parametrize("name", [n for n in results("chat", "json") if not is_error(n)])
def test_whole_chat_completions(openai_client, name):
    completion = openai_client.chat.completions.create(model="the-model", messages=SAY, **golden(name))
    assert completion.choices[0].finish_reason
    assert completion.usage.completion_tokens == output_tokens(name)


@pytest.mark.parametrize("name", [n for n in results("responses", "json") if not is_error(n)])
def test_whole_responses(openai_client, name):
    response = openai_client.responses.create(model="the-model", input="hello", **golden(name))
    assert response.status in ("completed", "incomplete")
    assert response.usage.output_tokens == output_tokens(name)


def gemini_client(address, name: str):
    options = types.HttpOptions(
        base_url=address,
        timeout=20_000,
        headers={"x-golden": name},
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    return genai.Client(api_key="sk-any", http_options=options)


@pytest.mark.parametrize("name", results("gemini", "sse"))
def test_gemini_streams(address, name):
    client = gemini_client(address, name)
    chat = client.chats.create(model="the-model")
    if is_error(name):
        with pytest.raises(errors.APIError):
            list(chat.send_message_stream("hello"))
        return
    chunks = list(chat.send_message_stream("hello"))
    assert all(chunk.candidates[0].content.parts for chunk in chunks)
    assert [bool(chunk.candidates[0].finish_reason) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    # The SDK keeps the whole answer only if it takes every part for a valid one.
    assert len(chat.get_history(curated=True)) == 1 + len(chunks)
    usage = chunks[-1].usage_metadata
    assert usage is None or usage.total_token_count >= usage.prompt_token_count


@pytest.mark.parametrize("name", [n for n in results("gemini", "json") if not is_error(n)])
def test_whole_gemini_responses(address, name):
    client = gemini_client(address, name)
    answer = client.models.generate_content(model="the-model", contents="hello")
    assert answer.candidates[0].finish_reason
    usage = answer.usage_metadata
    assert (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) == output_tokens(name)


@pytest.mark.timeout(180)
def test_the_javascript_helpers(address):
    named = {caller: [(name, is_error(name)) for name in results(caller, "sse")] for caller in CALLERS}
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", "translated.test.mjs"],
        cwd=Path(__file__).parent,
        env=os.environ | {"TRANSLATED_ADDRESS": address, "TRANSLATED_RESULTS": json.dumps(named)},
        capture_output=True,
        text=True,
        timeout=170,
    )
    print(run.stdout[-20000:], run.stderr[-4000:])
    assert run.returncode == 0, "see the report of node above"
