"""The responses format through the official Python SDK."""

import json

import pytest
from pydantic import BaseModel

import catalog

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
ASK_WEATHER = "Call get_weather for Paris"


@pytest.mark.parametrize("model", catalog.RESPONSES)
def test_a_response_answers(openai_client, model):
    answer = openai_client.responses.create(model=model, input="hello there")
    assert answer.status == "completed"
    assert "hello there" in answer.output_text
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0


@pytest.mark.parametrize("model", catalog.RESPONSES)
def test_a_stream_says_what_the_response_says(openai_client, model):
    ask = {"model": model, "input": "hello there"}
    whole = openai_client.responses.create(**ask).output_text
    events = list(openai_client.responses.create(**ask, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == whole
    assert events[-1].response.usage.total_tokens > 0


def test_the_streaming_helper_gathers_the_answer(openai_client):
    with openai_client.responses.stream(model=catalog.RESPONSES[0], input="hello there") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text


def test_a_tool_is_called_and_its_answer_used(openai_client):
    ask = {"model": catalog.RESPONSES[0], "tools": [WEATHER], "store": False}
    first = openai_client.responses.create(**ask, input=ASK_WEATHER)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert call.name == "get_weather"
    assert set(json.loads(call.arguments)) == {"city"}

    result = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    last = openai_client.responses.create(**ask, input=[{"role": "user", "content": ASK_WEATHER}, call.to_dict(), result])
    assert "21 degrees" in last.output_text


def test_the_streaming_helper_gathers_a_tool_call(openai_client):
    with openai_client.responses.stream(model=catalog.RESPONSES[0], input=ASK_WEATHER, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    (call,) = [item for item in final.output if item.type == "function_call"]
    assert set(json.loads(call.arguments)) == {"city"}


class Place(BaseModel):
    name: str
    population: int
    capital: bool


def test_structured_output_parses(openai_client):
    ask = {"model": catalog.RESPONSES[0], "input": "Describe Paris", "text_format": Place}
    assert isinstance(openai_client.responses.parse(**ask).output_parsed, Place)
    with openai_client.responses.stream(**ask) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Place)


def test_an_output_limit_leaves_the_response_incomplete(openai_client):
    ask = {"model": catalog.RESPONSES[0], "input": "one two three four five six seven eight"}
    short = openai_client.responses.create(**ask, max_output_tokens=16, extra_headers={"x-sim": "tokens-40"})
    assert short.status == "incomplete"
    assert short.incomplete_details.reason == "max_output_tokens"


def test_reasoning_is_summarised_and_counted(openai_client):
    answer = openai_client.responses.create(
        model=catalog.RESPONSES[0],
        input="hello there",
        reasoning={"effort": "high", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        store=False,
    )
    (thought,) = [item for item in answer.output if item.type == "reasoning"]
    assert thought.summary[0].text
    assert thought.encrypted_content
    assert 0 < answer.usage.output_tokens_details.reasoning_tokens < answer.usage.output_tokens
