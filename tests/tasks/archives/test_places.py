"""A set is found where it is, and where it is not, every place looked at is told."""

from pathlib import Path

import numpy as np
import pytest

from slicekit.tasks import archives
from slicekit.tasks.archives import ArchiveError, data_folder, find, load, read_archive
from tests.tasks.archives.writers import write

TS = "@classLabel true a b\n@data\n1,2:a\n3,4:b\n"
ARFF = "@attribute t0 numeric\n@attribute t1 numeric\n@attribute c {a,b}\n@data\n1,2,a\n3,4,b\n"


def put(folder: Path, name: str, suffix: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if suffix == ".npz":
        values, answers = np.array([[[1.0], [2]], [[3], [4]]]), np.array(["a", "b"])
        both = {"X_train": values, "y_train": answers, "X_test": values, "y_test": answers}
        np.savez(folder / f"{name}.npz", allow_pickle=False, **both)
        return
    for split in ("TRAIN", "TEST"):
        write(folder, f"{name}_{split}{suffix}", TS if suffix == ".ts" else ARFF)


@pytest.mark.parametrize("suffix", [".npz", ".ts", ".arff"])
@pytest.mark.parametrize("inner", ["", "uea", "Walks", "uea/Walks"])
def test_a_set_is_found_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, inner: str
) -> None:
    if suffix == ".npz":
        inner = inner.removesuffix("Walks")
    put(tmp_path / inner, "Walks", suffix)
    monkeypatch.setenv("SLICEKIT_DATA", str(tmp_path))
    assert find("Walks") == (tmp_path / inner / ("Walks.npz" if suffix == ".npz" else ""))
    for archive in (load("Walks"), load("Walks", tmp_path)):
        assert archive.name == archive.train.name == archive.test.name == "Walks"
        assert archive.train.values.squeeze(2).tolist() == [[1, 2], [3, 4]]
        assert archive.classes == ("a", "b") and archive.channels == 1


def test_every_place_looked_at_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        find("Walks", tmp_path)
    for place in ("Walks.npz", "Walks/Walks_TRAIN.ts", "Walks_TRAIN.arff", "uea/Walks.npz"):
        assert str(tmp_path / place) in str(caught.value)
    assert "slicekit data get Walks" in str(caught.value)


def test_half_a_set_is_none(tmp_path: Path) -> None:
    put(tmp_path, "Walks", ".ts")
    (tmp_path / "Walks_TEST.ts").unlink()
    with pytest.raises(FileNotFoundError, match=r"Walks_TRAIN\.ts"):
        find("Walks", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"looked for .*Walks_TRAIN.ts with Walks_TEST.ts"):
        read_archive(tmp_path, "Walks")


def test_splits_that_do_not_agree_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "Walks", ".ts")
    write(tmp_path, "Walks_TEST.ts", TS.replace("true a b", "true a b c"))
    with pytest.raises(ArchiveError, match=r"Walks_TEST.ts: classes are .* in train, but"):
        read_archive(tmp_path, "Walks")


def test_the_name_of_a_folder_is_the_default(tmp_path: Path) -> None:
    put(tmp_path / "Walks", "Walks", ".ts")
    assert read_archive(tmp_path / "Walks").name == "Walks"


def test_the_data_folder_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLICEKIT_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_folder() == Path.home() / ".cache" / "slicekit" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_folder() == Path.home() / ".cache" / "slicekit" / "data"
    cache = Path.home() / "elsewhere"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert data_folder() == cache / "slicekit" / "data"
    monkeypatch.setenv("SLICEKIT_DATA", "~/series")
    assert data_folder() == Path.home() / "series"


def test_the_papers_sets_are_known() -> None:
    paper = {"EigenWorms", "EthanolConcentration", "Heartbeat", "MotorImagery"}
    assert paper | {"SelfRegulationSCP1", "SelfRegulationSCP2"} <= set(archives.KNOWN)
    records = [known.record for known in archives.KNOWN.values()]
    assert len(set(records)) == len(records)
