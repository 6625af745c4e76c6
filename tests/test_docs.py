"""The published site: what must be on it, and that nothing on it leads nowhere."""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
import warnings
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from conformance.cli import parser as cli
from conformance.core.catalog import suite
from conformance.core.clauses import registry, text_hash
from conformance.core.homes import ours
from conformance.prove.implementations import read
from conformance.ranks.client import Forkserver
from conformance.report.model import page_of
from tests.proof import matrix
from tests.proof.workers import Hasty
from tests.site import ROOT, built, page

SEEDS = json.loads((ROOT / "tests" / "data" / "seed_members.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def site() -> Path:
    return built()


def parameters(signature: str) -> list[str]:
    """The names of the parameters of a signature as a page shows it."""
    inside = re.search(r"\((.*?)\)(?:\s*→|\s*\[source\]|\s*¶|\s*$)", signature, re.DOTALL)
    words = re.sub(r"\[[^][]*\]", "", re.sub(r"\[[^][]*\]", "", inside[1] if inside else ""))
    return [part.split(":")[0].split("=")[0].strip() for part in words.split(",") if part.strip(" ,\n")]


@pytest.mark.parametrize("name", SEEDS)
def test_every_member_that_a_seed_lists_is_on_the_page(site, name):
    seed = SEEDS[name]
    found = page(site / seed["page"]).signatures
    missing = [member["name"] for member in seed["members"] if f"{seed['class']}.{member['name']}" not in found]
    assert not missing


@pytest.mark.parametrize("name", SEEDS)
def test_members_have_the_signature_that_the_seed_shows(site, name):
    seed = SEEDS[name]
    found = page(site / seed["page"]).signatures
    assert parameters(found[seed["class"]]) == seed["parameters"]
    for member in seed["members"]:
        signature = found[f"{seed['class']}.{member['name']}"]
        if "parameters" in member:
            assert parameters(signature) == member["parameters"], signature
        if member.get("static"):
            assert "static" in signature


@pytest.mark.parametrize("name", SEEDS)
def test_every_member_has_a_text_of_its_own(site, name):
    seed = SEEDS[name]
    text = (site / seed["page"]).read_text("utf-8")
    for member in seed["members"]:
        after = text.split(f'id="{seed["class"]}.{member["name"]}"', 1)[1].split("<dt", 1)[0]
        said = re.sub(r"<[^>]+>", " ", after.split("<dd>", 1)[1].split("</dl>")[0])
        assert said.strip(), member["name"]


@pytest.mark.parametrize("name", SEEDS)
def test_a_page_has_what_its_seed_has_beside_members(site, name):
    seed = SEEDS[name]
    text = (site / seed["page"]).read_text("utf-8")
    assert f'id="module-{seed["class"].rpartition(".")[0]}"' in text
    assert ">Methods<" in text
    assert ">Attributes<" in text
    assert "<math" in text
    assert seed["class"] in page(site / seed["page"]).ids
    if "bases" in seed:
        assert f"{seed['bases'].rpartition('.')[2]}" in text.split("Bases:", 1)[1][:300]
    if seed.get("source"):
        assert "[source]" in page(site / seed["page"]).signatures[seed["class"]]


def test_members_that_are_written_out_by_hand_are_those_of_the_installed_pytorch():
    import torch

    said = tomllib.loads((ROOT / "conf" / "members.toml").read_text("utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, member in said.items():
            if name == "is_traceable":
                continue  # kept for readers of the older pages
            attribute = inspect.getattr_static(torch.autograd.Function, name)
            assert callable(getattr(attribute, "__func__", attribute)) == (member["kind"] != "attribute"), name


def test_every_clause_is_at_the_page_that_reports_name(site):
    for clause in registry().values():
        path, _, anchor = page_of(clause).partition("#")
        assert anchor in page(site / path).ids, clause.id


def test_clauses_json_is_the_registry(site):
    published = json.loads((site / "clauses.json").read_text("utf-8"))
    assert [entry["id"] for entry in published["clauses"]] == list(registry())
    for entry in published["clauses"]:
        assert entry["text_sha256"] == text_hash(registry()[entry["id"]])
        assert entry["page"] == page_of(registry()[entry["id"]])


def test_the_schema_is_published_as_it_is(site):
    assert (site / "report.schema.json").read_text() == (ROOT / "conformance/report/schema.json").read_text()


def test_clauses_are_in_the_inventory(site):
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(packed).decode().splitlines()
    assert {line.split()[0] for line in lines if " std:clause " in line} == set(registry())


def test_the_margin_names_every_test(site):
    for test in suite():
        clause = registry()[test.clause]
        text = (site / page_of(clause).partition("#")[0]).read_text("utf-8")
        assert f">{test.function}</a>" in text.split(f'id="clause-{clause.id}"')[1]


def test_every_option_is_in_the_reference(site):
    text = (site / "reference" / "options.html").read_text("utf-8")
    for name, command in next(iter(cli.parser()._subparsers._group_actions)).choices.items():
        assert f'id="conformance-{name}"' in text
        for action in command._actions:
            assert all(option in text for option in action.option_strings if option not in {"-h", "--help"}), name


def pages(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def test_no_link_and_no_asset_leads_nowhere(site):
    broken = []
    for path in pages(site):
        for found in page(path).links:
            parts = urlsplit(found)
            if parts.scheme or found.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {found}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).ids:
                broken.append(f"{path.relative_to(site)}: {found}")
    assert not broken, "\n".join(broken[:20])


def test_no_id_is_used_twice_on_a_page(site):
    assert not {str(path.relative_to(site)): page(path).twice for path in pages(site) if page(path).twice}


def test_nothing_is_loaded_from_elsewhere(site):
    for path in pages(site):
        for tag in re.findall(r"<(?:script|link|img|iframe)[^>]+>", path.read_text("utf-8")):
            address = re.search(r'(?:src|href)="([^"]+)"', tag)
            if address and 'rel="canonical"' not in tag:
                assert not urlsplit(address[1]).netloc, f"{path}: {tag}"


def test_no_page_is_heavier_than_a_slow_connection_takes_in_a_second_or_two(site):
    heavy = {str(path.relative_to(site)): path.stat().st_size for path in pages(site)}
    assert {name: size for name, size in heavy.items() if size > 500_000} == {}


@pytest.mark.parametrize("name", ["proof", "published", "pytorch", "gradcheck", "published/entmax"])
def test_a_page_of_verdicts_says_when_and_by_which_suite(site, name):
    text = (site / f"{name}.html").read_text("utf-8")
    assert re.search(r"\d{4}-\d\d-\d\d, torch \d\S+, suite <code>[0-9a-f]{7}", text)


def published() -> list[dict[str, str]]:
    return json.loads((ROOT / "docs" / "data" / "published.json").read_text("utf-8"))["subjects"]


def test_every_package_has_a_page_and_a_badge(site):
    for row in published():
        text = (site / "published" / f"{row['package']}.html").read_text("utf-8")
        assert row["verdict"] in text
        assert "</svg>" in (site / "badges" / f"{row['package']}.svg").read_text("utf-8")


def test_scripts_are_shown_with_classes_that_there_are():
    known = {" ".join(filter(None, (row["package"], row["version"], row["subject"]))) for row in published()}
    known |= {
        f"{' '.join(filter(None, (row['package'], row['version'], row['subject'], row['spec'])))}"
        for row in published()
    }
    scripts = tomllib.loads((ROOT / "docs" / "failures" / "scripts.toml").read_text("utf-8"))
    assert {name for names in scripts.values() for name in names} <= known
    assert scripts.keys() == {path.name for path in (ROOT / "docs" / "failures").glob("*.py")}


def test_what_the_search_leads_to_is_there(site):
    synonyms = tomllib.loads((ROOT / "conf" / "synonyms.toml").read_text("utf-8"))
    written = (site / "_static" / "clause-search-data.js").read_text("utf-8")
    pages = json.loads(re.search(r"window.PAGES = (.*);", written)[1])
    assert {"needs_input_grad", "vmap"} < {words for words, _, _ in pages}
    for _, target, _ in pages:
        path, _, anchor = target.partition("#")
        assert anchor in page(site / path).ids if anchor else (site / path).exists(), target
    for phrase, parts in synonyms["SYNONYMS"].items():
        assert any(part in name for part in parts for name in registry()), phrase


@pytest.mark.parametrize("name", SEEDS)
def test_formulas_have_no_markup_left_in_them(site, name):
    formulas = re.findall(r"<math.*?</math>", (site / SEEDS[name]["page"]).read_text("utf-8"), re.DOTALL)
    assert formulas
    assert not [formula for formula in formulas if "\\" in formula]


@pytest.mark.parametrize("name", ["proof.md", "guides/add.md"])
def test_planted_bugs_that_pages_show_would_pass_the_proof(name, tmp_path):
    text = (ROOT / "docs" / name).read_text("utf-8")
    ((folder, code),) = re.findall(
        r":caption: (spec_impl/\w+)/planted\.py\n\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "planted.py").write_text(code, "utf-8")
    (spec,) = (home.name for home in ours().values() if home.folder == ROOT / folder)
    (bug,) = read(tmp_path / "planted.py", "planted", True, spec)
    forkserver = Forkserver()
    pool = Hasty(forkserver, matrix.settings_of(bug, str(tmp_path)))
    try:
        row = matrix.held_against(pool, bug)
    finally:
        pool.close()
        forkserver.close()
    assert row.caught
    assert row.also == ()


def test_links_of_the_readme_lead_to_pages_and_files_that_there_are(site):
    """They are whole addresses, since PyPI shows the README without the files around it."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    pages = [link.removeprefix(f"{urls['Documentation']}/") for link in links if link.startswith(urls["Documentation"])]
    files = [link.removeprefix(f"{urls['Source']}/blob/main/") for link in links if link.startswith(urls["Source"])]
    assert len(pages) > 5
    assert len(pages) + len(files) == len(links), links
    for file, _, anchor in (name.partition("#") for name in pages):
        assert (site / file).exists(), file
        assert not anchor or f'id="{anchor}"' in (site / file).read_text("utf-8"), anchor
    assert [name for name in files if not (ROOT / name).exists()] == []


def keys_of(module, name):
    """The keys of a dict at the top of a module, read from its source."""
    for node in ast.parse((ROOT / "conformance" / "kit" / module).read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return [key.value for key in node.value.keys]
    raise LookupError(name)


@pytest.mark.parametrize(
    ("page", "module", "name"),
    [
        ("docs/how-it-works.md", "process/isolation.py", "FACTS"),
        ("conformance/run/check.py", "process/restoration.py", "PUT_BACK"),
    ],
)
def test_what_is_compared_and_put_back_around_a_test_is_said_in_full(page, module, name):
    told = " ".join((ROOT / page).read_text("utf-8").split())
    assert [fact for fact in keys_of(module, name) if fact not in told] == []
