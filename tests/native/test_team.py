"""The team of threads alone: every part once, for callers at once, nested and forked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or ""
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@pytest.mark.skipif(not COMPILER, reason="no compiler")
@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        (["-DSLICEKIT_THREADS"], []),
        ([], []),
        (["-DSLICEKIT_THREADS", "-fsanitize=thread"], ["without-forks"]),
    ],
    ids=["threads", "no-threads", "race-detector"],
)
def test_a_team_does_every_part_once(
    flags: list[str], arguments: list[str], tmp_path: Path
) -> None:
    program = tmp_path / "team"
    sources = [str(NATIVE / "src/team.cpp"), str(NATIVE / "tests/team.cpp")]
    command = [*COMPILER.split(), "-std=c++17", "-O1", "-pthread", *flags, *sources]
    built = subprocess.run([*command, "-o", str(program)], env=PLAIN, capture_output=True)
    if "-fsanitize=thread" in flags and built.returncode:
        pytest.skip("this compiler has no race detector")
    assert built.returncode == 0, built.stderr.decode()
    done = subprocess.run(
        [str(program), *arguments], env=PLAIN, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr
