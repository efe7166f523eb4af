"""A page that shows the report of an uploaded record: `python examples/space/app.py`, after `pip install gradio`.

It runs on the light docaudit. No model and no document is uploaded: a record holds numbers alone.
"""

from __future__ import annotations

import html
import shutil
import tempfile
from pathlib import Path
from typing import Any

from audit.errors import DocauditError
from audit.report.files import HTML_NAME
from audit.workflows.report import ReportRequest, report_records

POLICIES = ("default", "strict")
FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="Report" '
    'style="width: 100%; height: 80vh; border: 0"></iframe>'
)


def show(upload: str | None, policy: str) -> tuple[str, str]:
    """Judge a record, and draw its report.

    Args:
        upload: path of the uploaded record.json; None: nothing was uploaded.
        policy: name of a shipped policy.

    Returns:
        The verdict or the error in a line, and the report as HTML; empty where there is none.
    """
    if upload is None:
        return "Upload record.json of a scan.", ""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "record.json")
        shutil.copyfile(upload, record)
        try:
            report = report_records(ReportRequest((record,), policy, Path(folder, "report")))
        except DocauditError as error:
            return " ".join(error.lines), ""
        page = Path(folder, "report", HTML_NAME).read_text(encoding="utf-8")
    # In a frame of its own: styles and scripts of the report stay apart from those of this page.
    frame = FRAME.format(page=html.escape(page))
    return f"Exit code {report.verdict.exit_code}, policy {policy}", frame


def make_page() -> Any:
    """Make the page."""
    import gradio

    with gradio.Blocks(title="docaudit") as page:
        gradio.Markdown("# docaudit\nUpload the `record.json` of a scan, and read its report.")
        record = gradio.File(label="record.json", file_types=[".json"], type="filepath")
        policy = gradio.Dropdown(POLICIES, value=POLICIES[0], label="Policy")
        verdict = gradio.Textbox(label="Verdict", interactive=False)
        report = gradio.HTML()
        for changed in (record, policy):
            changed.change(show, [record, policy], [verdict, report])
    return page


if __name__ == "__main__":
    make_page().launch()
