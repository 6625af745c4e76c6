"""Our harness: pytest, its plugin, and ranks forked from a forkserver.

python benchmarks/peers/ours.py WORLD CHECKS
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


def main(world: int, checks: int) -> int:
    """Run one test as many times, each time as a pytest item of its own."""
    from conformance.core import catalog
    from conformance.core.options import RunOptions
    from conformance.core.plan import SubjectRef, plan
    from conformance.plugin.stash import FOLDERS, SESSION
    from conformance.run.session import Session

    subject = "spec_impl.ksuit:AllGatherGradAutograd"
    named = SubjectRef(subject, "AllGatherGradAutograd", None, subject)
    session = Session(RunOptions(subjects=(subject,), spec=named.spec, ranks=(world,)), subjects=[named])

    import pytest

    from conformance.core import clauses

    suite = ROOT / "benchmarks" / "suite"
    (test,) = catalog.tests_in(suite / "test_bench_gather.py", "benchmarks.suite")
    test = replace(test, module="test_bench_gather", cases=tuple((("number", number),) for number in range(checks)))
    session.tests = plan([test], clauses.registry(), [named], (world,))
    session.pool.settings = replace(session.pool.settings, path=(str(suite), str(ROOT)))

    class Attach:
        """Hands the session to the plugin."""

        @staticmethod
        def pytest_configure(config: pytest.Config) -> None:
            config.stash[SESSION] = session

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(session: pytest.Session) -> None:
            session.config.stash[FOLDERS] = (suite,)  # the plugin reads its modules, as those of a specification

    arguments = [str(suite), "-c", "/dev/null", f"--rootdir={ROOT}", "-q", "-p", "no:cacheprovider"]
    try:
        return int(pytest.main([*arguments, "-p", "conformance.plugin"], plugins=[Attach]))
    finally:
        session.close()


if __name__ == "__main__":
    import os

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
