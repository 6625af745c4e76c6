"""``conformance prove SPEC``: the planted bugs, the correct implementations and the mutants of a specification."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.core import clauses
from conformance.core.errors import FAILS, OK, UsageError
from conformance.core.homes import HOUSE, Home, find
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN
from conformance.core.output import say
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.core.prose import counted
from conformance.prove.implementations import Implementation, of_home
from conformance.prove.mutants import Mutant, mutants, put
from conformance.ranks.client import Forkserver
from conformance.ranks.settings import search_path
from conformance.run.references import reference_subjects
from conformance.run.session import Session

#: One rank, two, and three for groups that lack one in the middle.
RANKS = (1, 2, 3)


@dataclass(frozen=True)
class _Proof:
    """What a proof is made with."""

    home: Home
    forkserver: Forkserver

    def session(self, subjects: Sequence[SubjectRef], *before: str) -> Session:
        """A run of these subjects, whose ranks look for modules in some folders first."""
        options = RunOptions(spec=self.home.name, ranks=RANKS)
        return Session(options, subjects=subjects, forkserver=self.forkserver, path=(*before, *search_path()))

    def killer(self, subject: SubjectRef, *before: str, clause: str = "") -> str:
        """The first test of a subject that breaks, of one clause or of any, the specification's own first."""
        with self.session([subject], *before) as session:
            every = [test for test in session.tests if concerns(test) and not test.why_not]
            own = [test for test in every if not clause or test.test.clause == clause]
            ordered = sorted(own, key=lambda test: (not test.is_of_its_spec, test.test.compiles, test.world))
            return next((found.nodeid for found in session.run(ordered) if found.outcome in BROKEN), "")


def prove(name: str) -> int:
    """Prove a specification, and print what was found; the status is 0 if nothing is left to be proved.

    Raises:
        UsageError: there is no such specification, or its folder cannot be read.
    """
    if name in HOUSE:
        raise UsageError(f"spec {name} is proved in a checkout of this project, by python -m tests.proof")
    home = find(name)
    own = [clause.id for clause in clauses.registry(name).values() if clause.spec == name]
    bugs = of_home(home, "planted")
    for bug in bugs:
        if bug.breaks not in clauses.registry(name):
            raise UsageError(f"{bug.reference}: Breaks: {bug.breaks!r} is no clause")
    with Forkserver() as forkserver:
        proof = _Proof(home, forkserver)
        problems, killed = [], set()
        for bug in bugs:
            killer = proof.killer(_subject(bug), clause=bug.breaks)
            killed |= {bug.breaks} if killer else set()
            problems += [] if killer else [f"{bug.reference} kills nothing: {bug.breaks} holds for it"]
            say(f"{'caught' if killer else 'MISSED'}   {bug.reference}: {bug.breaks}")
        problems += list(_accused(proof, [*reference_subjects(name), *map(_subject, of_home(home, "correct"))]))
        problems += [f"no planted bug breaks {clause}" for clause in own if clause not in killed]
        _mutated(proof)
    for problem in problems:
        say(f"problem  {problem}")
    counts = {"clause": len(own), "planted bug": len(bugs), "problem": len(problems)}
    say(f"{name}: {', '.join(counted(number, word) for word, number in counts.items())}")
    return FAILS if problems else OK


def concerns(test: PlannedTest) -> bool:
    """Tell whether a test of a subject runs: of those that compile, which take seconds, the specification's own."""
    return bool(test.subject) and not test.left_out and (test.is_of_its_spec or not test.test.compiles)


def _subject(one: Implementation) -> SubjectRef:
    return SubjectRef(one.reference, one.spec, one.inputs, one.reference, types=one.types)


def _accused(proof: _Proof, right: Sequence[SubjectRef]) -> Iterator[str]:
    """What is said against implementations that are right."""
    with proof.session(right) as session:
        tests = [test for test in session.tests if concerns(test)]
        outcomes = list(session.run(tests))
        report = session.report(tests, outcomes, engine=False)
    for part in report.subjects:
        broken = [clause.id for clause in part.clauses if clause.affects_verdict]
        say(f"{'ACCUSED' if broken else 'right'}  {part.subject}{': ' if broken else ''}{', '.join(broken)}")
        yield from (f"{part.subject} is right, and {clause} is said to be broken" for clause in broken)


def _mutated(proof: _Proof) -> None:
    """Change the reference in one small way after the other, and say of each whether a test notices it."""
    every, forms = list(mutants(proof.home.folder / proof.home.reference)), reference_subjects(proof.home.name)
    noticed = 0
    for mutant in every:
        seen = _noticed(proof, mutant, forms)
        noticed += seen
        say(f"{'noticed' if seen else 'SURVIVES'}  {mutant.name}")
    say(f"{noticed} of {counted(len(every), 'mutant')} noticed")


def _noticed(proof: _Proof, mutant: Mutant, forms: Sequence[SubjectRef]) -> bool:
    """Whether a test breaks if the reference is a mutant, in one of its forms; all else is found where it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        put(mutant, proof.home.package, Path(folder))
        return any(proof.killer(form, folder) for form in forms)
