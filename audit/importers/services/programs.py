"""Pages of the JSON that OCR programs and services write, whichever it is.

The program is recognised first, so that what is wrong with a file is said of that program's form.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import ManifestError
from audit.importers.faults import shown_columns, type_of
from audit.importers.files import FAULTS, form_of, parse_json, read_text
from audit.importers.pages import Page
from audit.importers.services.azure import azure_pages
from audit.importers.services.doclaynet import doclaynet_pages
from audit.importers.services.docling import docling_pages
from audit.importers.services.doctr import doctr_pages
from audit.importers.services.easyocr import easyocr_pages, is_easyocr
from audit.importers.services.google import document_ai_pages, vision_pages
from audit.importers.services.paddleocr import is_paddleocr, paddleocr_pages
from audit.importers.services.spelling import member
from audit.importers.services.textract import textract_pages


@dataclass(frozen=True)
class Form:
    """A form of JSON that a program writes.

    Attributes:
        program: who writes it.
        name: what it is, in messages.
        format: the format of `word_files.toml`.
        read: yields the pages of a result; None: it has no words.
        signs: paths, one of which only a result of this form has (`_leads_on`).
        test: tells whether a result has this form, where paths cannot.
        refusal: why it cannot be read, where it cannot.
    """

    program: str
    name: str
    format: str
    read: Callable[[Any], Iterable[Page]] | None
    signs: tuple[str, ...] = ()
    test: Callable[[Any], bool] | None = None
    refusal: str = ""

    def fits(self, value: Any) -> bool:
        """Test whether a result has this form."""
        if self.test is not None:
            return self.test(value)
        return any(_leads_on(value, sign) for sign in self.signs)


_TEXTRACT = "Amazon Textract"
_AZURE = "Azure"
_DOCUMENT_AI = "Google Document AI"
LABELS = Form(
    _AZURE,
    "Azure's labels",
    "azure",
    None,
    ("labels.0.value.0.boundingBoxes", "labelingState&labels", "document&labels.0.label"),
    refusal="labels of a project, and no words: put its .ocr.json beside it",
)
FORMS: tuple[Form, ...] = (
    Form(
        _TEXTRACT,
        "Amazon Textract's response",
        "textract",
        textract_pages,
        (
            "Blocks.0.BlockType",
            "Blocks=",
            "ExpenseDocuments",
            "IdentityDocuments",
            "IdentityDocumentFields",
            "0.Blocks.0.BlockType",
            "0.Blocks=",
            "0.ExpenseDocuments",
            "0.IdentityDocuments",
        ),
    ),
    Form(
        _TEXTRACT,
        "Amazon Textract's lending analysis",
        "textract",
        None,
        ("Results.0.Extractions", "Results.0.PageClassification"),
        refusal="Amazon Textract's lending analysis has no words: import its text detection",
    ),
    Form(
        _TEXTRACT,
        "Amazon Textract's job",
        "textract",
        None,
        ("JobStatus",),
        refusal="Amazon Textract's job has no result: it failed, or was not done",
    ),
    Form("Docling", "Docling's document", "docling", docling_pages, ("schema_name&pages",)),
    LABELS,
    Form(
        _AZURE,
        "Azure's result",
        "azure",
        azure_pages,
        (
            "analyzeResult",
            "recognitionResults",
            "readResults",
            "readResult",
            "apiVersion&pages",
            "modelId&pages",
            "pages.0.words.0.content",
            "pages.0.lines.0.words.0.text",
            "0.lines.0.words.0.text",
            "0.words.0.content",
            "0.pages.0.lines.0.words.0.text",
        ),
    ),
    Form(
        _AZURE,
        "Azure's analysis",
        "azure",
        None,
        ("status&createdDateTime", "status&lastUpdatedDateTime"),
        refusal="Azure's analysis has no result: it failed, or was not done",
    ),
    Form(
        _DOCUMENT_AI,
        "Google Document AI's document",
        "document-ai",
        document_ai_pages,
        (
            "document.pages.0.dimension",
            "document.pages.0.layout",
            "pages.0.dimension",
            "pages.0.layout",
            "pages.0.tokens",
        ),
    ),
    Form(
        _DOCUMENT_AI,
        "Google Document AI's layout",
        "document-ai",
        None,
        ("documentLayout", "document.documentLayout"),
        refusal="Google Document AI's layout has no places of words: import its Document OCR",
    ),
    Form(
        "Google Vision",
        "Google Vision's response",
        "document-ai",
        vision_pages,
        ("responses.0.fullTextAnnotation", "responses.0", "fullTextAnnotation"),
    ),
    Form(
        "DocLayNet",
        "DocLayNet's cells",
        "coco",
        doclaynet_pages,
        ("cells&metadata.original_width",),
    ),
    Form("EasyOCR", "EasyOCR's list", "easyocr", easyocr_pages, test=is_easyocr),
    Form("PaddleOCR", "PaddleOCR's result", "paddleocr", paddleocr_pages, test=is_paddleocr),
    Form(
        "docTR",
        "docTR's export",
        "doctr",
        doctr_pages,
        (
            "pages.0.page_idx",
            "pages.0.blocks",
            "pages.0.predictions",
            "pages=",
            "page_idx",
            "blocks.0.lines",
            "blocks&dimensions",
        ),
    ),
)
"""Forms of the JSON that programs write, in the order in which they are tried."""


def read_service(value: Any, format: str = "") -> list[Page]:
    """Read every page of a JSON result, whichever program wrote it.

    Args:
        value: the result.
        format: format that the owner named; pages of another are counted. Empty: none was named.

    Raises:
        ManifestError: no known program wrote it, or it lacks something of that program's form.
    """
    form = recognise(value)
    if form is None:
        raise ManifestError(_unknown(value))
    if form.read is None:
        raise ManifestError(form.refusal)
    with form_of(form.name):
        pages = list(form.read(value))
    for page in pages:
        page.notes[f"pages read as {form.name}, not as {format}"] += format not in ("", form.format)
    return pages


def read_result(path: Path) -> Any:
    """Return the JSON of a file; of JSON on each of several lines a list.

    Raises:
        ManifestError: it is neither.
    """
    text = read_text(path)
    try:
        return parse_json(text, "not JSON")
    except ManifestError:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise
    return [parse_json(line, "not JSON") for line in lines]


def recognise(value: Any) -> Form | None:
    """Return the form of a JSON result; None where no known program writes it."""
    return next((form for form in FORMS if form.fits(value)), None)


def _unknown(value: Any) -> str:
    """Return the refusal of JSON that no known program writes; it has no value of it."""
    programs = ", ".join(dict.fromkeys(form.program for form in FORMS))
    return f"JSON of no known OCR program: {_described(value)}; known are {programs}"


def _described(value: Any) -> str:
    """Describe JSON by its type, and by the keys that formats have."""
    if isinstance(value, Mapping):
        return f"its keys are {shown_columns(value)}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return f"a list, whose first keys are {shown_columns(value[0])}"
    if isinstance(value, list) and value:
        return f"a list, which begins with {type_of(value[0])}"
    return type_of(value)


def _leads_on(value: Any, sign: str) -> bool:
    """Test whether a JSON value has what a sign says.

    Args:
        value: the JSON value.
        sign: keys from the outside in, in any spelling; a number is a place in a list. What ends in
            "=" leads to an empty list; of two with "&" between them, both are there.
    """
    if "&" in sign:
        return all(_leads_on(value, path) for path in sign.split("&"))
    path = sign.removesuffix("=")
    try:
        for key in path.split("."):
            value = _inner(value, key)
    except FAULTS:
        return False
    return value == [] if sign.endswith("=") else value is not None


def _inner(value: Any, key: str) -> Any:
    """Return what a key of a table, or a place of a list, holds.

    Raises:
        LookupError, TypeError: it is another value, or has no such key or place.
    """
    if not key.isdigit():
        return member(value, key)
    if not isinstance(value, list):
        raise TypeError("no list")
    return value[int(key)]
