"""Mamba against two independent implementations with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit.mixers.mamba import Mamba
from tests.mixers.agreement import assert_agrees

WIDTH, DIM, KERNEL = 12, 5, 3
PEER = "is a peer; PEERS=1 make test installs it"


@pytest.fixture
def in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peers cast to float32 inside; here that cast keeps float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def weights_of(mamba: Mamba) -> dict[str, nn.Parameter]:
    """The parameters by their names in both peers (and in the authors' code)."""
    ssm = mamba.ssm
    named = {
        "in_proj.weight": mamba.in_map.weight,
        "in_proj.bias": mamba.in_map.bias,
        "conv1d.weight": mamba.convolution.weight,
        "conv1d.bias": mamba.convolution.bias,
        "x_proj.weight": ssm.selection.weight,
        "dt_proj.weight": ssm.step_weight,
        "dt_proj.bias": ssm.step_bias,
        "A_log": ssm.log_rates,
        "D": ssm.skip,
        "out_proj.weight": mamba.out_map.weight,
        "out_proj.bias": mamba.out_map.bias,
    }
    return {name: parameter for name, parameter in named.items() if parameter is not None}


def assert_is(mamba: Mamba, peer: nn.Module, tolerance: float) -> None:
    """Copy the weights, and compare outputs and gradients."""
    ours = weights_of(mamba)
    assert set(ours.values()) == set(mamba.parameters())
    with torch.no_grad():
        mamba.ssm.step_bias.add_(2)
    peer.load_state_dict({name: x.detach() for name, x in ours.items()})
    theirs = dict(peer.named_parameters())
    x = torch.randn(2, 19, WIDTH, dtype=torch.float64, requires_grad=True)
    leaves: dict[str, tuple[Tensor, Tensor]] = {name: (x, theirs[name]) for name, x in ours.items()}
    leaves["x"] = (x, x)
    assert_agrees(lambda: (mamba(x),), lambda: (peer(x),), leaves, tolerance)


@pytest.mark.parametrize("options", [{}, {"bias": True, "convolution_bias": False, "expand": 3}])
def test_mamba_is_that_of_transformers(in_double_precision: None, options: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", reason=f"transformers {PEER}")
    from transformers.models.mamba.modeling_mamba import MambaMixer

    mamba = Mamba(WIDTH, DIM, kernel=KERNEL, rank=2, **options).double()
    configuration = transformers.MambaConfig(
        hidden_size=WIDTH,
        state_size=DIM,
        expand=mamba.expand,
        conv_kernel=KERNEL,
        time_step_rank=2,
        use_bias=mamba.bias,
        use_conv_bias=mamba.convolution_bias,
        num_hidden_layers=1,
    )
    assert_is(mamba, MambaMixer(configuration, 0).double(), 1e-12)


def test_mamba_is_that_of_mambapy(in_double_precision: None) -> None:
    peer = pytest.importorskip("mambapy.mamba", reason=f"mambapy {PEER}")
    mamba = Mamba(WIDTH, DIM, kernel=KERNEL).double()
    configuration = peer.MambaConfig(
        d_model=WIDTH, n_layers=1, d_state=DIM, d_conv=KERNEL, pscan=True
    )
    assert_is(mamba, peer.MambaBlock(configuration).double(), 1e-12)


@pytest.mark.parametrize("width", [8, 16, 17, 100])
def test_it_has_as_many_parameters_as_mambapy(width: int) -> None:
    peer = pytest.importorskip("mambapy.mamba", reason=f"mambapy {PEER}")
    block = peer.MambaBlock(peer.MambaConfig(d_model=width, n_layers=1))
    count = sum(x.numel() for x in block.parameters())
    assert sum(x.numel() for x in Mamba(width).parameters()) == count


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_gates_at_their_extremes_give_finite_gradients(extreme: float) -> None:
    mamba = Mamba(8, 4, bias=True)
    with torch.no_grad():
        mamba.in_map.bias[16:] = extreme
        mamba.ssm.step_bias.fill_(extreme)
    x = torch.randn(2, 40, 8, requires_grad=True)
    mamba(x).sum().backward()
    for leaf in (x, *mamba.parameters()):
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all()
