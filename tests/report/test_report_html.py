"""The HTML report: what it says, and what it must never hold."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Callable

import example_records as examples
import pytest
from example_records import Case
from shown_pages import HOSTILE, Seen, decision

from audit.attacks.text import CATEGORY_LABELS
from audit.measurements import Histogram, Unresolved
from audit.policy import Limit, Policy
from audit.record import Reason, Result
from audit.report import figures
from audit.report.answer import decides_most, findings
from audit.report.html import html, script


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[Case, str]]:
    drawn = {}
    for name, make in examples.CASES.items():
        case = make()
        drawn[name] = (case, html(*case))
    return drawn


@pytest.mark.parametrize("make", [examples.wide, examples.unresolved, examples.weak, examples.violated])
def test_an_undecided_verdict_comes_with_what_was_found_all_the_same(make: Callable[[], Case]) -> None:
    record, verdict, policy = make()
    text = Seen(html(record, verdict, policy)).text
    undecided = verdict.overall == "undecided"
    assert ("What was found all the same" in text) == undecided
    for line in (*findings(record, verdict), decides_most(record, verdict)) if undecided else ():
        assert " ".join(line.split()) in text


def test_every_kind_of_result_renders_with_its_verdict_and_every_decision(pages: dict[str, tuple[Case, str]]) -> None:
    for (_, verdict, policy), page in pages.values():
        seen = Seen(page)
        assert verdict.stamp in seen.text
        assert f"policy “{policy.name}”" in seen.text
        for one in verdict.decisions:
            assert one.reason.lower() in seen.text.lower()
            # What does not apply to a model is named in a line: nobody asks why it is limited.
            assert (one.limit.rationale in seen.text) == (one.outcome != "inapplicable")
        for outcome in {one.outcome for one in verdict.decisions}:
            assert f'class="pill {outcome}"' in page or outcome == "inapplicable"


def test_every_measurement_stands_in_the_report_with_name_value_and_n(pages: dict[str, tuple[Case, str]]) -> None:
    (record, _, _), page = pages["violated"]
    (result,) = record.attacks
    assert result.status == "completed"
    rows = {}
    for row in re.findall(r"<tr>.*?</tr>", page, flags=re.DOTALL):
        found = re.search(r"<code>([\w.]+)</code>", row)
        if found:
            rows[found[1]] = Seen(row).text
    for item in result.measurements:
        if item.name.startswith("acc_at"):
            assert item.name not in rows  # shown side by side instead, see test_report_multishot.py
        elif isinstance(item, Unresolved):
            assert f"{item.reason} (n = {item.n}, {item.needed} needed)" in rows[item.name]
        else:
            factor = 100 if item.name.startswith(("pr.", "excess", "planted", "heldout_gain")) else 1
            assert f"{factor * item.value:.3g}" in rows[item.name].replace("−", "-").replace(".00 ", " ").replace(
                ".0 ", " "
            )
            assert f"{item.n:,}" in rows[item.name]
    assert "62.0 % (93)" in rows["pr.member.attack"]
    assert "54.0 to 69.4 %" in rows["pr.member.attack"]


def test_no_report_claims_that_a_model_is_private_or_safe(pages: dict[str, tuple[Case, str]]) -> None:
    for _, page in pages.values():
        text = Seen(page).text.lower()
        assert "it never says that a model is private" in text
        assert text.count("is private") == 1
        assert "is safe" not in text


def test_what_was_not_tested_names_results_without_numbers_and_families_not_built() -> None:
    results = (
        Result(
            "provider_membership",
            status="skipped",
            reason=Reason("missing", "no providers named", "a provider for each document"),
        ),
        Result("signatures", status="failed", reason=Reason("error", "RuntimeError at attacks/signatures.py:12")),
        Result("stamps", status="inapplicable", reason=Reason("model", "no stamps")),
    )
    battery = ("reconstruction", "provider_membership", "signatures", "stamps")
    record = dataclasses.replace(examples.record(*results, battery=battery), budget="quick", share=0.25)
    page = html(*examples.judged(record))
    told = Seen(page.partition('id="not-examined"')[2].partition("</section>")[0]).text
    for words in (
        "No providers named. To examine it: a provider for each document.",
        "Broke down (RuntimeError at attacks/signatures.py:12).",
        "Cannot be tried here, so nothing is known of it: stamps (no stamps).",
        "Can someone who holds the model put back a value that was blacked out on a page it was trained on? Not asked",
        "The budget “quick” took 25 % of what could be tried",
        "Not in the version that scanned. To examine it: scan again.",
        "No attack tries to give back pictures",
    ):
        assert words in told


def test_hostile_names_are_escaped_everywhere() -> None:
    result = dataclasses.replace(
        examples.reconstruction(0.6),
        parameters={HOSTILE: [HOSTILE]},
        histograms=(Histogram("h", HOSTILE, (0, 1), {HOSTILE: (3,)}),),
    )
    record = examples.record(result, name=HOSTILE)
    record = dataclasses.replace(
        record,
        corpus=dataclasses.replace(record.corpus, name=HOSTILE, fields={HOSTILE: {HOSTILE: 1}}),
        derived_by=(HOSTILE,),
    )
    policy = Policy(1, HOSTILE, (Limit("reconstruction", "excess_pr.unique", HOSTILE, max=0.05),), description=HOSTILE)
    page = html(*examples.judged(record, policy))
    seen = Seen(page)
    assert seen.tags.count("script") == 1, "the page's own, which the policy in its head names by hash"
    assert page.count("<script") == page.count(f"<script>{script()}</script>") == 1
    assert HOSTILE in seen.text
    assert not [value for name, value in seen.attributes if name.startswith("on")]


def test_each_file_of_the_model_stands_with_its_own_hash_as_sha256sum_prints_it() -> None:
    record, verdict, policy = examples.violated()
    files = {"config.json": "1" * 64, "base/model.safetensors": "2" * 64}
    record = dataclasses.replace(record, target=dataclasses.replace(record.target, files=files))
    text = Seen(html(record, verdict, policy)).text
    assert all(f"SHA-256 of {name} {digest}" in text for name, digest in files.items())


def test_nothing_is_loaded_from_anywhere(pages: dict[str, tuple[Case, str]]) -> None:
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    loading = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
    for _, page in pages.values():
        # A link is followed by who clicks on it; nothing else may name an address.
        seen = Seen(re.sub(r'<a href="https://[^"]*">', "<a>", page))
        assert page.count("<script") == page.count(f"<script>{script()}</script>") == 1
        assert f"script-src 'sha256-{digest}'" in page
        assert not {"link", "iframe", "img", "object", "base"} & set(seen.tags)
        assert all(value.startswith("#") for name, value in seen.attributes if name in loading)
        assert "@import" not in page
        assert not re.search(r"url\((?!#)", page)


def test_the_same_record_gives_the_same_bytes_and_ids_are_unique(pages: dict[str, tuple[Case, str]]) -> None:
    case, page = pages["violated"]
    assert html(*case) == page
    ids = [value for name, value in Seen(page).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_an_attack_without_a_template_is_rendered_from_its_measurements() -> None:
    gain = dataclasses.replace(examples.mean("gain.person", 0.31, 0.056, 80, 0.1, "chance"), unit="questions")
    result = Result(
        "../side_channel",
        parameters={"depth": 3},
        measurements=(gain, Unresolved("other", "too few", 3)),
        histograms=(Histogram("h", "its own quantity", (0, 1, 2), {"a": (1, 2)}),),
    )
    policy = Policy(1, "p", (Limit("../side_channel", "gain.person", "why", max=0.5),))
    page = html(*examples.judged(examples.record(result, battery=("../side_channel",)), policy))
    text = Seen(page).text
    assert (
        "gain.person of at least 0.31 (95 % interval 0.20 to 0.42, n = 80 questions; 0.10 without a leak (chance))"
        in text
    )
    assert "Not resolved. Why there is no number, and which numbers that leaves out." in text
    assert "too few (n = 3) other other" in text
    assert "Figure 1. its own quantity" in text


def test_the_attack_that_leaks_most_is_told_first() -> None:
    gain = examples.mean("gain", 0.9, 0.01, 80)
    side = [Result(f"side_{index}", parameters={}, measurements=(gain,)) for index in range(3)]
    limits = tuple(Limit(f"side_{index}", "gain", "why", max=0.95) for index in range(3))
    policy = Policy(1, "p", (*limits, *examples.policy().limits, Limit("side_0", "gain", "again", max=0.99)))
    record = examples.record(
        *side, examples.reconstruction(0.6), battery=("reconstruction", "side_0", "side_1", "side_2")
    )
    first = html(*examples.judged(record, policy)).partition("</section>")[0]
    text = Seen(first.partition("<main>")[2]).text
    assert text.index("at least 93 of 150") < text.index("gain of at least 0.90")
    rows = Seen(decision(examples.judged(record, policy)).partition('id="limits-in-brief"')[2]).text
    assert rows.index("Violated") < rows.index(" Met ")


def test_limits_that_nothing_was_tried_for_are_named_in_a_line_and_told_in_the_annex() -> None:
    absent = Limit("canaries", "excess", "why", max=0.2, required=False)
    skipped = Result(
        "canaries", status="skipped", reason=Reason("data", "the data set holds no canaries", "put some in")
    )
    record = examples.record(examples.reconstruction(0.6), skipped, battery=("reconstruction", "canaries"))
    policy = Policy(1, "p", (*examples.policy().limits, absent))
    case = examples.judged(record, policy)
    brief = Seen(decision(case)).text
    assert "Not tested : Planted secrets (canaries) (1 limit); see what was not examined." in brief
    assert brief.count("he data set holds no canaries. To examine it: put some in.") == 1
    assert "Not tested" in Seen(html(*case)).text


def test_of_undecided_limits_those_that_were_measured_come_first() -> None:
    left_out = tuple(Limit("membership", "auc", f"why {place}", max=0.6) for place in range(5))
    policy = Policy(1, "p", (*left_out, *examples.policy().limits))
    record = examples.record(examples.reconstruction(0.12), battery=("reconstruction", "membership"))
    rows = Seen(decision(examples.judged(record, policy)).partition('id="limits-in-brief"')[2]).text
    assert rows.index(" points") < rows.index("(5 limits)") < rows.index("see what was not examined")


def line_panel() -> figures.LinePanel:
    points = (figures.Point(0.5, 0.25, 0.75), None)
    lines = tuple(figures.FigureLine(label, (0.0, 1.0), points) for label in ("s & t", "u"))
    return figures.LinePanel("Recovered <all>", "axis", "Müller \u2032 Петров", lines, "share")


def test_a_figure_is_drawn_the_same_each_time_and_a_record_without_one_has_none() -> None:
    drawn = figures.lines("figure1", [line_panel()], None)
    assert drawn.startswith("<svg")
    assert 'id="figure1-' in drawn
    assert drawn == figures.lines("figure1", [line_panel()], None)
    result = dataclasses.replace(examples.reconstruction(0.6), histograms=(), curves=())
    assert "Figure 1." not in Seen(html(*examples.judged(examples.record(result)))).text


def test_the_words_of_a_figure_stay_text_in_the_typeface_of_the_page(recwarn: pytest.WarningsRecorder) -> None:
    drawn = figures.lines("figure1", [line_panel()], None)
    words = re.findall(r'<text style="[^"]*font-family: docaudit Sans, [^"\']*"[^>]*>([^<]+)</text>', drawn)
    assert {"Recovered &lt;all&gt;", "s &amp; t", "axis"} <= set(words)
    assert any("Müller \u2032 Петров" in word for word in words)
    assert words == re.findall(r"<text[^>]*>([^<]+)</text>", drawn)
    assert not recwarn.list


def test_every_category_of_the_manifest_has_words() -> None:
    from audit.corpus.documents import CATEGORIES

    assert set(CATEGORY_LABELS) == set(CATEGORIES)
