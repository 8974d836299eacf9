"""Small files cost little: what took gigabytes or minutes is read at once, or refused."""

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from slicekit.tasks.archives import ArchiveError, read

TS = "@problemName Bomb\n@timeStamps {timed}\n@univariate true\n@equalLength false\n"


def ts(folder: Path, cases: list[str], classes: str = "a b", timed: str = "false") -> Path:
    path = folder / "bomb.ts"
    head = TS.format(timed=timed) + f"@classLabel true {classes}\n@data\n"
    path.write_text(head + "\n".join(cases) + "\n")
    return path


def arff(folder: Path, classes: str) -> Path:
    path = folder / "bomb.arff"
    head = f"@relation x\n@attribute t0 numeric\n@attribute y {classes}\n@data\n"
    path.write_text(f"{head}1.0,a\n")
    return path


def npz(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "bomb.npz"
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


def test_other_members_of_a_npz_file_are_not_read(tmp_path: Path) -> None:
    path = npz(tmp_path, X=np.ones((2, 3, 1)), y=np.array([0.5, 1.5]))
    with zipfile.ZipFile(path, "a") as members:
        members.writestr("pictures.npy", b"no array at all")
    assert torch.equal(read(path).values, torch.ones(2, 3, 1))


@pytest.mark.parametrize("damage", ["name", "list"])
def test_an_array_that_is_lost_by_damage_is_missed(tmp_path: Path, damage: str) -> None:
    arrays = {"X": np.ones((2, 3, 1)), "y": np.array([0, 1]), "t": np.arange(6.0).reshape(2, 3)}
    path = npz(tmp_path, **arrays, classes=np.array(["a", "b"]))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"classes.npy")
    if damage == "name":
        content[place] ^= 8
    else:  # a comment of the entry before swallows the last one
        content[content.rindex(b"t.npy") - 14] = 46 + len("classes.npy")
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"bomb\.npz: damaged"):
        read(path)


def test_a_small_file_of_enormous_arrays_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, X=np.zeros((2, 2**24, 1), np.uint8), y=np.zeros(2))
    assert path.stat().st_size < 2**16
    with pytest.raises(ArchiveError, match=r"bomb\.npz: 33554\d+ bytes of arrays in a file of"):
        read(path)


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, y=np.zeros(2))
    claim = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1000000000000, 1), }\n"
    with zipfile.ZipFile(path, "a") as members:
        size = len(claim).to_bytes(2, "little")
        members.writestr("X.npy", b"\x93NUMPY\x01\x00" + size + claim + bytes(16))
    with pytest.raises(ArchiveError, match=r"bomb\.npz: damaged, ValueError: 16 bytes for float64"):
        read(path)


def test_one_long_case_among_many_short_ones_takes_the_memory_of_its_values(tmp_path: Path) -> None:
    path = ts(tmp_path, [",".join("1" * 70_001) + ":a", *["1:b"] * 28_000])
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    try:
        series = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert series.observations.shape == (98_001, 1) and peak < 2**26
    assert len(series.case(0)) == 70_001 and len(series.case(-1)) == 1


def test_channels_with_times_of_their_own_are_refused_if_there_are_too_many(tmp_path: Path) -> None:
    case = ":".join(f"({i},1)" for i in range(5_000))
    path = tmp_path / "bomb.ts"
    path.write_text(f"@timeStamps true\n@classLabel true a\n@data\n{case}:a\n")
    with pytest.raises(
        ArchiveError, match=r"line 4: 5000 observations of 5000 channels make 25000"
    ):
        read(path)
    few = ":".join(f"({i},1)" for i in range(1_500))
    path.write_text("@timeStamps true\n@classLabel true a\n@data\n" + f"{few}:a\n" * 10)
    with pytest.raises(
        ArchiveError, match=r"line 11: 12000 observations of 1500 channels make 180"
    ):
        read(path)


def test_sixty_thousand_classes_are_read(tmp_path: Path) -> None:
    names = " ".join(f"c{i}" for i in range(60_000))
    assert len(read(ts(tmp_path, ["1:c5"], names)).classes) == 60_000
    with pytest.raises(ArchiveError, match="line 5: class 'c7' twice"):
        read(ts(tmp_path, ["1:c5"], f"{names} c7"))


def test_colons_and_brackets_are_split_in_one_pass(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"line 7: '' at position|line 7: ''; expected pairs"):
        read(ts(tmp_path, [":" * 100_000 + "a"], timed="true"))
    with pytest.raises(ArchiveError, match=r"line 7: .* at position 1; expected a pair"):
        read(ts(tmp_path, ["(1,2)" + ":" * 50_000 + ")" * 50_000 + ":a"], timed="true"))


def test_spaces_before_a_quote_are_passed_over_in_one_pass(tmp_path: Path) -> None:
    assert read(arff(tmp_path, "{a," + " " * 100_000 + "'b c' }")).classes == ("a", "b c")
    with pytest.raises(ArchiveError, match=r"line 4: classes '\{a, "):
        read(arff(tmp_path, "{a," + " " * 100_000 + "'b'" + " " * 100_000 + "c}"))


def test_a_fault_late_in_a_long_line_is_found(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="line 7: 'x' at position 100001"):
        read(ts(tmp_path, ["1," * 100_000 + "x:a"]))
