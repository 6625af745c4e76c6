"""Compile the sources in one folder into a library in another: ``build`` runs this as a script."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension


def compile_library(sources: Path, target: Path) -> None:
    """Compile every C++ file in ``sources`` into ``target/_emulated.so``."""
    extension = CppExtension(
        "_emulated",
        sorted(str(source) for source in sources.glob("*.cpp")),
        extra_compile_args=["-O0", "-g0"],  # compiled on the user's time; the work is in PyTorch's own kernels
        extra_link_args=["-s"],
    )
    setup(
        name="emulated",
        ext_modules=[extension],
        cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False, no_python_abi_suffix=True)},
        script_args=["build_ext", "--build-lib", str(target), "--build-temp", str(target / "objects")],
    )


if __name__ == "__main__":
    compile_library(Path(sys.argv[1]), Path(sys.argv[2]))
