"""Generation settings of a checkpoint: none keeps an answer from being given, and those that would are named."""

import json
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answering_checkpoints import CHARACTERS, make_chat, make_donut
from test_answering_contract import ASKED
from transformers import GenerationConfig

from audit.errors import TargetError
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import greedy, lifted

FIRST = 4
"""The id of the first character: four special tokens come before."""
TEXT = [*range(FIRST, FIRST + len(CHARACTERS))]
ENDS = frozenset({2})
MARKS = frozenset({0, 1, 2, 3})
DIGITS = [FIRST + CHARACTERS.index(character) for character in string.digits]
WITHHOLDING: dict[str, Any] = {
    "suppress_tokens": TEXT[:60],
    "begin_suppress_tokens": TEXT[:70],
    "bad_words_ids": [[number] for number in TEXT[:60]],
    "forced_bos_token_id": TEXT[5],
    "no_repeat_ngram_size": 1,
    "repetition_penalty": 5.0,
    "min_length": 20,
    "min_new_tokens": 20,
    "max_new_tokens": 1,
    "sequence_bias": [[[number], -50.0] for number in TEXT[:60]],
}
"""Each of them would keep true answers back, or make them others."""


class Reading:
    """What of a reader settings are held against."""

    ends = ENDS
    forbidden = MARKS
    max_new_tokens = 128

    def text_of(self, ids: list[int]) -> str:
        return "".join(CHARACTERS[number - FIRST] for number in ids if number >= FIRST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_donut(tmp_path_factory.mktemp("generation") / "model")


def with_settings(folder: Path, copy: Path, **settings: Any) -> Path:
    shutil.copytree(folder, copy)
    path = copy / "generation_config.json"
    known = json.loads(path.read_text())
    silent = [*known["suppress_tokens"], *settings.get("suppress_tokens", [])]
    path.write_text(json.dumps({**known, **settings, "suppress_tokens": silent}))
    return copy


@pytest.mark.parametrize("name", WITHHOLDING)
def test_a_setting_that_withholds_answers_changes_nothing_and_is_named(
    name: str, folder: Path, tmp_path: Path
) -> None:
    plain = load_answering(folder)
    bound = load_answering(with_settings(folder, tmp_path / "bound", **{name: WITHHOLDING[name]}))
    for target in (plain, bound):
        target.reader.max_new_tokens = 24
    free, given = (target.ask(ASKED[:6]) for target in (plain, bound))
    assert len({answer.text for answer in free}) > 2
    assert ([vars(answer) for answer in given], bound.card.lifted) == (
        [vars(answer) for answer in free],
        (name,),
    )
    assert (plain.card.lifted, bound.rounded("bfloat16").card.lifted) == ((), (name,))


def test_what_only_wraps_an_answer_stays() -> None:
    tokens = {
        "suppress_tokens": [3],
        "begin_suppress_tokens": [2],
        "bad_words_ids": [[3]],
        "forced_bos_token_id": 0,
    }
    plain = {
        "repetition_penalty": 1.0,
        "min_length": 0,
        "max_new_tokens": 500,
        "do_sample": True,
        "num_beams": 4,
    }
    own = GenerationConfig(decoder_start_token_id=1, **tokens, **plain)
    assert lifted(own, Reading()) == ()
    kept = greedy(own, ENDS, MARKS)
    assert (kept.suppress_tokens, kept.begin_suppress_tokens, kept.bad_words_ids) == (
        [3],
        [2],
        [[3]],
    )
    assert (kept.forced_bos_token_id, kept.decoder_start_token_id, kept.eos_token_id) == (0, 1, [2])
    assert (kept.do_sample, kept.num_beams) == (False, 1)


def test_only_what_withholds_goes() -> None:
    own = GenerationConfig(
        suppress_tokens=[0, 2, 7], bad_words_ids=[[3], [3, 7]], forced_bos_token_id=9
    )
    kept = greedy(own, ENDS, MARKS)
    assert (kept.suppress_tokens, kept.bad_words_ids, kept.forced_bos_token_id) == (
        [0],
        [[3]],
        None,
    )
    assert lifted(own, Reading()) == ("bad_words_ids", "forced_bos_token_id", "suppress_tokens")


@pytest.mark.parametrize("make", [make_donut, make_chat])
def test_ends_that_spell_digits_do_not_cut_answers_off(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make(tmp_path / "model", 1)
    ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    bound = with_settings(folder, tmp_path / "bound", eos_token_id=[*ends, *DIGITS])
    free = load_answering(folder)
    cut = load_answering(bound)
    for target in (free, cut):
        target.reader.max_new_tokens = 24
    said = free.ask(ASKED[:8])
    assert any(character.isdigit() for answer in said for character in answer.text)
    assert [vars(answer) for answer in cut.ask(ASKED[:8])] == [vars(answer) for answer in said]
    assert cut.card.lifted == ("eos_token_id",)
    assert not free.card.lifted


@pytest.mark.parametrize(
    "settings",
    [
        *({"eos_token_id": one} for one in ("</s>", 10**12, [[2]])),
        *({"decoder_start_token_id": one} for one in (10**6, -1)),
        {"suppress_tokens": [[0]]},
        {"bad_words_ids": [[[3]]]},
    ],
    ids=str,
)
def test_settings_that_name_no_token_are_refused(
    settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(TargetError) as caught:
        load_answering(with_settings(folder, tmp_path / "model", **settings))
    assert len(caught.value.problems) == 1


def without_start(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        known = json.loads(path.read_text())
        for part in (known, known.get("decoder", {}), known.get("text_config", {})):
            for setting in ("decoder_start_token_id", "bos_token_id"):
                part.pop(setting, None)
        path.write_text(json.dumps(known))
    return folder


def test_a_checkpoint_that_does_not_say_how_answers_begin_is_refused_at_loading(
    folder: Path, tmp_path: Path
) -> None:
    said = load_answering(folder).ask(ASKED[:3])
    copy = without_start(
        Path(shutil.copytree(folder, tmp_path / "model")), "generation_config.json"
    )
    assert [vars(answer) for answer in load_answering(copy).ask(ASKED[:3])] == [
        vars(answer) for answer in said
    ]
    with pytest.raises(TargetError, match="names the token that an answer begins with") as caught:
        load_answering(without_start(copy, "config.json"))
    assert "decoder_start_token_id" in caught.value.hint


def test_padding_that_the_model_lacks_fills_nothing(folder: Path, tmp_path: Path) -> None:
    said = load_answering(folder).ask(ASKED[:3])
    padded = load_answering(with_settings(folder, tmp_path / "model", pad_token_id=10**6))
    assert [vars(answer) for answer in padded.ask(ASKED[:3])] == [vars(answer) for answer in said]
