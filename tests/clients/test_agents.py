"""Command-line agents finish a prompt that needs a tool, by base URL and key alone."""

import json
import re

import pytest

from agents import ClaudeCode, Codex, GeminiCli, OpenCode

pytestmark = pytest.mark.timeout(150)

# Two lines, since opencode puts quotes around a prompt that has blanks.
PROMPT = "run: echo hello-from-tool\nand tell me what it says"


OUTPUTS = [f"{number}-from-tool" for number in ("one", "two", "three")]
SERVED = ["", "chat-only-open-1", "responses-only-1", "messages-only-1"]


def several(how: str) -> str:
    """A prompt for three commands, one after the other or in parallel."""
    return "\n".join(["count your thoughts", how, *(f"run: echo {output}" for output in OUTPUTS), "that is all"])


# How the commands are to be run, and how many thoughts come before them.
LOOPS = [("one by one", 3), ("in parallel", 1)]


def thoughts(text: str) -> int:
    """How many thoughts the provider saw come back, every one of them as it was."""
    (found,) = re.findall(r"Thoughts that came back: (\d+)\.", text)
    return int(found)


def claude_result(run) -> dict:
    assert run.stdout, run.report()
    return json.loads(run.stdout)


@pytest.mark.parametrize("model", ["", "chat-only-1", "responses-only-1"])
def test_claude_code_finishes_a_prompt_with_a_tool_call(target, tmp_path, model):
    run = ClaudeCode(target, tmp_path, model).prompt(PROMPT, "--allowedTools", "Bash(echo:*)")
    result = claude_result(run)
    assert run.status == 0 and not result["is_error"], run.report()
    assert "answered: hello-from-tool" in result["result"], run.report()
    assert result["num_turns"] == 2, run.report()
    assert result["usage"]["output_tokens"] > 0, run.report()


@pytest.mark.parametrize(("how", "thoughts_before"), LOOPS)
@pytest.mark.parametrize("model", SERVED)
def test_claude_code_thinks_between_several_tool_calls(target, tmp_path, model, how, thoughts_before):
    agent = ClaudeCode(target, tmp_path, model)
    run = agent.prompt(several(how), "--allowedTools", "Bash(echo:*)", "--verbose", MAX_THINKING_TOKENS="4000")
    events = json.loads(run.stdout)
    result = events[-1]
    assert run.status == 0 and not result["is_error"], run.report()
    messages = [event["message"]["content"] for event in events if event["type"] == "user"]
    outputs = [block["content"] for content in messages for block in content if block["type"] == "tool_result"]
    assert sorted(outputs) == sorted(OUTPUTS), run.report()
    assert thoughts(result["result"]) == thoughts_before, run.report()


def test_claude_code_with_its_key_in_the_other_header(target, tmp_path):
    agent = ClaudeCode(target, tmp_path)
    agent.environment["ANTHROPIC_API_KEY"] = agent.environment.pop("ANTHROPIC_AUTH_TOKEN")
    run = agent.prompt("say hello")
    assert run.status == 0 and not claude_result(run)["is_error"], run.report()


@pytest.mark.gateway
def test_claude_code_finds_the_catalog(target, tmp_path):
    if not target.demo:
        pytest.skip("needs the access log of a demo of its own")
    before = len(target.demo.requests())
    run = ClaudeCode(target, tmp_path).prompt("say hello", CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY="1")
    assert run.status == 0, run.report()

    def listed() -> bool:
        lines = target.demo.requests()[before:]
        return ("GET", "/v1/models", 200) in [(line["method"], line["path"], line["status"]) for line in lines]

    target.demo.wait_until(listed, "asked for the catalog")


@pytest.mark.gateway
def test_claude_code_tells_its_user_that_the_key_is_wrong(target, tmp_path):
    agent = ClaudeCode(target, tmp_path)
    agent.environment["ANTHROPIC_AUTH_TOKEN"] = "sk-wrong"
    result = claude_result(agent.prompt("say hello"))
    assert result["is_error"]
    assert "401" in result["result"], result


@pytest.mark.parametrize("model", ["", "chat-only-1", "messages-only-1"])
def test_codex_finishes_a_prompt_with_a_tool_call(target, tmp_path, model):
    agent = Codex(target, tmp_path, model)
    run = agent.prompt(PROMPT)
    assert run.status == 0, run.report()
    items = [event["item"] for event in run.json_lines() if event["type"] == "item.completed"]
    (command,) = [item for item in items if item["type"] == "command_execution"]
    assert command["exit_code"] == 0 and "hello-from-tool" in command["aggregated_output"], run.report()
    said = [item["text"] for item in items if item["type"] == "agent_message"]
    assert "hello-from-tool" in said[-1], run.report()


@pytest.mark.parametrize(("how", "thoughts_before"), LOOPS)
@pytest.mark.parametrize("model", SERVED)
def test_codex_thinks_between_several_tool_calls(target, tmp_path, model, how, thoughts_before):
    run = Codex(target, tmp_path, model).prompt(several(how))
    assert run.status == 0, run.report()
    items = [event["item"] for event in run.json_lines() if event["type"] == "item.completed"]
    commands = [item for item in items if item["type"] == "command_execution"]
    assert sorted(item["aggregated_output"].strip() for item in commands) == sorted(OUTPUTS), run.report()
    said = [item["text"] for item in items if item["type"] == "agent_message"]
    assert thoughts(said[-1]) == thoughts_before, run.report()


@pytest.mark.gateway
def test_codex_tells_its_user_that_the_key_is_wrong(target, tmp_path):
    agent = Codex(target, tmp_path)
    agent.environment["TOLLGATE_KEY"] = "sk-wrong"
    run = agent.prompt("say hello")
    assert run.status != 0
    assert "401" in run.stdout + run.stderr, run.report()


@pytest.mark.parametrize("model", ["", "chat-only-1", "responses-only-1", "messages-only-1"])
@pytest.mark.parametrize("name", OpenCode.PROVIDERS)
def test_opencode_finishes_a_prompt_with_a_tool_call(target, tmp_path, name, model):
    run = OpenCode(target, tmp_path, model).prompt(name, PROMPT)
    assert run.status == 0, run.report()
    parts = [event["part"] for event in run.json_lines() if "part" in event]
    (tool,) = [part for part in parts if part["type"] == "tool"]
    assert tool["state"]["status"] == "completed" and "hello-from-tool" in tool["state"]["output"], run.report()
    assert "hello-from-tool" in [part["text"] for part in parts if part["type"] == "text"][-1], run.report()


@pytest.mark.parametrize(("how", "thoughts_before"), LOOPS)
@pytest.mark.parametrize("model", SERVED)
@pytest.mark.parametrize("name", OpenCode.PROVIDERS)
def test_opencode_thinks_between_several_tool_calls(target, tmp_path, name, model, how, thoughts_before):
    run = OpenCode(target, tmp_path, model).prompt(name, several(how))
    assert run.status == 0, run.report()
    parts = [event["part"] for event in run.json_lines() if "part" in event]
    tools = [part["state"] for part in parts if part["type"] == "tool"]
    assert all(state["status"] == "completed" for state in tools), run.report()
    assert sorted(state["output"].strip() for state in tools) == sorted(OUTPUTS), run.report()
    said = [part["text"] for part in parts if part["type"] == "text"]
    # Chat has no place for what only a provider can read: its callers bring back open text alone.
    if name == "chat" and model != "chat-only-open-1":
        thoughts_before = 0
    assert thoughts(said[-1]) == thoughts_before, run.report()


@pytest.mark.parametrize("model", ["", "chat-only-1", "responses-only-1", "messages-only-1"])
def test_gemini_cli_finishes_a_prompt_with_a_tool_call(target, tmp_path, model):
    run = GeminiCli(target, tmp_path, model).prompt(PROMPT)
    assert run.status == 0, run.report()
    result = json.loads(run.stdout)
    assert "answered: " in result["response"] and "hello-from-tool" in result["response"], run.report()
    assert result["stats"]["tools"]["totalSuccess"] == 1, run.report()
