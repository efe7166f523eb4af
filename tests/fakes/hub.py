"""A Hub on this machine: the four addresses that its client asks for, over folders."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pytest
from huggingface_hub import constants

COMMIT = "5a1f9c2e" * 5


class Hub(BaseHTTPRequestHandler):
    """Serves the folders of `repositories` ("models/ORG/NAME", "datasets/ORG/NAME") at one commit.

    It calls the commit as `said`.
    """

    repositories: ClassVar[dict[str, Path]] = {}
    asked: ClassVar[list[str]] = []
    said: ClassVar[object] = COMMIT
    elsewhere: ClassVar[str | None] = None
    refusal: ClassVar[str | None] = None

    def do_GET(self) -> None:
        """Answer; refuse everything, or have every file elsewhere, where these are set."""
        path = self.path.partition("?")[0].strip("/")
        self.asked.append(path)
        if self.refusal is None and (self.elsewhere is None or "/resolve/" not in path):
            return self._give(path)
        if self.refusal is not None:
            return self._send(
                400, json.dumps({"error": self.refusal}).encode(), {"X-Error-Message": self.refusal}
            )
        headers = {"ETag": "a", "X-Linked-Etag": "a", "X-Linked-Size": "1", "X-Repo-Commit": COMMIT}
        return self._send(302, b"", {"Location": str(self.elsewhere), **headers})

    do_HEAD = do_GET

    def _give(self, path: str) -> None:
        if path.startswith("api/"):
            name = next(
                (name for name in self.repositories if f"{path}/".startswith(f"api/{name}/")), None
            )
            if name is None:
                return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            if "/tree/" not in path:
                return self._send(
                    200, json.dumps({"id": name.partition("/")[2], "sha": self.said}).encode()
                )
            root = self.repositories[name]
            tree = []
            for one in sorted(root.rglob("*")):
                if one.is_file():
                    own = {
                        "size": one.stat().st_size,
                        "oid": hashlib.sha1(one.read_bytes()).hexdigest(),
                    }
                    tree.append({"type": "file", "path": one.relative_to(root).as_posix(), **own})
            return self._send(200, json.dumps(tree).encode())
        name, _, place = path.partition(f"/resolve/{COMMIT}/")
        name = name if name.startswith("datasets/") else f"models/{name}"
        content = (self.repositories[name] / unquote(place)).read_bytes()
        return self._send(
            200, content, {"ETag": hashlib.sha1(content).hexdigest(), "X-Repo-Commit": COMMIT}
        )

    def _send(self, code: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep the log of requests out of the tests' output."""


def use(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    """Set the address of the Hub that this process knows."""
    patch.setattr(constants, "ENDPOINT", endpoint)
    patch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        endpoint + "/{repo_id}/resolve/{revision}/{filename}",
    )


@contextmanager
def serve(
    repositories: dict[str, Path], cache: Path, patch: pytest.MonkeyPatch
) -> Iterator[type[Hub]]:
    """Serve these folders as the Hub that this process knows, with a cache of its own."""

    class Own(Hub):
        asked: ClassVar[list[str]] = []

    Own.repositories = repositories
    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    use(f"http://127.0.0.1:{server.server_port}", patch)
    patch.setattr(constants, "HF_HOME", str(cache))
    patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
    try:
        yield Own
    finally:
        server.shutdown()
        server.server_close()
