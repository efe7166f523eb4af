"""A Hub on this machine that answers as hostile ones do: a plan names the reply to each kind of request."""

import hashlib
import json
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from hostile_tables import MARK, REPLIES
from watching import Listener

COMMIT = "5a1f9c2e" * 5
PLANTED = "planted-by-the-hub"
"""Begins the names of files that lead out of the folder of a download: no such file may be
anywhere."""
KINDS = ("info", "tree", "head", "file")
"""Requests of a download, in the order in which they come."""
SECONDS = 20.0
"""Of a reply that does not end."""


class Asked(NamedTuple):
    """A request: its kind, the repository of it, the path of a file, and the Hub."""

    kind: str
    repository: Path
    path: str
    hub: "HostileHub"

    @property
    def content(self) -> bytes:
        """Content of the file."""
        place = self.repository / self.path
        return place.read_bytes() if ".." not in self.path and place.is_file() else MARK.encode()


Body = bytes | Iterator[bytes]


def _reply(content: bytes, *more: str, status: str = "200 OK", length: object = None) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Connection: close",
        f"Content-Length: {len(content) if length is None else length}",
    ]
    return "\r\n".join([*lines, *more, "", ""]).encode("latin-1", "replace") + content


def _json(value: Any, *more: str) -> bytes:
    return _reply(json.dumps(value).encode(), "Content-Type: application/json", *more)


def _repeated(head: bytes, part: bytes, pause: float = 0.0) -> Iterator[bytes]:
    """Send the beginning of a reply, then one part of it for ever."""
    yield head
    while True:
        time.sleep(pause)
        yield part


def _nothing() -> Iterator[bytes]:
    time.sleep(SECONDS)
    yield b""


def _tree(asked: Asked) -> list[dict[str, Any]]:
    """The honest list of files."""
    return [
        {
            "type": "file",
            "path": path.relative_to(asked.repository).as_posix(),
            "size": path.stat().st_size,
            "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
        }
        for path in sorted(asked.repository.rglob("*"))
        if path.is_file()
    ]


def _head(asked: Asked, **changed: str | None) -> list[str]:
    """Lines of the head of a file; a name's underscores are hyphens."""
    own: dict[str, str | None] = {
        "ETag": hashlib.sha1(asked.content).hexdigest(),
        "X-Repo-Commit": COMMIT,
    }
    own |= {name.replace("_", "-"): value for name, value in changed.items()}
    return [f"{name}: {value}" for name, value in own.items() if value is not None]


def _moved(place: str) -> Callable[[Asked], Body]:
    def answer(asked: Asked) -> bytes:
        there = place.format(port=asked.hub.port, path=asked.path)
        return _reply(
            b"", f"Location: {there}", *_head(asked), "X-Linked-Size: 5", status="302 Found"
        )

    return answer


def _sent(raw: bytes) -> Callable[[Asked], Body]:
    return lambda _asked: raw


def _said(**fields: Any) -> Callable[[Asked], Body]:
    """Information about a repository of other fields."""
    return lambda _asked: _json({"id": "org/name", "sha": COMMIT, **fields})


def _listed(*entries: Any, more: tuple[str, ...] = ()) -> Callable[[Asked], Body]:
    """The honest list of files with others at its end."""

    def answer(asked: Asked) -> bytes:
        filled = json.loads(json.dumps(entries).replace("OUTSIDE", str(asked.hub.outside)))
        return _json([*_tree(asked), *filled], *(one.format(port=asked.hub.port) for one in more))

    return answer


def _file(path: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(MARK), "oid": "a" * 40, **fields}


def _changed(**fields: Any) -> Callable[[Asked], Body]:
    """The honest list of files with other fields in each."""
    return lambda asked: _json([{**one, **fields} for one in _tree(asked)])


def _headed(**changed: str | None) -> Callable[[Asked], Body]:
    """A file with other lines in its head."""
    return lambda asked: _reply(asked.content, *_head(asked, **changed))


def _sized(length: object, content: bytes | None = None) -> Callable[[Asked], Body]:
    """A file with another length, or of other content."""

    def answer(asked: Asked) -> bytes:
        sent = asked.content if content is None else content
        return _reply(sent, *_head(asked), length=length)

    return answer


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: a\r\n\r\n"
_ANY: Mapping[str, Callable[[Asked], Body]] = {
    **{name: _sent(raw) for name, raw in REPLIES.items() if name != "models"},
    "silent": lambda _asked: _nothing(),
    "drips": lambda _asked: _repeated(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", pause=0.2),
    "slow chunks": lambda _asked: _repeated(_CHUNKED, b"1\r\n[\r\n", pause=0.2),
    "endless": lambda _asked: _repeated(_CHUNKED, b"10000\r\n" + b"9" * 65_536 + b"\r\n"),
    "100 for ever": lambda _asked: iter(lambda: b"HTTP/1.1 100 Continue\r\n\r\n", None),
    "busy for long": _sent(_reply(b"", "Retry-After: 999999999", status="429 Too Many Requests")),
    "busy for longer": _sent(_reply(b"", f"Retry-After: {'9' * 5_000}", status="503 Busy")),
    "no more of it": _sent(
        _reply(b"", 'RateLimit: "api";r=0;t=99999999', status="429 Too Many Requests")
    ),
    "broken": _sent(_reply(MARK.encode(), f"X-Error-Message: {MARK}", status="500 Broken")),
    "gated": _sent(
        _reply(
            MARK.encode(), "X-Error-Code: GatedRepo", f"X-Error-Message: {MARK}", status="403 No"
        )
    ),
    "unknown": _sent(_reply(b"{}", "X-Error-Code: RepoNotFound", status="404 None")),
    "no revision": _sent(_reply(b"{}", "X-Error-Code: RevisionNotFound", status="404 None")),
    "no entry": _sent(_reply(b"{}", "X-Error-Code: EntryNotFound", status="404 None")),
    "control in error": _sent(_reply(b"{}", "X-Error-Message: a\x9b2J\x08", status="400 Bad")),
    "moved to a path": _moved("/../../../../etc/passwd"),
    "moved to itself": _moved("http://127.0.0.1:{port}/org/model/resolve/" + COMMIT + "/{path}"),
    "moved to a neighbour": _moved("http://127.0.0.2:{port}/a"),
    "moved to another port": _moved("http://127.0.0.1:9/a"),
    "moved to http": _moved("http://192.0.2.7/a"),
    "moved to no TLS": _moved("https://127.0.0.1:{port}/a"),
    "moved to ftp": _moved("ftp://127.0.0.1/a"),
    "moved to nothing": _moved("http://["),
    "moved with control": _moved("http://127.0.0.1:{port}/\x01\x02"),
}
"""Replies to any request."""
_PATHS: tuple[Any, ...] = (
    *("../" * depth + f"{PLANTED}-{depth}.json" for depth in range(1, 12)),
    *(
        f"OUTSIDE/{PLANTED}.json",
        f"a/../../{PLANTED}.jsonl",
        f"..\\..\\{PLANTED}.json",
        f"C:\\{PLANTED}.json",
    ),
    *(
        "a/./../x.json",
        "",
        "/",
        ".",
        "..",
        "a//b.json",
        "a/",
        "x" * 300 + ".json",
        "a/" * 2_000 + "b.json",
    ),
    *(
        "\x1b[2Jx.json",
        "a\nb.json",
        "\u202ex.json",
        "\ud800.json",
        "\0.json",
        "%2e%2e%2fx.json",
        "x.json?y",
        "x#y.json",
    ),
    *(
        5,
        None,
        [],
        {},
        True,
        "config.json/x.json",
        "manifest.toml/x.json",
        ".cache/huggingface/x.json",
    ),
    *(
        "additional_chat_templates/a.jinja",
        f"{MARK}.json",
        "con.json",
        "[a].json",
        "*.json",
        "~/x.json",
    ),
)
_SIZES: tuple[Any, ...] = (
    -1,
    0,
    1,
    2**31,
    2**63,
    2**80,
    10**400,
    0.5,
    float("nan"),
    "7",
    None,
    [],
    True,
)
_TREES: Mapping[str, Callable[[Asked], Body]] = {
    **{f"path {ascii(path)[:40]}": _listed(_file(path)) for path in _PATHS},
    **{f"all of size {ascii(size)[:20]}": _changed(size=size) for size in _SIZES},
    **{
        f"one of size {ascii(size)[:20]}": _listed(_file("extra.json", size=size))
        for size in _SIZES
    },
    **{f"of type {kind!r}": _changed(type=kind) for kind in ("directory", "link", 5, None)},
    "large elsewhere": _listed(
        _file("extra.json", lfs={"size": 2**70, "oid": "b" * 64, "pointerSize": 1})
    ),
    "odd elsewhere": _listed(_file("extra.json", lfs="x")),
    "xet": _changed(xetHash="../../" + PLANTED),
    "oid that leads out": _changed(oid="../../../" + PLANTED),
    "oid of no text": _changed(oid=5),
    "no paths": lambda _asked: _json([{"type": "file"}]),
    "thousands": _listed(*(_file(f"e{number}.json") for number in range(3_000))),
    "thousands of folders": _listed(*(_file(f"a{number}/b/c/d.txt") for number in range(3_000))),
    "twice": lambda asked: _json(_tree(asked) * 2),
    "text": lambda _asked: _json("x"),
    "numbers": lambda _asked: _json([1, 2]),
    "table": lambda _asked: _json({"error": MARK}),
    "empty": lambda _asked: _json([]),
    "pages for ever": _listed(
        more=('Link: <http://127.0.0.1:{port}/api/models/org/model/tree/x>; rel="next"',)
    ),
    "next elsewhere": _listed(more=('Link: <http://192.0.2.7/api>; rel="next"',)),
    "next a file": _listed(more=('Link: <file:///etc/passwd>; rel="next"',)),
}
_TAGS = (
    *(
        "../../../" + PLANTED,
        "/" + PLANTED,
        "",
        '""',
        'W/"a"',
        "x" * 5_000,
        "a/b",
        "\\..\\x",
        "a\x9bb",
        ".",
        "..",
        "\t",
    ),
    *("0" * 64, "'", "*"),
)
_HEADS: Mapping[str, Callable[[Asked], Body]] = {
    **{f"tag {ascii(tag)[:30]}": _headed(ETag=tag) for tag in _TAGS},
    **{f"linked tag {ascii(tag)[:30]}": _headed(X_Linked_ETag=tag) for tag in _TAGS},
    **{
        f"linked size {size}": _headed(X_Linked_Size=size)
        for size in ("-1", "1e9", "9" * 5_000, "x", "0", "99999999")
    },
    "no tag": _headed(ETag=None),
    "no commit": _headed(X_Repo_Commit=None),
    "commit that leads out": _headed(X_Repo_Commit="../../../" + PLANTED),
    "another commit": _headed(X_Repo_Commit="b" * 40),
    "xet": _headed(X_Xet_Hash="a" * 64, X_Xet_Refresh_Route="/x"),
    "xet link": _headed(Link='<http://192.0.2.7/>; rel="xet-auth"', X_Xet_Hash="a" * 64),
    "named": _headed(Content_Disposition=f'attachment; filename="../{PLANTED}"'),
    "packed": _headed(Content_Encoding="gzip"),
    "packed oddly": _headed(Content_Encoding="br, zstd, x"),
    "too short": _sized(10**6),
    "too long": _sized(1),
    "no length": _sized("x"),
    "negative": _sized(-5),
    "very long": _sized(10**15),
    "other content": _sized(None, b"[" * 100_000),
    "empty": _sized(None, b""),
    "part": lambda asked: _reply(
        asked.content[:5], *_head(asked, Content_Range="bytes 0-4/5"), status="206 Part"
    ),
    "no such part": lambda asked: _reply(
        b"", *_head(asked, Content_Range="bytes */5"), status="416 No"
    ),
}
_COMMITS: tuple[Any, ...] = (
    *(
        f"../../../../../{PLANTED}",
        f"/{PLANTED}",
        "main",
        COMMIT.upper(),
        COMMIT[1:],
        COMMIT + "0",
        "",
        None,
    ),
    *(
        7,
        10**400,
        ["a"],
        {},
        True,
        "\x1b[2J" + COMMIT,
        COMMIT + "\n",
        "\uff11" * 40,
        "x" * 10**6,
        "b" * 40,
    ),
)
_INFOS: Mapping[str, Callable[[Asked], Body]] = {
    **{f"sha {ascii(sha)[:30]}": _said(sha=sha) for sha in _COMMITS},
    **{
        f"{name} {ascii(value)[:20]}": _said(**{name: value})
        for name in (
            "id",
            "siblings",
            "lastModified",
            "cardData",
            "tags",
            "gated",
            "config",
            "safetensors",
        )
        for value in (5, None, "x", ["\ud800"], {"a": [MARK]}, 10**400)
    },
    "list": lambda _asked: _json([1]),
    "no sha": lambda _asked: _json({"id": "org/name"}),
}
HONEST = "honest"
ANSWERS: Mapping[str, Mapping[str, Callable[[Asked], Body]]] = {
    "info": {HONEST: _said(), **_ANY, **_INFOS},
    "tree": {HONEST: lambda asked: _json(_tree(asked)), **_ANY, **_TREES},
    "head": {HONEST: _headed(), **_ANY, **_HEADS},
    "file": {HONEST: _headed(), **_ANY, **_HEADS},
}


def write_plan(path: Path, seed: int) -> None:
    """Write which reply each kind of request gets.

    In three of four plans it is one kind alone that gets another.
    """
    generator = random.Random(seed)
    plan = dict.fromkeys(KINDS, HONEST)
    changed = generator.sample(KINDS, 1 if generator.random() < 0.75 else 2)
    for kind in changed:
        plan[kind] = generator.choice(sorted(ANSWERS[kind]))
    path.write_text(json.dumps({**plan, "from": generator.choice((0, 0, 0, 1, 2, 3))}))


class HostileHub(Listener):
    """Answers as the plan of the case says; a context manager.

    Attributes:
        address: of it, for HF_ENDPOINT.
        home: for HF_HOME.
        outside: a folder that paths of files name, and that nothing may write.
        told: its client asked what it shall tell about the environment.
    """

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.address = f"http://127.0.0.1:{self.port}"
        self.home = place / "home"
        self.outside = place / "outside"
        self._place = place
        self._case = place
        self._counts: dict[str, int] = {}
        self.told = False

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its client reads when it is imported."""
        return {"HF_ENDPOINT": self.address, "HF_HOME": str(self.home)}

    def stand_in(self, write: Callable[[Path], None], folder: Path) -> None:
        """Write what a case begins with, and offer the model and the data set of it."""
        write(folder)
        for name in ("model", "src"):
            shutil.copytree(folder / name, self._place / "offered" / name, dirs_exist_ok=True)
        (folder / "plan.json").write_text(json.dumps(dict.fromkeys(KINDS, HONEST)))
        self.serve(folder.parent)

    def serve(self, root: Path) -> None:
        """Answer by the plan of the cases that run below this folder."""
        self._case = root / "case"

    def begin(self) -> None:
        """Forget all that was downloaded and asked."""
        self.told = False
        self._counts = {}
        for folder in (self.home, self.outside):
            shutil.rmtree(folder, ignore_errors=True)

    def strays(self) -> list[str]:
        """What a download wrote outside of the folder of its cache."""
        found = [
            path
            for place in (self._place, *self._place.parents)
            for path in place.glob(f"*{PLANTED}*")
        ]
        found += self._place.rglob(f"*{PLANTED}*")
        found += self.outside.rglob("*")
        if self.home.is_dir():
            found += [
                path for path in self.home.iterdir() if path.name not in ("hub", "docaudit", "xet")
            ]
        return sorted({str(path) for path in found})

    def answer(self, connection: socket.socket) -> None:
        """Answer a connection beside all others: a reply may never end."""
        threading.Thread(target=self._send, args=(connection,), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        end = time.monotonic() + SECONDS
        with connection, suppress(OSError, ValueError, IndexError):
            connection.settimeout(10)
            request = b""
            while b"\r\n\r\n" not in request:
                more = connection.recv(65_536)
                if not more:
                    return
                request += more
            method, path = request.decode("latin-1").split(" ")[:2]
            body = self._body(method, path)
            for part in [body] if isinstance(body, bytes) else body:
                if time.monotonic() > end:
                    return
                connection.sendall(
                    part if method != "HEAD" else part.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
                )

    def _body(self, method: str, path: str) -> Body:
        asked = self._asked(method, path.partition("?")[0])
        plan = json.loads((self._case / "plan.json").read_text())
        number = self._counts[asked.kind] = self._counts.get(asked.kind, 0) + 1
        # A later request of a kind alone may get the other reply, so that a download is under way
        # by then.
        name = plan[asked.kind] if number > plan.get("from", 0) else HONEST
        return ANSWERS[asked.kind][name](asked)

    def _asked(self, method: str, path: str) -> Asked:
        own, _, rest = path.partition("/resolve/")
        repository = self._place / "offered" / ("src" if "datasets/" in own else "model")
        if path.startswith("/api/agent"):
            self.told = True
        if path.startswith("/api/"):
            return Asked("tree" if "/tree/" in path else "info", repository, "", self)
        return Asked(
            "head" if method == "HEAD" else "file",
            repository,
            unquote(rest.partition("/")[2]),
            self,
        )
