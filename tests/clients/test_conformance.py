"""llm-comply: the gateway changes no verdict.

The provider's answers are judged twice, asked directly and through the gateway. Nothing may fail,
and the gateway must not change what the judge says. (It skips two tests for models whose names it
does not know to reason.)
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import catalog
from gateway import Provider

COMPLY = Path(sys.executable).with_name("llm-comply")
FORMATS = {
    "openai-chat": catalog.CHAT[0],
    "open-responses": catalog.RESPONSES[0],
    "anthropic": catalog.MESSAGES[0],
}


@pytest.fixture(scope="module")
def provider():
    server = Provider()
    try:
        yield server
    finally:
        server.stop()


def verdicts(base_url: str, key: str, kind: str, model: str = "") -> dict[str, tuple]:
    """What llm-comply says of each of its tests: passed, failed or skipped, and why."""
    target = ["--base-url", f"{base_url}/v1", "--api-key", key, "--model", model or FORMATS[kind]]
    run = subprocess.run(
        [COMPLY, "--json", "--timeout", "10", "--format", kind, *target],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode in (0, 1), run.stderr
    return {one["id"]: (one["status"], one.get("errors", [])) for one in json.loads(run.stdout)["results"]}


@pytest.mark.gateway
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", FORMATS)
def test_the_gateway_changes_no_verdict(target, provider, kind, capsys):
    direct = verdicts(provider.base_url, provider.key, kind)
    through = verdicts(target.base_url, target.key, kind)
    counts = Counter(status for status, _ in through.values())
    with capsys.disabled():
        print(f"\nllm-comply {kind}, through the gateway: {dict(counts)}")
    assert through == direct
    assert counts["failed"] == 0 and counts["skipped"] <= 1, through


TRANSLATED = {
    "openai-chat": ["responses-only-1", "messages-only-1"],
    "open-responses": ["chat-only-1", "messages-only-1"],
    "anthropic": ["chat-only-1", "responses-only-1"],
}


@pytest.mark.gateway
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind, model", [(kind, model) for kind, models in TRANSLATED.items() for model in models])
def test_a_translation_changes_no_verdict(target, kind, model, capsys):
    native = verdicts(target.base_url, target.key, kind)
    translated = verdicts(target.base_url, target.key, kind, model)
    different = {one: (native.get(one), translated.get(one)) for one in native | translated if native.get(one) != translated.get(one)}
    with capsys.disabled():
        print(f"\nllm-comply {kind} on {model}: {len(translated)} verdicts, {len(different)} different")
    assert not different, different
