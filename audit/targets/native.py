"""The kinds of models that transformers has classes for, read without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_TABLES = ("auto_mappings.py", "configuration_auto.py")
"""Files of transformers' package `models.auto` that list configurations by `model_type`."""
_CLASS = "Config"
"""How the name of a configuration's class ends."""


def is_native(model_type: object) -> bool:
    """Test whether transformers has a class of its own for models of a `model_type`.

    Such a model is loaded without any code of its folder, whatever its `auto_map` names.
    """
    return isinstance(model_type, str) and model_type in native_types()


@cache
def native_types() -> frozenset[str]:
    """Return each `model_type` that the installed transformers knows; none where it is missing."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return frozenset()
    folder = Path(spec.origin).parent / "models" / "auto"
    paths = [folder / name for name in _TABLES]
    return frozenset(name for path in paths if path.is_file() for name in _types_in(path))


def _types_in(path: Path) -> Iterator[str]:
    """Yield the names that stand beside the class of a configuration, as pairs or dictionaries."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            yield from _name_of(node.elts[0], node.elts[1])
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield from _name_of(key, value)


def _name_of(key: ast.expr | None, value: ast.expr) -> Iterator[str]:
    """Yield a name beside the class of a configuration; nothing for any other pair."""
    texts = [node.value for node in (key, value) if isinstance(node, ast.Constant)]
    match texts:
        case [str(name), str(class_name)] if class_name.endswith(_CLASS):
            yield name
