"""Count the modules that one small scan loads and the functions that it calls.

    python -m benchmarks.tools.loaded [COMMAND]

Without arguments it is `scan --only attribute_inference --documents 12 --budget quick` of the
receipts sample. Only modules and functions of the `audit` package count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = str(ROOT / "audit")
SAMPLE = ROOT / "sample_models" / "receipts"
SMALL = ["--only", "attribute_inference", "--documents", "12", "--budget", "quick"]


def main() -> None:
    """Run the command under a profiler and print both counts."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        """Remember the code of each called function."""
        if event == "call":
            called.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder:
        command = sys.argv[1:] or [
            "scan",
            str(SAMPLE / "model"),
            str(SAMPLE / "data"),
            "--out",
            folder,
            *SMALL,
        ]
        sys.argv = ["docaudit", *command]
        sys.setprofile(note)
        try:
            from audit.cli import main as run

            run()
        except SystemExit as end:
            print(f"exit code {end.code}")
        finally:
            sys.setprofile(None)
    modules = sum(name == "audit" or name.startswith("audit.") for name in sys.modules)
    functions = {
        code for code in called if code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<"
    }
    files = {code.co_filename for code in functions}
    print(
        f"{modules} modules of audit are loaded; {len(functions):,} functions are called in {len(files)} of them"
    )


if __name__ == "__main__":
    main()
