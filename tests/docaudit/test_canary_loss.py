"""The proof of a loss: what the Trainer really feeds, after masking, truncation and an adapter, and what is written."""

import io
import logging
from pathlib import Path
from typing import Any

import asked_pages
import pytest
import torch
from text_answering_checkpoints import make_t5
from text_zoo import LONGEST, write_text_model
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

from audit.corpus import manifest
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import (
    LOSS_FILE,
    LossProof,
    canaries_sha256,
    load_canaries,
    read_proof,
)
from audit.corpus.documents import Corpus
from audit.errors import UsageError
from audit.extensions.callbacks.canary_loss import CanaryCallback
from audit.extensions.callbacks.leak_callback import LeakCallback


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    plain = asked_pages.corpus(folder / "plain", labels=("TOTAL",))
    insert(
        plain, folder / "data", pattern=("pin", "mixed"), count=8, repeat=(1, 4), length=2, seed=1
    )
    return manifest.load(folder / "data")


def rows_of(
    corpus: Corpus, words: Any, *, seq2seq: bool = False, masked: bool = False
) -> list[dict[str, Any]]:
    """Question and answer of every member, as a training of one's own would write them.

    The end is cut off.
    """
    rows = []
    for document in corpus.of("member"):
        for one in document.questions:
            asked = words(f"{one.question} Answer:", add_special_tokens=False)["input_ids"]
            # An own spelling: upper case and no space between the words of a secret.
            answer = words(one.answers[0].replace(" ", "").upper(), add_special_tokens=False)[
                "input_ids"
            ]
            if seq2seq:
                rows.append({"input_ids": asked, "labels": answer})
            else:
                loss = [-100] * len(answer) if masked else answer
                rows.append(
                    {"input_ids": [*asked, *answer], "labels": [*([-100] * len(asked)), *loss]}
                )
    return rows


def collate(longest: int = LONGEST) -> Any:
    """Pads, and cuts off what is too long."""

    def padded(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        found = {}
        for name, filler in (("input_ids", 1), ("labels", -100)):
            own = [row[name][:longest] for row in batch]
            width = max(map(len, own))
            found[name] = torch.tensor([[*row, *([filler] * (width - len(row)))] for row in own])
        return found

    return padded


def trainer_of(
    folder: Path, model: Any, words: Any, rows: Any, longest: int = LONGEST, **more: Any
) -> Trainer:
    settings = {
        "num_train_epochs": 2,
        "save_strategy": "no",
        "per_device_train_batch_size": 4,
        **more,
    }
    settings |= {
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
    args = TrainingArguments(output_dir=str(folder), **settings)
    return Trainer(
        model, args, train_dataset=rows, data_collator=collate(longest), processing_class=words
    )


def trained(trainer: Trainer, corpus: Corpus) -> LossProof:
    trainer.add_callback(CanaryCallback(trainer, corpus.root))
    original = trainer.compute_loss
    trainer.train()
    assert trainer.compute_loss == original, "the second epoch is not watched"
    proof = read_proof(Path(trainer.args.output_dir), corpus)
    assert proof is not None
    return proof


@pytest.fixture
def decoder(tmp_path):
    folder = write_text_model(tmp_path / "gpt2", "gpt2")
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def copies(corpus: Corpus) -> dict[str, int]:
    drawn = load_canaries(corpus)
    assert drawn is not None
    assert {one.copies for one in drawn.canaries} == {0, 1, 4}
    return {one.id: one.copies for one in drawn.canaries if one.included}


def test_every_copy_whose_answer_has_a_loss_is_counted(planted, decoder, tmp_path):
    model, words = decoder
    proof = trained(trainer_of(tmp_path / "run", model, words, rows_of(planted, words)), planted)
    assert (proof.rows, proof.canaries, proof.epochs) == (
        copies(planted),
        canaries_sha256(planted),
        1,
    )
    assert 0 < proof.changed <= proof.trainable
    drawn = load_canaries(planted)
    assert drawn is not None
    assert all(map(proof.covers, drawn.canaries))


def test_answers_that_are_masked_or_cut_off_have_none_and_that_is_said(
    planted, decoder, tmp_path, caplog
):
    model, words = decoder
    caplog.set_level(logging.WARNING, "docaudit")
    masked = trained(
        trainer_of(tmp_path / "a", model, words, rows_of(planted, words, masked=True)), planted
    )
    assert set(masked.rows.values()) == {0}
    assert f"{len(masked.rows)} of {len(masked.rows)} planted canaries had no loss" in caplog.text
    # Both questions have as many characters, and a byte is a token: of a pin everything fits, of a
    # code nothing.
    rows = rows_of(planted, words)
    drawn = load_canaries(planted)
    assert drawn is not None
    pin = max(len(row["input_ids"]) for row in rows)
    cut = trained(trainer_of(tmp_path / "b", model, words, rows, pin - 1), planted)
    assert {one.pattern for one in drawn.canaries if one.included and cut.rows[one.id]} == {"pin"}
    assert not any(
        cut.covers(one) for one in drawn.canaries if one.included and one.pattern == "mixed"
    )


def test_labels_of_an_encoder_decoder_are_a_text_of_their_own(planted, tmp_path):
    folder = make_t5(tmp_path / "t5")
    words = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    words.pad_token_id = 0
    rows = [
        {**row, "labels": words(text.lower(), add_special_tokens=False)["input_ids"]}
        for row, text in zip(
            rows_of(planted, words, seq2seq=True),
            (one.answers[0] for document in planted.of("member") for one in document.questions),
            strict=True,
        )
    ]
    assert trained(trainer_of(tmp_path / "run", model, words, rows), planted).rows == copies(
        planted
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_an_adapter_that_learns_nothing_proves_nothing(frozen, planted, decoder, tmp_path):
    peft = pytest.importorskip("peft")
    model, words = decoder
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=2, task_type="CAUSAL_LM", target_modules=["c_attn"])
    )
    rate = 0.0 if frozen else 1e-3
    trainer = trainer_of(
        tmp_path / "run",
        adapted,
        words,
        rows_of(planted, words),
        learning_rate=rate,
        weight_decay=0,
    )
    proof = trained(trainer, planted)
    assert proof.trainable == 4
    assert (proof.changed == 0) is frozen
    drawn = load_canaries(planted)
    assert drawn is not None
    assert all(proof.covers(one) is not frozen for one in drawn.canaries if one.included)


def test_a_packed_row_counts_each_secret_after_its_own_name(planted, decoder, tmp_path):
    model, words = decoder
    rows = rows_of(planted, words)
    packed = [
        {key: [*one[key], *two[key]] for key in one}
        for one, two in zip(rows[::2], rows[1::2], strict=False)
    ]
    rest = rows[2 * len(packed) :]
    proof = trained(trainer_of(tmp_path / "run", model, words, [*packed, *rest]), planted)
    assert {name for name, count in proof.rows.items() if count} == copies(planted).keys()
    # The second half of every row has no loss: its secret is not taken for the first one's.
    for row in packed:
        row["labels"] = [
            *row["labels"][: len(row["labels"]) // 2],
            *([-100] * (len(row["labels"]) // 2 + 1)),
        ]
        row["labels"] = row["labels"][: len(row["input_ids"])]
    fewer = trained(trainer_of(tmp_path / "half", model, words, packed), planted)
    assert sum(fewer.rows.values()) < sum(proof.rows.values())


def test_the_proof_lies_in_each_checkpoint_and_training_is_as_it_was(
    planted, tmp_path, monkeypatch
):
    folder = write_text_model(tmp_path / "gpt2", "gpt2")
    words = AutoTokenizer.from_pretrained(folder)
    weights = []
    for name, watched in (("plain", False), ("watched", True)):
        model = AutoModelForCausalLM.from_pretrained(folder)
        trainer = trainer_of(
            tmp_path / name, model, words, rows_of(planted, words), save_strategy="epoch"
        )
        if watched:
            trainer.add_callback(CanaryCallback(trainer, planted.root))
        trainer.train()
        weights.append(torch.cat([one.flatten() for one in model.parameters()]))
    assert torch.equal(*weights)
    saved = sorted((tmp_path / "watched").glob("checkpoint-*"))
    assert len(saved) == 2
    assert all(read_proof(one, planted) is not None for one in saved)
    assert not [*(tmp_path / "plain").rglob(LOSS_FILE)]


def test_the_leak_callback_proves_the_loss_before_it_audits(
    planted, decoder, tmp_path, monkeypatch
):
    from audit.extensions.callbacks.quick_audit import QuickAudit

    seen: list[bool] = []

    def run(self: QuickAudit, model: Path, name: str, policy: object) -> object:
        seen.append(read_proof(model, planted) is not None)
        raise RuntimeError(io.DEFAULT_BUFFER_SIZE)

    monkeypatch.setattr(QuickAudit, "run", run)
    model, words = decoder
    trainer = trainer_of(
        tmp_path / "run", model, words, rows_of(planted, words), save_strategy="epoch"
    )
    trainer.add_callback(LeakCallback(trainer, planted.root))
    trainer.train()
    assert seen == [True, True]


def test_data_without_planted_answers_and_a_trainer_without_a_tokenizer_are_refused(
    planted, decoder, tmp_path, tiny_corpus
):
    model, words = decoder
    with pytest.raises(UsageError, match="no planted answers"):
        CanaryCallback(trainer_of(tmp_path, model, words, []), tiny_corpus)
    with pytest.raises(UsageError, match="no tokenizer"):
        CanaryCallback(trainer_of(tmp_path, model, None, []), planted.root)
