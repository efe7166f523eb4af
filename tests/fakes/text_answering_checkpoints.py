"""Tiny checkpoints (random weights) of the models that answer from words and boxes: VT5 and UDOP.

Made from a seed.
"""

from pathlib import Path
from typing import Any

import tiny
from answering_checkpoints import ENDS, saved, seeded, settings_of

PICTURE = 32
"""The side in pixels of the pictures that they see; 16 patches."""
LONGEST = 192
"""Tokens of the longest text."""
SIZES: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
CHARACTERS = tiny.CHARACTERS + ".,:;/-'#+&()%$@?{}"


def unigram_vocabulary() -> list[tuple[str, float]]:
    """One token a character, as of sentencepiece: n characters are n tokens, one more where a word begins with none."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0)]
    return [
        *special,
        ("▁", -3.0),
        *((f"▁{c}", -3.0) for c in CHARACTERS),
        *((c, -4.0) for c in CHARACTERS),
    ]


def t5_tokenizer() -> Any:
    """A character-level T5 tokenizer."""
    from transformers import T5Tokenizer

    return T5Tokenizer(vocab=unigram_vocabulary(), extra_ids=0)


def vt5_config(visual: bool = True, **settings: Any) -> Any:
    """The tiny VT5's configuration; `settings` take the place of its own."""
    from transformers import AutoConfig

    from audit.extensions.papers.vt5 import VT5Config

    eye = AutoConfig.for_model(**settings_of("eye", None))
    own: dict[str, Any] = {
        **SIZES,
        "vocab_size": len(t5_tokenizer()),
        "max_input_tokens": LONGEST,
        "visual": eye if visual else None,
    }
    return VT5Config(**{**own, **settings})


def vt5_model(seed: int = 0, visual: bool = True, **settings: Any) -> Any:
    """A VT5 with random weights, in evaluation mode, whose answers differ from page to page."""
    from audit.extensions.papers.vt5 import VT5ForConditionalGeneration

    return seeded(VT5ForConditionalGeneration, vt5_config(visual, **settings), seed)


def udop_model(seed: int = 0, **settings: Any) -> Any:
    """The same for UDOP."""
    from transformers import UdopConfig, UdopForConditionalGeneration

    config = UdopConfig(
        **{
            **SIZES,
            "vocab_size": len(udop_tokenizer()),
            "image_size": PICTURE,
            "patch_size": 8,
            "max_2d_position_embeddings": 64,
            "decoder_start_token_id": 0,
            **settings,
        }
    )
    return seeded(UdopForConditionalGeneration, config, seed)


def udop_tokenizer() -> Any:
    """A character-level UDOP tokenizer."""
    from transformers import UdopTokenizer

    return UdopTokenizer(vocab=unigram_vocabulary(), model_max_length=LONGEST)


def make_vt5(folder: Path, seed: int = 0, visual: bool = True, *, ends: str = ENDS) -> Path:
    """A VT5 with its tokenizer and, where it sees, its image processor, saved in `folder`.

    Gives the folder back.
    """
    from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil

    images = BeitImageProcessorPil(size={"height": PICTURE, "width": PICTURE}, do_center_crop=False)
    return saved(
        folder, vt5_model(seed, visual), t5_tokenizer(), *([images] if visual else []), ends=ends
    )


def make_udop(folder: Path, seed: int = 0, *, ends: str = ENDS, spare: int = 0) -> Path:
    """A UDOP with its tokenizer and image processor, saved in `folder`, and so many tokens beyond the tokenizer's."""
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import (
        LayoutLMv3ImageProcessorPil,
    )

    # As people's checkpoints have it: with its own OCR, which must not be asked for here.
    images = LayoutLMv3ImageProcessorPil(size={"height": PICTURE, "width": PICTURE}, apply_ocr=True)
    model = udop_model(seed, vocab_size=len(udop_tokenizer()) + spare)
    return saved(folder, model, udop_tokenizer(), images, ends=ends)


N_SENTINELS = 8


def sentinel_tokenizer() -> Any:
    """`t5_tokenizer` with sentinels behind the same tokens."""
    from transformers import T5Tokenizer

    return T5Tokenizer(vocab=unigram_vocabulary(), extra_ids=N_SENTINELS)


def make_t5(folder: Path, seed: int = 0) -> Path:
    """A T5 with sentinels and no training, saved in `folder`; gives the folder back."""
    from transformers import T5Config, T5ForConditionalGeneration

    words = sentinel_tokenizer()
    config = T5Config(**SIZES, vocab_size=len(words), decoder_start_token_id=0)
    return saved(folder, seeded(T5ForConditionalGeneration, config, seed), words, ends="")


def make_sentinel_vt5(folder: Path, seed: int = 0, visual: bool = True) -> Path:
    """A VT5 whose vocabulary has sentinels, as those that were made of T5."""
    from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil

    words = sentinel_tokenizer()
    images = BeitImageProcessorPil(size={"height": PICTURE, "width": PICTURE}, do_center_crop=False)
    return saved(
        folder, vt5_model(seed, visual, vocab_size=len(words)), words, *([images] if visual else [])
    )


def spelling_tokenizer(tokenizer: Any) -> Any:
    """BERT's vocabulary, for models that write: an answer's tokens spell it, spaces included.

    BERT's own tokenizer parts words at punctuation, and nothing tells afterwards whether "9.00" or
    "9. 00" was written. This one parts them at spaces only; what follows within a word are pieces,
    "##." too, which BERT's vocabularies have for every mark of ASCII. What the normalizer folds
    (upper case, accents) stays folded.

    Args:
        tokenizer: a fast WordPiece tokenizer; it stays as it is.

    Returns:
        The same tokens under the same ids, so that word embeddings still fit; `save_pretrained`
        keeps all of it.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.WordPiece(cleanup=False)
    # A class of BERT's own would build BERT's tokenizer anew when it is loaded.
    return PreTrainedTokenizerFast(tokenizer_object=inner, **tokenizer.special_tokens_map)
