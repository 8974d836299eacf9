"""What every mixer promises: the contract of `SLiCE`, and numbers that stay numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import SequenceModel, State, load, save
from slicekit.layers import Block
from slicekit.mixers.fields import Field
from tests.mixers.market import MIXERS, every_graph, every_mixer
from tests.ownership import assert_states_are_their_own, every_tape

BATCH, LENGTH = 3, 13


def make(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """The mixer with weights that depend on nothing but its name."""
    torch.manual_seed(0)
    return MIXERS[name]().to(dtype).eval()


def make_input(mixer: Any, length: int = LENGTH, dtype: torch.dtype = torch.float64) -> Tensor:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(BATCH, length, mixer.channels, generator=source, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


def gradients(y: Tensor, mixer: Any, x: Tensor) -> list[Tensor]:
    given = [x, *(p for p in mixer.parameters() if p.requires_grad)]
    source = torch.Generator().manual_seed(2)
    cotangent = torch.randn(y.shape, generator=source, dtype=torch.float64).to(y.dtype)
    found = torch.autograd.grad(y, given, cotangent, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, given, strict=True)]


def assert_near(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Lists of tensors, each within a tolerance relative to its largest entry."""
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        scale = b.abs().max().clamp_min(1e-6) if b.numel() else 1.0
        assert a.isfinite().all()
        assert ((a - b).abs() <= tolerance * scale).all(), ((a - b).abs().max() / scale).item()


def floats(state: State) -> list[Tensor]:
    return [x for x in state.tensors.values() if x.is_floating_point()]


def last_states_agree(found: State, expected: State, tolerance: float = 1e-9) -> None:
    """Names, shapes and values; a growing cache may hold entries that do not count elsewhere."""
    assert found.tensors.keys() == expected.tensors.keys()
    if "positions" not in found.tensors:
        assert_near(floats(found), floats(expected), tolerance)


@every_mixer
def test_parts_and_steps_are_the_whole(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    whole, final = mixer(x, return_state=True)
    assert whole.shape == (BATCH, LENGTH, mixer.outputs)
    expected = [whole, *gradients(whole, mixer, x)]
    for cuts in ([5, 1, LENGTH - 6], [1] * LENGTH):
        outputs, state = [], None
        for part in x.split(cuts, 1):
            y, state = mixer(part, state, return_state=True)
            outputs.append(y)
        y = torch.cat(outputs, 1)
        assert_near([y, *gradients(y, mixer, x)], expected)
        assert state is not None
        last_states_agree(state, final)
    outputs, state = [], None
    for x_t in x.unbind(1):
        y, state = mixer.step(x_t, state)
        outputs.append(y)
    y = torch.stack(outputs, 1)
    assert_near([y, *gradients(y, mixer, x)], expected)


@every_mixer
def test_padding_changes_nothing(name: str) -> None:
    """Garbage past the end reaches neither outputs, nor the state, nor a gradient."""
    mixer = make(name)
    x = make_input(mixer)
    lengths = torch.tensor([LENGTH, 4, 1])
    padded = x.detach().clone()
    for b, n in enumerate(lengths):
        padded[b, n:] = torch.nan
    padded.requires_grad_()
    y, state = mixer(padded, lengths=lengths, return_state=True)
    kept = torch.cat([y[b, :n] for b, n in enumerate(lengths)])
    alone = [mixer(x[b : b + 1, :n], return_state=True) for b, n in enumerate(lengths)]
    expected = torch.cat([y_b[0] for y_b, _ in alone])
    assert_near([kept], [expected])
    found, wanted = gradients(kept, mixer, padded), gradients(expected, mixer, x)
    for b, n in enumerate(lengths):
        assert (found[0][b, n:] == 0).all()
    assert_near(found, wanted)
    more = torch.randn(BATCH, 3, mixer.channels, dtype=torch.float64)
    after = mixer(more, state)
    goes_on = [mixer(more[b : b + 1], own)[0] for b, (_, own) in enumerate(alone)]
    assert_near([after], [torch.stack(goes_on)])


@every_mixer
def test_an_empty_part_leaves_the_state_as_it_was(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    _, state = mixer(x[:, :5], return_state=True)
    _, same = mixer(x[:, 5:9], state, torch.zeros(BATCH, dtype=torch.int64), return_state=True)
    assert_near([mixer(x[:, 5:], same)], [mixer(x[:, 5:], state)])


@every_mixer
def test_nothing_looks_ahead(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    other = x.detach().clone()
    other[:, 7:] = 9.0
    assert_near([mixer(other)[:, :7]], [mixer(x)[:, :7]])


@every_mixer
def test_one_element(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer, length=1)
    y = mixer(x)
    assert y.shape == (BATCH, 1, mixer.outputs)
    assert all(g.isfinite().all() for g in gradients(y, mixer, x))


@every_mixer
def test_an_empty_batch(name: str) -> None:
    mixer = make(name)
    y, state = mixer(make_input(mixer)[:0], return_state=True)
    assert y.shape == (0, LENGTH, mixer.outputs)
    assert mixer(make_input(mixer)[:0], state).shape == y.shape


@every_mixer
@every_tape
def test_states_share_no_memory_with_inputs_and_outputs(name: str, tape: str) -> None:
    mixer = make(name)
    assert_states_are_their_own(mixer, make_input(mixer, length=6), tape)


@every_mixer
def test_states_can_be_selected_and_detached(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    _, state = mixer(x[:, :5], return_state=True)
    order = torch.tensor([2, 0, 0])
    chosen = state.detach().select(order)
    assert_near([mixer(x[order, 5:], chosen)], [mixer(x[:, 5:], state)[order]])


@every_mixer
def test_a_state_may_be_kept_in_another_precision(name: str) -> None:
    """Numbers lose digits, counts and positions do not."""
    mixer = make(name)
    x = make_input(mixer)
    _, state = mixer(x[:, :5], return_state=True)
    stored = state.to(torch.float32)
    assert all(x.dtype == torch.float32 for x in floats(stored))
    assert_near([mixer(x[:, 5:], stored)], [mixer(x[:, 5:], state)], 1e-4)


@every_mixer
def test_gradients_flow_through_the_state(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    _, state = mixer(x[:, :5], return_state=True)
    y, _ = mixer.step(x.detach()[:, 5], state)
    (found,) = torch.autograd.grad(y.square().sum(), x)
    assert found.isfinite().all() and (found[:, :5] != 0).any()


@every_mixer
def test_single_precision_is_near_double(name: str) -> None:
    double, single = make(name), make(name).float()
    x = make_input(double)
    y, z = double(x), single(x.detach().float())
    assert z.dtype == torch.float32
    assert_near([z.double()], [y], 2e-3)


@every_mixer
def test_half_precision_follows_the_input(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    y = mixer(x)
    half = make(name).bfloat16()
    z, state = half(x.detach().bfloat16(), return_state=True)
    assert z.dtype == torch.bfloat16
    assert_near([z.double()], [y], 0.15)
    again, _ = half.step(x.detach()[:, 0].bfloat16(), state)
    assert again.dtype == torch.bfloat16 and again.isfinite().all()
    mixed = make(name).float()(x.detach().bfloat16())
    assert mixed.dtype == torch.bfloat16
    assert_near([mixed.double()], [y], 0.05)


@every_mixer
def test_parameters_have_the_default_dtype(name: str) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        mixer = MIXERS[name]()
        y = mixer(torch.randn(BATCH, LENGTH, mixer.channels))
    finally:
        torch.set_default_dtype(before)
    tensors = [x for x in (y, *mixer.state_dict().values()) if x.is_floating_point()]
    assert {x.dtype for x in tensors} == {torch.float64}
    assert all(x.is_contiguous() for x in tensors[1:])


@every_mixer
def test_autocast(name: str) -> None:
    mixer = make(name).float()
    x = make_input(mixer, dtype=torch.float32)
    y = mixer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = mixer(x)
    assert z.dtype == torch.float32
    assert_near([z], [y], 0.15)
    assert all(g.isfinite().all() for g in gradients(z, mixer, x))


@every_graph
def test_compiled_it_gives_the_same(name: str) -> None:
    torch.compiler.reset()
    mixer = make(name)
    x, lengths = make_input(mixer, length=5), torch.tensor([5, 3, 1])
    before = mixer(make_input(mixer, length=4), return_state=True)[1].detach()
    y, state = mixer(x, before, lengths, return_state=True)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    z, other = compiled(x, before, lengths, return_state=True)
    assert_near([z, *gradients(z, mixer, x)], [y, *gradients(y, mixer, x)])
    last_states_agree(other, state)
    torch.compiler.reset()


@every_mixer
def test_it_is_saved_and_loaded(name: str, tmp_path) -> None:
    mixer = make(name, torch.float32)
    x = make_input(mixer, dtype=torch.float32)
    save(mixer, tmp_path / "mixer.safetensors")
    again = load(tmp_path / "mixer.safetensors")
    assert torch.equal(again(x), mixer(x))


@every_mixer
def test_bad_inputs_are_named(name: str) -> None:
    mixer = make(name)
    x = make_input(mixer)
    with pytest.raises(ValueError, match="x has shape"):
        mixer(x[..., :-1])
    with pytest.raises(ValueError, match="length 0"):
        mixer(x[:, :0])
    with pytest.raises(TypeError, match=r"x has dtype torch.float32, but the mixer has torch.f"):
        mixer(x.float())
    with pytest.raises(TypeError, match="state is a Tensor"):
        mixer(x, x)
    _, state = mixer(x, return_state=True)
    with pytest.raises(ValueError, match="state"):
        mixer(x[:2], state)
    with pytest.raises(ValueError, match="lengths"):
        mixer(x, lengths=[LENGTH + 1] * BATCH)


@every_mixer
def test_it_cites_what_it_is(name: str) -> None:
    from slicekit import cite

    mixer = MIXERS[name]()
    assert mixer.citations
    assert "@" in cite(mixer)


@every_mixer
def test_a_few_steps_of_training_learn(name: str) -> None:
    """Which of four tokens came last but one: the loss falls well below chance, ln 4."""
    torch.manual_seed(0)

    width = MIXERS[name]().channels
    model = SequenceModel(
        vocabulary=4, outputs=4, width=width, blocks=[Block(MIXERS[name](), width)]
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        tokens = torch.randint(4, (32, 8))
        logits = model(tokens)[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.75 * losses[0], losses[::10]


@every_mixer
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
def test_hooks_on_the_parts_of_a_mixer_are_called(name: str, dtype: torch.dtype) -> None:
    mixer = make(name, dtype)
    fields = [x for x in mixer.modules() if isinstance(x, Field)]  # their weights are read instead
    inside = {part for field in fields for part in field.modules()}
    parts = {part for part in mixer.modules() if not list(part.children())} - inside - {mixer}
    heard = set()
    for part in parts:
        part.register_forward_hook(lambda part, *_: heard.add(part))
    mixer(make_input(mixer, 3, dtype))
    assert heard == parts
