"""Install slicekit in every way that it can be, each into a fresh environment, and use it there.

`make test-install` runs this; it is no test of pytest. What slicekit depends on is installed once
and lent to the other environments.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = ROOT / "constraints.txt"
REQUIRED = {"SLICEKIT_REQUIRE_NATIVE": "1"}
UNOPTIMISED = {**REQUIRED, "SKBUILD_CMAKE_BUILD_TYPE": "Debug"}
"""The wheel is built as it is for users; later builds need not take as long."""

USE = """
import sys, warnings
import torch, slicekit
from slicekit import native

native_wanted = sys.argv[1] == "native"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    layer = slicekit.SLiCE(channels=3, structure=slicekit.BlockDiagonal(dim=8, block=4))
    reference = slicekit.SLiCE(3, layer.structure, scan=slicekit.Recurrent())
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(2, 50, 3)
    for _ in range(2):
        h = layer(x)
        h.sum().backward()
torch.testing.assert_close(h, reference(x))
assert native.available() is native_wanted, native.reason()
about = [w for w in caught if "without its C++ kernels" in str(w.message)]
assert len(about) == (0 if native_wanted else 1), about
print(f"C++ kernels, {native.library().isa}" if native_wanted else "torch alone, one warning")
"""


class Environment:
    """A virtual environment, which sees the packages of another if one is lent."""

    def __init__(self, folder: Path, lent: "Environment | None" = None) -> None:
        venv.create(folder, with_pip=True, symlinks=os.name != "nt")
        self.folder = folder
        variables = {"base": str(folder), "platbase": str(folder)}
        self.packages = Path(sysconfig.get_path("purelib", "venv", variables))
        self.scripts = Path(sysconfig.get_path("scripts", "venv", variables))
        if lent:
            (self.packages / "lent.pth").write_text(f"{lent.packages}\n")

    def python(self, *arguments: str | Path, **variables: str) -> str:
        """What Python prints here, away from the sources."""
        return run(self.scripts / "python", *arguments, folder=self.folder, **variables)

    def install(self, *wanted: str | Path, **variables: str) -> None:
        self.python("-m", "pip", "install", "-q", *wanted, **variables)


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    pins = {"PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS)}
    ours = {"PYTHONPATH", "SLICEKIT_NATIVE", "SLICEKIT_REQUIRE_NATIVE"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=kept | pins | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def copy_sources(folder: Path) -> Path:
    """A copy of the sources alone, so that no earlier build can help."""
    ignored = shutil.ignore_patterns(".*", "build", "dist", "__pycache__")
    return Path(shutil.copytree(ROOT, folder, ignore=ignored))


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution that it was built from."""
    command = (sys.executable, "-m", "build", "--outdir", folder / "dist")
    run(*command, copy_sources(folder / "wheel source"), folder=folder, **REQUIRED)
    (wheel,) = folder.glob("dist/*.whl")
    (source,) = folder.glob("dist/*.tar.gz")
    if not re.fullmatch(r"slicekit-[^-]+-py3-none-(?!any)\w+\.whl", wheel.name):
        sys.exit(f"the wheel should be for this platform and any Python 3, not {wheel.name}")
    return wheel, source


def hide_compilers(folder: Path) -> dict[str, str]:
    """Variables under which the build finds its tools, but no compiler."""
    folder.mkdir()
    for tool in ("cmake", "ninja", "make"):
        if place := shutil.which(tool):
            (folder / tool).symlink_to(place)
    return {"PATH": str(folder), "CC": "no-compiler", "CXX": "no-compiler"}


@dataclass(frozen=True)
class Way:
    """One way to install slicekit: what pip is given, and whether kernels should come of it."""

    title: str
    wanted: tuple[str | Path, ...]
    native: bool
    variables: dict[str, str] = field(default_factory=dict)

    def attempt(self, environment: Environment) -> str:
        """Install it this way, use it, and say what was found."""
        environment.install(*self.wanted, **self.variables)
        found = environment.python("-c", USE, "native" if self.native else "pure")
        doctor = run(environment.scripts / "slicekit", "doctor", folder=environment.folder)
        expected = "active       yes" if self.native else "active       no: not built"
        if expected not in doctor:
            sys.exit(f"{doctor}\n{self.title}: `slicekit doctor` should say: {expected}")
        return found.strip()


def main() -> None:
    """Try every way, and stop at the first that fails."""
    with tempfile.TemporaryDirectory(prefix="slicekit-") as name:
        folder = Path(name)
        lender = Environment(folder / "lender")
        lender.install(*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"])
        wheel, source = build(folder)
        print(f"{wheel.name}\n{source.name}", flush=True)

        copies = [copy_sources(folder / f"source {i}") for i in range(3)]
        hidden = hide_compilers(folder / "tools")
        for way in (
            Way("wheel", (wheel,), native=True),
            Way("sdist", (source,), native=True, variables=UNOPTIMISED),
            Way("editable", ("-e", copies[0]), native=True, variables=UNOPTIMISED),
            Way("no compiler", (copies[1],), native=False, variables=hidden),
            Way("no compiler, editable", ("-e", copies[2]), native=False, variables=hidden),
        ):
            start = time.perf_counter()
            found = way.attempt(Environment(folder / way.title, lender))
            seconds = time.perf_counter() - start
            print(f"{way.title:<22} works: {found:<30} {seconds:4.0f} s", flush=True)


if __name__ == "__main__":
    main()
