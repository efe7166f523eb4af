"""The scripts of the sample models."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from benchmarks import SAMPLES


def load_script(name: str) -> ModuleType:
    """Import a script of the samples; `build.py` has the name of an installed package."""
    spec = spec_from_file_location(f"sample_{name}", SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
