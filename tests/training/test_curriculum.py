"""How the longest length grows, of both kinds."""

import pytest

from slicekit.training import Settings
from slicekit.training.curriculum import make_curriculum


def test_without_a_curriculum_all_lengths_come_at_once() -> None:
    curriculum = make_curriculum(Settings(steps=100), (3, 40))
    assert [curriculum.longest(step) for step in (0, 50, 99)] == [40, 40, 40]


def test_growth_with_time_is_linear_over_its_share_of_the_steps() -> None:
    settings = Settings(steps=200, grow_from=10, grow_share=0.5)
    curriculum = make_curriculum(settings, (3, 40))
    found = [curriculum.longest(step) for step in range(200)]
    assert found == [min(40, 10 + int(30 * step / 100)) for step in range(200)]
    assert found[0] == 10 and found[99] == 39 and found[100] == 40


def test_growth_with_accuracy_waits_until_the_running_accuracy_passes() -> None:
    settings = Settings(grow_at=0.5, grow_by=2, grow_from=6)
    curriculum = make_curriculum(settings, (3, 9))
    running, longest = 0.0, 6
    for accuracy in [0.9, 1.0, 0.2, 0.8, 1.0] * 20:
        assert curriculum.longest(0) == longest
        curriculum.observe(accuracy)
        running = 0.9 * running + 0.1 * accuracy
        if running > 0.5 and longest < 9:
            running, longest = 0.0, min(longest + 2, 9)
    assert longest == curriculum.longest(0) == 9


def test_growth_may_be_by_a_factor_where_that_is_more() -> None:
    settings = Settings(grow_at=0.05, grow_by=2, grow_factor=1.25, grow_from=6)
    curriculum = make_curriculum(settings, (3, 40))
    found = []
    for _ in range(10):
        curriculum.observe(1.0)
        found.append(curriculum.longest(0))
    assert found == [8, 10, 12, 15, 18, 22, 27, 33, 40, 40]


def test_growth_with_accuracy_starts_from_the_shortest_length_by_default() -> None:
    assert make_curriculum(Settings(grow_at=0.9), (3, 40)).longest(0) == 3


def test_what_a_curriculum_remembers_is_enough_to_go_on() -> None:
    settings = Settings(grow_at=0.4, grow_from=4)
    one, other = (make_curriculum(settings, (3, 40)) for _ in range(2))
    for accuracy in (1.0, 0.7) * 10:
        one.observe(accuracy)
    other.restore(one.state())
    assert other.longest(0) == one.longest(0) > 4
    for accuracy in (1.0, 0.9) * 10:
        one.observe(accuracy)
        other.observe(accuracy)
        assert other.state() == one.state()


def test_a_curriculum_that_starts_outside_the_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"grow_from=50.*3\.\.40"):
        make_curriculum(Settings(grow_from=50), (3, 40))
