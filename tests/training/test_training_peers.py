"""What an encoder was fine-tuned from as a reference: loaded where it can be asked what the target is asked."""

import json

import pytest
import tiny
from safetensors.numpy import load_file, save_file

from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import SILENT
from audit.errors import TargetError
from audit.references.resolve import complete, prepare
from audit.targets.encoders.loading import load

USES = {"baselines", "pretrained"}


@pytest.fixture(scope="module")
def corpus(tiny_corpus):
    return load_corpus(tiny_corpus)


def references(corpus, target_dir, cache, **given):
    places = {name: [folder] for name, folder in given.items()}
    target = load(target_dir)
    return complete(
        prepare(USES, target, target_dir, corpus, places), USES, target, cache, 0, SILENT
    ).references


def test_a_masked_language_model_is_compared_with_what_it_was_fine_tuned_from(
    corpus, checkpoints, tmp_path
):
    pretrained = checkpoints("layoutlm", "mlm", 1)
    found = references(
        corpus, checkpoints("layoutlm", "mlm"), tmp_path, pretrained=pretrained
    ).pretrained
    assert found.card.sha256 == load(pretrained).card.sha256


def test_a_tagger_is_compared_with_a_tagger_only(corpus, checkpoints, tmp_path):
    tagger = checkpoints("layoutlm", "token-classification")
    assert (
        references(corpus, tagger, tmp_path, pretrained=checkpoints("layoutlm", "mlm")).pretrained
        is None
    )
    before = checkpoints("layoutlm", "token-classification", 1)
    assert references(corpus, tagger, tmp_path, pretrained=before).pretrained is not None


def test_a_checkpoint_of_another_family_or_vocabulary_is_no_reference(
    corpus, checkpoints, tmp_path
):
    target = checkpoints("layoutlm", "mlm")
    assert (
        references(corpus, target, tmp_path, pretrained=checkpoints("bert", "mlm")).pretrained
        is None
    )
    other = tiny.checkpoint(tmp_path / "other", "layoutlm", "mlm", 1)
    settings = json.loads((other / "tokenizer.json").read_text())
    vocabulary = settings["model"]["vocab"]
    vocabulary["a"] = vocabulary["b"]
    vocabulary["b"] = vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(settings))
    assert references(corpus, target, tmp_path, pretrained=other).pretrained is None
    with pytest.raises(TargetError, match="other tokens"):
        references(corpus, target, tmp_path, baselines=other)


def test_a_bare_encoder_does_not_stop_the_scan(corpus, checkpoints, tmp_path):
    bare = tiny.checkpoint(tmp_path / "bare", "layoutlm", "mlm", 1)
    weights = load_file(bare / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "predictions.transform" not in name}
    assert len(kept) < len(weights)
    save_file(kept, bare / "model.safetensors", metadata={"format": "pt"})
    assert (
        references(corpus, checkpoints("layoutlm", "mlm"), tmp_path, pretrained=bare).pretrained
        is None
    )


def test_the_target_itself_is_refused(corpus, checkpoints, tmp_path):
    target = checkpoints("layoutlm", "mlm")
    with pytest.raises(TargetError, match="nothing of the training is in it"):
        references(corpus, target, tmp_path, pretrained=target)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"documents": 5, "start": []}', "[]", "\x00"], ids=len
)
def test_an_origin_that_cannot_be_read_is_refused(content, corpus, checkpoints, tmp_path):
    other = tiny.checkpoint(tmp_path / "other", "layoutlm", "mlm", 1)
    (other / "docaudit-origin.json").write_text(content)
    with pytest.raises(TargetError, match=r"docaudit-origin\.json cannot be read"):
        references(corpus, checkpoints("layoutlm", "mlm"), tmp_path, baselines=other)
