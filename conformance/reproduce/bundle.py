"""A test of the suite as a script of its own: the sources it needs are in the script, so that torch is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from conformance.core.plan import PlannedTest

ROOT = Path(__file__).parents[2]

DRIVER = '''import importlib.abc
import importlib.util
import json
import os
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SUBJECT, SPEC, INPUTS = {subject!r}, {spec!r}, {inputs!r}
TEST, CASE, ARGUMENTS = ({module!r}, {function!r}), {case!r}, {arguments!r}
SIZE, GROUP = {size}, {group}


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules below in this very file."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("conformance", "published"):
            return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], f"<{{module.__name__}}>", "exec"), module.__dict__)


def main(rank, folder, wrong):
    """One rank: the test with its arguments, and what came of it."""
    sys.meta_path.insert(0, Sources())
    sys.path.insert(0, os.getcwd())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    from conformance.kit.deviations import NotApplicable
    from conformance.kit.world import World

    trades = dist.FileStore(f"{{folder}}/trades", SIZE)
    count = 0

    def exchange(value):
        nonlocal count
        count += 1
        trades.set(f"{{count}}/{{rank}}", json.dumps(value))
        return [json.loads(trades.get(f"{{count}}/{{other}}")) for other in range(SIZE)]

    if GROUP:
        dist.init_process_group("gloo", store=dist.FileStore(f"{{folder}}/group", SIZE), rank=rank, world_size=SIZE)
    try:
        offered = {{"world": World(rank=rank, size=SIZE, exchange=exchange), **CASE}}
        if SUBJECT:
            from conformance.kit.subject import resolve

            offered["subject"] = resolve(SUBJECT, SPEC, INPUTS)
        torch.manual_seed(0)
        getattr(importlib.import_module(TEST[0]), TEST[1])(**{{name: offered[name] for name in ARGUMENTS}})
        said = "in order"
    except NotApplicable as error:
        said = f"says nothing here: {{error}}"
    except AssertionError as error:
        said, wrong[rank] = error, 1
    except BaseException:
        said, wrong[rank] = traceback.format_exc(), 1
    print(f"rank {{rank}} of {{SIZE}}: {{said}}", flush=True)
    exchange(None)  # no rank leaves while another still needs it
    os._exit(0)  # threads of the group run on, and an interpreter that ends around them may abort


'''
END = """
if __name__ == "__main__":
    import time

    wrong = mp.get_context("spawn").Array("i", SIZE)
    with tempfile.TemporaryDirectory() as folder:
        workers = mp.spawn(main, args=(folder, wrong), nprocs=SIZE, join=False)
        limit, ended = time.monotonic() + {timeout}, False
        while not ended and time.monotonic() < limit:
            ended = workers.join(timeout=1)  # True once all have ended; one that did is no reason to stop
        for process in workers.processes:
            process.kill() if process.is_alive() else None
    print("" if ended else "not every rank came to its end")
    sys.exit(any(wrong) or not ended)
"""


def script(item: PlannedTest, timeout: float) -> str:
    """What follows the docstring of a script that runs one test of the suite."""
    subject = item.subject
    head = DRIVER.format(
        subject=subject.reference if subject else "",
        spec=item.spec,
        inputs=subject.inputs if subject else None,
        module=item.test.module,
        function=item.test.function,
        case=dict(item.case),
        arguments=tuple(item.test.arguments),
        size=item.size,
        group=item.group,
    )
    names = [item.test.module, *_needed(item.test.file), *ALWAYS]
    own = subject.reference.partition(":")[0] if subject else ""
    if own.startswith("published."):  # an adapter of ours
        names += [own, *_needed(_file(own))]
    sources = "".join(_embedded(name) for name in dict.fromkeys(names))
    packages = f"PACKAGES = {PACKAGES!r}\nSOURCES = dict.fromkeys(PACKAGES, '')\n"
    ours = "SOURCES['conformance'] = 'from conformance.kit.subject import Subject'  # what an adapter may import\n"
    return f"{head}{packages}{ours}{sources}{END.format(timeout=timeout)}"


PACKAGES = ("conformance", "conformance.core", "conformance.kit", "conformance.suite", "published")
ALWAYS = (
    "conformance.kit.subject",
    "conformance.kit.samples",
    "conformance.kit.specs",
    "conformance.core.outcomes",
    "conformance.kit.world",
)


def _embedded(name: str) -> str:
    text = _file(name).read_text("utf-8")
    quoted = f"r'''{text}'''" if "'''" not in text and text.isascii() else repr(text)
    return f"\n# {'-' * 20} {name}\nSOURCES[{name!r}] = {quoted}\n"


def _needed(file: Path, seen: set[str] | None = None) -> Iterator[str]:
    """The modules of this package that a module is made of, each once."""
    seen = set() if seen is None else seen
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(("conformance", "published")):
            continue
        for name in (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)):
            if name not in seen and _file(name).is_file():
                seen.add(name)
                yield name
                yield from _needed(_file(name), seen)


def _file(name: str) -> Path:
    return ROOT.joinpath(*name.split(".")).with_suffix(".py") if "." in name else ROOT / "nothing"
