"""Sentence embedders: what an embedding is, that it depends on its text alone, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import embedders
import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from audit.errors import TargetError
from audit.targets.embedder import EmbedderTarget, files_of_embedder, load_embedder
from audit.targets.interface import Embed, TagProbabilities

REAL = Path(__file__).parents[2] / "../shared/models/minilm-l6-h384"


def texts() -> list[str]:
    """Sentences of 0 to 300 tokens."""
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 11, 12, 13, 13, 14, 15, 16, 30, 31, 60, 60, 120, 300]
    return ["".join(rng.choice(list("abc 123"), length)) for length in lengths]


def asked(target: EmbedderTarget, *queries: str) -> np.ndarray:
    return np.array(target.ask([Embed(text) for text in queries]))


@pytest.fixture(scope="module", params=embedders.KINDS)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EmbedderTarget:
    return load_embedder(embedders.checkpoint(tmp_path_factory.mktemp("embedders") / request.param, request.param))


def hidden_states(embedder: EmbedderTarget, text: str) -> np.ndarray:
    """Of one text alone, without padding, as the library's documentation asks for it."""
    inputs = embedder.tokenizer(text, return_tensors="pt", truncation=True, max_length=embedder.reading.max_tokens)
    with torch.inference_mode():
        states = embedder.model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    return states[0].double().numpy()


def test_an_embedding_is_the_mean_of_the_hidden_states_of_length_one(embedder: EmbedderTarget) -> None:
    assert embedder.answers == {Embed}
    for text in texts():
        (found,) = asked(embedder, text)
        mean = hidden_states(embedder, text).mean(axis=0)
        np.testing.assert_allclose(found, mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-5)
        assert found.dtype == np.float64


def test_an_embedding_depends_on_its_text_alone(embedder: EmbedderTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = np.concatenate([asked(embedder, text) for text in texts()])
    for batch_tokens in (64, 700, 4096):
        monkeypatch.setattr(embedder.forward, "batch_tokens", batch_tokens)
        order = np.random.default_rng(batch_tokens).permutation(len(alone))
        np.testing.assert_array_equal(asked(embedder, *np.array(texts())[order]), alone[order])
    monkeypatch.setattr(embedder.forward, "fixed_rows", True)  # as on a GPU
    np.testing.assert_allclose(asked(embedder, *texts()), alone, rtol=1e-4, atol=1e-5)


def test_asking_nothing_answers_nothing_and_other_queries_are_refused(embedder: EmbedderTarget) -> None:
    assert embedder.ask([]) == []
    page: Any = None
    with pytest.raises(ValueError, match="cannot answer"):
        embedder.ask([TagProbabilities(page)])


def test_vectors_for_training_are_the_embeddings(embedder: EmbedderTarget) -> None:
    mixed = [texts()[place] for place in np.random.default_rng(1).permutation(len(texts()))]
    vectors = embedder.vectors(mixed)
    assert vectors.requires_grad
    np.testing.assert_allclose(vectors.detach().numpy(), asked(embedder, *mixed), rtol=1e-3, atol=1e-5)


def test_long_texts_are_cut(tmp_path: Path) -> None:
    folder = embedders.checkpoint(tmp_path)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False}))
    target = load_embedder(folder)
    assert target.card.max_tokens == 20
    short, beyond, other = asked(target, "a" * 18, "a" * 18 + "b" * 50, "b" + "a" * 17)
    np.testing.assert_array_equal(short, beyond)
    assert not np.array_equal(short, other)
    assert load_embedder(embedders.checkpoint(tmp_path / "unlimited")).card.max_tokens == tiny.POSITIONS - 1


def test_the_folders_own_settings_say_how_it_pools(tmp_path: Path) -> None:
    bare = load_embedder(embedders.checkpoint(tmp_path / "bare"))
    states = hidden_states(bare, "ab 12")
    expected = {
        "mean": (embedders.MEAN, embedders.MODULES[:2], states.mean(axis=0)),
        "cls": (embedders.CLS, embedders.MODULES[:2], states[0]),
        "cls, normalised": (embedders.CLS, embedders.MODULES, states[0] / np.linalg.norm(states[0])),
        "cls, no modules": (embedders.CLS, None, states[0] / np.linalg.norm(states[0])),
        "newer words": ({"pooling_mode": "cls"}, embedders.MODULES[:2], states[0]),
    }
    hashes = {bare.card.sha256}
    for name, (pooling, modules, vector) in expected.items():
        target = load_embedder(embedders.checkpoint(tmp_path / name, "bert", pooling, modules))
        np.testing.assert_allclose(asked(target, "ab 12")[0], vector, rtol=1e-4, atol=1e-5)
        hashes.add(target.card.sha256)
    assert len(hashes) == len(expected)  # the last two read alike


def test_texts_are_put_into_lower_case_where_the_settings_say_so(tmp_path: Path) -> None:
    for name, lowered in (("a", True), ("b", False)):
        folder = embedders.checkpoint(tmp_path / name, "roberta")  # its tokens know upper case
        (folder / "sentence_bert_config.json").write_text(json.dumps({"do_lower_case": lowered}))
        upper, lower = asked(load_embedder(folder), "ABC", "abc")
        assert np.array_equal(upper, lower) == lowered


def test_a_copy_of_its_files_is_the_same_embedder(tmp_path: Path) -> None:
    folder = embedders.checkpoint(tmp_path / "a", "bert", embedders.CLS, embedders.MODULES)
    files = files_of_embedder(folder)
    assert "1_Pooling/config.json" in files
    for name, path in files.items():
        copied = tmp_path / "b" / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())
    assert load_embedder(tmp_path / "b").card == replace(load_embedder(folder).card, name="b")


def test_weights_in_half_precision_are_computed_with_in_single(tmp_path: Path) -> None:
    embedders.encoder().half().save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    target = load_embedder(tmp_path)
    assert {parameter.dtype for parameter in target.model.parameters()} == {torch.float32}
    rounded = load_embedder(embedders.checkpoint(tmp_path / "exact"))
    np.testing.assert_allclose(asked(target, "abc"), asked(rounded, "abc"), atol=0.01)


def test_a_missing_pooling_layer_is_no_loss_and_other_weights_are(tmp_path: Path) -> None:
    folder = embedders.checkpoint(tmp_path)
    expected = asked(load_embedder(folder), "abc")
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    np.testing.assert_array_equal(asked(load_embedder(folder), "abc"), expected)
    del kept["embeddings.word_embeddings.weight"]
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TargetError, match="weights of 1 parameters are missing"):
        load_embedder(folder)


def changed(file: str, **values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
        (folder / file).write_text(json.dumps({**settings, **values}))

    return change


def written(file: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text(content) and None


def broken_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][3, 3] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def only_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def pooled_outside(folder: Path) -> None:
    (folder / "1_Pooling/config.json").rename(folder.parent / "outside.json")
    (folder / "1_Pooling/config.json").symlink_to(folder.parent / "outside.json")


POOLING = "1_Pooling/config.json"
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "only a pickle": (only_pickle, "no model.safetensors"),
    "code of its own": (changed("config.json", auto_map={"AutoModel": "x.X"}), "its own code"),
    "another architecture": (changed("config.json", model_type="gpt2"), "no encoder of sentences"),
    "numbers that are none": (broken_weights, "not finite"),
    "two ways of pooling": (changed(POOLING, pooling_mode_cls_token=True), "pools by"),
    "no way of pooling": (changed(POOLING, pooling_mode_mean_tokens=False), "pools by nothing"),
    "another way of pooling": (
        changed(POOLING, pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True),
        "pools by pooling_mode_max_tokens",
    ),
    "pooling that is no JSON": (written(POOLING, "{"), "not readable"),
    "pooling that is no object": (written(POOLING, "[]"), "not a JSON object"),
    "pooling settings missing": (lambda folder: (folder / POOLING).unlink(), "no 1_Pooling/config.json"),
    "pooling settings elsewhere": (pooled_outside, "leads out"),
    "modules in another order": (written("modules.json", json.dumps(embedders.MODULES[::-1])), "modules Normalize"),
    "a module of another kind": (
        written("modules.json", json.dumps([*embedders.MODULES, {"type": "x.Dense", "path": "3_Dense"}])),
        "Dense",
    ),
    "an encoder elsewhere": (
        written("modules.json", json.dumps([{**embedders.MODULES[0], "path": "0"}, *embedders.MODULES[1:]])),
        "modules Transformer",
    ),
    "modules that lead out": (
        written("modules.json", json.dumps([embedders.MODULES[0], {**embedders.MODULES[1], "path": "../other"}])),
        "leads out|no ../other",
    ),
    "modules that are no list": (written("modules.json", "3"), "not a list of modules"),
    "a prompt of its own": (
        changed("config_sentence_transformers.json", default_prompt_name="query", prompts={"query": "query: "}),
        "prompt of its own",
    ),
    "a limit that is none": (changed("sentence_bert_config.json", max_seq_length="many"), "max_seq_length"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_trusted_is_refused(damage: str, tmp_path: Path) -> None:
    folder = embedders.checkpoint(tmp_path / "embedder", "bert", embedders.MEAN, embedders.MODULES)
    load_embedder(folder)
    apply, message = DAMAGES[damage]
    apply(folder)
    with pytest.raises(TargetError, match=message):
        load_embedder(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no such folder"):
        load_embedder(tmp_path / "none")


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="the real embedder is not here")
def test_a_real_embedder_puts_similar_sentences_closer_together_than_unrelated_ones() -> None:
    target = load_embedder(REAL)
    assert target.reading.pooling == "mean"
    assert target.card.max_tokens == 256
    vectors = asked(
        target,
        "The applicant was born in 1970 and lives in Paris.",
        "The claimant, born in 1971, resides in Lyon.",
        "Photosynthesis turns light into sugar.",
        "Plants make sugar from sunlight.",
    )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    similarity = vectors @ vectors.T
    assert vectors.shape == (4, 384)
    assert min(similarity[0, 1], similarity[2, 3]) > 0.4 > similarity[:2, 2:].max() + 0.2
