"""A layer against the loop by hand, in values and gradients."""

import re

import pytest
import torch
from torch import Tensor

from slicekit import (
    Associative,
    Block,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    Euler,
    Exponential,
    Learned,
    Recurrent,
    SLiCE,
    Sparse,
    TimeAndInput,
    WalshHadamard,
    Wiring,
)
from slicekit.flows import Flow
from slicekit.scans import Scan
from slicekit.structures import Structure
from tests.layers.reference import (
    INPUTS,
    assert_near,
    every_drive,
    every_initial,
    every_mode,
    gradients,
    make_input,
    make_layer,
    outputs_by_hand,
)
from tests.market import STRUCTURES, every_structure


def assert_as_by_hand(layer: SLiCE, x: torch.Tensor) -> None:
    y, expected = layer(x), outputs_by_hand(layer, x)
    found = {"outputs": y.detach()} | gradients(y, layer, x)
    assert_near(found, {"outputs": expected.detach()} | gradients(expected, layer, x))


@every_structure
@every_initial
@every_mode
def test_forward_of_every_structure_is_the_loop_over_dense_matrices(
    name: str, initial: str, mode: str
) -> None:
    assert_as_by_hand(make_layer(name, initial=initial, mode=mode), make_input())


@pytest.mark.parametrize("name", ["blocks", "dplr", "orthogonal-sum"])
@every_drive
@every_initial
@every_mode
def test_forward_along_every_drive_is_the_loop_over_dense_matrices(
    name: str, drive: str, initial: str, mode: str
) -> None:
    assert_as_by_hand(make_layer(name, drive, initial, mode), make_input())


@every_structure
@every_mode
def test_exponential_flow_is_the_loop_over_matrix_exponentials(name: str, mode: str) -> None:
    assert_as_by_hand(make_layer(name, mode=mode, flow=Exponential()), make_input())


@pytest.mark.parametrize("scan", [Recurrent(), Associative(), Chunked(2)], ids=repr)
@pytest.mark.parametrize("flow", [Euler(), Exponential()], ids=repr)
def test_every_flow_and_scan_of_a_layer_is_the_loop(flow: Flow, scan: Scan) -> None:
    assert_as_by_hand(make_layer("dense", flow=flow, scan=scan), make_input())


@every_drive
@every_initial
@every_mode
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 1), (1, 4)])
def test_one_sequence_and_one_element_are_no_special_cases(
    drive: str, initial: str, mode: str, batch: int, length: int
) -> None:
    assert_as_by_hand(make_layer("ragged", drive, initial, mode), make_input(batch, length))


@every_initial
def test_an_empty_batch_gives_an_empty_batch(initial: str) -> None:
    assert make_layer(initial=initial)(make_input(batch=0)).shape == (0, 5, 8)


@every_structure
def test_an_empty_batch_has_gradients_of_zero(name: str) -> None:
    layer = SLiCE(3, STRUCTURES[name], scan=Chunked())
    layer(torch.randn(0, 5, 3)).sum().backward()
    assert all(x.grad is None or not x.grad.any() for x in layer.parameters())


@every_structure
def test_regularisation_is_the_sum_of_frobenius_norms(name: str) -> None:
    layer = make_layer(name, mode="affine")
    tensors = [x for key, x in layer.named_parameters() if key.startswith("A.")]
    expected = sum(float(x.detach().flatten().square().sum() ** 0.5) for x in tensors)
    penalty = layer.regularisation()
    assert penalty.item() == pytest.approx(expected)
    penalty.backward()
    for x in tensors:
        assert x.grad is not None
        torch.testing.assert_close(x.grad, x.detach() / x.detach().norm())
    assert layer.B is not None and layer.B.grad is None


def test_one_description_used_twice_shares_no_weights() -> None:
    structure = STRUCTURES["blocks"]
    first, second = SLiCE(INPUTS, structure), SLiCE(INPUTS, structure)
    own = {x.data_ptr() for x in first.parameters()}
    assert own.isdisjoint(x.data_ptr() for x in second.parameters())


@every_structure
def test_a_generator_fixes_the_initialisation(name: str) -> None:
    made = [
        SLiCE(
            INPUTS, STRUCTURES[name], affine=True, generator=torch.Generator().manual_seed(7)
        ).state_dict()
        for _ in range(2)
    ]
    assert made[0].keys() == made[1].keys()
    for key, x in made[0].items():
        assert torch.equal(x, made[1][key])


def test_outputs_and_pointwise_say_what_a_block_needs_to_know() -> None:
    assert make_layer("diagonal").outputs == 7
    assert make_layer(drive="gates").pointwise
    assert not make_layer(drive="differences").pointwise


def test_repr_shows_the_policies_and_no_parameters() -> None:
    shown = repr(SLiCE(3, Diagonal(4), initial=Learned(), projective=True))
    for part in ("channels=3", "Diagonal(dim=4", "TimeAndInput(dt=0.025)", "Learned()"):
        assert part in shown
    assert "projective=True" in shown and "affine" not in shown


@pytest.mark.filterwarnings("error")
def test_an_explosion_warns_and_says_what_to_do() -> None:
    layer = SLiCE(INPUTS, STRUCTURES["dense"])
    x = torch.full((1, 60, INPUTS), 1e3)
    with pytest.warns(RuntimeWarning, match="no longer finite.*projective=True.*Orthogonal"):
        layer(x)
    finite = SLiCE(INPUTS, STRUCTURES["dense"], projective=True)
    assert finite(x).isfinite().all()


def test_a_sparse_layer_may_have_no_entries_at_all() -> None:
    layer = make_layer(Sparse(3, density=1e-9))
    assert layer.A.floating()[0].numel() == 0
    assert_as_by_hand(layer, make_input())
    assert layer.regularisation().item() == 0


@pytest.mark.parametrize(
    "structure", [WalshHadamard(16), Diagonal(16), BlockDiagonal(16, 4), Dense(16)], ids=repr
)
def test_the_step_that_a_warning_advises_lasts_in_value_and_gradient(structure: Structure) -> None:
    """Inputs of unit variance, as a norm before the mixer makes them, and a step too long."""
    x, source = torch.randn(2, 4096, 16), torch.Generator()

    def answers(dt: float, projective: bool = False) -> list[Tensor]:
        source.manual_seed(0)
        layer = SLiCE(
            16, structure, drive=TimeAndInput(dt), projective=projective, generator=source
        )
        block = Block(layer, 16, Wiring.pre_norm())
        y = block(x)
        return [y, *torch.autograd.grad(y.square().mean(), list(block.parameters()))]

    with pytest.warns(
        RuntimeWarning, match=r"the state of a SLiCE is .* after step \d+ of 40"
    ) as told:
        answers(0.04)
    advised = re.search(r"TimeAndInput\(dt=([^)]*)\)", str(told[0].message))
    assert advised is not None
    for found in (answers(float(advised[1])), answers(0.04, projective=True)):
        assert all(g.isfinite().all() for g in found)
