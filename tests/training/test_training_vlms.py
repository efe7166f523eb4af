"""Fine-tuning of image-text-to-text models: in turns, with a suffix, with an encoder.

What is taught is learnt.
"""

from dataclasses import replace

import pytest
import torch
from vlm_zoo import ZOO

from audit.corpus.documents import TrainingRecipe
from audit.references.retrain import Retraining, recipe_for, retrain
from audit.references.trainer import samples_of
from audit.targets.answering.loading import load_answering
from audit.targets.interface import AnswerLoss


@pytest.mark.parametrize(
    "family",
    ["idefics3", "qwen2_5_vl", "paligemma", "florence2", "granite_docling", "minicpmv4_6"],
)
def test_a_baseline_learns_its_pages_and_is_saved_with_its_processor(family, pages, vlms, tmp_path):
    prompt = ZOO[family].prompt
    given = TrainingRecipe(epochs=12, batch_size=4, learning_rate=1e-2, prompt=prompt)
    corpus = replace(pages, manifest=replace(pages.manifest, recipe=given))
    documents = corpus.of("member")[:2]
    start = vlms(family)
    retrain(Retraining(recipe_for(corpus)), start, corpus, documents, tmp_path / "baseline")
    before, after = (
        load_answering(folder, prompt=prompt) for folder in (start, tmp_path / "baseline")
    )
    queries = [
        AnswerLoss(one.view, one.question, str(one.answer)) for one in samples_of(corpus, documents)
    ]
    worse, better = (-sum(one.mean() for one in target.ask(queries)) for target in (before, after))
    assert better < 0.8 * worse, (better, worse)
    assert after.card.sha256 != before.card.sha256


def test_a_recipes_system_turn_is_trained_with(vlms, pages, tmp_path):
    given = TrainingRecipe(epochs=3, batch_size=4, learning_rate=1e-3, system="Read the bill.")
    plain = replace(given, system=None)
    weights = []
    for number, recipe in enumerate((given, plain)):
        corpus = replace(pages, manifest=replace(pages.manifest, recipe=recipe))
        folder = tmp_path / str(number)
        retrain(
            Retraining(recipe_for(corpus)), vlms("gemma3"), corpus, corpus.of("member")[:1], folder
        )
        weights.append(load_answering(folder).model.get_output_embeddings().weight)
    assert not torch.equal(*weights)
