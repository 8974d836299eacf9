"""Peak memory is that of forward and backward, and of nothing else."""

from collections.abc import Iterator

import pytest

from slicekit.bench.contenders import CHUNKED, KEPT, RECOMPUTED, RECURRENT, obstacle
from slicekit.bench.memory import CLEAR, MEBI, NotMeasured, Worker, allowance, memory_worker
from slicekit.bench.problems import Problem, Setting, Shape

pytestmark = pytest.mark.skipif(not CLEAR.exists(), reason="Linux only")

SETTING = Setting("block-diagonal-8", Shape(16, 256, 64))
STATES = 16 * 256 * 64 * 4
INCREMENTS = 16 * 256 * 65 * 4
PARAMETERS = 65 * 64 * 8 * 4
TRANSITIONS = 16 * 256 * 64 * 8 * 4


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with memory_worker() as found:
        yield found


def test_a_scan_needs_at_least_its_states_and_gradients(worker: Worker) -> None:
    peak = worker.peak(SETTING, CHUNKED, threads=1)
    assert STATES + INCREMENTS + PARAMETERS - MEBI / 4 < peak < 20 * (STATES + INCREMENTS)


def test_a_taped_loop_holds_all_transitions(worker: Worker) -> None:
    assert worker.peak(SETTING, RECURRENT, threads=1) > STATES + INCREMENTS + TRANSITIONS


@pytest.mark.skipif(bool(obstacle(KEPT, SETTING)), reason="no C++ kernels")
def test_keeping_costs_the_transitions_more(worker: Worker) -> None:
    kept, recomputed = (worker.peak(SETTING, name, threads=1) for name in (KEPT, RECOMPUTED))
    assert kept - recomputed == pytest.approx(TRANSITIONS, rel=0.1)


def test_measurements_do_not_disturb_each_other(worker: Worker) -> None:
    first = worker.peak(SETTING, CHUNKED, threads=1)
    worker.peak(Setting("dense", Shape(16, 256, 32)), RECURRENT, threads=1)
    assert worker.peak(SETTING, CHUNKED, threads=1) == pytest.approx(first, abs=MEBI / 2)


def test_a_failure_says_why_and_the_worker_lives(worker: Worker) -> None:
    with pytest.raises(NotMeasured, match="divide"):
        worker.peak(Setting("block-diagonal-8", Shape(1, 2, 12)), CHUNKED, threads=1)
    assert worker.peak(SETTING, CHUNKED, threads=1) > 0


def test_the_allowance_is_the_formula() -> None:
    expected = 1.25 * (STATES + INCREMENTS) + 5 * PARAMETERS + 3 * MEBI
    assert allowance(Problem.of(SETTING), threads=3) == expected
