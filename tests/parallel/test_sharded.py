"""Sequences split over ranks: the same values and gradients as in one piece."""

import pytest
import torch

from slicekit import Chunked, Exponential
from tests.parallel.group import Ranks
from tests.parallel.scan_cases import (
    disagreeing,
    errors,
    growth,
    large,
    refused,
    surprised,
    traffic,
)
from tests.scans.problems import SETTINGS

CLOSED = [
    "dense",
    "diagonal",
    "blocks",
    "ragged",
    "diagonal-dense",
    "joint-dplr",
    "orthogonal-2",
    "orthogonal-4",
    "permutation-diagonal",
    "orthogonal-sum",
    "circulant",
]
LENGTH = 23


@pytest.mark.parametrize("name", CLOSED)
def test_a_sharded_scan_gives_the_values_and_gradients_of_the_whole(
    ranks: Ranks, name: str
) -> None:
    """Every closed structure, any setting, 1 to 5 uneven ranks."""
    for number, (setting_name, setting) in enumerate(SETTINGS.items()):
        count = 1 + (number + CLOSED.index(name)) % 5
        for found in ranks.run(count, errors, name, setting, None, LENGTH, 0.3, None):
            worst = max(found.values())
            assert worst <= 1e-10, f"{setting_name}, {count} ranks: {found}"


def test_exponentials_and_chunks_inside_a_rank(ranks: Ranks) -> None:
    for name, flow, inner in (("blocks", Exponential(), None), ("dense", None, Chunked(5))):
        for found in ranks.run(3, errors, name, SETTINGS["padded"], flow, LENGTH, 0.3, inner):
            assert max(found.values()) <= 1e-10, found


def test_nothing_overflows_over_long_shards(ranks: Ranks) -> None:
    """Blocks grow by 2^1500, die and creep side by side: each comes back as in the whole."""
    for found in ranks.run(3, growth, torch.float64, 4500):
        assert max(found.values()) <= 1e-9, found
    for found in ranks.run(2, growth, torch.float32, 3000):
        assert max(found.values()) <= 1e-3, found


@pytest.mark.parametrize("projective", [False, True])
def test_a_pass_is_one_collective_of_a_size_that_does_not_depend_on_the_length(
    ranks: Ranks, projective: bool
) -> None:
    short, long = (ranks.run(3, traffic, length, projective) for length in (4, 400))
    assert short == long
    for seen in short:
        assert [name for name, _ in seen] == ["all_gather", "all_gather"]
        batch, dim, block = 3, 8, 4
        transition, scales, state = batch * dim * block, batch * dim, batch * dim
        norms = batch if projective else 0
        assert [size // 8 for _, size in seen] == [
            transition + scales + state + norms,
            2 * state + norms,
        ]


def test_ranks_that_disagree_on_shapes_are_told_so(ranks: Ranks) -> None:
    for told in ranks.run(3, disagreeing):
        assert told.startswith("ranks disagree on a sharded recurrence: rank 0 has state=[2, 3, 1]")
        assert "rank 1 has state=[3, 3, 1]" in told


def test_a_rank_with_other_shapes_than_before_is_told_of_too(ranks: Ranks) -> None:
    for told in ranks.run(2, surprised):
        assert told.startswith("ranks disagree on ")
        assert (
            "rank 0 has message=of a kind that was known before; rank 1 has state=[3, 3, 1]" in told
        )


@pytest.mark.parametrize("name", ["dplr", "sparse-by-density", "hadamard-8", "open-sum"])
def test_what_can_not_be_sent_names_the_alternative(ranks: Ranks, name: str) -> None:
    for told in ranks.run(2, refused, name):
        assert "can't send the transition of a shard" in told and "Relay()" in told


def test_a_large_message_is_announced_with_its_size(ranks: Ranks) -> None:
    assert [told for told in ranks.run(2, large, 64)] == [[], []]
    for told in ranks.run(2, large, 1024):
        assert len(told) == 1 and "sends 4 MiB" in told[0] and "1024 x 1024" in told[0]
