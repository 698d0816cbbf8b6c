"""The messages format through the official Python SDK."""

import asyncio

import anthropic
import pytest
from pydantic import BaseModel

import catalog

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
ASK_WEATHER = [{"role": "user", "content": "Call get_weather for Paris"}]


def say(text: str) -> list:
    return [{"role": "user", "content": text}]


def text_of(message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.mark.parametrize("model", catalog.MESSAGES)
def test_a_message_answers(anthropic_client, model):
    answer = anthropic_client.messages.create(model=model, max_tokens=1000, messages=say("hello there"))
    assert "hello there" in text_of(answer)
    assert answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0


@pytest.mark.parametrize("model", catalog.MESSAGES)
def test_a_stream_says_what_the_message_says(anthropic_client, model):
    ask = {"model": model, "max_tokens": 1000, "messages": say("hello there")}
    whole = text_of(anthropic_client.messages.create(**ask))
    with anthropic_client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == whole
        final = stream.get_final_message()
    assert text_of(final) == whole
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens > 0


def test_the_events_of_a_stream_come_in_their_order(anthropic_client):
    events = anthropic_client.messages.create(
        model=catalog.MESSAGES[0], max_tokens=1000, messages=say("hello there"), stream=True
    )
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.index("content_block_start") < kinds.index("content_block_delta") < kinds.index("content_block_stop")


def test_a_tool_is_called_and_its_answer_used(anthropic_client):
    ask = {"model": catalog.MESSAGES[0], "max_tokens": 1000, "tools": [WEATHER]}
    first = anthropic_client.messages.create(**ask, messages=ASK_WEATHER)
    assert first.stop_reason == "tool_use"
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert (call.name, set(call.input)) == ("get_weather", {"city"})

    result = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}
    turns = [*ASK_WEATHER, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = anthropic_client.messages.create(**ask, messages=turns)
    assert last.stop_reason == "end_turn"
    assert "21 degrees" in text_of(last)


def test_the_streaming_helper_gathers_a_tool_call(anthropic_client):
    with anthropic_client.messages.stream(
        model=catalog.MESSAGES[0], max_tokens=1000, messages=ASK_WEATHER, tools=[WEATHER]
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert "input_json" in kinds
    (call,) = [block for block in final.content if block.type == "tool_use"]
    assert (call.name, set(call.input)) == ("get_weather", {"city"})


def test_the_tool_runner_runs_the_whole_loop(anthropic_client):
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: its name
        """
        return f"21 degrees in {city}"

    runner = anthropic_client.beta.messages.tool_runner(
        model=catalog.MESSAGES[0], max_tokens=1000, messages=ASK_WEATHER, tools=[get_weather]
    )
    assert "21 degrees in" in text_of(runner.until_done())


class Place(BaseModel):
    name: str
    population: int
    capital: bool


def test_structured_output_parses(anthropic_client):
    ask = {"model": catalog.MESSAGES[0], "max_tokens": 1000, "messages": say("Describe Paris"), "output_format": Place}
    assert isinstance(anthropic_client.messages.parse(**ask).parsed_output, Place)


def test_thinking_comes_before_the_answer_and_is_signed(anthropic_client):
    with anthropic_client.messages.stream(
        model=catalog.MESSAGES[0],
        max_tokens=4000,
        messages=say("hello there"),
        thinking={"type": "enabled", "budget_tokens": 1024},
    ) as stream:
        final = stream.get_final_message()
    thought, *rest = final.content
    assert thought.type == "thinking" and thought.thinking and thought.signature
    assert [block.type for block in rest] == ["text"]


def test_an_output_limit_ends_the_message(anthropic_client):
    short = anthropic_client.messages.create(
        model=catalog.MESSAGES[0], max_tokens=5, messages=say("one two three four five six seven eight")
    )
    assert short.stop_reason == "max_tokens"
    assert short.usage.output_tokens <= 5


def test_tokens_are_counted(anthropic_client):
    def count(text: str) -> int:
        return anthropic_client.messages.count_tokens(model=catalog.MESSAGES[0], messages=say(text)).input_tokens

    assert 0 < count("hello") < count("hello " * 100)


def test_the_key_is_accepted_as_a_bearer_token(target):
    with target.anthropic(api_key=None, auth_token=target.key) as client:
        answer = client.messages.create(model=catalog.MESSAGES[0], max_tokens=100, messages=say("hello there"))
    assert "hello there" in text_of(answer)


def test_streams_side_by_side_do_not_mix(target):
    async def one(client: anthropic.AsyncAnthropic, number: int) -> str:
        ask = {"model": catalog.MESSAGES[number % len(catalog.MESSAGES)], "max_tokens": 1000}
        async with client.messages.stream(**ask, messages=say(f"my number is {number}")) as stream:
            return "".join([text async for text in stream.text_stream])

    async def all_at_once() -> list[str]:
        async with target.anthropic(anthropic.AsyncAnthropic) as client:
            return await asyncio.gather(*(one(client, 1000 + number) for number in range(32)))

    for number, text in enumerate(asyncio.run(all_at_once())):
        assert f"my number is {1000 + number}" in text
