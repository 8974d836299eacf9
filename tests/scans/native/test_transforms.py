"""The native scan under torch's transforms: compile, func and autocast."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slicekit import DPLR, BlockDiagonal, DirectSum, Native, Orthogonal, Recurrent, SLiCE, solve
from slicekit.scans import Scan
from tests.market import STRUCTURES, make_parameters
from tests.scans.native.problems import needs_library


@needs_library
def test_a_compiled_layer_is_the_eager_one() -> None:
    torch.compiler.reset()
    structure = DirectSum(BlockDiagonal(6, 3), DPLR(4, 1), Orthogonal(4, 2))
    layer = SLiCE(3, structure, scan=Native(), affine=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 11, 3)

    def with_layer_gradients(call: Callable[[Tensor], Tensor]) -> list[Tensor]:
        given = x.clone().requires_grad_()
        h = call(given)
        return [h, *torch.autograd.grad(h.cos().sum(), [given, *layer.parameters()])]

    for found, eager in zip(
        with_layer_gradients(compiled), with_layer_gradients(layer), strict=True
    ):
        torch.testing.assert_close(found, eager)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x))


@needs_library
@pytest.mark.parametrize("name", ["ragged", "joint-dplr", "orthogonal-4", "open-sum", "dplr"])
def test_functional_gradients_map_over_increments_and_parameters(name: str) -> None:
    structure = STRUCTURES[name]
    parameters, paths = make_parameters(structure), torch.randn(4, 2, 5, 3).double() * 0.3
    state, weights = torch.randn(2, 2, structure.dim).double()

    def loss(parameters: dict[str, Tensor], path: Tensor, scan: Scan) -> Tensor:
        return (weights * solve(structure, parameters, path, state, scan=scan)[0][:, -2]).sum()

    for axis in (0, 1):  # the copies stand on another axis in memory
        stacked = paths.movedim(0, axis)
        gradient = torch.func.grad(loss, argnums=(0, 1))
        mapped = torch.vmap(gradient, in_dims=(None, axis, None))(parameters, stacked, Native())
        for copy, path in enumerate(paths):
            in_parameters, in_path = gradient(parameters, path, Recurrent())
            torch.testing.assert_close(mapped[1][copy], in_path)
            for k, x in in_parameters.items():
                torch.testing.assert_close(mapped[0][k][copy], x)


@needs_library
def test_rows_of_a_jacobian_are_gradients() -> None:
    structure = STRUCTURES["blocks"]
    parameters, state = make_parameters(structure), torch.randn(1, structure.dim).double()
    path = torch.randn(1, 4, 3).double() * 0.3
    native, looped = (
        torch.func.jacrev(lambda x, s=scan: solve(structure, parameters, x, state, scan=s)[0])(path)
        for scan in (Native(), Recurrent())
    )
    torch.testing.assert_close(native, looped)


@needs_library
@pytest.mark.parametrize("name", ["ragged", "dplr", "orthogonal-4", "sparse-by-density"])
def test_half_precision_under_autocast_is_computed_in_single(name: str) -> None:
    structure = STRUCTURES[name]
    parameters = make_parameters(structure, torch.float32)
    path = (torch.randn(2, 6, 3) * 0.3).bfloat16().requires_grad_()
    state = torch.randn(2, structure.dim).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        states, last = solve(structure, parameters, path, state, scan=Native())
    expected, end = solve(structure, parameters, path.float(), state.float(), scan=Recurrent())
    assert states.dtype == torch.bfloat16 and last.dtype == torch.float32
    torch.testing.assert_close(last, end)
    torch.testing.assert_close(states.float(), expected, rtol=1e-2, atol=1e-2)
    found, wanted = (torch.autograd.grad(x.sum(), path)[0] for x in (last, end))
    assert (found - wanted).norm() <= 2.0**-7 * wanted.norm()  # states on the way back are rounded
