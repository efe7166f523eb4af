"""What goes wrong while a source is read.

One driver turns every fault into a sentence of place and kind, no value. A source is read by code
that trusts its form, and nobody has checked it. So whatever a row or a file raises is a fault of
the source. Its message names the file, the number of the row and the type of the error. Names of
columns and keys appear where the owner gave them or `names.toml` knows them, and never what stands
under them.
"""

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from audit.corpus.validation import form_problems
from audit.errors import DocauditError, EngineError, ManifestError, printable
from audit.files import table_beside

NAMES: Mapping[str, Mapping[str, Sequence[str]]] = table_beside(__file__, "names.toml")
"""Names that sources use, by meaning, for columns, tables, documents, keys and categories."""
LONGEST_PATH = 60
"""Letters of a path that a message shows."""
UNNAMED = "(a name of the source)"
"""Stands for a name that only the source knows."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "nothing"),
    (bool, "a truth value"),
    ((int, float), "a number"),
    (str, "a text"),
    (bytes, "bytes"),
    ((list, tuple), "a list"),
    (dict, "an object"),
)


def _names_of_formats() -> frozenset[str]:
    """Return the names of columns and keys in all formats' tables, in lower case."""
    names = set[str]()
    for table in NAMES.values():
        names.update(table)
        for spellings in table.values():
            names.update(spellings)
    return frozenset(name.lower() for name in names)


FORMAT_NAMES = _names_of_formats()
"""Names of columns and keys that formats have, in lower case."""


def type_of(value: Any) -> str:
    """Name the type of a value for a message, which must not repeat the value."""
    for kinds, name in _TYPES:
        if isinstance(value, kinds):
            return name
    return f"a value of type {type(value).__name__}"


def shown_name(name: object, by_owner: Collection[str] = ()) -> str:
    """Return the name of a column or key for a message; `UNNAMED` unless formats or owner have it.

    Args:
        name: the name in the source, which may be a value in the place of a name.
        by_owner: names that the owner gave.
    """
    if not isinstance(name, str):
        return UNNAMED
    if name in by_owner or name.lower() in FORMAT_NAMES:
        return printable(name)
    return UNNAMED


def shown_column(name: object, number: int, by_owner: Collection[str] = ()) -> str:
    """Return the name of a column for a message, as `shown_name`; else its number."""
    shown = shown_name(name, by_owner)
    return f"column {number}" if shown == UNNAMED else shown


def shown_columns(names: Iterable[object], by_owner: Collection[str] = ()) -> str:
    """List columns for a message: known ones by name, the others as how many they are."""
    columns = [shown_name(name, by_owner) for name in names]
    listed = [name for name in columns if name != UNNAMED]
    unknown = len(columns) - len(listed)
    if unknown and listed:
        listed.append(f"{unknown} more")
    elif unknown:
        listed.append(f"{unknown} of names that docaudit does not know")
    return ", ".join(listed) or "none"


def shown_path(path: str | PurePath) -> str:
    """Return the path of a file of the source for a message: the last `LONGEST_PATH` letters."""
    text = printable(str(path))
    if len(text) <= LONGEST_PATH:
        return text
    return f"...{text[3 - LONGEST_PATH :]}"


class UnplacedError(ManifestError):
    """A fault of a source, whose message does not say where it is."""


@contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Turn whatever the block raises into an error of the source that states `sentence`.

    It has the sentence, and the type of the fault.

    Raises:
        UnplacedError: the block raised anything but an error of docaudit's own.
        EngineError: there is no space for what the import writes.
    """
    try:
        yield
    except DocauditError:
        raise
    except MemoryError:
        raise UnplacedError(f"{sentence} (it needs more memory than there is)") from None
    except OSError as error:
        if error.errno in _FULL:
            raise EngineError(
                f"what the import writes: {error.strerror}", "free some space"
            ) from None
        raise UnplacedError(f"{sentence} ({error.strerror or type(error).__name__})") from None
    except RecursionError:
        raise UnplacedError(f"{sentence} (nested too deeply)") from None
    except KeyError as error:
        raise UnplacedError(f"{sentence} ({_missing_key(error)})") from None
    except Exception as error:  # noqa: BLE001 - readers of formats raise more than any list has
        raise UnplacedError(f"{sentence} ({type(error).__name__})") from None


def _missing_key(error: KeyError) -> str:
    """Name the key that a `KeyError` lacks, if a format has a key of that name."""
    key = shown_name(error.args[0] if error.args else None)
    if key == UNNAMED:
        return "a key is missing, or names what is not there"
    return f"no {key!r}"


def problems_of_form(error: ValidationError) -> Iterator[str]:
    """List pydantic's problems with the form of a value, keys of the source as `UNNAMED`."""
    return form_problems(error, shown_name)


def name_of(path: Path) -> str:
    """Return the name of a file of the source for a message."""
    return shown_path(path.name)
