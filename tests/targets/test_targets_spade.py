"""The SPADE heads on LayoutLM against the formula, on disk, and what is refused when a SPADE checkpoint is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from audit.errors import TargetError
from audit.targets.checkpoint.loading import load_model
from audit.targets.encoders.loading import load
from audit.targets.encoders.models import LayoutLMSpadeForExtraction, LayoutLMSpadeForLinking


def inputs(lengths: tuple[int, ...] = (9, 6)) -> dict[str, torch.Tensor]:
    """Pages of these lengths, padded to the longest; every other token begins a word."""
    generator = torch.Generator().manual_seed(3)
    n = max(lengths)
    attended = torch.arange(n) < torch.tensor(lengths)[:, None]
    return {
        "input_ids": torch.randint(5, len(tiny.VOCABULARY), (len(lengths), n), generator=generator),
        "bbox": torch.randint(0, 1001, (len(lengths), n, 4), generator=generator).sort(dim=-1).values,
        "attention_mask": attended.long(),
        "bbox_first_token_mask": attended & (torch.arange(n) % 2 == 0),
    }


def scores_by_hand(model: Any, head: Any, batch: dict[str, torch.Tensor], page: int, length: int) -> torch.Tensor:
    """(length, length + 1) dot products of a page alone, the dummy last."""
    alone = {name: batch[name][page : page + 1, :length] for name in ("input_ids", "bbox", "attention_mask")}
    hidden = model.layoutlm(**alone).last_hidden_state[0]
    keys = head.key(torch.cat([hidden, head.dummy_node]))
    return head.query(hidden) @ keys.T


def cross_entropy(scores: torch.Tensor, own: int, allowed: list[int], label: int) -> float:
    """The cost of `label` among the allowed keys except the token itself."""
    keys = [key for key in allowed if key != own]
    return -float(torch.log_softmax(scores[own, keys], dim=0)[keys.index(label)])


def test_the_loss_of_linking_is_the_formulas() -> None:
    model = tiny.model("layoutlm", "spade-linking").eval()
    batch = inputs()
    labels = torch.full((2, 9), 9)  # 9 is "none"
    labels[0, 2], labels[0, 8], labels[1, 4] = 0, 4, 2
    with torch.inference_mode():
        loss = float(model(**batch, labels=labels).loss)
        costs = []
        for page, length in enumerate((9, 6)):
            scores = scores_by_hand(model, model.entity_linker, batch, page, length)
            first = list(range(0, length, 2))
            for own in first:
                label = int(labels[page, own])
                costs.append(cross_entropy(scores, own, [*first, length], length if label == 9 else label))
    assert loss == pytest.approx(sum(costs) / len(costs), rel=1e-4)


def test_the_loss_of_extraction_is_the_sum_of_both_formulas() -> None:
    model = tiny.model("layoutlm", "spade-extraction").eval()
    batch = inputs()
    classes = torch.where(batch["bbox_first_token_mask"], torch.arange(9) % 5, -100)
    before = torch.where(batch["attention_mask"] == 1, 9, -100)
    before[0, 3], before[1, 5] = 2, 1
    with torch.inference_mode():
        output = model(**batch, initial_token_labels=classes, subsequent_token_labels=before)
        log_p = torch.log_softmax(output.initial_token_logits, dim=-1)
        read = batch["bbox_first_token_mask"].nonzero().tolist()
        initial = [-float(log_p[page, place, classes[page, place]]) for page, place in read]
        subsequent = []
        for page, length in enumerate((9, 6)):
            scores = scores_by_hand(model, model.subsequent_token_classifier, batch, page, length)
            for own in range(length):
                label = int(before[page, own])
                every = list(range(length + 1))
                subsequent.append(cross_entropy(scores, own, every, length if label == 9 else label))
    expected = sum(initial) / len(initial) + sum(subsequent) / len(subsequent)
    assert float(output.loss) == pytest.approx(expected, rel=1e-4)
    hidden = model.layoutlm(**{name: batch[name] for name in ("input_ids", "bbox", "attention_mask")}).last_hidden_state
    _, first, _, second = model.initial_token_classifier
    torch.testing.assert_close(second(first(hidden)), output.initial_token_logits)  # two layers, nothing between


@pytest.mark.parametrize(
    ("head", "model_class"),
    [("spade-extraction", LayoutLMSpadeForExtraction), ("spade-linking", LayoutLMSpadeForLinking)],
)
def test_a_checkpoint_survives_saving(head: tiny.HeadName, model_class: type[Any], tmp_path: Path) -> None:
    model = tiny.model("layoutlm", head).eval()
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    again, missing = load_model(tmp_path, model_class)
    assert missing == []
    state = model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())
    target = load(tmp_path)
    assert (target.card.family, target.card.task) == ("LayoutLM", head)
    assert target.card.architecture.startswith("LayoutLM, entity ")
    assert target.labels == tiny.LABELS_OF.get(head, ())


def test_a_fresh_head_on_a_trained_encoder_starts_like_the_rest_of_it(tmp_path: Path) -> None:
    source = tiny.model("layoutlm", "mlm")
    source.save_pretrained(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, missing = load_model(tmp_path, LayoutLMSpadeForLinking)
    assert sorted(name for name in missing if "pooler" not in name) == [
        f"entity_linker.{name}" for name in ("dummy_node", "key.bias", "key.weight", "query.bias", "query.weight")
    ]
    for weights in (model.entity_linker.dummy_node, model.entity_linker.key.weight):
        assert float(weights.detach().std()) == pytest.approx(source.config.initializer_range, rel=0.4)
    embeddings = model.layoutlm.embeddings.word_embeddings.weight
    assert torch.equal(embeddings, source.layoutlm.embeddings.word_embeddings.weight)


@pytest.mark.parametrize("family", ["layoutlm", "bros"])
@pytest.mark.parametrize(
    ("own", "manifest", "result"),
    [
        (("O", "A", "B"), (), ("O", "A", "B")),
        (("A", "O", "B"), ("O", "A", "B"), ("A", "O", "B")),
        (("LABEL_0", "LABEL_1"), ("O", "A"), ("O", "A")),
        (("O", "A"), ("O", "C"), "labels are not the manifest's"),
        (("A", "B"), (), "no label is O, so these are no classes of SPADE extraction"),
        (("LABEL_0", "LABEL_1"), ("A", "B"), "no label is O, so these are no classes"),
        (("LABEL_0", "LABEL_1"), (), "2 unnamed labels, the manifest names 0"),
        (("O", "A"), ("O", "B-A", "I-A"), "labels are not the manifest's"),
    ],
)
def test_classes_are_the_models_or_where_it_names_none_the_manifests(
    family: tiny.FamilyName, own: tuple[str, ...], manifest: tuple[str, ...], result: Any, tmp_path: Path
) -> None:
    tiny.checkpoint(tmp_path, family, "spade-extraction", labels=own)
    if isinstance(result, tuple):
        assert load(tmp_path, labels=manifest).labels == result
        return
    with pytest.raises(TargetError, match=result):
        load(tmp_path, labels=manifest)


def test_a_linker_has_no_labels_whatever_the_manifest_says(tmp_path: Path) -> None:
    assert load(tiny.checkpoint(tmp_path, "bros", "spade-linking"), labels=tiny.LABELS).labels == ()


def test_heads_of_several_relations_are_refused(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path, "bros", "spade-linking")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "n_relations": 2}))
    with pytest.raises(TargetError, match="SPADE head of 2 relations"):
        load(tmp_path)
