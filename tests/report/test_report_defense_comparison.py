"""The table of countermeasures: what it shows, what it refuses, what it never says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import example_answers as answers
import pytest
from pdf_claims import failures
from test_report_html import HOSTILE, Seen

from audit.errors import RecordError
from audit.record import Completed, Skipped
from audit.report import defense_comparison
from audit.report.defense_comparison import DefenseRow, check_comparable, html, sentence


def cells(page: str) -> list[list[list[str]]]:
    """The tables: rows of cells, as text."""
    found = re.findall(r'<table class="compact defended">.*?</table>', page, flags=re.DOTALL)
    return [
        [
            [Seen(cell).text for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)]
            for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)
        ]
        for table in found
    ]


def test_the_first_table_gives_memory_usefulness_and_side_channel_before_and_after() -> None:
    table = cells(html(answers.defended()))[0]
    assert table[0][1:] == ["|M|", "Net (points)", "Held-out ANLS", "Side channel (AUC)"]
    before, paraphrase, blocking = table[1:]
    assert before[0].startswith("As it was n = 150 questions, 150 independent")
    assert before[1:] == ["69 of 150 46 %; 38 to 54", "42 points 36 to 48", "54 % 46 to 62", "not measured"]
    assert paraphrase[2] == "20 points 14 to 26 −22 points (−28 to −16; p under 0.0001)"
    assert paraphrase[3].endswith("−6.0 points (−7.6 to −4.4; p 0.01)")
    assert blocking[1].startswith("7 of 150")
    assert blocking[3].endswith("+3.0 points (1.4 to 4.6; p 0.01)")
    assert blocking[4] == "0.55 0.49 to 0.61"
    assert "made by docaudit defend blocking" in blocking[0]
    assert "Not resolved" not in html(answers.defended())  # what could not be resolved stands in no table here


def test_the_second_table_has_every_context_in_one_order_and_at_most_two_countermeasures_beside_the_first() -> None:
    rows = answers.defended()
    whole = [*rows, dataclasses.replace(rows[1], name="Random string before")]
    page = html(whole)
    _, first, second = cells(page)
    assert [row[0] for row in first[2:]] == [row[0] for row in second[2:]]
    assert len(first) == 2 + 1 + len(answers.CONTEXTS)
    assert first[0] == ["Context", "As it was", "Paraphrase", "Extraction blocking"]
    assert second[0] == ["Context", "As it was", "Random string before"]
    by_label = {row[0]: row for row in first[2:]}
    words = by_label["Question in other words"]
    assert words[1].startswith("38 of 150")
    assert words[2] == "21 points 15 to 27"
    assert words[4] == "10 points 4 to 16 −11 points (−17 to −5; p under 0.0001)"
    assert words[5].startswith("6 of 150")


def test_sentences_say_no_more_than_the_paired_differences() -> None:
    before, paraphrase, blocking = answers.defended()
    said = sentence(paraphrase).replace("\u00a0", " ")
    assert said.startswith("Paraphrase: less is answered from memory: net −22 points (−28 to −16; p under 0.0001)")
    assert "the model answers worse: held-out ANLS −6.0 points (−7.6 to −4.4; p 0.01)" in said
    assert "memory still shows in 9 of 14 other contexts" in said
    assert "the model answers better" in sentence(blocking)
    flat = DefenseRow("Nothing", before.record, answers.changes(63, 63, 0.0))
    assert "no change of net could be shown" in sentence(flat)
    assert "no change of held-out ANLS could be shown" in sentence(flat)
    assert "no paired difference was measured" in sentence(DefenseRow("Unpaired", before.record))


def test_records_that_differ_in_more_than_the_countermeasure_are_refused_with_every_difference(tmp_path: Path) -> None:
    before, after, _ = answers.defended()
    (result,) = after.record.attacks
    assert isinstance(result, Completed)
    other = dataclasses.replace(
        after.record,
        seed=1,
        budget="quick",
        corpus=dataclasses.replace(after.record.corpus, sha256="00" * 32),
        attacks=(dataclasses.replace(result, parameters={}),),
    )
    with pytest.raises(RecordError) as refused:
        check_comparable([before, dataclasses.replace(after, record=other)])
    differing = ("the data set", "the seed", "the budget", "the parameters of the attack")
    assert refused.value.problems == tuple(f"Paraphrase and As it was differ in {what}" for what in differing)
    skipped = dataclasses.replace(after.record, attacks=(Skipped("memorisation", (), "no baseline", "one"),))
    (tmp_path / "defences.html").write_text("older")
    with pytest.raises(RecordError, match="Paraphrase: the memorisation attack did not run to its end"):
        defense_comparison.write([before, dataclasses.replace(after, record=skipped)], tmp_path)
    with pytest.raises(RecordError, match="no countermeasure to compare"):
        defense_comparison.write([before], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_decide_nothing_are_marked_and_names_are_escaped() -> None:
    before, _, blocking = answers.defended()
    weak = answers.answering(answers.memorisation(confounded=HOSTILE), name=HOSTILE)
    page = html([dataclasses.replace(before, record=weak, name=HOSTILE), blocking])
    seen = Seen(page)
    assert "script" not in seen.tags
    assert f"{HOSTILE}: nothing can be decided on these numbers: {HOSTILE}" in seen.text
    assert not {"link", "iframe", "img", "object"} & set(seen.tags)


def test_the_change_that_the_countermeasures_measure_fits_the_table() -> None:
    import numpy as np

    from audit.defenses.comparison import Extraction, anls_change, extraction_changes

    rng = np.random.default_rng(0)
    names = [str(place) for place in range(60)]
    was, now = np.repeat([1.0, 0.0], 30), np.zeros(60)
    contexts = extraction_changes(
        {"exact": Extraction(names, names, was, now)}, {"exact": Extraction(names, names, now, now)}, rng
    )
    useful = anls_change(np.full(60, 0.5), np.full(60, 0.5) + 0.1 * was, names, rng)
    before, after, _ = answers.defended()
    row = dataclasses.replace(after, changes=(*contexts, useful))
    table = cells(html([before, row]))[0]
    assert "−50 points (" in table[2][2]
    assert "+5.0 points (" in table[2][3]


def test_both_files_are_written(tmp_path: Path) -> None:
    from test_report_files import texts

    assert defense_comparison.write(answers.defended(), tmp_path) == []
    text = " ".join(texts(tmp_path / "defences.pdf"))
    for words in ("Extraction blocking", "69 of 150", "Question in other words", "Side channel (AUC)", "no proof"):
        assert words in text
    assert failures(tmp_path / "defences.pdf") == []
    assert (tmp_path / "defences.html").exists()
