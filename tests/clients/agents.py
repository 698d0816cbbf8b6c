"""Launches command-line agents without a person, a home or a network.

Decides what an agent is given: a fresh home and working folder, the gateway's address and key,
no other address, and a bound on its time. What it must achieve is in test_agents.py.
"""

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

BIN = Path(__file__).parent / "node_modules" / ".bin"
SECONDS = 120

# Any address but loopback leads to a closed port, at once.
OFFLINE = {
    **dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"], "http://127.0.0.1:9"),
    **dict.fromkeys(["NO_PROXY", "no_proxy"], "127.0.0.1,localhost"),
}


@dataclass
class Run:
    """How an agent ended."""

    status: int
    stdout: str
    stderr: str

    def report(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.stdout[-4000:]}\n--- stderr\n{self.stderr[-4000:]}"

    def json_lines(self) -> list[dict]:
        lines = (line for line in self.stdout.splitlines() if line.startswith("{"))
        return [json.loads(line) for line in lines]


@dataclass
class Agent:
    """An agent with a home of its own under `folder`."""

    target: object
    folder: Path
    model: str = ""
    environment: dict = field(default_factory=dict)

    def __post_init__(self):
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.configure()

    def configure(self) -> None:
        """Writes what the agent reads at its start."""

    def run(self, *arguments: str, **environment: str) -> Run:
        own = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}
        process = subprocess.Popen(
            [BIN / arguments[0], *arguments[1:]],
            cwd=self.work,
            env=own | OFFLINE | self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            # The session is the agent's own: what it started ends with it.
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise AssertionError(f"not done in {SECONDS} s\n{Run(-9, stdout, stderr).report()}") from None
        return Run(process.returncode, stdout, stderr)


class ClaudeCode(Agent):
    """Claude Code: the messages format."""

    def configure(self) -> None:
        self.environment = {
            "ANTHROPIC_BASE_URL": self.target.base_url,
            "ANTHROPIC_AUTH_TOKEN": self.target.key,
            "ANTHROPIC_MODEL": self.model or "alpha-sonnet-5",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": self.model or "alpha-haiku-4-5",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def prompt(self, text: str, *arguments: str, **environment: str) -> Run:
        return self.run("claude", "--print", text, "--output-format", "json", *arguments, **environment)


class Codex(Agent):
    """The Codex CLI: the responses format."""

    def configure(self) -> None:
        self.environment = {"TOLLGATE_KEY": self.target.key}
        model = self.model or "beta-5.6-terra"
        folder = self.home / ".codex"
        folder.mkdir()
        folder.joinpath("config.toml").write_text(f"""
model = "{model}"
model_provider = "tollgate"
model_reasoning_effort = "high"
model_reasoning_summary = "detailed"
model_supports_reasoning_summaries = true
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.tollgate]
name = "Tollgate"
base_url = "{self.target.base_url}/v1"
env_key = "TOLLGATE_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
""")

    def prompt(self, text: str, *arguments: str) -> Run:
        # The agent's own sandbox needs rights that a container may lack; its home is thrown away.
        options = ["--skip-git-repo-check", "--sandbox", "danger-full-access", "--json"]
        return self.run("codex", "exec", *options, *arguments, text)


class GeminiCli(Agent):
    """Gemini CLI: the Gemini format."""

    def configure(self) -> None:
        self.environment = {
            "GEMINI_API_KEY": self.target.key,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": self.target.base_url,
        }
        folder = self.home / ".gemini"
        folder.mkdir()
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}}
        folder.joinpath("settings.json").write_text(json.dumps(settings))

    def prompt(self, text: str, *arguments: str) -> Run:
        model = self.model or "alpha-sonnet-5"
        return self.run("gemini", "--model", model, "--prompt", text, "--output-format", "json", "--yolo", *arguments)


class OpenCode(Agent):
    """opencode: each of the three formats, by the SDK that its provider names."""

    # What makes a model reason, in the words of each SDK.
    THINKING = {
        "chat": {"reasoningEffort": "high"},
        "responses": {
            "reasoningEffort": "high",
            "reasoningSummary": "detailed",
            "include": ["reasoning.encrypted_content"],
            "store": False,
        },
        "messages": {"thinking": {"type": "enabled", "budgetTokens": 4000}},
    }

    # The name that the test uses, the SDK, what the SDK puts its path behind, the model.
    PROVIDERS = {
        "chat": ("@ai-sdk/openai-compatible", "/v1", "gamma-4.5"),
        "responses": ("@ai-sdk/openai", "/v1", "beta-5.6-terra"),
        "messages": ("@ai-sdk/anthropic", "/v1", "alpha-sonnet-5"),
    }

    def configure(self) -> None:
        self.environment = {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }
        providers = {
            name: {
                "npm": sdk,
                "name": name,
                "options": {"baseURL": self.target.base_url + path, "apiKey": self.target.key},
                "models": {
                    (self.model or model): {
                        "name": self.model or model,
                        "reasoning": True,
                        "tool_call": True,
                        "options": self.THINKING[name],
                    }
                },
            }
            for name, (sdk, path, model) in self.PROVIDERS.items()
        }
        settings = {"provider": providers, "autoupdate": False, "share": "disabled", "permission": {"bash": "allow"}}
        self.work.joinpath("opencode.json").write_text(json.dumps(settings))

    def prompt(self, name: str, text: str) -> Run:
        return self.run("opencode", "run", "--model", f"{name}/{self.model or self.PROVIDERS[name][2]}", "--format", "json", text)
