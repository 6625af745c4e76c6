"""report.html: one file that needs no server, loads nothing, runs no script, and escapes what it quotes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template

from conformance.core.outcomes import TestOutcome
from conformance.report.failures import Accused, Failure, failures, how_it_ended, last_words, story
from conformance.report.model import LEVELS, ClauseResult, Report, SubjectResult
from conformance.report.text import address, visible

_MESSAGE = 8_000  # characters of one message; report.json has more
_FILTERS = {
    "all": "all",
    "broken": "broken",
    "skipped": "skipped",
    "pass": "pass",
    "not-applicable": "not applicable",
}


def page(report: Report) -> str:
    """The report as a self-contained page."""
    skeleton = files("conformance.report").joinpath("page.html").read_text("utf-8")
    style = skeleton.split("<style>", 1)[1].split("</style>", 1)[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    body = "\n".join(_body(report))
    return Template(skeleton).substitute(hash=digest, title=_text(_title(report)), body=body)


def _title(report: Report) -> str:
    return "Conformance: " + (", ".join(f"{part.subject} {part.verdict}" for part in report.subjects) or "PyTorch")


def _body(report: Report) -> Iterator[str]:
    yield "<header><h1>Conformance report</h1>"
    if report.interrupted:
        yield '<p class="incomplete">The run was interrupted; what was not run by then counts as skipped.</p>'
    for note in report.notes:
        yield f"<p>{_text(note)}</p>"
    yield "<dl>"
    facts = {"started": report.started, **report.environment, "suite": report.suite.get("version", "")}
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield f"<dt>{_text(str(name))}</dt><dd>{_text(shown)}</dd>"
    yield "</dl></header>"
    yield from _overview(report)
    yield "<fieldset><legend>Show clauses</legend>"
    for name, words in _FILTERS.items():
        checked = " checked" if name == "all" else ""
        yield f'<label><input type="radio" name="only" id="only-{name}"{checked}> {words}</label>'
    yield "</fieldset><main>"
    for number, part in enumerate(report.parts):
        yield from _part(part, number)
    yield "</main>"


def _overview(report: Report) -> Iterator[str]:
    yield '<h2>Verdicts</h2><div class="scroll"><table class="facts"><thead><tr>'
    yield "<th>subject</th><th>verdict</th>"
    yield "".join(f'<th class="number">{level}</th>' for level in (*LEVELS, "n/a")) + "</tr></thead><tbody>"
    for number, part in enumerate(report.parts):
        yield f'<tr><td class="name"><a href="#part-{number}">{_name(part)}</a></td>'
        yield f"<td>{_chip(part.verdict)}</td>"
        for level in LEVELS:
            own = [clause for clause in part.clauses if clause.level == level]
            applicable = [clause for clause in own if clause.verdict != "not-applicable"]
            kept = sum(clause.verdict == "pass" for clause in applicable)
            share = f"{kept}/{len(applicable)}" if applicable else "-"
            yield f'<td class="number" data-of="{level}">{share}</td>'
        outside = sum(clause.verdict == "not-applicable" for clause in part.clauses)
        yield f'<td class="number" data-of="n/a">{outside}</td></tr>'
    yield "</tbody></table></div>"


def _part(part: SubjectResult, number: int) -> Iterator[str]:
    yield f'<section id="part-{number}"><h2>{_name(part)} {_chip(part.verdict)}</h2>'
    for clause in sorted(part.clauses, key=_urgency):
        yield from _clause(clause)
    yield "</section>"


def _clause(clause: ClauseResult) -> Iterator[str]:
    kind = "broken" if clause.broken else clause.verdict
    level = f"{clause.level}, expected" if clause.broken and clause.expected else clause.level
    yield f'<details class="clause is-{_text(kind)}"{" open" * clause.counts}>'
    yield f"<summary>{_chip(clause.verdict)}<code>{_text(clause.id)}</code>"
    yield f'<span class="soft">{_text(level)}</span></summary>'
    yield f"<p>{_text(clause.text)}</p>"
    if clause.expected:
        yield f"<p>Expected: {_text(clause.expected.reason)} {_link(clause.expected.link)}</p>"
    if clause.reason and not clause.broken:
        yield f"<p>{_text(clause.reason)}</p>"
    for failure in failures(clause):
        yield from _failure(failure)
    yield f'<p class="soft">Read {_link(address(clause.page))}</p>'
    yield from _tests(clause)
    yield "</details>"


def _failure(failure: Failure) -> Iterator[str]:
    test = failure.test
    for who in failure.accused:
        yield from _accused(who, test, failure.likely)
    if not any(who.witness.message for who in failure.accused):
        yield f"<pre>{_text(test.message or test.outcome)}</pre>"
    if failure.likely:
        yield f"<p>Looks like: <strong>{_text(failure.likely)}</strong></p>"
    if test.reproduce:
        yield f"<p>Reproduce:</p><pre>{_text(test.reproduce)}</pre>"


def _accused(who: Accused, test: TestOutcome, likely: str) -> Iterator[str]:
    rank = _text(f"{who.named(test.world)} {how_it_ended(who.witness)}")
    yield f"<p>{_chip(who.witness.outcome)} {rank} in <code>{_text(test.nodeid)}</code></p>"
    if who.witness.message:
        yield f"<pre>{_text(story(who, likely))}</pre>"
    for title, text in last_words(who.witness, lines=40):
        yield f"<details><summary>{title}</summary><pre>{_text(text)}</pre></details>"


def _tests(clause: ClauseResult) -> Iterator[str]:
    if not clause.tests:
        return
    count = f"{len(clause.tests)} test" + "s" * (len(clause.tests) > 1)
    yield f'<details><summary>{count}</summary><div class="scroll"><table><thead><tr>'
    yield '<th>outcome</th><th>test</th><th class="number">ranks</th><th class="number">seconds</th>'
    yield "</tr></thead><tbody>"
    for test in clause.tests:
        why = f' <span class="soft">{_text(test.reason)}</span>' if test.reason else ""
        yield f"<tr><td>{_chip(test.outcome)}</td>"
        yield f'<td class="name"><code>{_text(test.nodeid)}</code>{why}</td>'
        yield f'<td class="number">{test.world}</td><td class="number">{test.seconds:.2f}</td></tr>'
    yield "</tbody></table></div></details>"


def _urgency(clause: ClauseResult) -> tuple[bool, int]:
    """Broken clauses come first, must before the other levels; the rest keeps the order of the spec."""
    return not clause.counts, LEVELS.index(clause.level) if clause.counts else 0


def _name(part: SubjectResult) -> str:
    return f"<code>{_text(part.subject)}</code> ({_text(part.spec)})" if part.subject else "PyTorch itself"


def _chip(word: str) -> str:
    return f'<span class="chip {_text(word)}">{_text(word)}</span>'


def _link(link: str) -> str:
    """A link where it is one to the web; anything else stays text."""
    if not link.startswith(("https://", "http://")):
        return _text(link)
    return f'<a href="{_text(link)}" rel="noreferrer">{_text(link)}</a>'


def _text(text: str) -> str:
    return escape(visible(text, _MESSAGE))
