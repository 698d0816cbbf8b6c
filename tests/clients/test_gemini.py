"""Google's Gen AI SDK, unmodified, at models of every other format."""

import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

import catalog

# The demo serves each of these models in all other formats.
MODEL = catalog.CHAT[0]
VERSIONS = (None, "v1beta")


def client_of(target, key=None, version=None, headers=None):
    options = types.HttpOptions(
        base_url=target.base_url,
        api_version=version,
        timeout=20_000,
        headers=headers,
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    return genai.Client(api_key=key or target.key, http_options=options)


@pytest.fixture(scope="module")
def client(target):
    return client_of(target)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("model", catalog.CHAT)
def test_a_response_answers(target, model, version):
    client = client_of(target, version=version)
    answer = client.models.generate_content(model=model, contents="hello there")
    assert "hello there" in answer.text
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage.total_token_count >= usage.prompt_token_count + usage.candidates_token_count > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_says_what_the_response_says(target, version):
    client = client_of(target, version=version)
    ask = {"model": MODEL, "contents": "hello there"}
    whole = client.models.generate_content(**ask).text
    chunks = list(client.models.generate_content_stream(**ask))
    assert "".join(chunk.text or "" for chunk in chunks) == whole
    assert len(chunks) > 2
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.total_token_count > 0


def test_comments_of_the_provider_do_not_disturb_a_stream(target):
    client = client_of(target, headers={"x-sim": "stall-after-5, pings-50ms"})
    stream = client.models.generate_content_stream(model=MODEL, contents="hello there")
    assert next(stream).candidates
    stream.close()


def test_functions_are_called_by_the_sdk_itself(client):
    seen = []

    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: The city.
        """
        seen.append(city)
        return "21 degrees"

    config = types.GenerateContentConfig(tools=[get_weather])
    answer = client.models.generate_content(model=MODEL, contents="Use the get_weather tool", config=config)
    assert seen
    assert "21 degrees" in answer.text


@pytest.mark.parametrize("streams", [False, True])
def test_a_chat_keeps_its_history_with_calls_and_signatures(client, streams):
    """Every response goes into the history; one that the SDK takes for invalid would empty it."""
    declaration = types.FunctionDeclaration(name="look", description="Looks.", parameters_json_schema={"type": "object", "properties": {}})
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])],
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH"),
    )
    chat = client.chats.create(model=MODEL, config=config)

    def say(message):
        responses = list(chat.send_message_stream(message)) if streams else [chat.send_message(message)]
        return [part for response in responses for part in response.candidates[0].content.parts]

    parts = say("Use the look tool, then count your thoughts")
    (call,) = [part.function_call for part in parts if part.function_call]
    assert call.name == "look" and call.args == {}
    assert any(part.thought for part in parts)
    assert any(part.thought_signature for part in parts)
    assert len(chat.get_history(curated=True)) > 1
    result = types.Part.from_function_response(name="look", response={"output": "seen"})
    text = "".join(part.text or "" for part in say(result) if not part.thought)
    assert "seen" in text
    assert "Thoughts that came back: 1." in text
    assert say("hello again")
    assert chat.get_history(curated=True) == chat.get_history()


def test_structured_output_is_parsed(client):
    class Recipe(BaseModel):
        name: str
        steps: list[str]
        minutes: int | None = None

    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Recipe)
    answer = client.models.generate_content(model=MODEL, contents="A recipe", config=config)
    assert isinstance(answer.parsed, Recipe)


def test_settings_and_images_of_the_sdk_are_taken(client):
    image = types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png")
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=200,
        stop_sequences=["END"],
        safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HATE_SPEECH", threshold="BLOCK_NONE")],
    )
    answer = client.models.generate_content(model=MODEL, contents=[image, "hello there"], config=config)
    assert "hello there" in answer.text


def test_tokens_are_counted_and_models_listed(client):
    assert client.models.count_tokens(model=MODEL, contents="hello there").total_tokens > 0
    names = [model.name for model in client.models.list()]
    assert f"models/{MODEL}" in names
    assert client.models.get(model=MODEL).name == f"models/{MODEL}"


@pytest.mark.parametrize(
    ("name", "code", "status"),
    [("malformed", 401, "UNAUTHENTICATED"), ("revoked", 401, "UNAUTHENTICATED"), ("exhausted", 402, "RESOURCE_EXHAUSTED")],
)
@pytest.mark.parametrize("streams", [False, True])
def test_errors_are_those_of_the_sdk(target, keys, name, code, status, streams):
    client = client_of(target, key=keys.named(name))
    with pytest.raises(errors.ClientError) as raised:
        if streams:
            list(client.models.generate_content_stream(model=MODEL, contents="hello"))
        else:
            client.models.generate_content(model=MODEL, contents="hello")
    assert (raised.value.code, raised.value.status) == (code, status)


def test_a_stream_that_breaks_off_is_an_error(target):
    client = client_of(target, headers={"x-sim": "tokens-200, error-after-20"})
    with pytest.raises(errors.APIError) as raised:
        list(client.models.generate_content_stream(model=MODEL, contents="hello"))
    assert raised.value.code >= 500
