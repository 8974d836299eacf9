"""Contenders take turns, and the least time counts."""

import pytest
import torch

from slicekit.bench.timing import Effort, Times, least, repeated, threads, time_in_turns


def test_the_least_of_the_rounds_counts_and_contenders_take_turns() -> None:
    calls: list[str] = []
    ticks = iter([0, 5, 5, 9, 9, 12])
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert least(runs, {"a": 2, "b": 1}, lambda: next(ticks)) == {"a": 3, "b": 4}
    assert calls == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("seconds", "turns"), [(0.0, 9), (0.1, 9), (0.5, 4), (1.0, 2), (1.5, 1), (60.0, 1)]
)
def test_turns_fit_the_budget_but_there_is_always_one(seconds: float, turns: int) -> None:
    assert Effort(9, 5, budget=2.0, limit=20.0).turns(9, seconds) == turns


@pytest.mark.parametrize(("seconds", "turns"), [(0.1, 9), (0.5, 4), (1.0, 3), (60.0, 3)])
def test_there_are_never_fewer_turns_than_asked_for(seconds: float, turns: int) -> None:
    assert Effort(9, 5, budget=2.0, limit=20.0, fewest=3).turns(9, seconds) == turns


def test_a_slow_contender_has_fewer_turns_and_may_stay_on_one_thread() -> None:
    calls: list[tuple[str, int]] = []
    runs = {
        name: lambda name=name: calls.append((name, torch.get_num_threads()))
        for name in ("fast", "slow")
    }
    effort = Effort(rounds=3, wall_rounds=2, budget=1.0, limit=9.0)
    times = time_in_turns(runs, effort, {"slow": 5.0}, alone=["slow"])
    assert calls == [("fast", 1), ("slow", 1), ("fast", 1), ("fast", 1), ("fast", 2), ("fast", 2)]
    assert times.wall.keys() == {"fast"}


def test_ratios_are_of_processor_and_of_wall_time() -> None:
    times = Times({"a": 6.0, "b": 2.0, "c": 1.0}, {"a": 5.0, "b": 2.0})
    assert times.ratio("a", "b") == (3.0, 2.5)
    assert times.ratio("a", "c") == (6.0, None)


def test_a_short_run_is_repeated() -> None:
    calls: list[int] = []
    repeated(lambda: calls.append(1), 7)()
    assert len(calls) == 7


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
