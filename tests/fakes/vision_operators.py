"""torchvision beside a torch of another build.

torchvision's wheel on the package index is built for CUDA. Beside a torch for CPUs its compiled
operators cannot be loaded, and importing it fails where it registers two of them for tracing. No
processor of images uses them: declared, without anything behind them, they let it be imported.
Processes that tests start would lack the declaration, and so must not find such a torchvision: it
lies in a folder of its own, which DOCAUDIT_VISION names. One that was installed with its torch
needs none of this.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept: list[Any] = []


class _Declares:
    """Finds nothing.

    Declares the operators when torchvision is imported, and only where they are not there.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (
            name == "torchvision"
            and (spec := PathFinder.find_spec(name)) is not None
            and spec.origin is not None
        ):
            sys.meta_path.remove(self)  # type: ignore[arg-type]  # it is one of its finders
            _declare(Path(spec.origin).parent)
        return None


def _declare(folder: Path) -> None:
    import torch

    try:
        for library in folder.glob("_C*.so"):
            torch.ops.load_library(str(library))
    except OSError:
        _kept.append(torch.library.Library("torchvision", "DEF"))
        for operator in ("nms", "qnms"):
            _kept[0].define(operator + _BOXES)


def declare_when_imported() -> None:
    """From now on torchvision can be imported, if it is installed, here or in the folder DOCAUDIT_VISION."""
    if "DOCAUDIT_VISION" in os.environ:
        sys.path.append(os.environ["DOCAUDIT_VISION"])
    sys.meta_path.insert(0, _Declares())  # type: ignore[arg-type]  # it has all that an import asks of a finder
