"""`LeakCallback` lists the training documents that a training is about to memorise."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import example_records as examples
import pytest
import tiny
from transformers import Trainer, TrainingArguments

from audit.corpus import manifest
from audit.errors import UsageError
from audit.extensions.callbacks import quick_audit
from audit.extensions.callbacks.leak_callback import LeakCallback
from audit.extensions.callbacks.memory_list import MemoryList
from audit.extensions.callbacks.quick_audit import QuickAudit
from audit.references.encoders import Collator
from audit.targets.encoders.families import family_named
from audit.targets.encoders.loading import load

RECEIPTS = Path(__file__).parents[2] / "sample_models" / "receipts"
N_SIDE = 40
PLANTED = 4
OUTLIER = "zebra quartz 7714 vortex 9902 onyx 5561 fjord 3320"
"""Words in place of those of a receipt, which no other receipt has."""


def write_audit(folder: Path, gains: dict[str, float], unseen: dict[str, float]) -> Path:
    """Write the scores of an audit, as a scan keeps them."""
    rows = []
    for split, scores in (("member", gains), ("heldout", unseen)):
        for document, gain in scores.items():
            row = {"attack": "membership", "document": document, "split": split}
            rows.append({**row, "scores": {"loss": -1.0, "calibrated": gain}})
    (folder / "evidence").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "evidence" / "recovered.jsonl").write_text(text)
    return folder


def gains(*, planted: float = 3.0) -> dict[str, float]:
    """Scores of 40 documents, of which the first four are remembered."""
    return {
        f"page-{number:02d}": planted + number if number < PLANTED else 1 + number / 100
        for number in range(N_SIDE)
    }


UNSEEN = {f"other-{number}": number / 100 for number in range(N_SIDE)}


def test_the_list_holds_ids_alone_and_lies_with_the_evidence(tmp_path: Path) -> None:
    memory = MemoryList(tmp_path, 160, 0.1)
    first = memory.add(write_audit(tmp_path / "step-10", gains(), UNSEEN), 10)
    second = memory.add(write_audit(tmp_path / "step-20", gains(planted=5), UNSEEN), 20)
    assert first is not None
    assert (first.path, first.foreseen.doubt) == (None, "first")
    assert second is not None
    assert second.path == tmp_path / "evidence" / "memorised-step-20.txt"
    assert second.path.read_text() == "page-03\npage-02\npage-01\npage-00\n"
    assert second.path.stat().st_mode & 0o777 == 0o600
    assert "4 of the 40 audited training documents (160 in all) are likely" in second.sentence
    assert "4 also ranked first at step 10; 0.4 would by chance" in second.sentence
    assert "at most 5 % of the documents that the model does not know are listed" in second.sentence
    assert f"--without {second.path}" in second.sentence


def test_an_audit_with_too_few_unseen_documents_says_how_many_it_takes(tmp_path: Path) -> None:
    few = dict([*UNSEEN.items()][:18])
    listing = MemoryList(tmp_path, 160, 0.1).add(
        write_audit(tmp_path / "step-10", gains(), few), 10
    )
    assert listing is not None
    assert listing.path is None
    assert "takes 19 unseen documents in the audit" in listing.sentence


def test_an_audit_without_scores_lists_nothing_and_says_why(tmp_path: Path) -> None:
    listing = MemoryList(tmp_path, 160, 0.1).add(tmp_path / "step-10", 10)
    assert listing is not None
    assert listing.path is None
    assert "needs the attack membership, unseen documents, and a reference" in listing.sentence


def test_a_share_of_0_wants_no_list(tmp_path: Path) -> None:
    assert MemoryList(tmp_path, 160, 0.0).add(tmp_path, 10) is None


class Trained:
    """A training of the receipts sample on few documents, audited in this process.

    Either on its members, of which four are shown ten times and one holds words that no other
    document has; or on public documents alone.
    """

    def __init__(self, root: Path, *, on_members: bool) -> None:
        sample = manifest.load(RECEIPTS / "data")
        members = list(sample.of("member")[:N_SIDE])
        members[0] = with_words(members[0], OUTLIER.split())
        self.planted = {document.id for document in members[:PLANTED]}
        data = root / "data"
        without_images = [
            dataclasses.replace(document, image=None)
            for document in (*members, *sample.of("heldout")[:N_SIDE])
        ]
        plain = dataclasses.replace(sample.manifest, references=type(sample.manifest.references)())
        manifest.write(data, plain, without_images)
        start = RECEIPTS / "data" / "references" / "pretrained"
        loaded = load(start)
        tokenizer = loaded.encoder.tokenizer
        shown = [*sample.of("public")[: 2 * N_SIDE]]
        if on_members:
            shown = [*members, *members[:PLANTED] * 9]
        trainer = Trainer(
            model=loaded.model,
            args=TrainingArguments(
                output_dir=str(root / "run"),
                num_train_epochs=4,
                learning_rate=1e-3,
                lr_scheduler_type="constant",
                per_device_train_batch_size=8,
                save_strategy="epoch",
                save_only_model=True,
                report_to="none",
                disable_tqdm=True,
                remove_unused_columns=False,
                use_cpu=True,
                seed=1,
            ),
            train_dataset=[loaded.encode(document) for document in shown],
            data_collator=Collator(family_named("layoutlm"), tokenizer, 0.3, 1),
            processing_class=tokenizer,
        )
        self.callback = LeakCallback(
            trainer,
            data,
            only=["membership"],
            documents=2 * N_SIDE,
            references={"pretrained": [start]},
            device="cpu",
        )
        trainer.add_callback(self.callback)
        trainer.train()
        self.logged = [
            row["docaudit/listed"] for row in trainer.state.log_history if "docaudit/listed" in row
        ]


def with_words(document: Any, texts: list[str]) -> Any:
    """Return a document whose first words are replaced, without its fields."""
    words = tuple(
        dataclasses.replace(word, text=texts[number % len(texts)])
        for number, word in enumerate(document.words)
    )
    return dataclasses.replace(document, words=words, entities=())


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit without another process, which takes longer to start than to audit."""

    def run(self: QuickAudit, model: Path, name: str, policy: object) -> object:
        quick_audit.write_record(self.options(model, name), self.policy)
        return examples.wide()[1]

    monkeypatch.setattr(QuickAudit, "run", run)


def test_documents_that_are_shown_often_are_on_the_list(
    tmp_path: Path, in_this_process: None, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, on_members=True)
    last = trained.callback.listings[-1]
    assert not trained.callback.failures
    assert set(last.foreseen.listed) == trained.planted
    assert last.path is not None
    assert set(last.path.read_text().split()) == trained.planted
    assert trained.logged == [len(listing.foreseen.listed) for listing in trained.callback.listings]
    assert "are likely to be memorised" in caplog.text
    assert not any(identifier in caplog.text for identifier in trained.planted)


def test_a_model_that_learns_nothing_of_its_members_lists_none(
    tmp_path: Path, in_this_process: None
) -> None:
    trained = Trained(tmp_path, on_members=False)
    assert not trained.callback.failures
    assert trained.logged == [0, 0, 0, 0]
    assert [listing.foreseen.doubt for listing in trained.callback.listings] == [
        "first",
        *["unseen"] * 3,
    ]


def test_a_list_that_cannot_be_made_leaves_the_audit_as_it_is(
    tmp_path: Path,
    tiny_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    callback = LeakCallback(bare_trainer(tmp_path), tiny_corpus)
    monkeypatch.setattr(QuickAudit, "run", lambda *_: examples.passed()[1])
    folder = callback._quick.root / "step-2" / "evidence"
    folder.mkdir(parents=True)
    (folder / "recovered.jsonl").write_text("invoice of A. Berg")
    outcome = callback._audit_checkpoint(tmp_path, 2)
    assert outcome.logged["docaudit/exit_code"] == 0
    assert "docaudit/listed" not in outcome.logged
    assert "no documents are listed: JSONDecodeError at audit/" in caplog.text
    assert "Berg" not in caplog.text


@pytest.mark.parametrize("share", [-0.1, 1.0, 3.0])
def test_a_share_that_is_none_is_refused(tmp_path: Path, tiny_corpus: Path, share: float) -> None:
    with pytest.raises(UsageError, match="no share below 1"):
        LeakCallback(bare_trainer(tmp_path), tiny_corpus, listed=share)


def bare_trainer(folder: Path) -> Trainer:
    """Make a Trainer that trains nothing."""
    arguments = TrainingArguments(output_dir=str(folder / "run"), report_to="none", use_cpu=True)
    return Trainer(tiny.model("bert", "token-classification"), arguments)
