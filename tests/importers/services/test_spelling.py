"""Keys of services in each of their spellings."""

import pytest

from audit.importers.services.spelling import member, optional, spellings


@pytest.mark.parametrize("name", ["textAnchor", "text_anchor", "TextAnchor"])
def test_a_key_is_found_in_each_spelling(name: str) -> None:
    assert member({name: 1}, "textAnchor") == 1
    assert member({name: 1}, "TextAnchor") == 1


def test_a_key_as_it_is_written_comes_first() -> None:
    assert member({"text_anchor": 2, "textAnchor": 1}, "textAnchor") == 1


def test_abbreviations_are_one_part() -> None:
    assert "analyze_id_model_version" in spellings("AnalyzeIDModelVersion")


def test_a_missing_key_is_an_error_or_the_default() -> None:
    with pytest.raises(KeyError, match="textAnchor"):
        member({"text": 1}, "textAnchor")
    assert optional({"text": None}, "text", "") == ""
    assert optional({}, "text", "") == ""


def test_only_tables_have_keys() -> None:
    with pytest.raises(TypeError):
        member("text", "text")  # type: ignore[arg-type]
