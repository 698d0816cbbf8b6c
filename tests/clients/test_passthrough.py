"""Other paths of a provider through the official SDK, whose base URL names the provider."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest

from gateway import ROOT, Demo

PICTURE = b"\x89PNG of a cat"
SOUND = b"ID3 of a cat" * 300_000
FILE = b"one line\n" * 300_000


class Service(BaseHTTPRequestHandler):
    """What the SDK asks of images, audio and files."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict, bytes]] = []

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.command, self.path, dict(self.headers), body))
        file = {
            "id": "file-1",
            "object": "file",
            "bytes": len(FILE),
            "created_at": 1,
            "filename": "lines.jsonl",
            "purpose": "batch",
            "status": "processed",
        }
        match self.command, self.path.split("?")[0]:
            case "POST", "/v1/images/generations":
                said = {"created": 1, "data": [{"b64_json": base64.b64encode(PICTURE).decode()}]}
            case "POST", "/v1/audio/speech":
                return self._send(SOUND, "audio/mpeg")
            case "POST", "/v1/audio/transcriptions":
                said = {"text": "a cat", "usage": {"type": "duration", "seconds": 1}}
            case "POST", "/v1/files":
                said = file
            case "GET", "/v1/files":
                said = {"object": "list", "data": [file], "has_more": False, "first_id": "file-1", "last_id": "file-1"}
            case "DELETE", "/v1/files/file-1":
                said = {"id": "file-1", "object": "file", "deleted": True}
            case "GET", "/v1/files/file-1/content":
                return self._send(FILE, "application/octet-stream")
            case _:
                return self.send_error(404)
        self._send(json.dumps(said).encode(), "application/json")

    def _send(self, body: bytes, media_type: str):
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    folder = tmp_path_factory.mktemp("passthrough")
    config = folder / "tollgate.yaml"
    settings = {
        "include": str(ROOT / "conf" / "demo.yaml"),
        "providers": {
            "openai": {
                "address": f"http://127.0.0.1:{service.server_port}",
                "formats": ["chat"],
                "passthrough": [
                    {"path": "/v1/images/generations", "methods": ["POST"], "charge": 4000},
                    {"path": "/v1/audio/*", "methods": ["POST"], "charge": 100, "price": "0.006"},
                    {"path": "/v1/files/*", "methods": ["GET", "POST", "DELETE"], "charge": 0},
                ],
            }
        },
    }
    config.write_text(json.dumps(settings))
    demo = Demo(folder, config=config)
    base_url = f"{demo.base_url}/passthrough/openai/v1"
    options = {"api_key": demo.key, "max_retries": 0, "timeout": 20, "_strict_response_validation": True}
    try:
        with openai.OpenAI(base_url=base_url, **options) as client:
            yield client
    finally:
        demo.stop()
        service.shutdown()


def test_an_image_is_made(client):
    made = client.images.generate(model="gpt-image-1", prompt="a cat")
    assert base64.b64decode(made.data[0].b64_json) == PICTURE
    method, path, headers, body = Service.seen[-1]
    assert (method, path, json.loads(body)["prompt"]) == ("POST", "/v1/images/generations", "a cat")
    assert "sk-" not in str(headers)


def test_speech_is_made_and_transcribed(client):
    asked = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "a cat"}
    with client.audio.speech.with_streaming_response.create(**asked) as spoken:
        assert spoken.headers["content-type"] == "audio/mpeg"
        assert b"".join(spoken.iter_bytes()) == SOUND
    heard = client.audio.transcriptions.create(file=("cat.mp3", SOUND), model="gpt-4o-transcribe")
    assert heard.text == "a cat"
    assert SOUND in Service.seen[-1][3]


def test_a_file_is_uploaded_listed_read_and_deleted(client):
    made = client.files.create(file=("lines.jsonl", FILE), purpose="batch")
    assert made.id == "file-1"
    assert FILE in Service.seen[-1][3]
    assert [file.id for file in client.files.list(limit=2)] == ["file-1"]
    assert Service.seen[-1][1] == "/v1/files?limit=2"
    assert client.files.content("file-1").read() == FILE
    assert client.files.delete("file-1").deleted


def test_a_closed_path_is_an_error_that_the_sdk_knows(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.list()
    assert refused.value.code == "not_found"
