"""One writer of a folder: a lock that dies with its process, and that no one is locked out by."""

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slicekit import locks
from slicekit.locks import WRITER, InUse, writing

HOLDER = """
import sys
from pathlib import Path
from slicekit.locks import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_the_folder_and_who_writes_it(tmp_path: Path) -> None:
    with hold(tmp_path) as other:
        with (
            pytest.raises(InUse, match=f"{tmp_path} is in use: process {other.pid} on "),
            writing(tmp_path),
        ):
            pass
        assert (tmp_path / WRITER).exists()
        threading.Timer(0.2, other.kill).start()
        with writing(tmp_path, patience=60):
            assert other.wait() == -signal.SIGKILL, "a killed process locks nobody out"
    assert list(tmp_path.iterdir()) == [], "a writer leaves no file behind"


def test_a_folder_that_nothing_was_written_to_is_not_left_behind(tmp_path: Path) -> None:
    with writing(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
    with writing(tmp_path / "run"):
        (tmp_path / "run" / "result").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["result"]


def test_threads_take_turns(tmp_path: Path) -> None:
    """Each finds the file as it is, as it was, or removed in between."""
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(20):
            with writing(tmp_path, patience=60):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    before, locks.PAUSE = locks.PAUSE, 0.0
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    locks.PAUSE = before
    assert (inside, most) == ([0], [1]) and list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "target").write_text("mine")
    (tmp_path / "run" / WRITER).symlink_to(tmp_path / "target")
    with (
        pytest.raises(OSError, match=f"could not write {tmp_path / 'run' / WRITER}"),
        writing(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "target").read_text() == "mine"


def test_a_file_system_without_locks_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks, "_lock_by_system", refuse)
    with (
        pytest.warns(RuntimeWarning, match=f"{tmp_path} is on a file system without locks"),
        writing(tmp_path),
    ):
        pass
