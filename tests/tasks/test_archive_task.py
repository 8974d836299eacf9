"""Data sets of an archive as tasks: the paper's splits, scaling by the training cases, time."""

import json
from pathlib import Path

import pytest
import torch

from slicekit import tasks
from slicekit.tasks.archive_task import SEEDS, on_disk
from slicekit.tasks.archives import find, read_archive
from tests.tasks.archives_on_disk import CHANNELS, TEST, TRAIN, write_archive

SPLITS = ("train", "validation", "test")
NAME = "SelfRegulationSCP1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_archive(tmp_path)
    return tmp_path


def counts(task: tasks.Task) -> list[int]:
    found = [task.whole(split) for split in SPLITS]
    return [0 if x is None else len(x.lengths) for x in found]


def test_the_archives_own_test_set_is_kept_and_every_class_is_validated(folder: Path) -> None:
    task = tasks.make(NAME, data=str(folder))
    assert counts(task) == [20, 4, TEST] and task.name == NAME
    validation = task.whole("validation")
    assert validation is not None and set(validation.targets.flatten().tolist()) == {0, 1}
    other = tasks.make(NAME, data=str(folder), seed=1).whole("validation")
    assert other is not None and not torch.equal(other.inputs, validation.inputs)


@pytest.mark.parametrize("splits", ["legacy", "partitionable"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_papers_splits_follow_its_permutations(folder: Path, splits: str, seed: int) -> None:
    orders = json.loads((folder / "uea_splits" / f"{splits}.json").read_text())
    pooled = read_archive(find(NAME, folder), NAME).pooled()
    task = tasks.make(NAME, splits=splits, seed=seed, data=str(folder))
    order = torch.tensor(orders[NAME][str(seed)])
    assert counts(task) == [28, 6, 6]
    for split, part in zip(SPLITS, (order[:28], order[28:34], order[34:]), strict=True):
        whole = task.whole(split)
        assert whole is not None
        assert torch.equal(whole.targets.squeeze(1), pooled.answers[part])
        # Scaling keeps the order of a channel's values.
        found, wanted = whole.inputs[..., 0].flatten(), pooled.values[part, :, 0].flatten()
        assert torch.corrcoef(torch.stack([found, wanted]))[0, 1] > 0.9999


def test_a_random_split_is_settled_by_its_seed(folder: Path) -> None:
    one, again, other = (
        tasks.make(NAME, splits="random", seed=seed, data=str(folder)).whole("test")
        for seed in (3, 3, 4)
    )
    assert one is not None and again is not None and other is not None
    assert torch.equal(one.inputs, again.inputs) and not torch.equal(one.inputs, other.inputs)
    assert counts(tasks.make(NAME, splits="random", data=str(folder))) == [28, 6, 6]


def test_values_are_scaled_by_the_training_cases_alone(folder: Path) -> None:
    task = tasks.make(NAME, splits="legacy", seed=SEEDS[0], data=str(folder))
    train, test = task.whole("train"), task.whole("test")
    assert train is not None and test is not None
    low, high = train.inputs.flatten(0, 1).aminmax(dim=0)
    torch.testing.assert_close(low, -torch.ones(CHANNELS))
    torch.testing.assert_close(high, torch.ones(CHANNELS))
    assert test.inputs.abs().max() != 1


def test_time_is_a_channel_where_the_paper_has_it_and_on_other_sets(tmp_path: Path) -> None:
    for name in (NAME, "EigenWorms", "BasicMotions"):
        write_archive(tmp_path, name)
    assert tasks.make(NAME, data=str(tmp_path)).channels == CHANNELS
    assert tasks.make(NAME, data=str(tmp_path), time=True).channels == CHANNELS + 1
    for name in ("EigenWorms", "BasicMotions"):
        task = tasks.make(name, data=str(tmp_path))
        assert task.channels == CHANNELS + 1
        batch = task.whole("test")
        assert batch is not None
        torch.testing.assert_close(batch.inputs[0, :, 0], torch.linspace(-1, 1, 20))
    assert tasks.make("BasicMotions", data=str(tmp_path), time=False).channels == CHANNELS


def test_series_of_unequal_lengths(tmp_path: Path) -> None:
    write_archive(tmp_path, "JapaneseVowels", range(7, 15))
    task = tasks.make("JapaneseVowels", data=str(tmp_path))
    low, high = task.train_lengths
    assert 7 <= low < high <= 14
    whole = task.whole("train")
    assert whole is not None and whole.inputs.isfinite().all()
    past = torch.arange(whole.inputs.shape[1]) >= whole.lengths[:, None]
    assert (whole.inputs[past] == 0).all()


def test_data_sets_are_found_by_the_environment(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("SLICEKIT_DATA", str(folder))
    assert on_disk() == [NAME]
    assert counts(tasks.make(NAME)) == [20, 4, TEST]


def test_what_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Heartbeat is not on disk"):
        tasks.make("Heartbeat", data=str(folder))
    with pytest.raises(ValueError, match=r"^unknown task 'Nothing'.*or give module:name$"):
        tasks.make("Nothing", data=str(folder))
    with pytest.raises(ValueError, match=r"^unknown splits 'legasy', did you mean 'legacy'"):
        tasks.make(NAME, splits="legasy", data=str(folder))
    with pytest.raises(ValueError, match=r"unknown seed of .* '7'"):
        tasks.make(NAME, splits="legacy", seed=7, data=str(folder))
    with pytest.raises(ValueError, match=r"its options are splits, seed, data, time"):
        tasks.make(NAME, folds=3, data=str(folder))
    (folder / "uea_splits" / "legacy.json").unlink()
    with pytest.raises(ValueError, match=r"legacy.json, which is missing"):
        tasks.make(NAME, splits="legacy", data=str(folder))


def test_no_case_is_lost_or_seen_twice(folder: Path) -> None:
    task = tasks.make(NAME, splits="partitionable", data=str(folder))
    firsts = [x.inputs.flatten(1) for split in SPLITS if (x := task.whole(split)) is not None]
    assert len(torch.cat(firsts).unique(dim=0)) == TRAIN + TEST
