"""Whole models, and every mixer, on sequences that are split over ranks."""

import pytest

from tests.mixers.market import MIXERS
from tests.parallel.group import Ranks
from tests.parallel.model_cases import (
    MODELS,
    halo_errors,
    mixer_errors,
    model_errors,
    relayed,
)

WINDOWS = ("nrde", "log-ncde")
NAMES = [name for name in MIXERS if not name.startswith(WINDOWS)]
SOME = 6


@pytest.mark.parametrize("first", range(0, len(NAMES), SOME))
def test_a_mixer_in_parts_gives_the_values_states_and_gradients_of_the_whole(
    ranks: Ranks, first: int
) -> None:
    for found in ranks.run(2 + first // SOME % 4, mixer_errors, NAMES[first : first + SOME]):
        assert max(found.values()) <= 1e-10, found


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_parts_gives_the_values_states_and_gradients_of_the_whole(
    ranks: Ranks, name: str
) -> None:
    count = 2 + list(MODELS).index(name) % 4
    for found in ranks.run(count, model_errors, [name]):
        assert max(found.values()) <= 1e-10, (count, found)


def test_a_halo_reaches_over_parts_that_are_shorter(ranks: Ranks) -> None:
    for count in (1, 5):
        assert max(ranks.run(count, halo_errors)) == 0


@pytest.mark.parametrize("projective", [False, True])
def test_states_handed_on_serve_structures_that_can_not_be_sent(
    ranks: Ranks, projective: bool
) -> None:
    for found in ranks.run(3, relayed, projective):
        assert max(found.values()) <= 1e-10, found
