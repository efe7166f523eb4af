"""Draw the pictures that README and the manual show, from a scan of a sample: `python docs/draw.py SCAN`.

`docs/walk.py` draws them from the first scan of the tutorial. SCAN is what `docaudit scan
sample_models/receipts/model sample_models/receipts/data --budget quick` wrote. It gives
`pictures/sample-report.pdf`, `pictures/page-one.png`, which names the PDF by its SHA-256,
`pictures/page-one-parts.png` with a number at each part, and `pictures/terminal.svg`, the last
screen of `docaudit gate` on that record. Windows has no pseudo-terminals for the last one.
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

import pypdfium2
from build import page_one
from PIL import Image, ImageDraw, ImageFont
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
DPI = 100
PARTS = (
    "DO NOT",
    "What an attacker gets",
    "Values that came back",
    "What this audit does not say",
    "What to do",
    "Decision",
)
"""The texts of page one that get a number, in the order of docs/reading-the-report.md."""
DRAWN_FROM = "drawn-from"
"""The text of the PNG that holds the SHA-256 of its PDF."""


def draw(scan: Path) -> None:
    """Draw every picture of a scan."""
    PICTURES.mkdir(exist_ok=True)
    report = PICTURES / "sample-report.pdf"
    shutil.copyfile(scan / "report.pdf", report)
    picture = Image.open(io.BytesIO(page_one(report, DPI)))
    save_drawn(picture, report, PICTURES / "page-one.png")
    save_drawn(numbered(picture, report), report, PICTURES / "page-one-parts.png")
    (PICTURES / "terminal.svg").write_text(svg(on_a_terminal(scan)), encoding="utf-8")


def save_drawn(picture: Image.Image, report: Path, path: Path) -> None:
    """Save a picture of a report, with the SHA-256 of the report inside."""
    info = PngInfo()
    info.add_text(DRAWN_FROM, hashlib.sha256(report.read_bytes()).hexdigest())
    small = picture.convert("P", palette=Image.Palette.ADAPTIVE)
    small.save(path, pnginfo=info, optimize=True)


def numbered(picture: Image.Image, report: Path) -> Image.Image:
    """Draw a number beside each of `PARTS`, left of its text or in the margin."""
    picture = picture.copy()
    page = pypdfium2.PdfDocument(report)[0]
    text, scale = page.get_textpage(), DPI / 72
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(17)
    for number, part in enumerate(PARTS, start=1):
        found = text.search(part, match_case=True).get_next()
        if found is None:
            sys.exit(f"page one has no {part!r}: mend PARTS and docs/reading-the-report.md")
        left, bottom, _, top = text.get_charbox(found[0])
        x = (left if left > page.get_width() / 2 else 46) * scale - 20
        y = (page.get_height() - (top + bottom) / 2) * scale
        pen.ellipse((x - 13, y - 13, x + 13, y + 13), fill="#b3501a", outline="white", width=2)
        pen.text((x, y), str(number), fill="white", font=font, anchor="mm")
    return picture


def on_a_terminal(scan: Path) -> str:
    """What the gate prints on a terminal of 80 columns and 24 lines, colours and all."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(scan, Path(folder) / NAME)
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
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi("\n".join(lines)), soft_wrap=True)
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=COMMAND, theme=MONOKAI, code_format=plain, unique_id="terminal")


if __name__ == "__main__":
    draw(Path(sys.argv[1]).resolve())
