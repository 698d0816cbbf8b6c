"""Chat completions through the official Python SDK."""

import asyncio
import json

import openai
import pytest
from pydantic import BaseModel

import catalog

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
ASK_WEATHER = [{"role": "user", "content": "Call get_weather for Paris"}]


def say(text: str) -> list:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("model", catalog.CHAT)
def test_a_completion_answers(openai_client, model):
    answer = openai_client.chat.completions.create(model=model, messages=say("hello there"))
    assert "hello there" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@pytest.mark.parametrize("model", catalog.CHAT)
def test_a_stream_says_what_the_completion_says(openai_client, model):
    ask = {"model": model, "messages": say("hello there")}
    whole = openai_client.chat.completions.create(**ask).choices[0].message.content
    chunks = list(openai_client.chat.completions.create(**ask, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert len(chunks) > 2
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_stream_carries_usage_only_on_request(openai_client):
    ask = {"model": catalog.CHAT[0], "messages": say("count me"), "stream": True}
    plain = list(openai_client.chat.completions.create(**ask))
    assert all(chunk.choices and not chunk.usage for chunk in plain)
    asked = list(openai_client.chat.completions.create(**ask, stream_options={"include_usage": True}))
    assert asked[-1].choices == []
    assert asked[-1].usage.total_tokens > 0


def test_a_tool_is_called_and_its_answer_used(openai_client):
    ask = {"model": catalog.CHAT[0], "tools": [WEATHER]}
    first = openai_client.chat.completions.create(**ask, messages=ASK_WEATHER).choices[0]
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city", "unit"}

    result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}
    last = openai_client.chat.completions.create(**ask, messages=[*ASK_WEATHER, first.message, result]).choices[0]
    assert last.finish_reason == "stop"
    assert "21 degrees" in last.message.content


def test_the_streaming_helper_gathers_a_tool_call(openai_client):
    with openai_client.chat.completions.stream(model=catalog.CHAT[0], messages=ASK_WEATHER, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert "tool_calls.function.arguments.done" in kinds
    (call,) = final.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert set(call.function.parsed_arguments) == {"city", "unit"}


class Place(BaseModel):
    name: str
    population: int
    capital: bool


def test_structured_output_parses(openai_client):
    ask = {"model": catalog.CHAT[0], "messages": say("Describe Paris"), "response_format": Place}
    assert isinstance(openai_client.chat.completions.parse(**ask).choices[0].message.parsed, Place)
    with openai_client.chat.completions.stream(**ask) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Place)


def test_limits_and_alternatives_reach_the_model(openai_client):
    ask = {"model": catalog.CHAT[0], "messages": say("one two three four five six seven eight")}
    short = openai_client.chat.completions.create(**ask, max_completion_tokens=3)
    assert short.choices[0].finish_reason == "length"
    assert short.usage.completion_tokens <= 3
    stopped = openai_client.chat.completions.create(**ask, stop=[" five"])
    assert stopped.choices[0].message.content.endswith("four")
    several = openai_client.chat.completions.create(**ask, n=3)
    assert [choice.index for choice in several.choices] == [0, 1, 2]


def test_streams_side_by_side_do_not_mix(target):
    async def one(client: openai.AsyncOpenAI, number: int) -> str:
        stream = await client.chat.completions.create(
            model=catalog.CHAT[number % len(catalog.CHAT)], messages=say(f"my number is {number}"), stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_at_once() -> list[str]:
        async with target.openai(openai.AsyncOpenAI) as client:
            return await asyncio.gather(*(one(client, 1000 + number) for number in range(32)))

    for number, text in enumerate(asyncio.run(all_at_once())):
        assert f"my number is {1000 + number}" in text
