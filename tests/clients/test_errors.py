"""Every error code, as the typed exceptions of the official Python SDKs.

`errors.json` is the table, read by the JavaScript tests too: how to meet an error, and what must
come of it in every format, streamed or not.
"""

import json
import time
from pathlib import Path

import anthropic
import openai
import pytest

import catalog

pytestmark = pytest.mark.gateway

CASES = json.loads((Path(__file__).parent / "errors.json").read_text())
STREAMED = [False, True]
# Words of the simulated provider's errors, which no caller may see.
PROVIDER_WORDS = ("azure", "simulated", "sk-wrong", "req_sim")

OPENAI_EXCEPTIONS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    402: openai.APIStatusError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
}
ANTHROPIC_EXCEPTIONS = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    402: anthropic.PaymentRequiredError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    422: anthropic.UnprocessableEntityError,
    429: anthropic.RateLimitError,
    502: anthropic.InternalServerError,
    503: anthropic.ServiceUnavailableError,
}


def each_case(test):
    return pytest.mark.parametrize("case", CASES, ids=[case["when"] for case in CASES])(test)


def options(case: dict, model: str, stream: bool, omitted) -> dict:
    """What one request of this case is given, beside the format's own fields."""
    headers = {"x-sim": case["orders"]} if "orders" in case else {}
    if case.get("key") == "none":
        headers |= {"Authorization": omitted, "X-Api-Key": omitted}
    body = {"extra_body": case["body"]} if "body" in case else {}
    return {"model": case.get("model", model), "stream": stream, "extra_headers": headers} | body


def chat(client, case: dict, stream: bool):
    ask = options(case, catalog.CHAT[0], stream, openai.Omit())
    return client.chat.completions.create(messages=[{"role": "user", "content": "hello"}], **ask)


def responses(client, case: dict, stream: bool):
    return client.responses.create(input="hello", **options(case, catalog.RESPONSES[0], stream, openai.Omit()))


def messages(client, case: dict, stream: bool):
    ask = options(case, catalog.MESSAGES[0], stream, anthropic.Omit())
    return client.messages.create(max_tokens=100, messages=[{"role": "user", "content": "hello"}], **ask)


def check(fault, case: dict, body_keys: set[str]) -> None:
    """What every error answer has in common, whichever SDK reports it."""
    body, headers = fault.response.json(), fault.response.headers
    error = body["error"]
    assert fault.status_code == case["status"], body
    assert (error["code"], error["type"]) == (case["code"], case["type"])
    assert set(body) == body_keys and set(error) - {"param"} == {"message", "type", "code"}
    assert error["message"] and not any(word in error["message"].lower() for word in PROVIDER_WORDS)
    words = "message" if "request_id" in body else "openai_message"
    assert error["message"] == case.get(words, error["message"])
    assert fault.request_id and fault.request_id == headers["x-request-id"]
    if wait := case.get("retry_after"):
        assert (headers["retry-after"], headers["retry-after-ms"]) == (str(wait), str(wait * 1000))
    elif case["status"] < 500 and case["code"] != "upstream_error":
        assert headers["x-should-retry"] == "false"


@each_case
@pytest.mark.parametrize("stream", STREAMED)
@pytest.mark.parametrize("ask", [chat, responses])
def test_openai_raises_its_own_exception(target, keys, ask, stream, case):
    with target.openai(api_key=keys.named(case.get("key"))) as client, pytest.raises(openai.APIStatusError) as caught:
        ask(client, case, stream)
    assert type(caught.value) is OPENAI_EXCEPTIONS[case["status"]]
    assert (caught.value.code, caught.value.type) == (case["code"], case["type"])
    check(caught.value, case, {"error"})


@each_case
@pytest.mark.parametrize("stream", STREAMED)
def test_anthropic_raises_its_own_exception(target, keys, stream, case):
    with target.anthropic(api_key=keys.named(case.get("key"))) as client, pytest.raises(anthropic.APIStatusError) as caught:
        messages(client, case, stream)
    assert type(caught.value) is ANTHROPIC_EXCEPTIONS[case["status"]]
    assert caught.value.type == case["type"]
    assert caught.value.body["request_id"] == caught.value.request_id
    check(caught.value, case, {"type", "error", "request_id"})


# What the gateway refuses by itself, before any model is asked.


def refusal(client, method: str, path: str, **request) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        getattr(client, method)(path, cast_to=object, **request)
    return caught.value


def test_an_unknown_path_is_not_found(openai_client):
    fault = refusal(openai_client, "get", "/no/such/path")
    assert (type(fault), fault.code) == (openai.NotFoundError, "not_found")


def test_a_wrong_method_says_which_is_right(openai_client):
    fault = refusal(openai_client, "get", "/chat/completions")
    assert (fault.status_code, fault.code) == (405, "method_not_allowed")
    assert fault.response.headers["allow"] == "POST"


def test_a_body_of_another_type_is_refused(openai_client):
    fault = refusal(openai_client, "post", "/responses", content=b"model=x", options={"headers": {"content-type": "text/plain"}})
    assert (fault.status_code, fault.code) == (415, "invalid_request")


def test_a_malformed_body_is_refused(openai_client):
    fault = refusal(openai_client, "post", "/responses", content=b'{"model":', options={"headers": {"content-type": "application/json"}})
    assert (type(fault), fault.code) == (openai.BadRequestError, "invalid_request")


def test_two_credentials_that_disagree_are_refused(target):
    with target.openai(default_headers={"x-api-key": "sk-other"}) as client:
        fault = refusal(client, "get", "/models")
    assert (type(fault), fault.code) == (openai.AuthenticationError, "invalid_api_key")


# What goes wrong after the first words.

BREAKS = ["tokens-40+error-after-12", "tokens-40+cut-4200"]
BROKEN = {"upstream_error", "service_unavailable"}


@pytest.mark.parametrize("orders", BREAKS)
def test_a_chat_stream_that_breaks_raises(openai_client, orders):
    chunks = []
    with pytest.raises(openai.APIError) as caught:
        for chunk in chat(openai_client, {"orders": orders}, stream=True):
            chunks.append(chunk)
    assert chunks and not any(chunk.choices[0].finish_reason for chunk in chunks)
    assert caught.value.code in BROKEN


@pytest.mark.parametrize("orders", BREAKS)
def test_a_responses_stream_that_breaks_raises(openai_client, orders):
    kinds = []
    with pytest.raises(openai.APIError) as caught:
        for event in responses(openai_client, {"orders": orders}, stream=True):
            kinds.append(event.type)
    assert "response.output_text.delta" in kinds and "response.completed" not in kinds
    assert caught.value.code in BROKEN


@pytest.mark.parametrize("orders", BREAKS)
def test_a_responses_stream_that_breaks_ends_as_failed(openai_client, orders):
    """What agents look for, and the SDK never shows since it raises before."""
    ask = options({"orders": orders}, catalog.RESPONSES[0], True, openai.Omit())
    with openai_client.responses.with_streaming_response.create(input="hello", **ask) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    last = json.loads(lines[-1].removeprefix("data: "))
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] in BROKEN


@pytest.mark.parametrize("orders", BREAKS)
def test_the_responses_helper_has_no_answer_after_a_break(openai_client, orders):
    ask = {"model": catalog.RESPONSES[0], "input": "hello", "extra_headers": {"x-sim": orders}}
    with openai_client.responses.stream(**ask) as stream, pytest.raises(openai.APIError):
        stream.get_final_response()


@pytest.mark.parametrize("orders", BREAKS)
def test_a_messages_stream_that_breaks_raises(anthropic_client, orders):
    events = []
    with pytest.raises(anthropic.APIStatusError) as caught:
        for event in messages(anthropic_client, {"orders": orders}, stream=True):
            events.append(event.type)
    assert "content_block_delta" in events and "message_stop" not in events
    assert caught.value.type in {"api_error", "overloaded_error"}


# What the SDKs do about it by themselves.


def timed_failures(client, ask, case: dict) -> tuple[float, int]:
    """How long the SDK kept trying, in seconds, and how often it retried."""
    begin = time.monotonic()
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        ask(client, case, False)
    return time.monotonic() - begin, int(caught.value.response.request.headers["x-stainless-retry-count"])


@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_an_sdk_waits_for_retry_after(target, family):
    ask = {"openai": chat, "anthropic": messages}[family]
    with getattr(target, family)(max_retries=1) as client:
        waited, retries = timed_failures(client, ask, {"orders": "status-429+retry-after-2"})
    assert retries == 1
    assert 2 <= waited < 6


@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_an_sdk_does_not_repeat_what_cannot_succeed(target, family):
    ask = {"openai": chat, "anthropic": messages}[family]
    with getattr(target, family)(max_retries=3, api_key="sk-wrong") as client:
        _, retries = timed_failures(client, ask, {})
    assert retries == 0
