"""Paths: increments with times, gaps and lengths, against torch's."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from slicekit import paths
from slicekit.jax import paths as jax_paths
from tests.jax.twins import array

VALUES = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
HOLES = VALUES.clone()
HOLES[0, 0, 1] = HOLES[0, 2:4, 0] = HOLES[1, 1, 2] = HOLES[1, :, 0] = float("nan")
TIMES = torch.tensor([0.0, 0.5, 0.75, 2.0, 3.0]).double()


@pytest.mark.parametrize("policy", ["Linear", "LastValue", "Causal"])
def test_gaps_are_filled_as_in_torch(policy: str) -> None:
    want = paths.increments(HOLES, TIMES, gaps=getattr(paths, policy)(), lengths=[5, 3])
    ours = getattr(jax_paths, policy)()
    found = jax_paths.increments(array(HOLES), array(TIMES), gaps=ours, lengths=[5, 3])
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("origin", [False, True])
def test_increments_are_those_of_torch(origin: bool) -> None:
    want = paths.increments(VALUES, TIMES, origin=origin)
    np.testing.assert_allclose(
        jax_paths.increments(array(VALUES), array(TIMES), origin=origin), want, rtol=1e-12
    )
    np.testing.assert_allclose(
        jax_paths.with_time(array(VALUES), 0.5), paths.with_time(VALUES, 0.5), rtol=1e-12
    )


def test_bad_series_are_named_as_in_torch() -> None:
    for values, times in ((HOLES, TIMES), (VALUES, TIMES.flip(0)), (VALUES, TIMES[:3])):
        with pytest.raises(ValueError) as theirs:
            paths.increments(values, times)
        with pytest.raises(ValueError) as ours:
            jax_paths.increments(array(values), array(times))
        assert str(ours.value) == str(theirs.value)


def test_tokens_are_a_table_and_an_index() -> None:
    table, index = jnp.ones((3, 2)), jnp.array([[0, 2, -1]])
    tokens = jax_paths.Tabulated(table, index)
    assert tokens.shape == (1, 3, 2) and tokens.vocabulary == 3
    np.testing.assert_array_equal(tokens.masked([1]).index, [[0, -1, -1]])
    np.testing.assert_array_equal(tokens.map(lambda x: x + 1).dense()[0, :, 0], [2, 2, 0])
    with pytest.raises(ValueError, match="index holds 3 at batch 0, position 0"):
        jax_paths.Tabulated(table, index.at[0, 0].set(3))
