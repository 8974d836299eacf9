"""Whole models, and every mixer, on sequences that are split over ranks."""

import pytest

from tests.mixers.market import MIXERS
from tests.parallel.group import Ranks
from tests.parallel.model_cases import (
    MODELS,
    WINDOWS,
    asked_alone,
    halo_errors,
    mixer_errors,
    model_errors,
    relayed,
    window_errors,
    window_refusals,
    window_states,
)

NAMES = [name for name in MIXERS if not name.startswith(("nrde", "log-ncde"))]
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


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_in_parts_give_the_values_and_gradients_of_the_whole(
    ranks: Ranks, name: str
) -> None:
    """Bounds fall on ends of windows; sequences may end in any."""
    for count in (2, 1 + len(WINDOWS[name][1])):
        for found in ranks.run(count, window_errors, name):
            assert max(found.values()) <= 1e-10, (count, found)


def test_a_layer_with_windows_goes_on_from_a_state_and_gives_one(ranks: Ranks) -> None:
    for found in ranks.run(2, window_states):
        assert max(found.values()) <= 1e-10, found


def test_bounds_inside_a_window_and_windows_in_time_are_refused_in_words(ranks: Ranks) -> None:
    for told in ranks.run(2, window_refusals):
        assert "rank 0 ends after element 5 of what SLiCE is given, inside a window" in told[0]
        assert "expected 1 + k * 3 elements" in told[0]
        assert "return_state=True with windows" in told[1]
        assert "SLiCE has windows in time, Duration(time=0.5, channel=0)" in told[2]
        assert told[3] == "nothing"


def test_a_halo_reaches_over_parts_that_are_shorter(ranks: Ranks) -> None:
    for count in (1, 5):
        assert max(ranks.run(count, halo_errors)) == 0


@pytest.mark.parametrize("projective", [False, True])
def test_states_handed_on_serve_structures_that_can_not_be_sent(
    ranks: Ranks, projective: bool
) -> None:
    for found in ranks.run(3, relayed, projective):
        assert max(found.values()) <= 1e-10, found


def test_gradients_of_parameters_alone_go_through_states_handed_on(ranks: Ranks) -> None:
    for found in ranks.run(3, asked_alone):
        assert max(found.values()) <= 1e-10, found
