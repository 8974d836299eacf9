"""The floors are what the shapes say."""

import pytest
import torch

import slicekit as sk
from slicekit.bench.floors import products
from slicekit.bench.problems import CASES, Problem, Setting, Shape

TINY = Shape(2, 5, 32)


@pytest.mark.parametrize("structure", CASES)
def test_the_floor_has_a_column_for_every_trained_number_of_a_channel(structure: str) -> None:
    setting = Setting(structure, TINY)
    problem = Problem.of(setting)
    count = problem.structure.parameter_count(setting.channels) / setting.channels
    if isinstance(problem.structure, sk.DPLR):
        count -= 2 * problem.structure.rank * TINY.dim
    if isinstance(problem.structure, sk.Sparse):
        count = TINY.dim**2
    assert setting.case.columns(TINY.dim) == count


@pytest.mark.parametrize("channels", [9, 33])
@pytest.mark.parametrize("structure", CASES)
def test_the_floor_multiplies_what_it_says(structure: str, channels: int) -> None:
    setting = Setting(structure, TINY, inputs=channels)
    own = products(setting)
    bilinear = setting.steps * channels * setting.case.columns(TINY.dim)
    shared = setting.steps * TINY.dim * channels * 4
    work = [p.left.shape[0] * p.left.shape[1] * p.right.shape[1] for p in own]
    assert work == [bilinear] * 3 + ([shared] * 6 if structure == "dplr-4" else [])
    for product in own:
        product.run()
        torch.testing.assert_close(product.out, product.left @ product.right)


@pytest.mark.parametrize("structure", CASES)
def test_states_stay_finite_at_length_4096(structure: str) -> None:
    problem = Problem.of(Setting(structure, Shape(1, 4096, 32)))
    start = problem.initial_state.expand(1, -1)
    states, _ = sk.solve(problem.structure, problem.parameters, problem.increments, start)
    assert states.isfinite().all()
    assert states.abs().max() < 1e6


@pytest.mark.parametrize("text", ["2x5", "2x5x0", "axbxc", "", "1x2x3x4"])
def test_a_text_that_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        Shape.parse(text)


def test_a_shape_is_written_as_it_is_read() -> None:
    assert Shape.parse("32x256x128") == Shape(32, 256, 128)
    assert str(Shape(32, 256, 128)) == "32x256x128"
