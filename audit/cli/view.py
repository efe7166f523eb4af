"""`docaudit view`: one page over all records of a folder, served on this machine alone."""

from __future__ import annotations

import os
import sys
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, PolicyName
from audit.errors import DocauditError, UsageError
from audit.failures import class_and_place

if TYPE_CHECKING:
    from audit.workflows.view import Page, View

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names that a browser of this machine calls the server; another one may belong to a stranger."""
PATHS = ("/", "/index.html")
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def view(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help=HELP["view.folder"], show_default="this folder")
    ] = Path(),
    policy: PolicyName = "default",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help=HELP["view.out"], show_default="nothing is written"),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help=HELP["view.port"], show_default="a free one"),
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help=HELP["view.no_browser"])] = False,
) -> None:
    """Show all scans of a folder on one page in your browser.

    The page has the verdicts, the trend of each limit, checkpoints, and two scans compared. It is
    served on this machine alone, fetches nothing, and shows fields of records only. Ctrl-C ends it.
    """
    from audit.workflows.view import View, write_page

    if out is not None:
        with console.Reporter():
            path, page = write_page(folder, policy, out)
        console.say(f"{_counted(page)}: {path}")
        return
    scans = View(folder, policy)
    with console.Reporter():
        page = scans.page()
    server = make_server(scans, port)
    address = f"http://{HOST}:{server.server_port}/"
    console.say(f"{_counted(page)}: {address} (Ctrl-C ends it)")
    sys.stdout.flush()
    if not no_browser and _has_display():
        webbrowser.open(address)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.say("The page is closed.")
    raise typer.Exit(0)


def _counted(page: Page) -> str:
    """Count the scans of a page, and what it leaves out."""
    n_scans = len(page.audits.runs)
    n_left_out = len(page.audits.left_out) + page.audits.n_more
    counted = f"{n_scans} {'scan' if n_scans == 1 else 'scans'}"
    if n_left_out:
        counted = f"{counted}, {n_left_out} left out"
    return counted


def _has_display() -> bool:
    """Test whether somebody at a terminal has a browser with windows."""
    if not sys.stdout.isatty():
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def make_server(scans: View, port: int) -> ThreadingHTTPServer:
    """Make the server of a page; it listens on this machine alone.

    Raises:
        UsageError: the port is taken.
    """
    try:
        return _PageServer(scans, port)
    except OSError as error:
        reason = error.strerror or "cannot be used"
        raise UsageError(f"--port {port}: {reason}", "leave --port out for a free one") from None


class _PageServer(ThreadingHTTPServer):
    """Serve the page of one folder."""

    daemon_threads = True

    def __init__(self, scans: View, port: int) -> None:
        """Take what draws the page, and the port; 0 takes a free one."""
        self._scans = scans
        self._drawing = Lock()
        super().__init__((HOST, port), _Handler)

    def content(self) -> bytes:
        """Return the page, with the records that the folder holds now.

        Raises:
            DocauditError: the folder is gone.
        """
        with self._drawing:
            return self._scans.page().html.encode("utf-8", errors="replace")

    def handle_error(self, request: object, client_address: object) -> None:
        """Tell class and place of an error; its message can hold a name of the owner's."""
        error = sys.exception()
        # A browser may leave before it has read the page.
        if error is not None and not isinstance(error, ConnectionError):
            console.warn(class_and_place(error))

    def is_named(self, host: str) -> bool:
        """Test whether a request calls the server by a name of this machine."""
        return host in {f"{name}:{self.server_port}" for name in NAMES}


class _Handler(BaseHTTPRequestHandler):
    """Answer requests for the page, and refuse all others."""

    server: _PageServer
    server_version = "docaudit"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Send the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of the page."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing of a request."""

    def _answer(self, *, with_body: bool) -> None:
        """Answer one request."""
        if not self.server.is_named(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        if self.path.partition("?")[0] not in PATHS:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            content = self.server.content()
        except DocauditError:
            self.send_error(HTTPStatus.GONE)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)
