"""The task of signed areas: its classes by another way, and the same paths at any resolution."""

import math

import pytest
import torch

from slicekit import tasks
from slicekit.tasks.areas import Areas, path
from tests.tasks.every import same, seeded


def test_classes_are_the_signs_of_the_waves_areas() -> None:
    """By Fourier: the area of Σ (a_k cos 2πkt + b_k sin 2πkt) / k is π Σ (a_k × b_k) / k."""
    task = Areas(noise=0.0)
    waves = torch.randn(2, 50, 3, 2, generator=seeded(0), dtype=torch.float64)
    (a, b), number = waves, torch.arange(1, 4)
    crossed = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    exact = math.pi * (crossed / number).sum(1)
    assert torch.allclose(task.area(waves), exact, atol=1e-2)
    batch = task.sample(50, (16, 16), seeded(0))
    assert torch.equal(batch.targets[:, 0] == 1, exact > 0)
    assert 15 < int(batch.targets.sum()) < 35


def test_the_same_generator_gives_the_same_paths_at_any_resolution() -> None:
    task = Areas(noise=0.0)
    coarse, fine = (task.sample(8, (n, n), seeded(3)) for n in (17, 33))
    assert torch.allclose(coarse.inputs, fine.inputs[:, ::2], atol=1e-5)
    assert torch.equal(coarse.targets, fine.targets)
    noisy = Areas(noise=0.5).sample(8, (17, 17), seeded(3)).inputs - coarse.inputs
    assert float(noisy.std()) == pytest.approx(0.5, rel=0.2)


def test_a_path_read_backwards_has_the_other_class_and_a_folded_one_an_area_of_its_own() -> None:
    waves = torch.randn(2, 20, 3, 2, generator=seeded(1), dtype=torch.float64)
    backwards = waves * torch.tensor([1.0, -1.0]).view(2, 1, 1, 1)
    for fold in (0.0, 2.0):
        task = Areas(fold=fold)
        assert torch.allclose(task.area(waves), -task.area(backwards))
    plain, folded = Areas().area(waves), Areas(fold=2.0).area(waves)
    assert ((plain > 0) != (folded > 0)).any()
    assert torch.allclose(Areas(fold=1e-4).area(waves), plain, atol=1e-5)


def test_series_are_padded_and_drawn_from_the_generator_alone() -> None:
    task = tasks.make("areas", samples=20)
    assert task.train_lengths == task.test_lengths == (20, 20)
    batch = task.sample(6, (5, 9), seeded(0))
    assert batch.inputs.shape == (6, 9, 2) and batch.lengths.min() >= 5
    past_end = torch.arange(9) >= batch.lengths[:, None]
    assert (batch.inputs[past_end] == 0).all()
    assert same(batch, task.sample(6, (5, 9), seeded(0)))
    times = torch.linspace(0, 1, 5, dtype=torch.float64).expand(1, 5)
    waves = torch.ones(2, 1, 3, 2, dtype=torch.float64)
    ends = path(waves, times)[0, [0, -1]]
    assert torch.allclose(ends, torch.zeros(2, 2, dtype=torch.float64), atol=1e-12), "it is closed"


@pytest.mark.parametrize("options", [{"samples": 1}, {"noise": -1.0}, {"fold": math.nan}])
def test_bad_numbers_are_named(options: dict) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}"):
        Areas(**options)
