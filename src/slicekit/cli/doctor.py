"""What is installed here, and how to install what is not."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy
import torch
from rich.console import Console

import slicekit
from slicekit import native
from slicekit.native.library import INTERFACE

EXTRAS: dict[str, tuple[str, ...]] = {
    "cli": ("typer", "rich"),
    "plot": ("matplotlib",),
    "sklearn": ("scikit-learn",),
    "jax": ("jax", "equinox"),
    "aeon": ("aeon",),
    "slurm": ("submitit",),
    "ray": ("ray",),
    "dask": ("distributed",),
    "sweep": ("optuna",),
    "peers": (
        "torch-slices",
        "pysiglib",
        "signax",
        "mambapy",
        "xlstm",
        "transformers",
        "flash-linear-attention",
        "torchdiffeq",
        "torchcde",
    ),
}
"""The distributions of each optional extra, as in pyproject.toml."""

SCANS = (slicekit.Recurrent, slicekit.Associative, slicekit.Chunked)

Section = tuple[str, list[tuple[str, str]]]


def show(console: Console) -> None:
    """Print every section."""
    for title, lines in (_versions(), _machine(), _native(), _scans(), _jax(), _extras()):
        console.print(title, style="bold", markup=False)
        for name, told in lines:
            console.print(f"  {name:<12} {told}", markup=False, soft_wrap=True)


def _versions() -> Section:
    return "versions", [
        ("slicekit", slicekit.__version__),
        ("python", platform.python_version()),
        ("torch", torch.__version__),
        ("numpy", numpy.__version__),
    ]


def _machine() -> Section:
    return "machine", [
        ("platform", platform.platform()),
        ("threads", f"{torch.get_num_threads()} used by torch, {os.cpu_count()} processors"),
        ("CUDA", _cuda()),
        ("MPS", "available" if torch.backends.mps.is_available() else "not available"),
    ]


def _cuda() -> str:
    if not torch.cuda.is_available():
        return "not available"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"available: {', '.join(names)}"


def _native() -> Section:
    library = native.library()
    if library is None:
        return "C++ kernels", [("active", f"no: {native.reason()}")]
    threads = (
        f"{torch.get_num_threads()}, their own" if library.threads else "1: built without more"
    )
    return "C++ kernels", [
        ("active", "yes"),
        ("interface", str(INTERFACE)),
        ("instructions", library.isa),
        ("threads", threads),
    ]


def _scans() -> Section:
    lines = [(scan.__name__, "available") for scan in SCANS]
    state = "available" if native.available() else "not available: the C++ kernels are not active"
    layer = slicekit.SLiCE(1, slicekit.Diagonal(1))
    taken = slicekit.explain(layer, torch.zeros(1, 2, 1)).choices[-1].taken
    return "scans", [*lines, ("Native", state), ("taken here", f"{taken}, for a layer on the CPU")]


def _jax() -> Section:
    try:
        import jax

        from slicekit.jax import native as kernels
    except ImportError as error:
        return "JAX", [("active", f"no: {error}")]
    devices = ", ".join(sorted({f"{d.platform} {d.device_kind}" for d in jax.devices()}))
    why = kernels.reason()
    if jax.default_backend() != "cpu":
        why = f"JAX computes on {jax.default_backend()}"
    return "JAX", [
        ("active", f"yes: jax {jax.__version__}"),
        ("devices", devices),
        ("C++ kernels", f"no: {why}" if why else "yes, by XLA's foreign function interface"),
    ]


def _extras() -> Section:
    return "extras", [(f"[{name}]", _extra(name, needs)) for name, needs in EXTRAS.items()]


def _extra(name: str, needs: tuple[str, ...]) -> str:
    versions = {need: _installed(need) for need in needs}
    present = ", ".join(f"{need} {number}" for need, number in versions.items() if number)
    missing = ", ".join(need for need, number in versions.items() if not number)
    if not missing:
        return f"installed: {present}"
    lacks = f"missing: {missing}; pip install 'slicekit[{name}]'"
    return f"{lacks} (installed: {present})" if present else lacks


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
