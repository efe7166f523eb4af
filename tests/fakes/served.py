"""A server of chat completions on this machine, whose models answer as they are planted, or as a test scripts it."""

import base64
import io
import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar

import answering
from PIL import Image

from audit.corpus.documents import Word

KEY = "sk-of-the-owner-0123456789"


class Served(BaseHTTPRequestHandler):
    """Serves `models`, targets of `answering.Answering` by name.

    `script` answers first, where it does.

    `script` takes the path and the request, and returns status, content and headers; None: answer
    as usual.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    models: ClassVar[dict] = {}
    owner = "vllm"
    requests: ClassVar[list] = []
    script = staticmethod(lambda path, body: None)

    def do_GET(self):
        self._answer(None)

    def do_POST(self):
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body):
        self.requests.append((self.path, self.headers.get("Authorization"), body))
        scripted = self.script(self.path, body)
        if scripted is not None:
            return self._send(*scripted)
        if self.path == "/v1/models":
            listed = [
                {"id": name, "owned_by": self.owner, "max_model_len": 4096} for name in self.models
            ]
            return self._send(200, {"data": listed})
        if self.path == "/version":
            return self._send(200, {"version": "0.33.0"})
        text = self.models[body["model"]](body["messages"][-1]["content"])
        return self._send(
            200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        )

    def _send(self, status, content, headers=()):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def planted(memory=(), **options):
    """A model of text with this memory, asked in the default prompt."""
    model = answering.Answering(dict(memory), losses=False, **options)

    def answer(content):
        page, _, question = content.rpartition("\n\n")
        view = SimpleNamespace(words=[Word(line) for line in page.split("\n")])
        return model._given(SimpleNamespace(view=view, question=question)).text

    return answer


def picture(content):
    """The page image of a turn, and its question."""
    shown, asked = content
    kind, _, data = shown["image_url"]["url"].partition(";base64,")
    assert kind == "data:image/png"
    return Image.open(io.BytesIO(base64.b64decode(data))), asked["text"]


class _Listening(ThreadingHTTPServer):
    request_queue_size = (
        64  # over the requests at a time: one that finds no place is sent again after a second
    )


@contextmanager
def serve(**models):
    """Serve these models; gives the handler, with its address."""

    class Own(Served):
        requests: ClassVar[list] = []

    Own.models = models
    server = _Listening(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    Own.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield Own
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def dripping(beginning, drop):
    """Reply to one connection with a beginning, then with a drop every 20 ms; without one, end.

    Gives the port.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip():
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(beginning)
            while drop and not over.wait(0.02):
                connection.sendall(drop)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        thread.join(10)
        listening.close()
