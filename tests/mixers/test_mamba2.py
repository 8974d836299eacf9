"""Mamba-2 against transformers with the same weights, and against its equations step by step."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.mamba2 import Mamba2
from tests.mixers.agreement import assert_agrees, relative_error, shared_leaves

WIDTH, DIM, HEAD, KERNEL = 12, 5, 4, 3


def small(groups: int = 1, **options: object) -> Mamba2:
    mamba = Mamba2(WIDTH, DIM, HEAD, groups=groups, kernel=KERNEL, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        mamba.step_bias.add_(2)
        mamba.skip.normal_()
        mamba.norm_weight.normal_()
    return mamba


def weights_of(mamba: Mamba2) -> dict[str, nn.Parameter]:
    """The parameters by their names in transformers (and in the authors' code)."""
    named = {
        "in_proj.weight": mamba.in_map.weight,
        "in_proj.bias": mamba.in_map.bias,
        "conv1d.weight": mamba.convolution.weight,
        "conv1d.bias": mamba.convolution.bias,
        "dt_bias": mamba.step_bias,
        "A_log": mamba.log_rates,
        "norm.weight": mamba.norm_weight,
        "D": mamba.skip,
        "out_proj.weight": mamba.out_map.weight,
        "out_proj.bias": mamba.out_map.bias,
    }
    return {name: parameter for name, parameter in named.items() if parameter is not None}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_mamba2_is_that_of_transformers(groups: int, bias: bool) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is a peer; PEERS=1 make test installs it"
    )
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    limits = (0.05, 1.5)
    mamba = small(groups, norm_groups=1, bias=bias, convolution_bias=not bias, step_limits=limits)
    configuration = transformers.Mamba2Config(
        num_heads=mamba.heads,
        head_dim=HEAD,
        hidden_size=WIDTH,
        state_size=DIM,
        expand=2,
        n_groups=groups,
        conv_kernel=KERNEL,
        use_bias=bias,
        use_conv_bias=not bias,
        time_step_limit=limits,
        num_hidden_layers=1,
        chunk_size=8,
    )
    peer = Mamba2Mixer(configuration, 0)
    ours = weights_of(mamba)
    assert set(ours.values()) == set(mamba.parameters())
    peer.load_state_dict({name: x.detach() for name, x in ours.items()})
    theirs = dict(peer.named_parameters())
    x = torch.randn(2, 19, WIDTH, requires_grad=True)
    leaves: dict[str, tuple[Tensor, Tensor]] = {name: (x, theirs[name]) for name, x in ours.items()}
    leaves["x"] = (x, x)
    # The peer computes in float32 whatever it is given.
    assert_agrees(lambda: (mamba(x),), lambda: (peer(x),), leaves, 1e-5)


def transcription(mamba: Mamba2, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """One element, head and group at a time; h is (batch, heads, dim, head_dim)."""
    inner, heads = mamba.inner, mamba.heads
    z, filtered, raw = (x @ mamba.in_map.weight.mT).split(
        [inner, inner + 2 * mamba.groups * DIM, heads], -1
    )
    padded = functional.pad(filtered, (0, 0, KERNEL - 1, 0))
    taps, outputs = mamba.convolution.weight.squeeze(1), []
    assert mamba.convolution.bias is not None
    for t in range(x.shape[1]):
        u = (padded[:, t : t + KERNEL] * taps.mT).sum(1) + mamba.convolution.bias
        u = u * torch.sigmoid(u)
        parts, after = [], []
        for head in range(heads):
            step = torch.log1p((raw[:, t, head] + mamba.step_bias[head]).exp())[:, None]
            value = u[:, head * HEAD : (head + 1) * HEAD]
            at = inner + head // (heads // mamba.groups) * DIM
            b, c = u[:, at : at + DIM], u[:, at + mamba.groups * DIM :][:, :DIM]
            decay = torch.exp(-mamba.log_rates[head].exp() * step)
            state = decay[..., None] * h[:, head] + step[..., None] * b[..., None] * value[:, None]
            after.append(state)
            parts.append((c[..., None] * state).sum(1) + mamba.skip[head] * value)
        h = torch.stack(after, 1)
        y = torch.cat(parts, -1) * z[:, t] * torch.sigmoid(z[:, t])
        groups = y.unflatten(-1, (mamba.norm_groups, -1))
        y = (groups / (groups.square().mean(-1, keepdim=True) + mamba.eps).sqrt()).flatten(1)
        outputs.append((mamba.norm_weight * y) @ mamba.out_map.weight.mT)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("groups", [1, 3])
def test_mamba2_is_the_recurrence_of_its_paper(groups: int) -> None:
    mamba = small(groups).double()
    assert mamba.norm_groups == groups
    x = torch.randn(2, 11, WIDTH, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(2, 6, DIM, HEAD, dtype=torch.float64, requires_grad=True)
    window = mamba.start(2, x)["window"]

    def found() -> tuple[Tensor, ...]:
        before = State({"hidden": hidden, "window": window})
        y, state = mamba(x, before, return_state=True)
        return y, state["hidden"]

    leaves = shared_leaves(x=x, hidden=hidden, **dict(mamba.named_parameters()))
    assert_agrees(found, lambda: transcription(mamba, x, hidden), leaves, 1e-12)


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_steps_and_gates_at_their_extremes_give_finite_gradients(extreme: float) -> None:
    mamba = Mamba2(8, 4, head_dim=4, bias=True)
    with torch.no_grad():
        mamba.step_bias.fill_(extreme)
        mamba.in_map.bias[:16] = extreme
    x = torch.randn(2, 40, 8, requires_grad=True)
    y, state = mamba(x, return_state=True)
    (y.sum() + state["hidden"].sum()).backward()
    for leaf in (x, *mamba.parameters()):
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all()
    if extreme < 0:
        assert not state["hidden"].any()


def test_initial_rates_are_uniform_or_counted() -> None:
    rates = Mamba2(256, 4, head_dim=1).log_rates.detach().exp()
    assert 0.999 < rates.min() < 1.5 and 15.5 < rates.max() < 16.001
    counted = Mamba2(8, 4, head_dim=4, rates=None).log_rates.detach().exp()
    torch.testing.assert_close(counted, torch.arange(1.0, 5))


def test_inputs_whose_squares_overflow_are_normalised_all_the_same() -> None:
    mamba = small()
    # Steps this long keep nothing, so that no gradient of the rates is left in float32.
    mamba.log_rates.requires_grad_(False)
    exact = copy.deepcopy(mamba).double()
    x = 1e4 * torch.randn(2, 19, WIDTH)
    leaves = [x.requires_grad_(), *(p for p in mamba.parameters() if p.requires_grad)]
    same = x.detach().double().requires_grad_()
    others = [same, *(p for p in exact.parameters() if p.requires_grad)]
    y, expected = mamba(x), exact(same)
    assert relative_error(y.double(), expected) <= 1e-4
    cotangent = torch.randn_like(y)
    found = torch.autograd.grad(y, leaves, cotangent)
    wanted = torch.autograd.grad(expected, others, cotangent.double())
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one.double(), other) <= 1e-3
