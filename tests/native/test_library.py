"""Finding and loading the shared library, and what is said when there is none."""

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from slicekit import native
from slicekit.native import available, library, reason, warn_once
from slicekit.native.library import INTERFACE, NAMES, STATUS, _warn, check, load

COMPILER = os.environ.get("CC") or shutil.which("cc") or ""
WITHOUT_PRELOADS = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
INTERFACE_FUNCTION = "long long slicekit_interface(void) {{ return {}; }}\n"
OTHER_FUNCTIONS = """
const char *slicekit_isa(void) { return "imaginary"; }
long long slicekit_use_isa(const char *name) { return name[0] != 'i'; }
long long slicekit_has_threads(void) { return 0; }
"""
Choose = Callable[[str | Path], None]
Build = Callable[..., Path]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Iterator[Choose]:
    """Sets SLICEKIT_NATIVE for a process that has not looked for the library yet."""

    def set_it(wish: str | Path) -> None:
        monkeypatch.setenv("SLICEKIT_NATIVE", str(wish))
        load.cache_clear()
        _warn.cache_clear()

    yield set_it
    monkeypatch.undo()
    load.cache_clear()
    _warn.cache_clear()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Makes a small shared library from C."""
    if not COMPILER:
        pytest.skip("needs a C compiler")

    def compile_it(code: str, *options: str | Path, name: str = "small.so") -> Path:
        source, target = tmp_path / f"{name}.c", tmp_path / name
        source.write_text(code)
        command = [COMPILER, "-shared", "-fPIC", source, "-o", target, *options]
        subprocess.run(command, check=True, env=WITHOUT_PRELOADS)
        return target

    return compile_it


@pytest.mark.skipif(
    os.environ.get("SLICEKIT_REQUIRE_NATIVE") != "1"
    and os.environ.get("SLICEKIT_NATIVE", "off") == "off",
    reason="no library was promised",
)
def test_a_library_that_was_promised_is_there() -> None:
    assert os.environ.get("SLICEKIT_NATIVE") == "off" or available(), reason()


def test_importing_slicekit_loads_nothing() -> None:
    code = "import slicekit; from slicekit.native.library import load; print(load.cache_info())"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "currsize=0" in shown.stdout


def test_it_can_be_switched_off(choose: Choose) -> None:
    choose("off")
    assert library() is None and not available()
    assert "SLICEKIT_NATIVE=off" in reason()


def test_a_path_that_leads_nowhere_is_named(choose: Choose, tmp_path: Path) -> None:
    for wish in (tmp_path / "missing.so", tmp_path):
        choose(wish)
        assert library() is None
        assert f"SLICEKIT_NATIVE={wish} is no file" in reason()


def test_a_corrupt_file_is_named(choose: Choose, tmp_path: Path) -> None:
    corrupt = tmp_path / "corrupt.so"
    for contents in (b"", b"not a library", b"\x7fELF" + bytes(60)):
        corrupt.write_bytes(contents)
        choose(corrupt)
        assert library() is None
        assert f"{corrupt} can't be loaded" in reason()


def test_a_library_of_another_interface_is_refused(choose: Choose, build: Build) -> None:
    choose(build(INTERFACE_FUNCTION.format(INTERFACE + 1)))
    assert library() is None
    assert f"speaks interface {INTERFACE + 1}; this slicekit needs {INTERFACE}" in reason()


@pytest.mark.parametrize(
    ("code", "lacking"),
    [
        ("int something_else;", "slicekit_interface"),
        (INTERFACE_FUNCTION.format(INTERFACE), "slicekit_isa"),
    ],
)
def test_what_a_library_lacks_is_named(
    code: str, lacking: str, choose: Choose, build: Build
) -> None:
    choose(build(code))
    assert library() is None
    assert f"is no library of slicekit: it lacks {lacking}" in reason()


def test_an_installation_without_the_library_says_so(
    choose: Choose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(native, "__path__", [str(tmp_path)])
    choose("")
    assert library() is None
    assert "not built" in reason() and "compiler" in reason()


def test_the_library_may_be_in_any_folder_of_the_package(
    choose: Choose, build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = build(INTERFACE_FUNCTION.format(INTERFACE) + OTHER_FUNCTIONS, name=NAMES[0])
    monkeypatch.setattr(native, "__path__", [str(tmp_path / "elsewhere"), str(tmp_path)])
    choose("")
    found = library()
    assert found is not None and reason() == ""
    assert (found.path, found.isa, found.threads) == (place.resolve(), "imaginary", False)


def warnings_of(work: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in caught]


def test_it_warns_once_and_says_what_to_do(choose: Choose, tmp_path: Path) -> None:
    choose(tmp_path / "missing.so")
    (message,) = warnings_of(lambda: [warn_once() for _ in range(3)])
    assert "without its C++ kernels" in message and "missing.so" in message
    assert "`slicekit doctor`" in message


def test_it_does_not_warn_of_what_was_switched_off(choose: Choose) -> None:
    choose("off")
    assert warnings_of(warn_once) == []


def test_it_does_not_warn_when_there_are_kernels(choose: Choose, build: Build) -> None:
    choose(build(INTERFACE_FUNCTION.format(INTERFACE) + OTHER_FUNCTIONS))
    assert warnings_of(warn_once) == []


def test_both_may_be_asked_inside_a_compiled_graph(choose: Choose) -> None:
    def double_without_kernels(x: torch.Tensor) -> torch.Tensor:
        warn_once()
        return x if available() else 2 * x

    choose("off")
    compiled = torch.compile(double_without_kernels, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(3)), 2 * torch.ones(3))


@pytest.mark.parametrize("status", [*STATUS, 99])
def test_a_fault_names_the_kernel_and_the_cause(status: int) -> None:
    with pytest.raises(RuntimeError, match=rf"forward was given .*{STATUS.get(status, '99')}"):
        check(status, "forward")
