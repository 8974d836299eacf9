"""DeltaNet against flash-linear-attention's reference and against its equations written out."""

import pytest
import torch

from slicekit import State
from slicekit.mixers.delta_net import DeltaNet
from slicekit.mixers.delta_rule import delta_steps
from slicekit.mixers.heads import HeadNorm
from tests.mixers.agreement import assert_agrees
from tests.mixers.delta_by_hand import delta_layer, leaves_of
from tests.mixers.peers import fla_naive

VARIANTS = {
    "default": {},
    "negative": {"negative": True},
    "output gate": {"output_gate": True},
    "no convolution": {"kernel": 0},
    "biased convolution": {"kernel": 3, "bias": True},
    "sizes": {"expand_keys": 0.5, "expand_values": 2.0, "heads": 4},
}


def operands(batch=2, heads=3, length=9, dim=4, columns=5, dtype=torch.float32):
    queries, keys = torch.randn(2, batch, heads, length, dim, dtype=dtype).unbind()
    keys = torch.nn.functional.normalize(keys, dim=-1)
    values = torch.randn(batch, heads, length, columns, dtype=dtype)
    beta = torch.rand(batch, heads, length, dtype=dtype)
    beta[:, :, 1], beta[:, :, 2], beta[:, :, 3] = 0.0, 1.0, 2.0
    hidden = torch.randn(batch, heads, dim, columns, dtype=dtype)
    found = {"queries": queries, "keys": keys, "values": values, "beta": beta, "hidden": hidden}
    return {name: x.requires_grad_() for name, x in found.items()}


def ours(x):
    folded = {name: x[name].flatten(0, 1) for name in ("queries", "keys", "values", "beta")}
    folded["queries"] = folded["queries"] * x["keys"].shape[-1] ** -0.5
    read, last = delta_steps(**folded).run(x["hidden"])
    return read.unflatten(0, x["hidden"].shape[:2]), last


def test_the_delta_rule_is_that_of_flash_linear_attention():
    naive, x = fla_naive("delta_rule").delta_rule_recurrence, operands()
    assert_agrees(lambda: ours(x), lambda: naive(*x.values()), x, 1e-5)


def test_the_delta_rule_is_its_chunkwise_form():
    naive, x = fla_naive("delta_rule").delta_rule_chunkwise, operands(length=8)
    started = {**x, "hidden": torch.zeros_like(x["hidden"])}
    x.pop("hidden")
    assert_agrees(lambda: ours(started), lambda: naive(*x.values(), chunk_size=4), x, 1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layer_is_its_equations_element_by_element(variant):
    mixer = DeltaNet(8, **{"heads": 2, **VARIANTS[variant]}).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)

    def by_hand():
        beta = torch.sigmoid(x @ mixer.beta.map.weight.T)
        return [delta_layer(mixer, x, 2 * beta if mixer.beta.negative else beta, None)]

    assert_agrees(lambda: [mixer(x)], by_hand, leaves_of(mixer, x), 1e-12)


@pytest.mark.parametrize("negative", [False, True])
def test_eigenvalues_are_in_the_range_that_the_name_promises(negative):
    mixer = DeltaNet(8, heads=2, negative=negative).double()
    with torch.no_grad():
        mixer.beta.map.weight *= 20
    x = torch.randn(3, 50, 8, dtype=torch.float64)
    steps, _ = mixer.recurrence(x, mixer.start(3, x))
    eigenvalues = torch.linalg.eigvalsh(steps.transitions.as_dense())
    assert eigenvalues.max() <= 1 + 1e-12
    assert eigenvalues.min() >= (-1 if negative else 0) - 1e-6
    assert eigenvalues.min() <= (-0.9 if negative else 0.1)


def test_beta_of_one_replaces_the_value_of_a_key_and_of_zero_keeps_it():
    key = torch.nn.functional.normalize(torch.randn(1, 1, 4), dim=-1)
    old, new = torch.randn(2, 1, 1, 3)
    hidden = (key.mT @ old).unsqueeze(0)
    for beta, expected in ((0.0, old), (1.0, new), (2.0, 2 * new - old)):
        read, _ = delta_steps(key, key, new, torch.full((1, 1), beta)).run(hidden)
        torch.testing.assert_close(read, expected)


def test_two_reflections_in_the_same_key_are_the_identity():
    key = torch.nn.functional.normalize(torch.randn(1, 1, 4), dim=-1).expand(1, 2, 4)
    hidden = torch.randn(1, 1, 4, 3)
    _, last = delta_steps(key, key, torch.zeros(1, 2, 3), torch.full((1, 2), 2.0)).run(hidden)
    torch.testing.assert_close(last, hidden)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_saturated_betas_are_exact_and_gradients_finite(logit):
    mixer = DeltaNet(4, heads=2, negative=True)
    with torch.no_grad():
        mixer.beta.map.weight.fill_(logit)
    x = torch.rand(2, 7, 4, requires_grad=True)
    assert (mixer.beta(x, torch.float32) == (0.0 if logit < 0 else 2.0)).all()
    y, state = mixer(x, return_state=True)
    (y.sum() + state["hidden"].sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())
    assert x.grad is not None and x.grad.isfinite().all()
    assert logit > 0 or (state["hidden"] == 0).all()


def test_a_state_without_its_window_is_refused():
    mixer = DeltaNet(4, heads=2)
    with pytest.raises(KeyError, match="window"):
        mixer(torch.randn(1, 2, 4), State({"hidden": torch.zeros(1, 2, 2, 2)}))


def test_it_is_built_again_from_its_configuration():
    mixer = DeltaNet(8, heads=2, expand_values=2.0, kernel=3, output_gate=True)
    again = DeltaNet(**mixer.configuration())
    again.load_state_dict(mixer.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(again(x), mixer(x))


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1.0, 1e25])
def test_a_norm_is_exact_where_squares_overflow_and_where_they_vanish(scale):
    norm, x = HeadNorm(5), scale * torch.randn(3, 2, 5)
    exact = x.double().requires_grad_()
    leaves = {"x": (x.requires_grad_(), exact)}

    def by_hand():
        return [exact / (exact.square().mean(-1, keepdim=True) + norm.eps).sqrt()]

    assert_agrees(lambda: [norm(x).double()], by_hand, leaves, 1e-5)
