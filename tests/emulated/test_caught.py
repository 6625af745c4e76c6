"""Each planted mistake passes every clause on the CPU, and breaks a must on the emulated device."""

from __future__ import annotations

from collections import defaultdict

import pytest

from conformance.core.clauses import registry
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN
from conformance.run.session import Session, outcomes_of
from tests.emulated import mistakes

NAMES = [name for name, value in vars(mistakes).items() if isinstance(value, type)]
MISTAKES = [name for name in NAMES if name != "Square"]
#: What the first broken must of each mistake says, and the device that shows it.
CAUGHT = {
    "HostTensorInForward": ("emulated", "two devices, emulated:0 and cpu"),
    "DeviceForgotten": ("emulated", "two devices, emulated:0 and cpu"),
    "GradientOnTheHost": ("emulated", "expected device emulated:0 but got cpu"),
    "FirstDevice": ("emulated:1", "two devices, emulated:1 and emulated:0"),
    "HostRead": ("emulated", "SIGSEGV"),
    "ReadTooEarly": ("emulated", "nan"),
    "StreamWithoutWaiting": ("emulated", "nan"),
    "PinnedBuffer": ("emulated", "gradient of input 0"),
    "EventBeforeTheWork": ("emulated", "nan"),
    "CudaByName": ("emulated", "Torch not compiled with CUDA enabled"),
    "DefaultStream": ("emulated", "called in another stream than the default one"),
    "HostGenerator": ("emulated", "device type for generator but found 'cpu'"),
    "MemoryTakenForZero": ("emulated", "nan"),
}


def broken(device: str, names: list[str]) -> dict[str, dict[str, str]]:
    """Run the whole suite on some subjects, on each until it breaks a must; what it breaks, with what was said."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    caught: set[str] = set()
    subjects = tuple(f"{mistakes.__name__}:{name}" for name in names)
    options = RunOptions(
        subjects=subjects, inputs=f"{mistakes.__name__}:inputs", device=device, ranks=(1,), compile=False
    )
    with Session(options) as session:
        tests = [test for test in session.tests if test.subject]
        assert len(tests) > 20 * len(names), "the whole suite"
        for outcome in outcomes_of(session.pool, tests, lambda test: test.subject.label not in caught):
            if outcome.outcome in BROKEN:
                name = outcome.subject.partition(":")[2]
                found[name].setdefault(outcome.clause, f"{outcome.outcome}: {outcome.message}")
                if registry()[outcome.clause].level == "must":
                    caught.add(outcome.subject)
                assert ("--device" in outcome.reproduce) == (device != "cpu")
    return found


@pytest.fixture(scope="module")
def on_first_device() -> dict[str, dict[str, str]]:
    return broken("emulated", NAMES)


@pytest.fixture(scope="module")
def on_second_device() -> dict[str, dict[str, str]]:
    return broken("emulated:1", ["Square", "FirstDevice"])


def test_nothing_shows_on_the_cpu() -> None:
    assert broken("cpu", NAMES) == {}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_breaks_a_must_on_a_device(name, on_first_device, on_second_device) -> None:
    device, words = CAUGHT[name]
    said = (on_first_device if device == "emulated" else on_second_device)[name]
    musts = [message for clause, message in said.items() if registry()[clause].level == "must"]
    assert musts, said
    assert words in musts[0]


def test_what_is_right_breaks_nothing_there(on_first_device, on_second_device) -> None:
    assert "Square" not in on_first_device
    assert "Square" not in on_second_device


def test_the_first_device_is_right_for_itself(on_first_device) -> None:
    assert "FirstDevice" not in on_first_device
