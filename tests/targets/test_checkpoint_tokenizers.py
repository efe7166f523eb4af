"""Tokenizers as people save them: of every format, with and without special tokens, of words that come one by one."""

import json
import shutil
from pathlib import Path
from typing import Any

import encoder_zoo
import pytest
import sentencepiece
import tiny
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets.checkpoint import loading as module
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoders.encoding import NO_UNKNOWN, Encoder
from audit.targets.encoders.loading import load
from audit.targets.interface import MaskedLoss

WORDS = ["total", "17.04", "ab"]


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    return encoder_zoo.write_encoder(tmp_path / "model", "roberta", "mlm")


def encoded(tokenizer: Any) -> list[int]:
    document = Document("d", "member", tiny.laid_out(WORDS), size=tiny.SIZE)
    page = Encoder(tokenizer, 64, needs_boxes=False).encode(document)
    assert page is not None
    assert [int(index) for index in dict.fromkeys(page.words[page.words >= 0].tolist())] == [
        0,
        1,
        2,
    ]
    return page.ids.tolist()


def as_slow(folder: Path) -> None:
    """Put the files of a slow byte-level tokenizer in place of tokenizer.json."""
    whole = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(whole["vocab"]))
    lines = [pair if isinstance(pair, str) else " ".join(pair) for pair in whole["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{line}\n" for line in lines))
    (folder / "tokenizer.json").unlink()


def test_vocab_and_merges_are_read_as_tokenizer_json_is(roberta: Path) -> None:
    before = encoded(load_tokenizer(roberta))
    as_slow(roberta)
    assert (encoded(load_tokenizer(roberta)), load(roberta).card.max_tokens) == (before, 127)


def test_vocab_json_alone_is_no_tokenizer(roberta: Path) -> None:
    as_slow(roberta)
    (roberta / "merges.txt").unlink()
    with pytest.raises(TargetError, match=r"vocab\.json without merges\.txt"):
        load_tokenizer(roberta)


@pytest.mark.parametrize(
    ("kind", "name"), [("albert", "spiece.model"), ("deberta-v2", "spm.model")]
)
def test_sentencepiece_models_are_read(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(
        "".join(f"{' '.join(WORDS)} {one} {tiny.CHARACTERS}\n" for one in tiny.CHARACTERS)
    )
    special = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    if kind == "deberta-v2":
        special = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        input=str(sentences),
        model_prefix=str(tmp_path / "made"),
        vocab_size=60,
        hard_vocab_limit=False,
        character_coverage=1.0,
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
        **special,
    )
    folder = encoder_zoo.write_encoder(tmp_path / "model", kind, "mlm", vocab_size=80)
    for old in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / old).unlink(missing_ok=True)
    shutil.move(tmp_path / "made.model", folder / name)
    tokenizer = load_tokenizer(folder)
    ids = encoded(tokenizer)
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids[1:-1]).split() == WORDS
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(TargetError, match="SentencePiece") as raised:
        load_tokenizer(folder)
    assert "docaudit[sentencepiece]" in raised.value.hint


def bare(folder: Path, **special: str) -> Path:
    """A byte-level tokenizer inside a sequence of splitters, with these special tokens alone."""
    tokens = [*special.values(), *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    digits = pre_tokenizers.Digits(individual_digits=True)
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(folder)
    return folder


def test_pages_have_no_ends_where_the_tokenizer_has_none_and_bytes_need_no_unknown(
    tmp_path: Path,
) -> None:
    folder = encoder_zoo.write_encoder(tmp_path / "model", "modernbert", "mlm")
    target = load(bare(folder, pad_token="<pad>", mask_token="<mask>"))
    assert target.card.max_tokens == 127  # the tokenizer itself names no limit
    page = target.encode(Document("d", "member", tiny.laid_out(WORDS), size=tiny.SIZE))
    assert page is not None
    assert (page.words >= 0).all()
    assert (page.unknown_id, len(page.boxes)) == (NO_UNKNOWN, len(page.ids))
    assert target.token_strings(page.ids.tolist()).split() == WORDS  # each word begins with a space
    target.encoder.tokenizer.save_pretrained(folder)  # as a training on it does
    assert encoded(load_tokenizer(folder)) == page.ids.tolist()
    (losses,) = target.ask([MaskedLoss(page, (0, 1))])
    assert (losses > 0).all()


def test_the_tokens_of_beginning_and_end_stand_for_cls_and_sep(tmp_path: Path) -> None:
    folder = encoder_zoo.write_encoder(tmp_path / "model", "modernbert", "mlm")
    tokenizer = load_tokenizer(
        bare(folder, bos_token="<s>", eos_token="</s>", pad_token="<p>", mask_token="<m>")
    )
    ids = encoded(tokenizer)
    assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)


@pytest.mark.parametrize("lacking", ["mask_token", "pad_token"])
def test_a_tokenizer_must_be_able_to_hide_and_to_pad(lacking: str, tmp_path: Path) -> None:
    folder = encoder_zoo.write_encoder(tmp_path / "model", "modernbert", "mlm")
    special = {"mask_token": "<m>", "pad_token": "<p>"}
    del special[lacking]
    with pytest.raises(TargetError, match=f"lacks the {lacking.partition('_')[0]} token"):
        load_tokenizer(bare(folder, **special))
