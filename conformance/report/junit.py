"""Write JUnit's XML, which CI servers read: a suite for each subject, a case for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as Xml

from conformance.core.outcomes import TestOutcome
from conformance.core.output import visible
from conformance.core.prose import prose
from conformance.report.failures import Failure
from conformance.report.model import ClauseResult, Report, SubjectResult
from conformance.report.text import address, one_line

_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: JUnit's element for each outcome; expected deviations, and tests that were not run, are skipped.
_ELEMENT = {"fail": "failure", "crash": "error", "timeout": "error", "error": "error", "pass": ""}


def junit(report: Report) -> str:
    """Write the report as JUnit XML."""
    root = Xml.Element("testsuites", name="conformance", time=f"{report.seconds:.3f}")
    for part in report.parts:
        root.append(_suite(part, report))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(part: SubjectResult, report: Report) -> Xml.Element:
    cases = list(_cases(part))
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    suite = Xml.Element(
        "testsuite",
        name=_xml(f"{part.subject} ({part.spec})" if part.subject else "engine"),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{sum(test.seconds for clause in part.clauses for test in clause.tests):.3f}",
    )
    if report.started:
        suite.set("timestamp", _xml(report.started))
    properties = Xml.SubElement(suite, "properties")
    for name, value in {"verdict": part.verdict, **report.environment}.items():
        Xml.SubElement(properties, "property", name=_xml(str(name)), value=_xml(str(value)))
    suite.extend(cases)
    return suite


def _cases(part: SubjectResult) -> Iterator[Xml.Element]:
    for clause in part.clauses:
        for test in clause.tests:
            yield _case(clause, test)
        if not clause.tests:
            case = Xml.Element("testcase", classname=_xml(clause.id), name="(no test)", time="0")
            Xml.SubElement(case, "skipped", message=_xml(clause.reason))
            yield case


def _case(clause: ClauseResult, test: TestOutcome) -> Xml.Element:
    case = Xml.Element("testcase", classname=_xml(clause.id), name=_xml(test.nodeid), time=f"{test.seconds:.3f}")
    element = _ELEMENT.get(test.outcome, "skipped")
    if clause.verdict == "consequence" and element:
        Xml.SubElement(case, "skipped", message=_xml(f"could not be judged, because {clause.reason} is broken"))
    elif element and clause.expected:
        Xml.SubElement(case, "skipped", message=_xml(f"expected: {clause.expected.reason}"))
    elif element in {"failure", "error"} and clause.is_note:
        Xml.SubElement(case, "skipped", message=_xml(f"note: {one_line(test.message)}"))
    elif element == "skipped":
        Xml.SubElement(case, element, message=_xml(f"{test.outcome}: {test.reason or test.message}"))
    elif element:
        child = Xml.SubElement(case, element, message=_xml(one_line(test.message)), type=test.outcome)
        child.text = _xml(_story(clause, test))
    return case


def _story(clause: ClauseResult, test: TestOutcome) -> str:
    """Return the text of a failure for a CI server."""
    lines = [f"{clause.id} ({clause.level}): {prose(clause.text)}", test.message]
    for who in Failure(test).accused:
        lines += [f"rank {rank}: {who.word}: {who.witness.message}" for rank in who.ranks]
    lines += [f"looks like: {test.likely}"] if test.likely else []
    lines += [f"reproduce: {test.reproduce}"] if test.reproduce else []
    return "\n".join([*lines, f"read: {address(clause.page)}"])


def _xml(text: str) -> str:
    return _NO_XML.sub("?", visible(text))
