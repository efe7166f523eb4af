"""Draw the pictures that README and the manual show, from a scan of a sample: `python docs/draw.py SCAN`.

SCAN is what `docaudit scan sample_models/receipts/model sample_models/receipts/data --budget quick` wrote. It gives
`pictures/sample-report.pdf`, `pictures/page-one.png`, which names the PDF by its SHA-256, and `pictures/terminal.svg`,
the last screen of `docaudit gate` on that record. Systems without pseudo-terminals cannot draw the last one.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from build import page_one
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
LINES, COLUMNS = 24, 80
NAME = "docaudit-report"
COMMAND = f"docaudit gate {NAME}"
DRAWN_FROM = "drawn-from"
"""The text of the PNG that holds the SHA-256 of its PDF."""


def main() -> None:
    """Draw every picture of the scan that is named."""
    scan = Path(sys.argv[1]).resolve()
    PICTURES.mkdir(exist_ok=True)
    report = PICTURES / "sample-report.pdf"
    shutil.copyfile(scan / "report.pdf", report)
    info = PngInfo()
    info.add_text(DRAWN_FROM, hashlib.sha256(report.read_bytes()).hexdigest())
    picture = Image.open(io.BytesIO(page_one(report, 100)))
    picture.convert("P", palette=Image.Palette.ADAPTIVE).save(PICTURES / "page-one.png", pnginfo=info, optimize=True)
    (PICTURES / "terminal.svg").write_text(svg(on_a_terminal(scan)), encoding="utf-8")


def on_a_terminal(scan: Path) -> str:
    """What the gate prints on a terminal of 80 columns and 24 lines, colours and all."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(scan, Path(folder) / NAME, ignore=shutil.ignore_patterns("evidence"))
        (Path(folder) / "sample_models").symlink_to(DOCS.parent / "sample_models")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        quiet = {"NO_COLOR", "CI", "COLUMNS", "LINES", "FORCE_COLOR"}
        environment = {key: value for key, value in os.environ.items() if key not in quiet}
        process = subprocess.Popen(
            [sys.executable, "-m", "audit", *COMMAND.split()[1:]],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment | {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # Linux ends the last read so, once the process is gone
            pass
        os.close(ours)
        process.wait()
    return shown.decode().replace("\r\n", "\n")


def svg(shown: str) -> str:
    """Draw the last screen; the picture asks no other host for a font."""
    lines = [f"$ {COMMAND}", *shown.rstrip("\n").split("\n")][-(LINES - 1) :]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("\n".join(lines)), soft_wrap=True)
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=COMMAND, theme=MONOKAI, code_format=plain, unique_id="terminal")


if __name__ == "__main__":
    main()
