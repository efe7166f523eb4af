"""The annex in a browser: readable at every size and in the dark, searched without a server, and nothing leaves it."""

import json
import shutil
from pathlib import Path
from typing import Any

import example_records as examples
import printed
import pytest

from audit.report.html import html
from audit.report.revealed import write_revealed

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SIZES = {"wide": (1920, 1080), "desktop": (1400, 1000), "tablet": (768, 1024), "phone": (360, 800)}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
    ),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The address of a report on disk."""
    path = tmp_path_factory.mktemp("browser") / "report.html"
    path.write_text(html(*examples.violated()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(
    chromium: Any, report: str, size: str = "desktop", **settings: str
) -> tuple[Any, list[str], list[str]]:
    """A page, the addresses it asks for, and what it complains of."""
    width, height = SIZES[size]
    page = chromium.new_context(viewport={"width": width, "height": height}, **settings).new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report)
    return page, asked, complaints


@pytest.mark.parametrize("size", ["wide", "tablet", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_anybody_can_read_it_at_every_size(chromium, report, size, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page, asked, complaints = opened(chromium, report, size, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []
    assert asked == [report], "no request leaves the page"
    assert complaints == []
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    colour = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert (max(int(part) for part in colour[4:-1].split(",")) < 64) == (scheme == "dark")


def test_the_search_finds_a_metric_and_hides_the_rest(chromium, report):
    page, asked, _ = opened(chromium, report)
    page.get_by_role("tab", name="Limits").click()
    folded = page.locator("#measurements details.fold").first
    assert not folded.evaluate("(part) => part.open")
    rows = page.locator("#measurements tbody tr")
    everything = rows.count()
    page.fill("#search", "excess_hamming.unique")
    assert "place" in page.inner_text("#search-result")
    assert folded.evaluate("(part) => part.open")
    shown = [rows.nth(index) for index in range(everything) if rows.nth(index).is_visible()]
    assert 0 < len(shown) < everything
    assert all("excess_hamming.unique" in row.inner_text() for row in shown)
    page.fill("#search", "no such words anywhere")
    assert page.inner_text("#search-result") == "0 places"
    page.fill("#search", "")
    assert not folded.evaluate("(part) => part.open")
    assert page.locator("#limits").is_visible()
    assert not page.locator("#summary").is_visible(), "the tab that was open is open again"
    assert asked == [report]


def test_numbers_are_sorted_and_filtered_from_the_keyboard(chromium, report):
    page, _, _ = opened(chromium, report)
    page.get_by_role("tab", name="Limits").click()
    page.locator("#measurements details.fold > summary").first.press("Enter")
    head = page.locator("#measurements th", has_text="Value").first
    for order in ("ascending", "descending"):
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == order
    values = (
        page.locator("#measurements table").first.locator("tbody td:nth-child(3)").all_inner_texts()
    )
    numbers = [float(text.split()[0].replace("−", "-")) for text in values]
    assert numbers == sorted(numbers, reverse=True)
    page.locator("#measurements .filter input").first.fill("pr.member baseline")
    assert (
        page.locator("#measurements .filter output").first.inner_text()
        == f"2 of {len(values)} rows"
    )


def test_a_term_is_explained_on_hover_and_focus_until_escape(chromium, report):
    page, _, _ = opened(chromium, report)
    term, tip = page.locator("a.term").first, page.locator("#tip")
    meaning = page.locator(f"#{term.get_attribute('aria-describedby')}").inner_text()
    for show in (term.hover, term.focus):
        show()
        assert tip.inner_text() == meaning
        page.keyboard.press("Escape")
        assert not tip.is_visible()


def test_every_line_of_the_contents_leads_somewhere(chromium, report):
    page, *_ = opened(chromium, report)
    targets = page.eval_on_selector_all(
        ".contents a", "(links) => links.map((link) => link.getAttribute('href'))"
    )
    assert len(targets) > 5
    assert all(page.locator(target).count() == 1 for target in targets)
    assert page.locator("section").count() == len(targets)


def test_without_scripts_everything_is_there_but_the_search(chromium, report):
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(report)
    assert not page.locator("#search-form").is_visible()
    page.locator("#measurements details.fold > summary").first.click()
    assert page.locator("#measurements tbody tr").first.is_visible()
    assert page.get_by_role("tab").count() == 0
    for place in ("#summary", "#where", "#limits", "#method"):
        assert page.locator(place).is_visible()


def test_the_page_has_four_tabs_that_keys_and_links_open(chromium, report):
    page, _, complaints = opened(chromium, report)
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Overview", "Leaks", "Limits", "Method"]
    shown = page.locator(".panel:not(.shut)")
    assert shown.evaluate_all("(panels) => panels.map((panel) => panel.dataset.tab)") == [
        "Overview"
    ]
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#where").is_visible()
    assert page.evaluate("document.activeElement.textContent") == "Leaks"
    assert not page.locator("#summary").is_visible()
    page.goto(f"{report}#method")
    assert page.locator("#method").is_visible()
    assert page.get_by_role("tab", selected=True).inner_text() == "Method"
    assert complaints == []


def test_the_first_screen_shows_page_one_whole(chromium, report):
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(report)
    assert (
        page.evaluate("document.querySelector('.page-one').getBoundingClientRect().bottom") <= 900
    )


def test_limits_that_are_met_are_folded_together(chromium, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html(*examples.CASES["passed"]()), encoding="utf-8")
    page, _, _ = opened(chromium, path.as_uri())
    page.get_by_role("tab", name="Limits").click()
    met = page.locator("details.met")
    assert not met.evaluate("(part) => part.open")
    met.locator("summary").first.click()
    assert met.locator("details.limit").first.is_visible()


def test_drawings_have_no_white_ground_in_the_dark(chromium, report):
    page, _, _ = opened(chromium, report, color_scheme="dark")
    grounds = page.eval_on_selector_all(
        "main svg", "(svgs) => svgs.map((svg) => getComputedStyle(svg).backgroundColor)"
    )
    assert set(grounds) == {"rgba(0, 0, 0, 0)"}
    inks = page.eval_on_selector_all(
        "figure svg text", "(texts) => texts.map((text) => getComputedStyle(text).fill)"
    )
    assert set(inks) == {"rgb(230, 235, 240)"}


def test_no_other_script_runs_in_the_page(chromium, report, tmp_path):
    changed = tmp_path / "report.html"
    text = Path(report.removeprefix("file://")).read_text(encoding="utf-8")
    changed.write_text(
        text.replace("</main>", "<script>document.title = 'changed'</script></main>"),
        encoding="utf-8",
    )
    page, _, complaints = opened(chromium, changed.as_uri())
    assert page.title() != "changed"
    assert any("Content Security Policy" in line for line in complaints)


def test_what_is_printed_keeps_its_colours_and_shows_what_was_folded(chromium, report, tmp_path):
    page, _, _ = opened(chromium, report)
    page.emulate_media(media="print")
    stamp = page.locator(".stamp").first
    assert stamp.evaluate("(part) => getComputedStyle(part).printColorAdjust") == "exact"
    assert not page.locator(".contents").is_visible()
    page.pdf(path=tmp_path / "printed.pdf")
    text = "".join(printed.texts(tmp_path / "printed.pdf"))
    assert "Where values leak" in text, "all tabs are printed"
    assert "excess_hamming.unique" in text


@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("desktop", "light")])
def test_anybody_can_read_where_values_leak(chromium, tmp_path, size, scheme):
    from axe_playwright_python.sync_playwright import Axe

    path = tmp_path / "report.html"
    path.write_text(html(*examples.divided()), encoding="utf-8")
    page, asked, complaints = opened(chromium, path.as_uri(), size, color_scheme=scheme)
    page.get_by_role("tab", name="Leaks").click()
    assert page.locator("#where .rates").count() == 2
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert (len(asked), complaints) == (1, [])


def test_recovered_values_are_sorted_and_filtered(chromium, tmp_path):
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    row = {"attack": "reconstruction", "split": "member", "exact": True}
    lines = [{**row, "document": f"r{number}", "value": str(10 * number)} for number in range(9)]
    (evidence / "recovered.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = write_revealed(*examples.violated(), tmp_path)
    page, asked, complaints = opened(chromium, path.as_uri())
    page.get_by_role("tab", name="Leaks").click()
    head = page.locator("#revealed th", has_text="Value")
    head.locator("button").click()
    head.locator("button").click()
    assert page.locator("#revealed tbody tr").first.inner_text().split()[-1] == "80"
    page.locator("#revealed .filter input").fill("member r7")
    assert page.locator("#revealed .filter output").inner_text() == "1 of 9 rows"
    assert page.locator("#revealed tbody tr:visible").count() == 1
    assert (len(asked), complaints) == (1, [])
