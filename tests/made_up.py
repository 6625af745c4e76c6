"""Made-up clauses, outcomes and reports for the tests of the machinery; no torch, no spec_impl."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from conformance.core.catalog import SuiteTest
from conformance.core.clauses import Clause
from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.core.sources import Source
from conformance.kit.deviations import Deviation
from conformance.report.model import Report
from conformance.report.terminal import show, terminal
from conformance.report.verdicts import judge

GATHER = "AllGatherGradAutograd"
ENVIRONMENT = {
    "torch": "2.13.0+cpu",
    "python": "3.11.9",
    "platform": "linux",
    "backend": "gloo",
    "device": "cpu",
    "ranks": [1, 2, 3, 4],
}
SUITE = {"version": "0.1.0", "clauses_sha256": "0" * 64}


def subject_ref(label, spec=GATHER):
    """A made-up subject, as the controller knows it."""
    return SubjectRef(label, spec, None, label)


SUBJECT = subject_ref("mypkg.dist:Gather")


def clause(name, party="function", level="must", spec="Function", versions=""):
    """A clause of a made-up registry."""
    module = "spec_impl.function" if spec == "Function" else "spec_impl.ksuit"
    return Clause(
        name, party, level, f"What {name} says.", (Source("K", "words"),), spec, name, module, "x.py", 1, versions
    )


CLAUSES = {
    made.id: made
    for made in (
        clause("Function.backward.count"),
        clause("Function.backward.receives", party="engine"),
        clause("Function.save_for_backward.once", level="should"),
        clause("Function.backward.any-layout", level="quality"),
        clause(f"{GATHER}.backward.sum", spec=GATHER),
        clause("GradFactor.forward.identity", spec="GradFactor"),
    )
}
#: What a subject of spec AllGatherGradAutograd owes.
OWED = (
    "Function.backward.count",
    "Function.save_for_backward.once",
    "Function.backward.any-layout",
    f"{GATHER}.backward.sum",
)


def outcome(name, word="pass", world=2, subject=SUBJECT, guilty=None, node="", **more):
    """The outcome of a test; the ranks in ``guilty`` gave ``word`` and the others passed."""
    guilty = range(world) if guilty is None else guilty
    ranks = tuple(
        RankOutcome(rank, word if rank in guilty else "pass", more.get("message", "") if rank in guilty else "")
        for rank in range(world)
    )
    label, spec = (subject.label, subject.spec) if subject else ("", "Function")
    nodeid = node or f"conformance/suite/test_x.py::test_{name}[{f'{label}-' if label else ''}ranks{world}]"
    command = f"conformance run {label} -k test_{name}"
    return TestOutcome(nodeid, word, 0.25, name, label, spec, world, ranks=ranks, reproduce=command, **more)


def engine_passes():
    """PyTorch keeps its one made-up clause."""
    return outcome("Function.backward.receives", subject=None, world=1)


def made(*own, subjects=(SUBJECT,), planned=(), clauses=CLAUSES, **more) -> Report:
    """A report on these outcomes; clauses of the subject that none of them is about pass."""
    about = {(test.clause, test.subject) for test in own}
    rest = [
        outcome(name, subject=info)
        for info in subjects
        for name in (
            "Function.backward.count",
            "Function.save_for_backward.once",
            "Function.backward.any-layout",
        )
        + ((f"{GATHER}.backward.sum",) if info.spec == GATHER else ())
        if (name, info.label) not in about
    ]
    engine = [] if ("Function.backward.receives", "") in about else [engine_passes()]
    return judge([*own, *rest, *engine], planned, subjects, clauses, ENVIRONMENT, suite=SUITE, **more)


def plan(name, subject=SUBJECT, function=""):
    """A planned test of two ranks; without ``function``, the one that ``outcome(name)`` is about."""
    test = SuiteTest(
        "conformance.suite.test_x",
        function or f"test_{name}",
        name,
        (2,),
        True,
        (),
        (),
        "",
        False,
        False,
        None,
        Path("test_x.py"),
        1,
    )
    return PlannedTest(test, subject, 2, True, ())


def with_clause(report, name, **changes):
    """The same report with one clause of its first subject tampered with, and nothing recomputed."""
    part = report.subjects[0]
    clauses = tuple(replace(own, **changes) if own.id == name else own for own in part.clauses)
    return replace(report, subjects=(replace(part, clauses=clauses), *report.subjects[1:]))


SUM = f"{GATHER}.backward.sum"
NASTY = (
    "\x1b[31mred\x00\ud800 <script>alert(1)</script> [bold]x[/bold] :smile: ]]>\r\n" + "::error::x ##[add-mask]x \u202e"
)
MESSAGE = str(Deviation("gradient of x", "tensor([0.5, 0.5])", "tensor([1., 1.])", "mean instead of sum"))


def broken(word="fail", **more):
    """A report with one broken clause; rank 1 of 2 is to blame."""
    more = {
        "node": "suite/test_x.py::test_sum[ranks2]",
        "guilty": [1],
        "message": MESSAGE,
        "likely": "mean instead of sum",
        **more,
    }
    return made(outcome(SUM, word, **more))


def on_terminal(report, width=80, **more):
    file = io.StringIO()
    show(report, terminal(file, width=width), **more)
    return file.getvalue()


def nasty():
    """A report in which the subject wrote every text."""
    rank = RankOutcome(1, "crash", NASTY, NASTY, -11, "SIGSEGV", NASTY, NASTY, (NASTY,))
    test = outcome(SUM, "crash", guilty=[1])
    test = replace(test, ranks=(test.ranks[0], rank), message=NASTY, likely=NASTY, reason=NASTY, reproduce=NASTY)
    return made(test, outcome("Function.backward.count", "skip", reason=NASTY))


def with_note(*outcomes):
    """A report with a clause of level may that does not hold, beside other outcomes."""
    clauses = {**CLAUSES, "Function.new.thing": clause("Function.new.thing", level="may")}
    return made(outcome("Function.new.thing", "fail", message="another way"), *outcomes, clauses=clauses)
