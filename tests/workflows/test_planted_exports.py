"""Exports of a model that learnt by heart: rounded, pruned, trained on, or without its adapter."""

import copy
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import exported
import pytest
import torch
from click.testing import Result
from commands import docaudit
from policy_texts import policy_text
from transformers import BertForTokenClassification

from audit import record as records
from audit.cards import DerivedFrom
from audit.corpus.documents import Corpus
from audit.policy import evaluate, load, today

AUDITED = 20
"""Steps of the audited model's training."""
LONGER = 35
"""Steps of a training that went on."""
POLICY = policy_text("membership auc max = 0.95", name="own")
LOST = "the export lost its adapter: its weights are those of the base"
FORMATS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class World(NamedTuple):
    """A data set, a base, the scan of an adapter over it, and whole models by steps of training."""

    folder: Path
    corpus: Corpus
    base: Path
    models: dict[int, Any]
    exit_code: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def audit(self) -> Path:
        return self.folder / "audit"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("exported")
    corpus = exported.write_corpus(folder / "data")
    base = exported.train_base(folder / "base", corpus)
    folders = {AUDITED: folder / "adapter", LONGER: folder / "longer"}
    models = exported.train_adapters(base, corpus, folders)
    policy = folder / "own.toml"
    policy.write_text(POLICY)
    scanned = docaudit(
        *("scan", folder / "adapter", folder / "data", "--only", "membership"),
        *("--policy", policy, "--out", folder / "audit"),
    )
    assert scanned.exit_code in (0, 10, 11), scanned.output
    return World(folder, corpus, base, models, scanned.exit_code)


def scan(world: World, export: Path, out: Path) -> Result:
    return docaudit("scan", export, world.data, "--derived-from", world.audit, "--out", out)


def derived(out: Path) -> DerivedFrom:
    found = records.read(out).derived_from
    assert found is not None
    return found


@pytest.mark.parametrize("form", ["merged", *FORMATS])
def test_a_merged_or_rounded_export_leaks_no_more(world: World, tmp_path: Path, form: str) -> None:
    model = copy.deepcopy(world.models[AUDITED]).to(FORMATS.get(form, torch.float32))
    export = exported.save_export(model, world.base, tmp_path / form)
    done = scan(world, export, tmp_path / "out")
    assert done.exit_code != 2, done.output
    number = derived(tmp_path / "out").deciding("membership")
    assert number.paired
    assert number.outcome == "no more", number.words
    assert derived(tmp_path / "out").outcome == "no more"
    assert done.exit_code == world.exit_code, done.output
    assert "leaks no more than the audited model" in " ".join(done.output.split())


def test_an_export_of_half_the_weights_is_never_said_to_leak_more(
    world: World, tmp_path: Path
) -> None:
    model = exported.pruned(world.models[AUDITED], 0.5)
    export = exported.save_export(model, world.base, tmp_path / "pruned")
    done = scan(world, export, tmp_path / "out")
    assert done.exit_code != 2, done.output
    number = derived(tmp_path / "out").deciding("membership")
    assert number.outcome in ("no more", "undecided")
    assert number.difference.value < 0.02
    assert done.exit_code in (0, 11), done.output


def test_a_model_trained_longer_leaks_more_although_the_policy_does_not_refuse_it(
    world: World, tmp_path: Path
) -> None:
    export = exported.save_export(world.models[LONGER], world.base, tmp_path / "longer")
    done = scan(world, export, tmp_path / "out")
    assert done.exit_code != 2, done.output
    number = derived(tmp_path / "out").deciding("membership")
    assert number.outcome == "more", number.words
    assert number.difference.low > 0
    assert done.exit_code == 10, done.output
    assert "leaks more than the audited model" in " ".join(done.output.split())
    verdict = docaudit("gate", tmp_path / "out", "--policy", world.folder / "own.toml")
    assert verdict.exit_code == 10
    record = replace(records.read(tmp_path / "out"), derived_from=None)
    alone = evaluate(record, load(str(world.folder / "own.toml")), today())
    assert alone.exit_code == world.exit_code


def lost(world: World, folder: Path, form: torch.dtype = torch.float32) -> Path:
    """An export that is the base without its adapter."""
    model = BertForTokenClassification.from_pretrained(world.base)
    return exported.save_export(model.to(form), world.base, folder)


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_that_lost_its_adapter_is_named_in_any_format(
    world: World, tmp_path: Path, form: str
) -> None:
    done = scan(world, lost(world, tmp_path / "export", FORMATS[form]), tmp_path / "out")
    assert done.exit_code == 2
    assert f"{LOST} {world.base}" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_the_command_for_a_lost_adapter_merges_it(world: World, tmp_path: Path) -> None:
    export = lost(world, tmp_path / "export")
    done = scan(world, export, tmp_path / "out")
    text = " ".join(done.output.split())
    assert done.exit_code == 2
    assert f"{LOST} {world.base}" in text
    command = shlex.split(text.partition("merge the adapter again: ")[2])
    assert command[:2] == ["python", "-c"]
    # In this process, which has loaded torch already.
    exec(command[2], {})
    stored = BertForTokenClassification.from_pretrained(export).state_dict()
    for name, weights in world.models[AUDITED].state_dict().items():
        assert torch.allclose(stored[name], weights, atol=1e-5), name


def test_a_record_alone_names_a_lost_adapter_too(world: World, tmp_path: Path) -> None:
    record = Path(shutil.copy(world.audit / "record.json", tmp_path / "record.json"))
    export = lost(world, tmp_path / "export")
    done = docaudit("scan", export, world.data, "--derived-from", record)
    text = " ".join(done.output.split())
    assert (done.exit_code, f"{LOST} BASE_DIR" in text) == (2, True), text
    assert "'ADAPTER_DIR'" in text
