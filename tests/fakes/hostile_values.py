"""Values that nobody expects in a file: numbers, texts, nestings, and pieces of TOML, JSON and XML."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Raw:
    """A value that is written as it stands, whether or not it is one."""

    text: str


TEXTS = (
    "",
    " ",
    "\x1b[2J\x1b[1;1HPASSED: exit code 0",
    "a\nPASSED\n",
    "\u202epassed",
    "\u200b",
    "\ud800",
    "\0",
    "../../../etc/passwd",
    "/etc/passwd",
    "C:\\x",
    "~",
    ".",
    "a/../..",
    "https://example.org/x",
    "{question}",
    "{}",
    "%s%n",
    "<script>alert(1)</script>",
    "'\"`$(id)",
    "nan",
    "NaN",
    "1e999",
    "true",
    "2026-13-45",
    "0000-00-00",
    "9999-12-31",
    "default",
    "\u0130\u00df\ufb01",
    "x" * 5_000,
    "\u0301" * 300,
    "-" * 300,
)
NUMBERS = (
    0,
    -1,
    1,
    2,
    7,
    255,
    256,
    2**31,
    2**32,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    0.0,
    -0.0,
    0.5,
    1e-320,
    1e308,
)
ODD_NUMBERS = (float("inf"), float("-inf"), float("nan"))
RAW = (
    "9" * 5_000,
    "-" + "9" * 5_000,
    "1e999",
    "1e-999",
    "0x10",
    "00",
    "[" * 3_000 + "]" * 3_000,
    "[" * 100_000,
    '{"a":' * 3_000 + "1" + "}" * 3_000,
    "{" * 50_000,
    "",
    ",",
    '"',
    "]",
    "}",
    "inf",
    "1979-05-27",
    "07:32:00",
    "'''",
)
SNIPPETS = (
    "\0",
    "\ufeff",
    "\x1b[31m",
    "\u2028",
    "\r",
    "\t",
    '"',
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "[",
    "]]",
    "=",
    "#",
    ",",
    ";",
    "<",
    "&",
    "&lol;",
    "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>",
    "%PDF-1.7",
    "[table]\n",
    "[[table]]\n",
    "a.b.c.d = 1\n",
    "schema = 1\n",
    "9" * 400,
    "-1",
    "1e999",
    "nan",
)
scalars = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from(NUMBERS),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from((None, True, False)),
    st.sampled_from(RAW).map(Raw),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("id", "a", "text", "", "x\n")), inner),
    max_leaves=5,
)

_LETTERS = "abcdeABC0123456789 .,:/-\u00e9\u00df\u0130\u4e2d\u05d0\u0e01\U0001f600"
mild = st.fixed_dictionaries(
    {
        "bool": st.booleans(),
        "int": st.integers(0, 12) | st.integers(0, 5_000),
        "float": st.sampled_from((0.0, 1.0, 0.5, 1e-9, 1e9)) | st.floats(0, 1),
        "str": st.text(_LETTERS, min_size=1, max_size=30),
        "other": st.none(),
    }
)
"""Values by type that may well stand there."""


def of_kind(value: object) -> st.SearchStrategy[object]:
    """Values of the type of another one: what it takes to pass for it."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return st.sampled_from([one for one in NUMBERS if isinstance(one, int)]) | st.integers(-5, 5_000)
    if isinstance(value, float):
        return st.sampled_from([float(one) for one in NUMBERS if abs(one) < 1e308] + [1e308]) | st.floats()
    if isinstance(value, str):
        return st.sampled_from(TEXTS) | st.text(max_size=12)
    return values
