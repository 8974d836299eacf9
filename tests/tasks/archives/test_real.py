"""The archive's own files, where they are at hand."""

import os
from pathlib import Path

import pytest
import torch

from slicekit.tasks.archives import (
    KNOWN,
    load_orders,
    read,
    read_archive,
    split_by_order,
)

DATA = Path(os.environ.get("SLICEKIT_DATA", Path(__file__).parents[4] / "shared" / "data"))

needs_data = pytest.mark.skipif(
    not (DATA / "uea").is_dir() or not (DATA / "ts").is_dir(),
    reason="no series at hand; SLICEKIT_DATA tells where they are",
)


@needs_data
@pytest.mark.parametrize("name", ["BasicMotions", "JapaneseVowels"])
def test_text_and_arrays_of_one_set_are_equal(name: str) -> None:
    text, arrays = read_archive(DATA / "ts", name), read_archive(DATA / "uea", name)
    for split in ("train", "test"):
        one, other = getattr(text, split), getattr(arrays, split)
        assert one.classes == other.classes
        assert torch.equal(one.answers, other.answers) and torch.equal(one.lengths, other.lengths)
        assert torch.equal(one.observations, other.observations)


@needs_data
@pytest.mark.parametrize("name", ["BasicMotions", "JapaneseVowels", "Libras", "EyesOpenShut"])
def test_sets_are_as_the_catalogue_tells(name: str) -> None:
    archive, known = read_archive(DATA / "uea", name), KNOWN[name]
    assert (len(archive.train), len(archive.test)) == (known.train, known.test)
    assert (archive.channels, len(archive.classes)) == (known.channels, known.classes)
    lengths = torch.cat([archive.train.lengths, archive.test.lengths])
    low, high = (int(x) for x in lengths.aminmax())
    assert (low if low == high else (low, high)) == known.length


@needs_data
@pytest.mark.parametrize("name", ["SelfRegulationSCP1", "SelfRegulationSCP2"])
@pytest.mark.parametrize("generator", ["legacy", "partitionable"])
def test_the_papers_splits_fit_the_pooled_cases(name: str, generator: str) -> None:
    pooled = read_archive(DATA / "uea", name).pooled()
    order = load_orders(DATA / "uea_splits" / f"{generator}.json", name, 2345)
    parts = split_by_order(order, cases=len(pooled))
    assert sum(len(part) for part in parts) == len(pooled)
    assert set(pooled.select(parts[2]).answers.tolist()) == {0, 1}


@needs_data
def test_copies_of_libras_are_found() -> None:
    archive = read_archive(DATA / "uea", "Libras")
    pooled = archive.pooled()
    both = torch.cat([archive.train.values, archive.test.values]).flatten(1)
    assert len(pooled) == len(both.unique(dim=0)) < len(both)
    assert torch.equal(pooled.values[0], archive.train.values[0])


def test_files_of_aeon_are_read_as_aeon_reads_them() -> None:
    aeon = pytest.importorskip("aeon")
    from aeon.datasets import load_from_ts_file

    folder = Path(aeon.__file__).parent / "datasets" / "data"
    for name in ("BasicMotions", "JapaneseVowels", "PickupGestureWiimoteZ", "Covid3Month"):
        file = folder / name / f"{name}_TRAIN.ts"
        values, answers, *_ = load_from_ts_file(str(file))
        found = read(file)
        for row, case in enumerate(values):
            assert torch.equal(found.case(row), torch.from_numpy(case.T.copy()).float())
        if found.classes:
            # aeon reads everything in small letters.
            labels = [found.classes[x].lower() for x in found.answers.tolist()]
            assert labels == [str(x) for x in answers]
        else:
            torch.testing.assert_close(found.answers.double(), torch.from_numpy(answers).double())
    one, other = (read(folder / "BasicMotions" / f"BasicMotions_TRAIN.{x}") for x in ("ts", "arff"))
    assert torch.equal(one.values, other.values) and torch.equal(one.answers, other.answers)
