"""Scans of weights in another format, and of adapters."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import adapters
import pytest
import tiny
import torch
from asked_pages import corpus as asked_corpus
from scanned_by_engines import opened_elsewhere, work_of
from text_zoo import write_text_model
from typer.testing import CliRunner

from audit import record as records
from audit.cli import app
from audit.corpus.documents import TrainingRecipe
from audit.references.recipes import Recipe
from audit.references.resolve import LoadedReferences
from audit.references.training import train_baseline
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session

pytestmark = pytest.mark.slow


def docaudit(*arguments: object) -> Any:
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], env={"COLUMNS": "300"}
    )


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A data set of questions, a model, what it was trained from, and two baselines: random weights."""
    root = tmp_path_factory.mktemp("asked")
    recipe = TrainingRecipe(epochs=1, batch_size=4, learning_rate=1e-3)
    asked_corpus(
        root / "data",
        members=4,
        heldout=3,
        public=2,
        labels=("TOTAL",),
        images=False,
        recipe=recipe,
    )
    for seed, part in enumerate(("model", "pretrained", "baselines/a", "baselines/b")):
        write_text_model(root / part, "t5", seed)
    return root


def scan(asked: Path, out: Path, *more: object) -> tuple[Any, Any]:
    given = [f"baselines={asked / 'baselines'}", f"pretrained={asked / 'pretrained'}"]
    references = [part for one in given for part in ("--reference", one)]
    chosen = ("--only", "membership", "--only", "memorisation", "--budget", "quick", "--out", out)
    result = docaudit("scan", asked / "model", asked / "data", *chosen, *references, *more)
    assert result.exit_code in (0, 10, 11), result.output
    return records.read(out), result


def test_weights_are_held_in_the_format_that_a_scan_asks_for_and_references_in_the_same(
    asked, tmp_path
):
    record, _ = scan(asked, tmp_path / "out", "--dtype", "bfloat16")
    # Every attack runs to its end, training on a page included.
    completed = {*record.completed}
    assert (completed, record.target.dtype) == ({"memorisation", "membership"}, "bfloat16")
    assert {card.card.dtype for card in record.references} == {"bfloat16"}
    planned = docaudit("plan", asked / "data", "--model", asked / "model", "--dtype", "bfloat16")
    assert planned.exit_code == 0, planned.output


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """A data set, a base, and an adapter over it that names no folder of this machine."""
    root = tmp_path_factory.mktemp("adapted")
    tiny.checkpoint(root / "base-model", "bert", "mlm")
    tiny.corpus(root / "data")
    adapters.tagger(root / "base-model", root / "adapter", r=2)
    settings = json.loads((root / "adapter" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "org/base"
    (root / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    return root


def test_the_command_for_a_baseline_of_an_adapter_trains_an_adapter(adapted, tmp_path):
    data = shutil.copytree(adapted / "data", tmp_path / "data")
    given = ("references", data, adapted / "adapter", "--json")
    found = json.loads(
        docaudit(*given, "--reference", f"pretrained={adapted / 'base-model'}").stdout
    )
    how = next(one["how"] for one in found["references"] if one["name"] == "baselines")
    base = f" --reference pretrained={adapted / 'base-model'}"
    assert how == f"docaudit references {adapted / 'adapter'} {data} --train baselines{base}"
    # Once the manifest names the base, the command is shorter.
    manifest = data / "manifest.toml"
    manifest.write_text(
        f'{manifest.read_text()}\n[references]\npretrained = "base-model"\n[recipe]\nepochs = 1\n'
    )
    shutil.copytree(adapted / "base-model", data / "base-model")
    found = json.loads(docaudit(*given).stdout)
    how = next(one["how"] for one in found["references"] if one["name"] == "baselines")
    assert how == f"docaudit references {adapted / 'adapter'} {data} --train baselines"
    trained = docaudit(*how.split()[1:], "--out", tmp_path)
    assert trained.exit_code == 0, trained.output
    opened = open_session(
        ScanOptions(
            adapted / "adapter",
            data,
            tmp_path / "out",
            references={"baselines": [tmp_path / "baselines"]},
        )
    )
    assert not any("yardstick" in warning for warning in opened.warnings)


def test_a_baseline_whose_weights_were_all_trained_is_no_fair_one_for_an_adapter(adapted, tmp_path):
    from audit.corpus.manifest import load as load_corpus

    recipe = Recipe(epochs=1, learning_rate=1e-3, batch_size=4)
    corpus = load_corpus(adapted / "data")
    whole = train_baseline(adapted / "base-model", corpus, tmp_path / "whole", recipe=recipe)
    references = {"baselines": list(whole), "pretrained": [adapted / "base-model"]}
    opened = open_session(
        ScanOptions(adapted / "adapter", adapted / "data", tmp_path / "out", references=references)
    )
    (warning,) = [one for one in opened.warnings if "not fair" in one]
    assert "baseline-0 was trained in all its weights, the audited model with LORA, r 2" in warning


def test_encoders_and_workers_keep_their_format(asked, tmp_path):
    model = tiny.checkpoint(tmp_path / "bert", "bert", "mlm")
    data = tiny.corpus(tmp_path / "data")
    options = ScanOptions(model, data, tmp_path / "out", dtype="bfloat16")
    assert open_session(options).target.card.dtype == "float32"
    references = {"baselines": [asked / "baselines"]}
    opened = open_session(
        replace(options, model_dir=asked / "model", data_dir=asked / "data", references=references)
    )
    filled = LoadedReferences(opened.prepared.same_kind)
    case = opened_elsewhere(work_of(opened, filled), tmp_path / "copies").case
    models = [case.target, *case.references.baselines]
    assert [model.card.dtype for model in models] == ["bfloat16"] * 3
    assert [next(model.model.parameters()).dtype for model in models] == [torch.bfloat16] * 3
