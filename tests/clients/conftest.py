"""Drives unmodified client software against a running gateway.

Decides what the clients talk to and with which keys: by default a demo that is started here, or
any server that `TOLLGATE_TEST_BASE_URL` and `TOLLGATE_TEST_KEY` name. What a client must see is
said in the `test_*` files, one for each format or tool.
"""

import os

import anthropic
import openai
import pytest

from gateway import Demo, KeyDesk

# The clients read these; what the caller's shell says must not decide what is tested.
AMBIENT = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "CLAUDE", "CODEX_", "OPENCODE_")
PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
for name in list(os.environ):
    if name.startswith(AMBIENT) or name.lower() in PROXIES:
        del os.environ[name]


class Target:
    """What the clients are pointed at."""

    def __init__(self, base_url: str, key: str, demo: Demo | None = None):
        self.base_url = base_url.rstrip("/")
        self.key = key
        self.demo = demo

    def openai(self, kind=openai.OpenAI, **options):
        """An `openai` client that sends once and checks every answer against its types."""
        return kind(**self._options(f"{self.base_url}/v1", options))

    def anthropic(self, kind=anthropic.Anthropic, **options):
        """The same of `anthropic`."""
        return kind(**self._options(self.base_url, options))

    def _options(self, base_url: str, options: dict) -> dict:
        default = {"api_key": self.key, "max_retries": 0, "timeout": 20, "_strict_response_validation": True}
        return {"base_url": base_url} | default | options


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    if base_url := os.environ.get("TOLLGATE_TEST_BASE_URL"):
        yield Target(base_url, os.environ.get("TOLLGATE_TEST_KEY", "sk-any"))
        return
    try:
        demo = Demo(tmp_path_factory.mktemp("state"))
    except (AssertionError, OSError) as fault:
        # Nothing else can pass either: one report, not one for each test.
        pytest.exit(f"the demo does not start: {fault}", returncode=1)
    try:
        yield Target(demo.base_url, demo.key, demo)
    finally:
        demo.stop()


@pytest.fixture(scope="session")
def openai_client(target):
    with target.openai() as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(target):
    with target.anthropic() as client:
        yield client


class Keys:
    """The keys of the names in `errors.json`."""

    def __init__(self, known: dict[str, str]):
        self.known = known

    def named(self, name: str | None) -> str:
        """The key of this name; without a name, the one that may do everything."""
        if name in (None, "none"):
            return self.known["all"]
        if name not in self.known:
            pytest.skip(f"no {name} key here")
        return self.known[name]


@pytest.fixture(scope="session")
def keys(target, tmp_path_factory):
    known = {"all": target.key, "malformed": "sk-wrong"}
    if target.demo:
        desk = KeyDesk(target.demo.state / "tollgate.db", tmp_path_factory.mktemp("desk"))
        known["limited"] = desk.create("limited", "--plan=pro", "--group=haiku")
        # It was never given any tokens.
        known["exhausted"] = desk.create("exhausted")
        known["revoked"] = desk.create("revoked", "--plan=pro")
        desk.run("revoke", known["revoked"])
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        known["unknown"] = KeyDesk(elsewhere / "tollgate.db", elsewhere).create("unknown")
    return Keys(known)
