"""Length is never capped, and numbers stay numbers far past any training length."""

import warnings

import pytest
import torch

from tests.mixers.market import MIXERS, every_mixer
from tests.mixers.test_contract import make

LONG = 16_384
SLOW = ("ncde", "nrde", "log-ncde")
"""A Python loop over time with a network in it: their long run is without gradients."""


@every_mixer
def test_sixteen_thousand_elements_give_numbers(name: str) -> None:
    mixer = make(name, torch.float32)
    x = torch.randn(1, LONG, mixer.channels, generator=torch.Generator().manual_seed(3))
    slow = name.startswith(SLOW)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with torch.set_grad_enabled(not slow):
            y, state = mixer(x.requires_grad_(not slow), return_state=True)
    assert y.isfinite().all()
    assert all(s.isfinite().all() for s in state.tensors.values())
    if not slow:
        y.square().mean().backward()
        assert x.grad is not None and x.grad.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in mixer.parameters())


@every_mixer
@pytest.mark.parametrize("size", [0.0, 1e3, 1e4])
def test_extreme_inputs_give_finite_values_and_gradients(name: str, size: float) -> None:
    """Gates are driven to exactly 0 and 1 by inputs of this size."""
    mixer = MIXERS[name]().eval()
    x = size * torch.randn(2, 40, mixer.channels, generator=torch.Generator().manual_seed(4))
    y = mixer(x.requires_grad_())
    assert y.isfinite().all()
    y.sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    for parameter, p in mixer.named_parameters():
        assert p.grad is None or p.grad.isfinite().all(), parameter
