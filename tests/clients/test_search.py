"""Web search by the provider, through the official SDKs and Claude Code, at models that are served in
another format than the caller's."""

import json

import pytest

from agents import ClaudeCode

SAID = "Perform a web search for the query: tollgates"
FOUND = f"Page 1 of example.com says: {SAID}"
PAGE = "https://example.com/page-1"
CLAUDE_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


def claude_asks(model: str) -> dict:
    """Claude Code's search, which is a request of its own."""
    return {
        "model": model,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": SAID}],
        "tools": [CLAUDE_SEARCH],
        "tool_choice": {"type": "tool", "name": "web_search"},
    }


def check_message(message) -> None:
    kinds = [block.type for block in message.content]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]
    call, result, text = message.content
    assert (call.name, call.input) == ("web_search", {"query": SAID})
    assert result.tool_use_id == call.id
    assert [page.url for page in result.content] == [PAGE, "https://example.com/page-2"]
    assert text.text == FOUND
    assert [citation.url for citation in text.citations] == [PAGE]
    assert message.stop_reason == "end_turn"
    assert message.usage.server_tool_use.web_search_requests == 1


def check_response(response) -> None:
    kinds = [item.type for item in response.output if item.type != "reasoning"]
    assert kinds == ["web_search_call", "message"]
    (call,) = [item for item in response.output if item.type == "web_search_call"]
    assert (call.status, call.action.type, call.action.query) == ("completed", "search", SAID)
    assert call.action.sources[0].url == PAGE
    assert response.output_text == FOUND
    (annotation,) = response.output[-2 if response.output[-1].type == "reasoning" else -1].content[0].annotations
    assert (annotation.type, annotation.url) == ("url_citation", PAGE)
    assert response.tool_usage.web_search.num_requests == 1


@pytest.mark.parametrize("model", ["messages-only-1", "responses-only-1"])
def test_a_caller_of_messages_searches(anthropic_client, model):
    check_message(anthropic_client.messages.create(**claude_asks(model)))
    with anthropic_client.messages.stream(**claude_asks(model)) as stream:
        check_message(stream.get_final_message())


@pytest.mark.parametrize("model", ["responses-only-1", "messages-only-1"])
def test_a_caller_of_responses_searches(openai_client, model):
    ask = {
        "model": model,
        "input": SAID,
        "tools": [{"type": "web_search", "filters": {"allowed_domains": ["example.com"]}}],
        "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
        "store": False,
    }
    check_response(openai_client.responses.create(**ask))
    with openai_client.responses.stream(**ask) as stream:
        check_response(stream.get_final_response())


@pytest.mark.parametrize("model", ["messages-only-1", "responses-only-1"])
def test_a_search_comes_back_in_the_next_turn_of_messages(anthropic_client, model):
    ask = claude_asks(model)
    first = anthropic_client.messages.create(**ask)
    again = {"role": "user", "content": "count what you looked up"}
    ask["messages"] += [{"role": "assistant", "content": first.content}, again]
    del ask["tool_choice"]
    second = anthropic_client.messages.create(**ask)
    assert second.content[0].text == "Searches that came back: 1."


@pytest.mark.parametrize("model", ["responses-only-1", "messages-only-1"])
def test_a_search_comes_back_in_the_next_turn_of_responses(openai_client, model):
    more = {"tools": [{"type": "web_search"}], "include": ["reasoning.encrypted_content"], "store": False}
    first = openai_client.responses.create(model=model, input=SAID, **more)
    turns = [{"role": "user", "content": SAID}, *first.output, {"role": "user", "content": "count what you looked up"}]
    second = openai_client.responses.create(model=model, input=turns, **more)
    assert second.output_text == "Searches that came back: 1."


@pytest.mark.timeout(150)
@pytest.mark.parametrize("model", ["", "responses-only-1"])
def test_claude_code_searches_the_web(target, tmp_path, model):
    agent = ClaudeCode(target, tmp_path, model)
    # Else the search is found by a search among tools first.
    at_once = {"ENABLE_TOOL_SEARCH": "false"}
    run = agent.prompt("Use WebSearch and tell me what it says", "--allowedTools", "WebSearch", "--verbose", **at_once)
    assert run.stdout, run.report()
    events = json.loads(run.stdout)
    assert run.status == 0 and not events[-1]["is_error"], run.report()
    messages = [event["message"]["content"] for event in events if event["type"] == "user"]
    (found,) = [block["content"] for content in messages for block in content if block["type"] == "tool_result"]
    assert PAGE in str(found) and "Page 1 of example.com says" in str(found), run.report()
