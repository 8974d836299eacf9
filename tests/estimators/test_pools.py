"""Pools see the same of a series, whole or element by element, and with other numbers of it."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from slicekit.estimators.blocks import Blocks
from slicekit.estimators.pools import (
    BandPool,
    CovariancePool,
    FilterPool,
    MeanPool,
    Pool,
    RotationPool,
)
from slicekit.estimators.pools import filters as filters_module
from slicekit.estimators.pools.base import Held, draw_mixes, level_of
from slicekit.estimators.readout import fit_readout, join, ridge

LENGTHS = torch.tensor([90, 71, 1, 8, 33])


def series() -> torch.Tensor:
    return 0.2 * torch.randn(5, 3, 90, generator=torch.Generator().manual_seed(0)).cumsum(-1)


def pools() -> dict[str, Pool]:
    random, x = np.random.default_rng(0), series()
    made: dict[str, Pool] = {
        f"filters {d} {moves}": FilterPool.draw(0, d, moves, 2, Held(x, LENGTHS), random)
        for d in (1, 8)
        for moves in (False, True)
    }
    made["rotations"] = RotationPool.draw(0, 90, 8, 3, random)
    made["means"], made["bands"] = MeanPool(90), BandPool(0, 4, 90)
    for name, (delays, moves, most) in {
        "values": ((0,), "none", 9),
        "mixed": ((0,), "only", 2),
        "delays": ((0, 1, 2, 4), "none", 9),
        "both": ((0,), "both", 9),
    }.items():
        made[name] = CovariancePool.draw("c", 3, delays, moves, most, x, LENGTHS, random)
    return made


@pytest.mark.parametrize("name", pools())
def test_one_by_one_is_as_the_whole(name: str) -> None:
    pool, x = pools()[name], series()
    whole = pool.features(pool.whole(x, LENGTHS, 1))
    for case, length in enumerate(LENGTHS.tolist()):
        memory = None
        for t in range(length):
            memory = pool.step(memory, x[case : case + 1, :, t])
        assert memory is not None
        for block, features in pool.features(memory).items():
            torch.testing.assert_close(features[0], whole[block][case], rtol=1e-4, atol=1e-4)


def test_filters_agree_with_those_in_torch(monkeypatch: Any) -> None:
    x, lengths = series(), LENGTHS.clamp_min(8)
    for name in ("filters 1 False", "filters 8 True"):
        pool = pools()[name]
        expected = pool.features(pool.whole(x, lengths, 1))
        with monkeypatch.context() as without:
            without.setattr(filters_module, "unsuited", lambda _: "not wanted")
            found = pool.features(pool.whole(x, lengths, 1))
        for block, features in expected.items():
            if "leaders" not in block:  # a step that stands still has no sure leader
                torch.testing.assert_close(found[block], features, rtol=1e-4, atol=1e-4)


def test_rotations_are_means_of_filtered_series() -> None:
    x = series()[:1]
    pool: Any = pools()["rotations"]
    found = pool.features(pool.whole(x, LENGTHS[:1], 1))["rotations"].reshape(32, 8)
    mixed = torch.einsum("ct,jc->jt", x[0], pool.mixes)
    padded = torch.cat([mixed[:, :1].expand(-1, 23), mixed], 1)
    taps = pool.responses.flip(1)
    z = torch.stack([(padded[:, t : t + 24] * taps).sum(1) for t in range(90)], 1)
    edges = -(-torch.arange(9) * 90 // 8)
    expected = [z[:, a:b].mean(1) for a, b in pairwise(edges.tolist())]
    torch.testing.assert_close(found, torch.stack(expected, 1), rtol=1e-4, atol=1e-5)


def test_a_level_holds_means_and_a_short_series_its_own() -> None:
    x = series()
    means, lengths = level_of(x, LENGTHS, 4)
    assert lengths.tolist() == [5, 4, 1, 1, 2]
    torch.testing.assert_close(means[0, :, 1], x[0, :, 16:32].mean(-1))
    torch.testing.assert_close(means[3, :, 0], x[3, :, :8].mean(-1))


def test_a_path_that_comes_has_the_features_of_the_whole() -> None:
    x = series()
    blocks = Blocks.draw(Held(x, LENGTHS), 1, np.random.default_rng(0))
    whole = blocks(x, LENGTHS)
    for case in (1, 2, 3):
        memory = None
        for element in x[case, :, : LENGTHS[case]].T:
            memory = blocks.advance(element, memory)
        assert memory is not None
        for name, features in blocks.features(memory).items():
            torch.testing.assert_close(features[0], whole[name][case], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("shape", [(12, 5), (6, 20)])
def test_left_out_cases_are_predicted_as_if_they_were_left_out(
    shape: tuple[int, int], apart: bool
) -> None:
    random = torch.Generator().manual_seed(0)
    F = torch.randn(*shape, generator=random)
    Y = torch.randn(shape[0], 2, generator=random, dtype=torch.float64)
    w = torch.rand(shape[0], generator=random, dtype=torch.float64) + 0.5
    Y[:, 1] = F[:, 0] if apart else Y[:, 1]  # so that it needs less of a penalty
    weight, bias, penalties, left_out = ridge(F.clone(), Y, w, apart=apart)
    assert (penalties[1] < penalties[0]) == apart
    for i in range(shape[0]):
        rest = torch.arange(shape[0]) != i
        G, share = F[rest].double(), w[rest] / w[rest].sum()
        centred = G - share @ G
        squares = centred.T @ (w[rest, None] * centred)
        moments = centred.T @ (w[rest, None] * (Y[rest] - share @ Y[rest]))
        for n, penalty in enumerate(penalties):
            B = torch.linalg.solve(squares + penalty * torch.eye(shape[1]), moments[:, n])
            expected = share @ Y[rest, n] + (F[i].double() - share @ G) @ B
            torch.testing.assert_close(left_out[i, n], expected, rtol=1e-3, atol=1e-3)
    assert torch.isfinite(weight).all() and torch.isfinite(bias).all()


def test_the_better_block_has_the_larger_weight_and_few_cases_make_them_equal() -> None:
    random = torch.Generator().manual_seed(0)

    def weights(cases: int) -> torch.Tensor:
        Y = torch.randn(cases, 1, generator=random, dtype=torch.float64)
        noise = torch.randn(cases, 1, generator=random, dtype=torch.float64)
        return join([Y + 0.1 * noise, noise], Y, torch.ones(cases, dtype=torch.float64))

    many, few = weights(1000), weights(2)
    assert many[0] > 0.95 and many.sum() == pytest.approx(1, abs=0.01)
    assert abs(few[0] - 0.5) < abs(many[0] - 0.5)


def test_blocks_that_say_nothing_take_nothing_from_one_that_knows() -> None:
    Y = torch.randn(50, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    silent = [torch.zeros_like(Y)] * 9
    weights = join([Y, *silent], Y, torch.ones(50, dtype=torch.float64))
    assert weights[0] == pytest.approx(1, abs=0.1)


def test_features_that_do_not_vary_do_not_count() -> None:
    F = torch.ones(6, 3)
    F[:, 1] = torch.arange(6)
    Y = torch.arange(6.0, dtype=torch.float64)[:, None]
    readout, _ = fit_readout(F, Y, torch.ones(6, dtype=torch.float64), np.random.default_rng(0))
    assert readout.columns.tolist() == [1]
    torch.testing.assert_close(readout(F), Y, atol=0.5, rtol=0)


def test_what_is_read_of_a_case_does_not_depend_on_those_beside_it() -> None:
    source = torch.Generator().manual_seed(0)
    F = torch.randn(20, 2000, generator=source)
    Y = torch.randn(20, 1, generator=source, dtype=torch.float64)
    weights = torch.ones(20, dtype=torch.float64)
    readout, _ = fit_readout(F, Y, weights, np.random.default_rng(0))
    whole, order = readout(F), torch.randperm(20, generator=source)
    alone = torch.cat([readout(F[[i]]) for i in range(20)])
    torch.testing.assert_close(alone, whole, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(readout(F[order]), whole[order], atol=1e-12, rtol=1e-12)


def test_mixtures_are_of_the_channels_that_have_a_part_in_them() -> None:
    random = np.random.default_rng(0)
    mixes = draw_mixes(6, 40, random)
    x = torch.from_numpy(random.standard_normal((5, 40, 9))).float()
    cases = torch.from_numpy(random.integers(0, 5, (6, 3)))
    places = torch.from_numpy(random.integers(0, 9, (6, 3, 4)))
    whole = torch.einsum("gc,gsct->gst", mixes, x[cases])
    mixed = filters_module._mixed(x, cases, places, mixes)
    torch.testing.assert_close(mixed, whole.gather(-1, places))
