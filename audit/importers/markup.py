"""Text of XML and HTML files, decoded once: by the mark they begin with, else as they declare."""

import codecs
import re
from pathlib import Path

from audit.errors import ManifestError
from audit.importers.files import read_source, read_text
from audit.importers.pages import keep_lines

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""What a file begins with whose encoding is not the declared one; that of UTF-32 begins so too."""
_BEGINNING = 2048
"""Bytes at the beginning of a file in which it declares its encoding."""
_IN_XML = re.compile(rb"""^\s*<\?xml\b[^<>]*?\bencoding\s*=\s*["']([\w.:-]+)["']""")
_IN_HTML = re.compile(rb"""<meta\b[^<>]*?\bcharset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_TEXT = re.compile(
    r"(utf-8|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|shift_jis\w*|euc_\w+|gb\w+|big5\w*|"
    r"iso2022_\w+|tis-620|johab|hz)"
)
"""Encodings of text as Python calls them: others take quadratic time, or are no encoding of XML."""
_WIDER = {"iso8859-1": "cp1252", "ascii": "cp1252"}
"""What files are in, as web browsers know, that declare less: they have its quotation marks."""


def read_markup(path: Path) -> str:
    """Return the text of an XML or HTML file; without a mark or declaration as `read_text`.

    Control characters become spaces, except line ends. A declaration that does not fit the file
    does not count.

    Raises:
        ManifestError: it is no regular file, is too large, or cannot be read.
    """
    content = read_source(path)
    encoding = None if content.startswith(_MARKS) else _declared(content[:_BEGINNING])
    if encoding is None:
        return read_text(path)
    for name in (_WIDER.get(encoding, encoding), encoding):
        try:
            return keep_lines(content.decode(name)).replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
    return read_text(path)


def _declared(beginning: bytes) -> str | None:
    """Return the encoding that the beginning of a file declares, as Python calls it.

    None where it declares none. HTML that declares none of text is read as if it declared none, as
    web browsers do; to XML that is an error.

    Raises:
        ManifestError: it is XML in an encoding that is none of text.
    """
    in_xml = _IN_XML.search(beginning)
    match = in_xml or _IN_HTML.search(beginning)
    if match is None:
        return None
    name = _python_name(match[1].decode("ascii", "replace"))
    if name is None and in_xml:
        raise ManifestError("not XML: it declares an encoding that is none of text")
    return name


def _python_name(encoding: str) -> str | None:
    """Return an encoding as Python calls it; None where there is none of text by this name."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return None
    return name if _TEXT.fullmatch(name) else None
