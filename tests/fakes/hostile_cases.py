"""Edits of files, drawn by Hypothesis."""

from __future__ import annotations

from hostile_edits import BYTES, FILES, TEXT, TREE, Edit
from hostile_values import SNIPPETS, mild, of_kind, values
from hypothesis import strategies as st

_places = st.integers(0, 100_000)
_KINDS = ("bool", "int", "float", "str")
_same = st.fixed_dictionaries(
    {**{kind: of_kind(one) for kind, one in zip(_KINDS, (True, 1, 1.5, "x"), strict=True)}, "other": values}
)
_tree_edits = st.one_of(
    st.builds(Edit, _places, st.sampled_from(sorted(set(TREE) - {"same type"})), _places, values),
    st.builds(Edit, _places, st.just("same type"), _places, _same),
)
_mild_edits = st.one_of(
    st.builds(Edit, _places, st.just("same type"), _places, mild),
    st.builds(Edit, _places, st.sampled_from(("delete", "copy", "repeat", "negate")), _places, st.integers(0, 500)),
)
_text_edits = st.one_of(
    st.builds(Edit, _places, st.just("number"), _places, of_kind(1) | of_kind(1.5)),
    st.builds(Edit, _places, st.sampled_from(sorted(set(TEXT) - {"number"})), _places, st.sampled_from(SNIPPETS)),
)
_byte_edits = st.builds(Edit, _places, st.sampled_from(sorted(BYTES)), _places, st.integers(0, 300))
_file_edits = st.builds(Edit, _places, st.sampled_from(sorted(FILES)))
_picture_edits = st.builds(Edit, _places, st.just("picture"), _places, _places)


def edits(trees: bool, pictures: bool) -> st.SearchStrategy[list[Edit]]:
    """One to three edits; half of those of trees leave a file that may well be taken, and says something odd.

    Args:
        trees: the files are JSON, TOML or safetensors.
        pictures: they are pictures.
    """
    kinds = [*([_tree_edits] * 5 if trees else []), *([_picture_edits] * 2 if pictures else [])]
    if not pictures:
        kinds += [_text_edits, _text_edits]
    rough = st.lists(st.one_of(*kinds, _byte_edits, _file_edits), min_size=1, max_size=3)
    return rough | st.lists(_mild_edits, min_size=1, max_size=3) if trees else rough
