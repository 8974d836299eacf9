"""Clusters of features within classes: found where they are, and nowhere else."""

import pytest
import torch
from torch import Tensor

from slicekit.training.clusters import clusters, joint_clusters
from slicekit.training.processes import Processes


def around(centres: Tensor, count: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Features, and the number of the centre that each belongs to, in no order."""
    numbers = torch.arange(len(centres)).repeat_interleave(count)
    features = centres[numbers] + noise * torch.randn(len(numbers), centres.shape[1])
    order = torch.randperm(len(numbers))
    return features[order], numbers[order]


def same_partition(a: Tensor, b: Tensor) -> bool:
    """Whether two numberings differ by names alone."""
    pairs = torch.stack([a, b]).unique(dim=1)
    return pairs.shape[1] == len(a.unique()) == len(b.unique())


@pytest.mark.parametrize("states", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_that_share_a_label_are_told_apart(states: int, dtype: torch.dtype) -> None:
    features, numbers = around(torch.randn(3 * states, 24), 30)
    found = clusters(features.to(dtype), numbers // states)
    assert same_partition(found, numbers)


@pytest.mark.parametrize("draw", [torch.randn, torch.rand])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_one_cloud_is_not_cut(draw, size: int) -> None:
    features, classes = draw(400, size), torch.arange(400) % 4
    assert same_partition(clusters(features, classes), classes)


def test_a_few_that_are_far_off_stay_in_their_class() -> None:
    features, classes = around(torch.randn(2, 8), 40)
    features[:3] += 100.0
    assert same_partition(clusters(features, classes), classes)


def test_classes_without_features_equal_features_and_few_of_them() -> None:
    assert clusters(torch.zeros(0, 4), torch.zeros(0).long()).shape == (0,)
    classes = torch.tensor([7] * 20 + [2] * 20)
    assert same_partition(clusters(torch.ones(40, 3), classes), classes)
    few = torch.tensor([[0.0], [1.0]]).repeat(3, 1)
    assert clusters(few, torch.zeros(6).long()).unique().tolist() == [0]


def test_a_process_without_features_has_no_clusters() -> None:
    class Two(Processes):
        rank, count = 1, 2

        def gather(self, tensor: Tensor) -> list[Tensor]:
            other = torch.tensor(16) if tensor.ndim == 0 else torch.zeros_like(tensor)
            if tensor.ndim == 2:
                other[8:] = 1.0
            return [other, tensor]

    own, counts = joint_clusters(torch.zeros(0, 3), torch.zeros(0).long(), Two())
    assert own.shape == (0,) and counts.tolist() == [8, 8]
