"""Runs the tests of the JavaScript SDKs against the same gateway."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import catalog

FOLDER = Path(__file__).parent


@pytest.mark.gateway
@pytest.mark.timeout(180)
def test_the_javascript_sdks(target, keys):
    settings = {
        "TOLLGATE_BASE_URL": target.base_url,
        "TOLLGATE_KEYS": json.dumps(keys.known),
        "TOLLGATE_MODELS": json.dumps(
            {"chat": catalog.CHAT[0], "responses": catalog.RESPONSES[0], "messages": catalog.MESSAGES[0]}
        ),
    }
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", "sdk.test.mjs"],
        cwd=FOLDER,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=170,
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0, "see the report of node above"
