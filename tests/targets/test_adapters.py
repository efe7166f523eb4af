"""PEFT folders as targets: merged they answer as PEFT does, and what would be the base in disguise is refused."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adapters
import answering_checkpoints
import peft
import pytest
import tiny
import torch
from checkpoint_faults import Case, cases, change
from safetensors.torch import load_file, save_file
from scanned_by_engines import opened_elsewhere, work_of
from watching import watched

from audit.errors import TargetError
from audit.references.resolve import LoadedReferences
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.content import hash_files
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.loading import load_model
from audit.targets.checkpoint.safety import quiet
from audit.targets.encoders.loading import load, load_tokenizer
from audit.targets.opening import open_model
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
IDS = torch.tensor([[2, 7, 9, 30, 31, 3], [2, 40, 41, 42, 8, 3]])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("base") / "bert", "bert", "mlm")


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """The folder of a plain LoRA with its head, and the model that PEFT wrapped."""
    folder = tmp_path_factory.mktemp("lora") / "adapter"
    return folder, adapters.tagger(base, folder)


@pytest.fixture
def folder(trained, tmp_path):
    """The same adapter, to be broken."""
    return Path(shutil.copytree(trained[0], tmp_path / "adapter"))


def change_settings(folder: Path, **settings: Any) -> None:
    change(folder / SETTINGS, **settings)


def change_weights(
    folder: Path, replaced: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    save_file(replaced(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def lora(*targets: str, **settings: Any) -> Callable[[], Any]:
    given = {
        "r": 4,
        "task_type": "TOKEN_CLS",
        "target_modules": list(targets or adapters.TARGETS),
        **settings,
    }
    return lambda: peft.LoraConfig(**given)


FORMS: dict[str, Callable[[], Any]] = {
    "LoRA": lora(),
    "DoRA": lora(use_dora=True),
    "rsLoRA": lora(lora_alpha=16, use_rslora=True),
    "LoRA with biases": lora("dense", bias="lora_only"),
    "LoRA of embeddings": lora("word_embeddings", "query"),
    "PiSSA": lora(init_lora_weights="pissa"),
    "ranks by layer": lora(rank_pattern={"layer.0": 2}),
    "LoHa": lambda: peft.LoHaConfig(
        r=4, target_modules=adapters.TARGETS, modules_to_save=["classifier"]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_merged_tagger_answers_as_the_unmerged_one(form, base, tmp_path):
    from transformers import BertForTokenClassification

    torch.manual_seed(0)  # of the head, which the checkpoint lacks
    with quiet():
        model = BertForTokenClassification.from_pretrained(base, num_labels=len(tiny.LABELS))
    wrapped = adapters.adapted(model, tmp_path / "adapter", FORMS[form]())
    target = load(open_checkpoint(tmp_path / "adapter"), labels=tiny.LABELS)
    assert not [
        name
        for name, _ in target.model.named_parameters()
        if "lora" in name or "base_layer" in name
    ]
    assert all(weights.requires_grad for weights in target.model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(
            target.model(IDS).logits, wrapped(IDS).logits, rtol=1e-5, atol=1e-5
        )
    assert target.labels == tiny.LABELS


def test_labels_beside_the_adapter_are_the_models(folder, base):
    names = dict(enumerate(tiny.LABELS))
    own = {"id2label": names, "label2id": {name: index for index, name in names.items()}}
    shutil.copyfile(base / "config.json", folder / "config.json")
    change(folder / "config.json", **own)
    assert load(folder).labels == tiny.LABELS


def test_the_card_covers_adapter_and_base(folder, base, tmp_path):
    before = open_checkpoint(folder)
    assert (load(before, labels=tiny.LABELS).card.name, str(before)) == ("adapter", str(folder))
    assert open_checkpoint(folder).sha256 == before.sha256
    other = tiny.checkpoint(tmp_path / "other", "bert", "mlm", seed=1)
    assert open_checkpoint(folder, other).sha256 != before.sha256
    assert open_checkpoint(folder, other).weights == before.weights
    change_weights(folder, lambda tensors: {name: 2 * tensor for name, tensor in tensors.items()})
    assert open_checkpoint(folder).sha256 != before.sha256
    assert not open_checkpoint(folder).weights & (before.weights | open_checkpoint(base).weights)


def llama(folder: Path, *, tied: bool) -> Path:
    """A Llama of random weights with the tokenizer of characters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = answering_checkpoints.tokenizer()
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    sizes |= {"max_position_embeddings": 128, "initializer_range": 0.2}
    config = LlamaConfig(vocab_size=len(words), tie_word_embeddings=tied, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return answering_checkpoints.saved(folder, LlamaForCausalLM(config), words)


CAUSAL: dict[str, tuple[bool, dict[str, Any], int]] = {
    "plain": (False, {"target_modules": ["q_proj", "v_proj"]}, 0),
    "tied, plain": (True, {"target_modules": ["q_proj", "v_proj"]}, 0),
    "tied, on the output": (True, {"target_modules": ["lm_head"]}, 0),
    "tied, on the embeddings": (True, {"target_modules": ["embed_tokens", "q_proj"]}, 0),
    "tied, output trained": (
        True,
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        0,
    ),
    "tied, some tokens": (
        True,
        {"target_modules": ["q_proj"], "trainable_token_indices": [5, 6]},
        0,
    ),
    "more tokens": (
        False,
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
        3,
    ),
    "tied, more tokens": (True, {"target_modules": ["q_proj", "v_proj"]}, 3),
}


@pytest.mark.parametrize("case", CAUSAL)
def test_tied_trained_and_resized_embeddings_are_merged_as_peft_computes_them(case, tmp_path):
    from transformers import LlamaForCausalLM

    tied, settings, n_more = CAUSAL[case]
    start = llama(tmp_path / "base", tied=tied)
    with quiet():
        model = LlamaForCausalLM.from_pretrained(start)
    if n_more:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model.resize_token_embeddings(model.config.vocab_size + n_more)
    config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", **settings)
    wrapped = adapters.adapted(model, tmp_path / "adapter", config)
    merged, missing = load_model(tmp_path / "adapter", LlamaForCausalLM)
    assert not missing
    with torch.no_grad():
        want = wrapped(IDS).logits
        torch.testing.assert_close(merged(IDS).logits, want, rtol=1e-5, atol=1e-5)
        # What is trained from it, or sent elsewhere, is saved and loaded again.
        merged.save_pretrained(tmp_path / "again")
        again, _ = load_model(tmp_path / "again", LlamaForCausalLM)
        torch.testing.assert_close(again(IDS).logits, want, rtol=1e-5, atol=1e-5)
    opened = open_checkpoint(tmp_path / "adapter")
    assert opened.config["vocab_size"] == merged.config.vocab_size == model.config.vocab_size


def test_an_adapter_of_a_chat_model_has_the_processor_of_its_base(tmp_path):
    from transformers import LlavaForConditionalGeneration

    start = answering_checkpoints.make_chat(tmp_path / "base")
    with quiet():
        model = LlavaForConditionalGeneration.from_pretrained(start)
    config = peft.LoraConfig(r=4, target_modules=r".*language_model.*\.(q_proj|v_proj)")
    wrapped = adapters.adapted(model, tmp_path / "run" / "checkpoint-7", config)
    (tmp_path / "run" / "checkpoint-7" / "trainer_state.json").write_text(
        '{"epoch": 1.0, "global_step": 7}'
    )
    target = load_answering(tmp_path / "run" / "checkpoint-7")
    assert (target.card.name, target.card.step) == ("checkpoint-7", 7)
    with torch.no_grad():
        ours = target.model(IDS).logits
        theirs = wrapped(input_ids=IDS).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_adapters_own_tokenizer_goes_before_its_bases(folder):
    assert load_tokenizer(folder).model_max_length == tiny.POSITIONS
    tiny.tokenizer(64).save_pretrained(folder)
    assert load_tokenizer(folder).model_max_length == 64


def zeroed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        name: torch.zeros_like(tensor) if "lora_B" in name else tensor
        for name, tensor in tensors.items()
    }


def without(part: str) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda tensors: {name: own for name, own in tensors.items() if part not in name}


BROKEN: dict[str, Case] = {
    **cases("adapters"),
    "tensors of another class": (
        lambda folder: change_weights(
            folder,
            lambda tensors: {
                name.replace("bert.", "roberta."): own for name, own in tensors.items()
            },
        ),
        "tensors fit nowhere in the base, the first is .*roberta",
    ),
    "a tensor too few": (
        lambda folder: change_weights(folder, without("layer.1")),
        "lack 4 tensors, .*layer.1",
    ),
    "no head": (
        lambda folder: change_weights(folder, without("classifier")),
        "weights lack .*classifier",
    ),
    "never trained": (
        lambda folder: change_weights(folder, zeroed),
        "all 4 lora_B of the adapter are zero",
    ),
    "a pickle": (
        lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"),
        r"holds an adapter in a pickle, .* \(adapter_model.bin\)",
    ),
    "itself as its base": (
        lambda folder: change_settings(folder, base_model_name_or_path=str(folder)),
        "an adapter without its model",
    ),
    "weights linked from outside": (
        lambda folder: (
            (folder / WEIGHTS).rename(folder.parent / "x"),
            (folder / WEIGHTS).symlink_to(folder.parent / "x"),
        ),
        "links out",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_adapter_that_would_not_be_the_fine_tuned_model_is_refused(name, folder):
    break_it, message, *_ = BROKEN[name]
    break_it(folder)
    with pytest.raises(TargetError, match=message) as raised:
        load(folder, labels=tiny.LABELS)
    assert len(raised.value.problems) == 1
    assert raised.value.hint
    assert "\n" not in raised.value.problems[0] + raised.value.hint


def keep_private(place: Path) -> None:
    (place / "private").mkdir(exist_ok=True)
    (place / "private" / "secret.txt").write_text("secret")


@pytest.mark.parametrize(
    "named", ["{private}", "../private", "x" * 5_000, "a\0b", "/etc", "~", "."]
)
def test_a_folder_without_a_model_is_no_base_and_not_looked_into(named, folder, tmp_path):
    """An adapter from elsewhere names what it wants.

    Names and hashes of files there would enter records and logs.
    """
    keep_private(tmp_path)
    keep_private(folder.parent)
    change_settings(folder, base_model_name_or_path=named.format(private=tmp_path / "private"))
    with watched() as seen:
        with pytest.raises(TargetError, match="an adapter without its model"):
            open_checkpoint(folder)
        names = hash_files(folder)
    assert sorted(names) == ["adapter_config.json", "adapter_model.safetensors"]
    assert not any(path.name == "secret.txt" for path in seen.opened)


def test_a_folder_inside_an_adapter_is_its_base_if_it_holds_a_model_and_else_refused_unread(
    folder, base
):
    keep_private(folder)
    change_settings(folder, base_model_name_or_path="private")
    with watched() as seen:
        for opens in (open_checkpoint, hash_files):
            with pytest.raises(TargetError, match="does not know what the folder private is for"):
                opens(folder)
    assert not any(path.name == "secret.txt" for path in seen.opened)
    shutil.rmtree(folder / "private")
    shutil.copytree(base, folder / "private")
    assert open_checkpoint(folder).file_hashes == hash_files(folder)


@pytest.mark.parametrize(
    ("named", "said"),
    [("org/bert-mini", "org/bert-mini"), ("org/bert; rm -rf ~", "NAME"), ("--help", "NAME")],
)
def test_the_command_that_gets_a_base_holds_nothing_but_a_name(named, said, folder):
    change_settings(folder, base_model_name_or_path=named)
    with pytest.raises(TargetError, match="an adapter without its model") as raised:
        open_checkpoint(folder)
    assert f"hf download {said} --local-dir BASE" in raised.value.hint


def test_settings_that_say_nothing_of_the_answers_are_read_over_and_import_nothing(folder):
    change_settings(
        folder,
        use_new=False,
        megatron_core="nowhere.at_all",
        megatron_config={"a": 1},
        revision="main",
    )
    assert load(folder, labels=tiny.LABELS).card.task == "token-classification"
    assert "nowhere" not in sys.modules


def test_the_base_that_an_adapter_names_is_what_the_model_was_fine_tuned_from(folder, tmp_path):
    opened = open_session(ScanOptions(folder, tiny.corpus(tmp_path / "data"), tmp_path / "out"))
    assert opened.prepared.train is not None
    assert opened.prepared.train.args[0].name == "bert"


def test_a_base_is_checked_as_any_checkpoint(folder, base, tmp_path):
    unsafe = Path(shutil.copytree(base, tmp_path / "unsafe"))
    (unsafe / "model.safetensors").rename(unsafe / "pytorch_model.bin")
    with pytest.raises(TargetError, match=r"in a pickle, .* \(pytorch_model\.bin\)"):
        open_checkpoint(folder, unsafe)
    with pytest.raises(TargetError, match="is an adapter too"):
        open_checkpoint(folder, Path(shutil.copytree(folder, tmp_path / "second")))


def test_without_peft_one_sentence_names_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(TargetError, match="PEFT is not installed") as raised:
        load(folder, labels=tiny.LABELS)
    assert raised.value.hint == "pip install 'docaudit[peft]'"


def test_a_scan_takes_the_base_from_manifest_or_command_line(folder, base, tmp_path):
    data = tiny.corpus(tmp_path / "data")
    change_settings(folder, base_model_name_or_path="org/bert-mini")
    with pytest.raises(TargetError, match="an adapter without its model"):
        open_session(ScanOptions(folder, data, tmp_path / "out"))
    opened = open_session(
        ScanOptions(folder, data, tmp_path / "out", references={"pretrained": [base]})
    )
    assert opened.target.card.name == "adapter"
    assert not [warning for warning in opened.warnings if "pretrained" in warning]
    manifest = data / "manifest.toml"
    shutil.copytree(base, data / "base")
    manifest.write_text(manifest.read_text() + '\n[references]\npretrained = "base"\n')
    named = open_session(ScanOptions(folder, data, tmp_path / "out"))
    assert named.target.card.sha256 == opened.target.card.sha256
    from audit.corpus.manifest import load as load_corpus

    corpus = load_corpus(data)
    assert open_model(folder, corpus, folder).base is not None
    # Workers open the adapter from copies of both folders, wherever its settings say that the base
    # is.
    filled = LoadedReferences(named.prepared.same_kind)
    source = work_of(named, filled)
    target = opened_elsewhere(source, tmp_path / "copies").case.target
    assert target.card.sha256 == named.target.card.sha256
    assert torch.equal(target.model(IDS).logits, named.target.model(IDS).logits)


@pytest.mark.parametrize("form", ["LoRA", "LoHa"])
def test_a_small_change_of_a_base_in_bfloat16_is_not_rounded_away(form, tmp_path, monkeypatch):
    from transformers import BertForTokenClassification

    def move(model: Any) -> None:
        adapters.spoilt(model, size=2e-2 if form == "LoHa" else 2e-3)

    start = tiny.checkpoint(tmp_path / "base", "bert", "token-classification")
    with quiet():
        BertForTokenClassification.from_pretrained(start, dtype=torch.bfloat16).save_pretrained(
            start
        )
        model = BertForTokenClassification.from_pretrained(start, dtype=torch.float32)
    wrapped = adapters.adapted(model, tmp_path / "adapter", FORMS[form](), move)
    monkeypatch.setattr("audit.targets.checkpoint.loading.LARGE", 1000)
    target = load(open_checkpoint(tmp_path / "adapter", start))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    before = (
        wrapped.base_model.model.get_parameter(name.replace("query.", "query.base_layer."))
        .detach()
        .clone()
    )
    with quiet():
        wanted = wrapped.merge_and_unload().get_parameter(name).detach() - before
    assert 0 < wanted.norm() < 0.01 * before.norm()
    assert (
        target.model.get_parameter(name).detach() - before - wanted
    ).norm() < 0.1 * wanted.norm()
    assert target.card.dtype == "float32"
