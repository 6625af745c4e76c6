"""The site in a real browser: Chromium, driven by Playwright, with axe-core where it is installed.

`npm install --prefix .cache/axe axe-core@4.10.3` and `pip install playwright` give what is missing.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site import ROOT, built

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser test needs Playwright for Python")
expect = sync_api.expect
expect.set_options(timeout=30_000)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here; apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
AXE = ROOT / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = "--no-sandbox --disable-gpu --disable-background-networking --disable-sync --no-first-run".split()
CLAUSE = "AllGatherGradAutograd.backward.sum"
NEAR_THE_TOP = "id => (top => 0 <= top && top < 400)(document.getElementById(id).getBoundingClientRect().top)"
SHOWN = """
index start guides/first-function guides/your-function guides/many-ranks guides/read-a-failure guides/known-deviations
guides/ci guides/scan guides/collectives guides/devices guides/add policies
specification proof how-it-works contributing reference/options
reference/report reference/python search genindex api/spec_impl/function/index api/spec_impl/ksuit/index
api/spec_impl/towhee/index api/spec_impl/torchlogix/index api/spec_impl/megatron/index api/spec_impl/nested_io/index
api/spec_impl/exchange/index api/spec_impl/collective/index api/conformance/index
published published/lightly pytorch benchmarks source/spec_impl/ksuit/__init__.py
""".split()
WIDE = "index pytorch published specification api/spec_impl/ksuit/index guides/many-ranks".split()
#: Between them they have everything that a colour scheme colours: code, tables, cards, badges, pictures, admonitions.
COLOURED = [*WIDE, "start", "proof", "benchmarks", "guides/read-a-failure", "source/spec_impl/ksuit/__init__.py"]
#: Rows and entries of a list are alike: axe-core looks at the first of them, for it takes long over thousands.
ALIKE = "tr:nth-child(n+12), tbody:nth-child(n+12), li:nth-child(n+12), dl.py ~ dl.py ~ dl.py ~ dl.py"
#: What axe-core is asked by colour scheme: the pages differ in their colours alone.
RULES = {"light": "{}", "dark": "{runOnly: ['color-contrast']}"}
#: Rules that find nothing serious or critical are a third of the work, and what they find is not looked at.
GRAVE = "['serious', 'critical']"
LESSER = f"axe._audit.rules.filter(rule => !{GRAVE}.includes(rule.impact)).map(rule => [rule.id, {{enabled: false}}])"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass

    def copyfile(self, *files) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the reader went on to another page
            super().copyfile(*files)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(built()))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(address):
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


def went_wrong(request) -> bool:
    """Whether a request failed, rather than being given up because the reader went on to another page."""
    return "ERR_ABORTED" not in (request.failure or "")


@pytest.fixture
def page(browser):
    """A page on which nothing may go wrong: no error in the console, no failed request."""
    context = browser.new_context()
    found = context.new_page()
    wrong: list[str] = []

    def listen(event, what) -> None:
        found.on(event, lambda said: wrong.extend([text] if (text := what(said)) else []))

    listen("console", lambda said: said.text if said.type == "error" else "")
    listen("pageerror", str)
    listen("requestfailed", lambda request: f"failed: {request.url}" if went_wrong(request) else "")
    listen("response", lambda response: f"{response.status} {response.url}" if response.status >= 400 else "")
    yield found
    context.close()
    assert not wrong


def test_search_finds_a_clause_by_its_id(page, address):
    page.goto(f"{address}/search.html?q={CLAUSE}")
    page.click(f"#search-clauses a:text-is('{CLAUSE}')")
    expect(page).to_have_url(re.compile(f"#clause-{re.escape(CLAUSE)}$"))
    expect(page.locator(f'[id="clause-{CLAUSE}"]')).to_be_visible()


def test_sphinx_own_results_have_the_clause_too(page, address):
    page.goto(f"{address}/search.html?q={CLAUSE}")
    page.wait_for_selector(f'#search-results a[href*="clause-{CLAUSE}"]')


def test_search_finds_a_clause_by_words(page, address):
    page.goto(f"{address}/index.html")
    page.fill('input[name="q"]', "sum over all ranks")
    page.press('input[name="q"]', "Enter")
    page.wait_for_selector(f"#search-clauses a:text-is('{CLAUSE}')")


def test_a_permalink_lands_on_its_clause(page, address):
    page.goto(f"{address}/api/spec_impl/ksuit/index.html#clause-{CLAUSE}")
    page.wait_for_function(NEAR_THE_TOP, arg=f"clause-{CLAUSE}")
    page.click(f'[id="clause-{CLAUSE}"] details.margin summary')
    expect(page.locator(f'[id="clause-{CLAUSE}"] details.margin')).to_have_attribute("open", "")


def visible_rows(page) -> int:
    return page.locator("table.filtered tbody tr:visible").count()


def visible_bugs(page) -> int:
    return page.locator("table.bugs tr.row:visible").count()


def test_planted_bugs_are_shown_on_demand(page, address):
    page.goto(f"{address}/proof.html")
    assert visible_bugs(page) == 0
    page.locator("table.bugs button").first.click()
    opened = visible_bugs(page)
    assert opened > 0
    page.select_option('select[name="spec"]', "GradFactor")
    of_spec = visible_bugs(page)
    assert of_spec > 0
    page.fill('input[name="words"]', "scaled")
    assert 0 < visible_bugs(page) < of_spec
    assert page.locator("output").inner_text().startswith(f"{visible_bugs(page)} of ")


def test_an_address_of_a_bug_opens_its_clause(page, address):
    page.goto(f"{address}/proof.html")
    anchor = page.locator("table.bugs tr.row").last.get_attribute("id")
    page.goto(f"{address}/proof.html#{anchor}")
    page.reload()
    expect(page.locator(f'[id="{anchor}"]')).to_be_visible()


def visible_classes(page) -> int:
    return page.locator("table.packages tr.row:visible").count()


def test_a_package_opens_to_its_classes(page, address):
    page.goto(f"{address}/published.html")
    assert visible_classes(page) == 0
    page.click("table.packages button:text-is('lightly')")
    assert visible_classes(page) == page.locator("tbody:has(button:text-is('lightly')) tr.row").count() > 1


def test_filters_of_published_classes_are_in_the_address(page, address):
    page.goto(f"{address}/published.html")
    page.select_option('select[name="verdict"]', "fails")
    failing = visible_classes(page)
    assert 0 < failing == page.locator("tr.row[data-verdict='fails']").count()
    expect(page).to_have_url(f"{address}/published.html?verdict=fails")
    page.reload()
    assert visible_classes(page) == failing
    page.fill('input[name="words"]', "towhee")
    assert 0 < visible_classes(page) < failing


def test_a_failure_is_told_in_place(page, address):
    page.goto(f"{address}/published.html?verdict=fails")
    page.locator("details.finding:visible summary").first.click()
    expect(page.locator("details.finding[open] pre")).to_be_visible()


def test_an_address_of_a_class_opens_its_package(page, address):
    page.goto(f"{address}/published.html")
    anchor = page.locator("tr.row").first.get_attribute("id")
    page.goto(f"{address}/published.html#{anchor}")
    page.reload()
    expect(page.locator(f'[id="{anchor}"]')).to_be_visible()


@pytest.mark.parametrize(
    ("query", "leads_to"),
    [
        ("non-tensor argument", "Function.backward.none-allowed"),
        ("second derivative", "Function.backward.double"),
        ("sum over ranks", "AllGatherGradAutograd.backward.sum"),
        ("install", "Install it"),
        ("2.11", "PyTorch 2.11 to 2.15"),
        ("deadlock", "When a rank dies or hangs"),
        ("suppress", "Accept known deviations"),
        ("xfail", "Accept known deviations"),
        ("baseline", "Accept known deviations"),
        ("numerical tolerance", "How exactly gradients are compared"),
        ("needs_input_grad", "Function.needs_input_grad"),
        ("register_hook", "Function.register_hook"),
        ("vmap", "Function.vmap"),
    ],
)
def test_search_knows_what_words_mean(page, address, query, leads_to):
    page.goto(f"{address}/search.html?q={query}")
    page.wait_for_selector(f"#search-clauses a:text-is('{leads_to}')")


def test_the_table_of_clauses_filters(page, address):
    page.goto(f"{address}/specification.html")
    everything = visible_rows(page)
    page.select_option('select[name="level"]', "should")
    assert 0 < visible_rows(page) < everything


def test_the_search_shows_pages_by_the_titles_of_the_sidebar(page, address):
    page.goto(f"{address}/search.html?q=setup_context")
    page.wait_for_selector("#search-results a:text-is('Function: forward')")


def findings(page, rules: str) -> list[str]:
    """What axe-core finds on a page that is serious or critical."""
    page.evaluate(f"document.querySelectorAll({ALIKE!r}).forEach(one => one.remove())")
    page.add_script_tag(path=AXE)
    asked = f"resultTypes: ['violations'], rules: Object.fromEntries({LESSER})"
    found = page.evaluate(f"axe.run({{{asked}, ...{rules}}})")["violations"]
    grave = [finding for finding in found if finding["impact"] in {"serious", "critical"}]
    return [f"{one['id']} at {one['nodes'][0]['target']}: {one['nodes'][0]['failureSummary'][:200]}" for one in grave]


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: npm install --prefix .cache/axe axe-core@4.10.3")
@pytest.mark.parametrize(
    ("width", "scheme", "names"),
    [(380, "light", SHOWN), (1300, "light", WIDE), (1300, "dark", COLOURED)],
    ids=["narrow", "wide", "dark"],
)
def test_pages_fit_the_screen_and_are_accessible(browser, address, width, scheme, names):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = context.new_page()
    problems = []
    for name in names:
        assert found.goto(f"{address}/{name}.html").ok, name
        wide = found.evaluate("document.documentElement.scrollWidth - innerWidth")
        problems += [f"{name}: {wide} pixels too wide"] if wide > 0 else []
        problems += [f"{name}: {finding}" for finding in findings(found, RULES[scheme])]
    context.close()
    assert not problems, "\n".join(problems)


def test_the_search_works_from_a_disk(browser):
    folder: Path = built()
    page = browser.new_page()
    page.goto((folder / "search.html").as_uri() + f"?q={CLAUSE}")
    page.wait_for_selector(f"#search-clauses a:text-is('{CLAUSE}')")
    page.close()
