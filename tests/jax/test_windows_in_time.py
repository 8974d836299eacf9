"""Windows given in time: torch's values, gradients and states, also where a program is traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import slicekit as sk
import slicekit.jax as sj
from slicekit import paths
from slicekit.jax import paths as jax_paths
from slicekit.jax.paths.log_signatures import between, of_edges
from slicekit.jax.serialisation import with_arrays
from tests.jax.twins import array, with_gradients_in_jax
from tests.scans.problems import assert_near, with_gradients

LENGTHS = [6, 3, 1]


def path_in_time() -> torch.Tensor:
    """Increments (3, 6, 3) with irregular steps of time, some without time, one onto an edge."""
    source = torch.Generator().manual_seed(0)
    steps = torch.randn(3, 6, 3, generator=source).double()
    steps[..., 0] = torch.rand(3, 6, generator=source).double()
    steps[0, 0, 0] = steps[1, 2, 0] = 0.0
    steps[2, 0, 0] = 0.7
    return steps


LEAVES = {"path": path_in_time(), "elapsed": torch.tensor([0.0, 0.5, 0.3]).double()}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("duration", [0.4, 1.0])
def test_signatures_and_gradients_are_those_of_torch(depth: int, duration: float) -> None:
    """Also the gradients in time: where a segment is cut depends on all times before."""

    def in_torch(leaves: Any) -> Any:
        found, _, rest = paths.log_signatures_in_time(
            leaves["path"], paths.hall(3, depth), sk.Duration(duration), leaves["elapsed"], LENGTHS
        )
        return {"signatures": found, "elapsed": rest}

    want = with_gradients(in_torch, LEAVES)
    room = want["signatures"].shape[1]

    def in_jax(leaves: Any) -> Any:
        window = sj.Duration(duration, most=room)
        found, _, rest = jax_paths.log_signatures_in_time(
            leaves["path"], jax_paths.hall(3, depth), window, leaves["elapsed"], LENGTHS
        )
        return {"signatures": found, "elapsed": rest}

    assert_near(with_gradients_in_jax(in_jax, LEAVES), want, 1e-10)


def test_second_derivatives_in_time_are_those_of_torch() -> None:
    steps = LEAVES["path"][:1, 1:4]
    count = paths.split_at(steps, sk.Duration(0.45)).increments.shape[1]

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return (paths.split_at(x, sk.Duration(0.45)).increments.cumsum(1) ** 2).sum()

    def ours(x: Any) -> Any:
        pieces = jax_paths.split_at(x, sj.Duration(0.45, most=5)).increments[:, :count]
        return (jnp.cumsum(pieces, 1) ** 2).sum()

    want = torch.autograd.functional.hessian(theirs, steps)
    np.testing.assert_allclose(jax.jit(jax.hessian(ours))(array(steps)), want, rtol=1e-9, atol=1e-9)


def test_signatures_are_the_same_without_kernels() -> None:
    steps = array(LEAVES["path"])
    pieces = jax.jit(lambda x: jax_paths.split_at(x, sj.Duration(0.4, most=12), lengths=LENGTHS))(
        steps
    )
    for depth in (2, 3):
        basis = jax_paths.hall(3, depth)
        found, want = (
            jax.jit(lambda x, e, run=run, basis=basis: run(x, basis, e))(*pieces[:2])
            for run in (of_edges, between)
        )
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


def test_counts_and_ends_are_those_of_torch() -> None:
    steps = LEAVES["path"]
    for duration in (0.2, 0.7, 10.0):
        for elapsed in (None, LEAVES["elapsed"]):
            own = None if elapsed is None else array(elapsed)
            theirs, ours = sk.Duration(duration), sj.Duration(duration)
            for a, b in zip(
                ours.count(array(steps), own, LENGTHS),
                theirs.count(steps, elapsed, LENGTHS),
                strict=True,
            ):
                np.testing.assert_allclose(a, b, rtol=1e-12)
            np.testing.assert_array_equal(
                ours.ends(array(steps), own, LENGTHS), theirs.ends(steps, elapsed, LENGTHS)
            )


def test_time_is_counted_in_double_precision_where_jax_has_single_alone() -> None:
    steps = torch.rand(1, 3000, 1, generator=torch.Generator().manual_seed(1))
    counts, elapsed = sk.Duration(0.3).count(steps)
    jax.config.update("jax_enable_x64", False)
    found, rest = jax.jit(sj.Duration(0.3).count)(array(steps))
    assert found.dtype == jnp.int32 and rest.dtype == jnp.float32
    assert found.tolist() == counts.tolist()
    np.testing.assert_allclose(rest, elapsed, rtol=1e-6)


def series(length: int) -> torch.Tensor:
    """Irregular times as channel 0, and two channels of observations."""
    source = torch.Generator().manual_seed(2)
    steps = 0.05 + torch.rand(2, length, 1, generator=source).double()
    values = torch.randn(2, length, 2, generator=source).double()
    return torch.cat([steps.cumsum(1) / 2, values / 2], -1)


def layers(most: int | None) -> tuple[Any, Any]:
    torch.manual_seed(0)
    theirs = sk.SLiCE(
        3,
        sk.BlockDiagonal(4, 2),
        drive=sk.Differences(),
        flow=sk.LogODE(2, sk.Duration(0.75)),
    ).double()
    ours = sj.SLiCE(
        3,
        sj.BlockDiagonal(4, 2),
        drive=sj.Differences(),
        flow=sj.LogODE(2, sj.Duration(0.75, most=most)),
        key=jax.random.key(0),
    )
    return theirs, with_arrays(ours, {k: array(x) for k, x in theirs.state_dict().items()})


def test_outside_of_programs_windows_are_counted() -> None:
    theirs, ours = layers(None)
    x = series(6)
    h, state = ours(array(x), return_state=True)
    want, end = theirs(x, return_state=True)
    np.testing.assert_allclose(h, want.detach(), rtol=1e-10)
    np.testing.assert_allclose(state["filled"], end["filled"], rtol=1e-10)
    with pytest.raises(ValueError, match="depends on the times, which traced data can't tell"):
        jax.vmap(lambda x: ours(x[None]))(array(x))


def test_a_layer_goes_on_in_parts_and_steps_as_torch_s_does() -> None:
    """By a program with room for more windows: the outputs past the last repeat it."""
    theirs, ours = layers(7)
    x = series(10)

    def run(layer: Any, x: Any, last: Any) -> Any:
        """The last output of a part of 6 with lengths, of the next 3, and of a step; the state."""
        first, state = layer(x[:, :6], lengths=[6, 4], return_state=True)
        places = layer.places(x[:, :6], lengths=[6, 4])
        second, state = layer(x[:, 6:9], state, return_state=True)
        third, state = layer.step(x[:, 9], state)
        return last(first, places.counts), second[:, 0], third, dict(state_of(state))

    with torch.no_grad():
        want = run(theirs, x, lambda h, counts: h[torch.arange(2), counts - 1])
    found = jax.jit(lambda layer, x: run(layer, x, lambda h, c: h[jnp.arange(2), c - 1]))(
        ours, array(x)
    )
    for a, b in zip(found[:3], want[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    for name, value in want[3].items():
        np.testing.assert_allclose(found[3][name], value, rtol=1e-10, err_msg=name)


def state_of(state: Any) -> Any:
    return state.arrays if isinstance(state, sj.State) else state.tensors


@pytest.mark.filterwarnings("ignore:LogODE")
def test_a_stored_model_is_the_same_in_both(tmp_path: Any) -> None:
    torch.manual_seed(0)
    first = layers(None)[0]
    second = sk.Block(sk.SLiCE(4, sk.Diagonal(4)), 4)
    theirs = sk.SequenceModel(
        channels=3, outputs=2, width=4, embed=False, blocks=[first, second], pool=sk.Mean()
    )
    theirs, x = theirs.double().eval(), series(8)
    sk.save(theirs, tmp_path / "model.safetensors")
    want = theirs(x, lengths=[8, 5]).detach()
    model = sj.load(tmp_path / "model.safetensors", most=9)
    run = jax.jit(lambda model, x: model(x, lengths=[8, 5]))
    np.testing.assert_allclose(run(model, array(x)), want, rtol=1e-10)
    sj.save(model, tmp_path / "back.safetensors")
    again = sk.load(tmp_path / "back.safetensors")
    np.testing.assert_allclose(again(x, lengths=[8, 5]).detach(), want, rtol=1e-12)


def test_tracing_says_what_it_needs_and_running_what_did_not_suffice() -> None:
    steps = jnp.ones((1, 3, 1))
    with pytest.raises(ValueError, match=r"give the most there may be, such as Duration\(0.5, mos"):
        jax.jit(lambda x: sj.Duration(0.5).ends(x))(steps)
    with pytest.raises(ValueError, match="a path has 6 windows; expected at most most=4"):
        jax_paths.split_at(steps, sj.Duration(0.5, most=4))
    run = jax.jit(lambda x: jax_paths.split_at(x, sj.Duration(0.5, most=4)).increments)
    with pytest.raises(Exception, match="a path has more windows than most=4"):
        run(steps).block_until_ready()
    assert run(steps / 2).shape == (1, 7, 1)
    with pytest.raises(ValueError, match="most=0; expected at least 1"):
        sj.Duration(0.5, most=0)
