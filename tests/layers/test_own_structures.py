"""Structures of the user's own: complex parameters, none at all, and numbers made by numpy."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    Chunked,
    Differences,
    Exponential,
    Learned,
    LogODE,
    Recurrent,
    SLiCE,
    load,
    save,
    solve,
)
from slicekit.scans import Scan
from slicekit.structures import BlockGenerator, DiagonalGenerator, Parameters, Structure
from slicekit.structures.base import weighted_sum

CHANNELS, DIM = 3, 4


@dataclass(frozen=True)
class Spectral(Structure):
    """Circulant matrices by their complex spectra, and by a real diagonal if `shifted`."""

    dim: int
    shifted: bool = False

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        shape = channels, self.dim // 2 + 1
        spectra = {"spectra": torch.randn(shape, dtype=torch.complex64, generator=generator)}
        shift = {"shift": torch.randn(channels, self.dim, generator=generator) / 3}
        return spectra | (shift if self.shifted else {})

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        spectra = parameters["spectra"]
        wide = torch.promote_types(spectra.dtype, increments.dtype)
        moved = weighted_sum(increments.to(wide), spectra.to(wide))
        row = torch.fft.irfft(moved, n=self.dim).to(increments.dtype)
        matrices = torch.stack([row.roll(i, -1) for i in range(self.dim)], -2)
        if self.shifted:
            matrices = matrices + torch.diag_embed(weighted_sum(increments, parameters["shift"]))
        return BlockGenerator(matrices.unsqueeze(-3))

    def step_cost(self, channels: int) -> int:
        return self.dim**2


@dataclass(frozen=True)
class Fixed(Structure):
    """Every channel turns one more plane: nothing to train."""

    dim: int

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        return {}

    def combine(self, parameters: Parameters, increments: Tensor) -> BlockGenerator:
        turns = torch.zeros(*increments.shape[:-1], self.dim, self.dim).to(increments)
        for i in range(min(increments.shape[-1], self.dim - 1)):
            turns[..., i, i + 1] += increments[..., i]
            turns[..., i + 1, i] -= increments[..., i]
        return BlockGenerator(turns.unsqueeze(-3))

    def step_cost(self, channels: int) -> int:
        return 2 * self.dim


@dataclass(frozen=True)
class Through(Structure):
    """Diagonal matrices whose numbers go through something that needs them."""

    dim: int
    change: Callable[[Tensor], Tensor]

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        drawn = torch.randn(channels, self.dim, generator=generator)
        return {"values": self.change(drawn)}

    def combine(self, parameters: Parameters, increments: Tensor) -> DiagonalGenerator:
        return DiagonalGenerator(weighted_sum(increments, parameters["values"]))

    def step_cost(self, channels: int) -> int:
        return self.dim


STRUCTURES = {"complex": Spectral(DIM), "both": Spectral(DIM, shifted=True), "none": Fixed(DIM)}
SCANS = {"default": None, "recurrent": Recurrent(), "chunked": Chunked(), "tree": Associative()}
every_structure = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
every_scan = pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)


def by_hand(layer: SLiCE, x: Tensor) -> Tensor:
    """h_l = (I + A(Δω_l)) h_{l-1}, step by step."""
    weights: Any = layer.A()
    increments, start = layer.drive(x), layer.start()
    h, states = layer.initial.start(start, x[:, 0]), []
    for l, move in enumerate(increments.unbind(1)):
        if l or layer.initial.drives_first:
            h = h + layer.structure.combine(weights, move).mv(h)
        states.append(h)
    return torch.stack(states, 1)


@every_structure
@every_scan
def test_values_and_gradients_are_those_of_the_loop(
    structure: Structure, scan: Scan | None
) -> None:
    layer, x = SLiCE(CHANNELS, structure, scan=scan), torch.randn(2, 6, CHANNELS)
    x.requires_grad_()
    found, expected = layer(x), by_hand(layer, x)
    torch.testing.assert_close(found, expected)
    weight, given = torch.randn_like(found), [x, *layer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, given, weight),
        torch.autograd.grad(expected, given, weight),
        rtol=1e-4,
        atol=1e-5,
    )
    with torch.no_grad():
        state, steps = None, []
        for x_t in x.unbind(1):
            h, state = layer.step(x_t, state)
            steps.append(h)
        torch.testing.assert_close(torch.stack(steps, 1), expected)


def test_complex_tensors_are_trained_and_counted() -> None:
    layer = SLiCE(CHANNELS, Spectral(DIM))
    assert [name for name, _ in layer.A.named_parameters()] == ["spectra"]
    assert not list(layer.buffers())
    assert layer.structure.parameter_count(CHANNELS) == CHANNELS * (DIM // 2 + 1)
    torch.testing.assert_close(layer.regularisation(), torch.linalg.vector_norm(layer.A.spectra))
    x = torch.randn(2, 6, CHANNELS)
    optimiser = torch.optim.SGD(layer.A.parameters(), 0.01)
    before = layer(x).square().mean()
    before.backward()
    optimiser.step()
    assert layer(x).square().mean() < before


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("by_name", [False, True], ids=["to", "by name"])
def test_a_real_dtype_leaves_complex_numbers_alone(dtype: torch.dtype, by_name: bool) -> None:
    layer = SLiCE(CHANNELS, Spectral(DIM, shifted=True))
    names = {torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}
    spectra: Any = layer.A.spectra
    given = spectra.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if by_name:
            getattr(layer, names.get(dtype, "float"))()
        else:
            layer.to(dtype)
    assert layer.A.shift.dtype == dtype
    assert torch.equal(layer.A.spectra, given)  # type: ignore[arg-type]
    assert layer(torch.randn(2, 5, CHANNELS, dtype=dtype)).dtype == dtype


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_complex_numbers_follow_a_complex_dtype_and_a_device() -> None:
    layer = SLiCE(CHANNELS, Spectral(DIM))
    spectra: Any = layer.A.spectra
    assert copy.deepcopy(layer.A).to(torch.complex128).spectra.dtype == torch.complex128
    assert copy.deepcopy(layer.A).to("meta").spectra.is_meta
    moved: Any = copy.deepcopy(layer.A).to("meta", torch.float64)
    assert moved.spectra.is_meta and moved.spectra.dtype == spectra.dtype
    assert layer.A.to_empty(device="meta").spectra.shape == spectra.shape


@every_structure
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"projective": True},
        {"affine": True, "initial": Learned()},
        {"flow": Exponential()},
        {"flow": LogODE(1, 2)},
        {"flow": LogODE(2, 2), "drive": Differences()},
    ],
    ids=["projective", "affine", "exponential", "windows", "brackets"],
)
@pytest.mark.filterwarnings("ignore:LogODE")
def test_such_layers_have_all_policies_in_every_dtype(
    structure: Structure, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    layer = SLiCE(CHANNELS, structure, **options).to(dtype)
    other = SLiCE(CHANNELS, structure, scan=Recurrent(), **options).to(dtype)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 7, CHANNELS, dtype=dtype)
    found = layer(x)
    assert found.dtype == dtype
    torch.testing.assert_close(found, other(x), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), found, rtol=1e-4, atol=1e-5)


def test_a_structure_without_parameters_is_solved_saved_and_compiled(tmp_path: Path) -> None:
    layer, x = SLiCE(CHANNELS, Fixed(DIM)), torch.randn(2, 6, CHANNELS)
    assert layer.structure.parameter_count(CHANNELS) == 0
    assert layer.regularisation() == 0
    assert layer.growth(x) >= 0 and layer.isometry_defect(x) >= 0
    save(layer, tmp_path / "model")
    expected = layer(x)
    torch.testing.assert_close(load(tmp_path / "model", classes=[Fixed])(x), expected)
    compiled: Any = torch.compile(layer, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    states, _ = solve(Fixed(DIM), {}, x.double(), torch.ones(2, DIM).double())
    assert states.dtype == torch.float64


@every_structure
def test_such_layers_come_back_from_disk(structure: Structure, tmp_path: Path) -> None:
    layer, x = SLiCE(CHANNELS, structure), torch.randn(2, 6, CHANNELS)
    save(layer, tmp_path / "model")
    again = load(tmp_path / "model", classes=[type(structure)])
    assert torch.equal(again(x), layer(x))
    assert [n for n, _ in again.named_parameters()] == [n for n, _ in layer.named_parameters()]


def unfit(x: Tensor) -> Tensor:
    if x.is_meta:
        raise ValueError("there is nothing to see")
    return x


@pytest.mark.parametrize(
    "change",
    [lambda x: torch.from_numpy(x.numpy() / 3), lambda x: x / x.norm().item(), unfit],
    ids=["numpy", "item", "its own error"],
)
def test_an_init_may_look_at_its_numbers(change: Callable[[Tensor], Tensor]) -> None:
    layer = SLiCE(CHANNELS, Through(DIM, change))
    drawn = torch.get_rng_state()
    x = torch.randn(2, 6, CHANNELS, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), by_hand(layer, x))
    assert layer.structure.parameter_count(CHANNELS) == CHANNELS * DIM
    assert torch.equal(torch.get_rng_state(), drawn)


def test_an_init_that_fails_says_why() -> None:
    def broken(x: Tensor) -> Tensor:
        raise KeyError("no such table")

    with pytest.raises(KeyError, match="no such table"):
        Through(DIM, broken).parameter_count(CHANNELS)
