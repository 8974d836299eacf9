"""The `.npz` reader gives what the arrays hold, or says which of them does not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slicekit.tasks.archives import ArchiveError, read, read_archive


def arrays(**other: Any) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    made = {
        "X_train": generator.normal(size=(3, 4, 2)),
        "y_train": np.array([0, 1, 0]),
        "len_train": np.array([4, 2, 3], dtype=np.int32),
        "X_test": generator.normal(size=(2, 4, 2)).astype(np.float32),
        "y_test": np.array([1, 1]),
        "classes": np.array(["left", "right"]),
    } | other
    return {key: x for key, x in made.items() if x is not None}


def saved(folder: Path, given: dict[str, Any]) -> Path:
    np.savez_compressed(folder / "Walks.npz", **given)
    return folder / "Walks.npz"


def test_both_splits_of_a_problem(tmp_path: Path) -> None:
    given = arrays()
    found = read_archive(saved(tmp_path, given))
    assert found.name == "Walks" and found.classes == ("left", "right")
    assert found.train.lengths.tolist() == [4, 2, 3] and found.test.lengths.tolist() == [4, 4]
    for split in ("train", "test"):
        series = getattr(found, split)
        for row, length in enumerate(series.lengths.tolist()):
            expected = given[f"X_{split}"][row, :length].astype(np.float32)
            assert np.array_equal(series.values[row, :length].numpy(), expected)
            assert not series.values[row, length:].any()
        assert series.answers.tolist() == given[f"y_{split}"].tolist()


def test_one_set(tmp_path: Path) -> None:
    given = {"X": np.ones((2, 3, 1)), "y": np.array(["b", "a"]), "t": np.array([[0, 1, 5]] * 2)}
    found = read(saved(tmp_path, given))
    assert found.classes == ("a", "b") and found.answers.tolist() == [1, 0]
    assert found.times is not None and found.times.tolist() == [0, 1, 5, 0, 1, 5]
    assert read(saved(tmp_path, given | {"y": np.array([0.5, 2])})).answers.tolist() == [0.5, 2]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"X_test": None}, "array X_test: missing among"),
        ({"y_train": None}, "array y_train: missing among"),
        ({"X_train": np.zeros((3, 4))}, r"array X_train: float64 of shape \(3, 4\)"),
        ({"X_train": np.zeros((0, 4, 2))}, "array X_train: float64 of shape"),
        ({"X_train": np.full((3, 4, 2), "a")}, "array X_train: <U1 of shape"),
        ({"X_train": np.full((3, 4, 2), 1e300)}, "array X_train: an infinite value"),
        ({"X_test": np.zeros((2, 4, 3))}, "channels are 2 in train, but 3 in test"),
        ({"y_train": np.array([0, 1])}, r"array y_train: shape \(2,\); expected \(3,\)"),
        ({"y_train": np.array([0, 1, 2])}, r"array y_train: indices 0..2; expected 0..1"),
        ({"y_train": np.array(["left", "up", "left"])}, "array y_train: class 'up'"),
        ({"len_train": np.array([4, 5, 1])}, "array len_train: int64 of shape .* in 1..5"),
        ({"len_train": np.array([4.0, 5, 1])}, "array len_train: float64"),
        ({"classes": np.array(["left", "left"])}, "array classes"),
        ({"t_train": np.zeros((3, 4)), "t_test": np.zeros((2, 4))}, "array t_train: times that do"),
        ({"t_train": np.arange(12.0).reshape(3, 4)}, "only one of train and test"),
        ({"y_train": np.array([None, 1, 2])}, "damaged, ValueError: it holds Python objects"),
    ],
)
def test_a_fault_names_its_array(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        read_archive(saved(tmp_path, arrays(**other)))


def test_a_file_of_both_splits_is_no_single_set(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="read_archive"):
        read(saved(tmp_path, arrays()))


def test_damage_is_named(tmp_path: Path) -> None:
    whole = saved(tmp_path, arrays()).read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole[:100] + b"x" + whole[101:]):
        (tmp_path / "Walks.npz").write_bytes(content)
        with pytest.raises(ArchiveError, match=r"Walks.npz: damaged"):
            read_archive(tmp_path / "Walks.npz")
