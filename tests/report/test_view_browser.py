"""The page over all scans of a folder in a browser: readable, and nothing leaves it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import scan_folders

from audit.workflows.view import write_page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
PARTS = ("scans", "trends", "compare", "run-1", "left-out")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a page on disk, of five scans."""
    folder = scan_folders.everything(tmp_path_factory.mktemp("view") / "scans")
    path, _ = write_page(folder, "default", tmp_path_factory.mktemp("page"))
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
    chromium: Any, address: str, size: str = "desktop", **settings: Any
) -> tuple[Any, list[str], list[str]]:
    """A page, the addresses it asks for, and what it complains of."""
    width, height = SIZES[size]
    page = chromium.new_context(viewport={"width": width, "height": height}, **settings).new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    return page, asked, complaints


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("part", PARTS)
def test_anybody_can_read_every_part_at_every_size(chromium, address, size, scheme, part):
    from axe_playwright_python.sync_playwright import Axe

    page, asked, complaints = opened(chromium, f"{address}#{part}", size, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.locator(f"#{part}").is_visible()
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert {request for request in asked if not request.startswith("data:")} == {address}
    assert complaints == []


def test_a_trend_has_a_chart_for_each_number(chromium, address):
    page, _, _ = opened(chromium, f"{address}#series-1")
    charts = page.locator("#series-1 .chart")
    assert charts.count() == 6
    for place in range(6):
        charts.nth(place).scroll_into_view_if_needed()
        charts.nth(place).locator("canvas").wait_for()
    last = charts.filter(has_text="Values restored because of training: in one document only")
    legend = last.locator(".u-legend").inner_text()
    assert "checkpoint-150" in legend, "without a pointer the legend shows the newest scan"
    assert "60\N{NO-BREAK SPACE}points" in legend
    assert "5\N{NO-BREAK SPACE}points" in legend
    table = page.locator("#series-1 table.trend").first
    page.get_by_text("The same numbers as a table").first.click()
    assert table.is_visible()


def test_a_scan_opens_from_the_list_by_keyboard_and_back(chromium, address):
    page, _, _ = opened(chromium, address)
    rows = page.locator("table.scans tbody tr")
    assert rows.count() == 5
    page.locator("#scans .filter input").fill("training exceeded")
    assert page.locator("table.scans tbody tr:visible").count() == 2
    page.get_by_role("link", name="training/checkpoint-150").focus()
    page.keyboard.press("Enter")
    run = page.locator(".run.open")
    assert run.count() == 1
    assert "training/checkpoint-150" in run.locator("h2").inner_text()
    assert not page.locator("#scans").is_visible()
    assert page.evaluate("document.activeElement.tagName") == "H2"
    page.go_back()
    assert page.locator("#scans").is_visible()


def test_scans_are_sorted_by_their_time(chromium, address):
    page, _, _ = opened(chromium, address)
    head = page.locator("table.scans th", has_text="Finished").locator("button")
    head.press("Enter")
    first = page.locator("table.scans tbody tr").first
    assert "checkpoint-50" in first.inner_text()
    head.press("Enter")
    assert "releases/v2" in first.inner_text()


def test_two_scans_are_compared_and_strangers_are_only_shown(chromium, address):
    page, _, complaints = opened(chromium, f"{address}#compare")
    page.get_by_label("Earlier scan").select_option(label="releases/v1, 1 April 2026")
    page.get_by_label("Later scan").select_option(label="releases/v2, 1 May 2026")
    pair = page.locator(".pair:visible")
    assert pair.count() == 1
    assert "0 worse" in pair.inner_text()
    assert "docaudit diff releases/v1 releases/v2" in pair.inner_text()
    sides = page.locator("table.sides")
    limit = sides.locator("tr", has_text="Values restored because of training: in one document")
    assert "Exceeded" in limit.first.inner_text()
    assert not page.locator("#unalike").is_visible()
    page.get_by_label("Earlier scan").select_option(label="training/checkpoint-50, 1 March 2026")
    assert page.locator(".pair:visible").count() == 0
    assert page.locator("#unalike").is_visible()
    page.reload()
    assert page.locator("#unalike").is_visible(), "the address names both scans"
    assert complaints == []


def test_without_scripts_everything_but_charts_and_choices_is_there(chromium, address):
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(address)
    for part in ("scans", "trends", "run-1", "run-5", "left-out"):
        assert page.locator(f"#{part}").is_visible()
    assert not page.locator(".choice").is_visible()
    assert page.locator("#compare noscript").count() == 1


def test_no_other_script_runs_in_the_page(chromium, address, tmp_path):
    changed = tmp_path / "index.html"
    text = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    changed.write_text(
        text.replace("</main>", "<script>document.title = 'changed'</script></main>"),
        encoding="utf-8",
    )
    page, _, complaints = opened(chromium, changed.as_uri())
    assert page.title() != "changed"
    assert any("Content Security Policy" in line for line in complaints)
