"""A checkpoint whose settings name code, of a kind that transformers has a class for."""

import hashlib
import shutil
from pathlib import Path

import pytest
import tiny
from checkpoint_faults import change

from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load
from audit.targets.opening import warn_of_code

CODE = "raise SystemExit('code of a stranger ran')\n"


@pytest.fixture
def native(checkpoints, tmp_path: Path) -> Path:
    """A BERT tagger whose model and tokenizer name classes of code in the folder."""
    folder = Path(shutil.copytree(checkpoints("bert", "token-classification"), tmp_path / "model"))
    for name in ("modeling_x.py", "tokenization_x.py"):
        (folder / name).write_text(CODE)
    classes = {"AutoModelForTokenClassification": "modeling_x.X", "AutoConfig": "modeling_x.C"}
    change(folder / "config.json", auto_map=classes)
    tokenizer = {"AutoTokenizer": ["tokenization_x.X", "tokenization_x.X"]}
    change(folder / "tokenizer_config.json", auto_map=tokenizer)
    return folder


def test_the_class_of_transformers_is_loaded_and_the_record_names_the_code(native: Path) -> None:
    target = load(native, labels=tiny.LABELS)
    assert type(target.model).__module__.startswith("transformers.models.bert")
    digest = hashlib.sha256(CODE.encode()).hexdigest()
    assert target.card.unrun_code == {"modeling_x.py": digest, "tokenization_x.py": digest}


def test_a_warning_names_the_code_that_was_not_run(native: Path, checkpoints) -> None:
    (warning,) = warn_of_code(open_checkpoint(native))
    assert "modeling_x.py, tokenization_x.py" in warning
    assert "without trust_remote_code" in warning
    assert warn_of_code(open_checkpoint(checkpoints("bert", "mlm"))) == ()


def test_code_of_the_hub_is_warned_of_though_the_folder_has_none(native: Path) -> None:
    for name in ("modeling_x.py", "tokenization_x.py"):
        (native / name).unlink()
    (warning,) = warn_of_code(open_checkpoint(native))
    assert "none in the folder" in warning
    assert load(native, labels=tiny.LABELS).card.unrun_code == {}
