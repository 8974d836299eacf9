"""Layers and models under the Log-ODE method: whole = parts = steps, padding, stacking."""

import warnings
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

import slicekit as sk
from slicekit.layers import LayerNorm
from slicekit.paths.lie_bases import LieBasis
from slicekit.structures import Generator, Parameters, Structure

WINDOWS = {"steps": 4, "time": sk.Duration(0.75)}
INITIAL = {"learned": sk.Learned(), "first": sk.FirstInput(), "both": sk.FirstInput(drives=True)}

each_window = pytest.mark.parametrize("window", WINDOWS.values(), ids=list(WINDOWS))
each_start = pytest.mark.parametrize("initial", INITIAL.values(), ids=list(INITIAL))


def _series(batch: int, length: int, seed: int = 0) -> Tensor:
    """Irregular times as channel 0, and two channels of observations."""
    generator = torch.Generator().manual_seed(seed)
    steps = 0.05 + torch.rand(batch, length, 1, generator=generator, dtype=torch.float64)
    values = torch.randn(batch, length, 2, generator=generator, dtype=torch.float64)
    return torch.cat([steps.cumsum(1) / 2, values / 2], -1)


def _layer(window, initial=None, **options) -> sk.SLiCE:
    torch.manual_seed(0)
    return sk.SLiCE(
        3,
        sk.BlockDiagonal(4, 2),
        drive=sk.Differences(),
        initial=initial or sk.FirstInput(),
        flow=sk.LogODE(2, window),
        **options,
    ).double()


def _model(window, pool=None, initial=None) -> sk.SequenceModel:
    """A layer on the series itself, and a block on its window ends."""
    first = _layer(window, initial)
    second = sk.Block(sk.SLiCE(4, sk.BlockDiagonal(4, 2)), 4)
    model = sk.SequenceModel(
        channels=3, outputs=2, width=4, embed=False, blocks=[first, second], pool=pool
    )
    return model.double().eval()


@each_start
def test_there_is_an_output_for_each_window(initial) -> None:
    layer, x = _layer(4, initial), _series(2, 10)
    first = not initial.drives_first
    assert layer(x).shape == (2, 4 if first else 3, 4)
    lengths = torch.tensor([1, 2, 4, 5, 6, 9, 10])
    wanted = [1, 2, 2, 2, 3, 3, 4] if first else [1, 1, 1, 2, 2, 3, 3]
    assert layer.output_lengths(lengths).tolist() == wanted


@each_window
@each_start
def test_outputs_are_those_of_solve(window, initial) -> None:
    layer, x = _layer(window, initial), _series(2, 11)
    skip = 0 if initial.drives_first else 1
    increments = layer.drive(x)[:, skip:]
    start = layer.initial.start(layer.start(torch.float64), x[:, 0])
    weights = layer.A(torch.float64)
    states, _ = sk.solve(layer.structure, weights, increments, start, layer.flow)
    torch.testing.assert_close(layer(x)[:, skip:], states)
    if skip:
        torch.testing.assert_close(layer(x)[:, 0], start)


@each_window
@each_start
def test_steps_give_the_state_at_every_element(window, initial) -> None:
    layer, x = _layer(window, initial), _series(2, 13)
    state = None
    for t in range(x.shape[1]):
        h, state = layer.step(x[:, t], state)
        whole, end = layer(x[:, : t + 1], return_state=True)
        counts = layer.places(x[:, : t + 1]).counts
        torch.testing.assert_close(h, whole[torch.arange(2), counts - 1])
        for name in end.tensors:
            torch.testing.assert_close(state[name], end[name])


@each_window
@each_start
@pytest.mark.parametrize("cut", [1, 4, 5, 6, 12])
def test_parts_end_where_the_whole_does(window, initial, cut: int) -> None:
    layer, x = _layer(window, initial), _series(3, 13)
    whole, end = layer(x, return_state=True)
    _, state = layer(x[:, :cut], return_state=True)
    rest, state = layer(x[:, cut:], state, return_state=True)
    for name in end.tensors:
        torch.testing.assert_close(state[name], end[name])
    total = layer.places(x).counts
    _, before = layer(x[:, :cut], return_state=True)
    here = layer.places(x[:, cut:], before).counts
    for row in range(3):
        tail = whole[row, : total[row]][-here[row] :]
        torch.testing.assert_close(rest[row, : here[row]], tail)


@each_window
def test_padding_is_exact_and_states_go_on_from_the_true_end(window) -> None:
    layer, x = _layer(window), _series(3, 12)
    lengths = [12, 5, 2]
    garbage = x.clone()
    for row, length in enumerate(lengths):
        garbage[row, length:] = float("nan")
    h, state = layer(garbage, lengths=lengths, return_state=True)
    more = _series(3, 5, seed=5)
    more[..., 0] += torch.stack([x[row, n - 1, 0] for row, n in enumerate(lengths)])[:, None]
    _, after = layer(more, state, return_state=True)
    counts = layer.places(x, lengths=lengths).counts
    for row, length in enumerate(lengths):
        alone, own = layer(x[row : row + 1, :length], return_state=True)
        torch.testing.assert_close(h[row, : counts[row]], alone[0])
        _, own = layer(more[row : row + 1], own, return_state=True)
        for name in own.tensors:
            torch.testing.assert_close(after[name][row], own[name][0])


@pytest.mark.parametrize("pool", [None, sk.Mean(), sk.Last()], ids=["none", "mean", "last"])
@each_window
@each_start
def test_a_model_steps_through_windows(window, pool, initial) -> None:
    model, x = _model(window, pool, initial), _series(1, 11)
    state = None
    with torch.no_grad():
        for t in range(x.shape[1]):
            y, state = model.step(x[:, t], state)
            whole = model(x[:, : t + 1])
            torch.testing.assert_close(y, whole if pool is not None else whole[:, -1])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(1, 5))
def test_a_model_goes_on_from_any_part(parts: list[int], window: int) -> None:
    model, x = _model(window, sk.Mean()), _series(2, sum(parts))
    state, at = None, 0
    with torch.no_grad():
        for length in parts:
            y, state = model(x[:, at : at + length], state, return_state=True)
            at += length
            torch.testing.assert_close(y, model(x[:, :at]))


@each_window
def test_lengths_are_followed_through_a_model(window) -> None:
    model, x, lengths = _model(window, sk.Mean()), _series(3, 12), [12, 7, 3]
    with torch.no_grad():
        y = model(x, lengths=lengths)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(y[row], model(x[row : row + 1, :length])[0])


def test_output_lengths_of_a_model() -> None:
    model = _model(4)
    lengths = torch.tensor([1, 5, 6])
    assert model.output_lengths(lengths).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="depends on the input"):
        _model(sk.Duration(1.0)).output_lengths(lengths)


def test_a_block_brings_the_last_element_of_a_window_to_its_skip_connection() -> None:
    layer = _layer(4)
    block = sk.Block(layer, 3, sk.Wiring(norm=LayerNorm())).double()
    x = _series(2, 10)
    standing = x[:, [0, 4, 8, 9]]
    mixed = block.project(layer(x))
    y = standing + mixed
    y = block.norm_after_feedforward(y + block.feedforward(y))
    torch.testing.assert_close(block(x), y)


def test_projective_layers() -> None:
    layer, x = _layer(4, projective=True), _series(2, 13)
    plain = _layer(4)
    torch.testing.assert_close(
        layer(x), torch.nn.functional.normalize(plain(x), dim=-1), atol=1e-9, rtol=1e-9
    )
    h, state = layer.step(x[:, 0])
    for t in range(1, 13):
        h, state = layer.step(x[:, t], state)
    torch.testing.assert_close(h, layer(x)[:, -1])


def test_half_precision_is_computed_in_float32() -> None:
    layer, x = _layer(4).float(), _series(2, 13).float()
    h = layer(x.bfloat16())
    assert h.dtype == torch.bfloat16
    torch.testing.assert_close(h.float(), layer(x.bfloat16().float()), atol=2e-2, rtol=2e-2)


def test_compiles_whole() -> None:
    layer, x = _layer(4), _series(2, 13)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))


COMPILED = {
    "blocks": (sk.BlockDiagonal(4, 2), 3),
    "dplr": (sk.DPLR(4, 1), 2),
    "sum": (sk.DirectSum(sk.Sparse(4, density=0.4), sk.Diagonal(2)), 3),
}


def _deep_layer(structure: Structure, depth: int) -> tuple[sk.SLiCE, Tensor]:
    """Four channels and depth 3 make blocks of several elements with the same letters."""
    flow = sk.LogODE(depth, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dense brackets
        layer = sk.SLiCE(4, structure, drive=sk.Differences(), flow=flow).double()
    return layer, torch.randn(2, 11, 4, dtype=torch.float64)


@pytest.mark.parametrize("case", COMPILED)
def test_brackets_compile_whole_at_any_depth(case: str) -> None:
    torch.compiler.reset()
    layer, x = _deep_layer(*COMPILED[case])
    trained = list(layer.A.trained())
    answers = []
    for function in (torch.compile(layer, fullgraph=True, backend="aot_eager"), layer):
        h = function(x)
        answers.append([h, *torch.autograd.grad(h.sin().sum(), trained)])
    for compiled, eager in zip(*answers, strict=True):
        torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("strict", [False, True])
def test_dense_brackets_are_exported(strict: bool) -> None:
    torch.compiler.reset()
    layer, x = _deep_layer(*COMPILED["dplr"])
    program = torch.export.export(layer, (x,), strict=strict)
    torch.testing.assert_close(program.module()(x), layer(x))


def test_a_compiled_layer_follows_its_flow() -> None:
    torch.compiler.reset()
    layer, x = _deep_layer(sk.DPLR(4, 1), 2)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for depth in (2, 3, 1):
        layer.flow = sk.LogODE(depth, 4)
        torch.testing.assert_close(compiled(x), layer(x))


def test_training_reaches_the_letters_through_their_brackets() -> None:
    layer = _layer(4)
    layer(_series(2, 13)).square().mean().backward()
    for x in layer.parameters():
        assert x.grad is not None and bool(x.grad.isfinite().all()) and float(x.grad.norm()) > 0


@pytest.mark.parametrize("fused", [False, True])
def test_brackets_follow_a_changed_weight_outside_training(fused: bool) -> None:
    """A fused optimiser changes weights without a new address or version."""
    layer, x = _layer(4), _series(2, 13)
    with torch.no_grad():
        before = layer(x)
    layer(x).square().mean().backward()
    torch.optim.AdamW(layer.parameters(), 0.1, fused=fused).step()
    with torch.no_grad():
        after = layer(x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, layer(x).detach())


@dataclass(frozen=True)
class Symmetric(sk.Dense):
    """The parameters of `Dense`, of which the symmetric part counts."""

    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        return super().combine(_symmetric(parameters), increments)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        return super().lift_parameters(_symmetric(parameters), basis)


def _symmetric(parameters: Parameters) -> Parameters:
    return {name: (x + x.mT) / 2 for name, x in parameters.items()}


EXCHANGES = {
    "a deeper flow": {"flow": sk.LogODE(3, 4)},
    "a flow without brackets": {"flow": sk.LogODE(1, 4)},
    "other windows": {"flow": sk.LogODE(2, 3)},
    "a structure of the same parameters": {"structure": Symmetric(4)},
}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_brackets_follow_an_exchanged_part_outside_training(exchange: str) -> None:
    torch.manual_seed(0)
    made = {"structure": sk.Dense(4), "flow": sk.LogODE(2, 4), "drive": sk.Differences()}
    layer, x = sk.SLiCE(3, **made).double(), _series(2, 13)
    with torch.no_grad():
        layer(x)
        for name, part in EXCHANGES[exchange].items():
            setattr(layer, name, part)
        fresh = sk.SLiCE(3, **made | EXCHANGES[exchange]).double()
        fresh.load_state_dict(layer.state_dict())
        assert layer.basis == fresh.basis
        torch.testing.assert_close(layer(x), fresh(x))
        (outputs, state), expected = layer(x[:, :1], return_state=True), fresh(x)
        rest = layer(x[:, 1:], state)
        torch.testing.assert_close(torch.cat([outputs, rest], 1), expected)


def test_kept_brackets_do_not_hide_forward_derivatives() -> None:
    """They are refused without a tape as they are with one."""
    layer, x = _layer(4, scan=sk.Recurrent()), _series(2, 9)
    weights = {f"A.{name}": p.detach() for name, p in layer.A.named_parameters()}
    with torch.no_grad(), forward_ad.dual_level():
        layer(x)
        duals = {name: forward_ad.make_dual(p, torch.ones_like(p)) for name, p in weights.items()}
        with pytest.raises(RuntimeError, match="reverse mode only"):
            torch.func.functional_call(layer, duals, (x,))


@each_window
def test_stored_models_come_back(window, tmp_path) -> None:
    model, x = _model(window, sk.Mean()), _series(2, 9)
    sk.save(model, tmp_path / "model.safetensors")
    again = sk.load(tmp_path / "model.safetensors").double()
    torch.testing.assert_close(again(x), model(x))


def test_places_need_windows() -> None:
    with pytest.raises(ValueError, match=r"keeps the length; expected LogODE"):
        sk.SLiCE(3, sk.Dense(4)).places(torch.zeros(1, 2, 3))


def test_bare_blocks_need_channels() -> None:
    with pytest.raises(ValueError, match="embed=False with channels=None"):
        sk.SequenceModel(vocabulary=3, outputs=2, width=4, embed=False, blocks=[_layer(4)])
