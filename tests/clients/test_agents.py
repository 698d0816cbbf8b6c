"""Command-line agents finish a prompt that needs a tool, by base address and key alone."""

import json

import pytest

from agents import ClaudeCode, Codex, OpenCode

pytestmark = pytest.mark.timeout(150)

# Two lines, since opencode puts quotes around a prompt that has blanks.
PROMPT = "run: echo hello-from-tool\nand tell me what it says"


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
