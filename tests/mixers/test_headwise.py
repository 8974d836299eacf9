"""Maps and norms of each head by itself."""

import pytest
import torch

from slicekit.mixers.headwise import HeadLayerNorm, HeadLinear
from tests.mixers.agreement import assert_agrees


@pytest.mark.parametrize("width, heads", [(64, 16), (12, 3), (40, 10), (64, 1), (96, 48), (7, 7)])
def test_a_head_linear_map_is_a_block_diagonal_matrix(width: int, heads: int) -> None:
    torch.manual_seed(0)
    layer = HeadLinear(width, heads, bias=True).double()
    with torch.no_grad():
        layer.bias.normal_()  # type: ignore[union-attr]
    x = torch.randn(2, 5, width, dtype=torch.float64, requires_grad=True)
    assert_agrees(
        lambda: [layer(x)],
        lambda: [x @ torch.block_diag(*layer.weight).mT + layer.bias],
        {"x": x, **dict(layer.named_parameters())},
        1e-13,
    )


def test_a_head_norm_is_a_group_norm() -> None:
    torch.manual_seed(0)
    norm = HeadLayerNorm(3, 4).double()
    with torch.no_grad():
        norm.weight.normal_()
    x = torch.randn(2, 5, 3, 4, dtype=torch.float64, requires_grad=True)

    def grouped() -> list[torch.Tensor]:
        flat = torch.nn.functional.group_norm(x.reshape(10, 12), 3, norm.weight, eps=norm.eps)
        return [flat.view(x.shape)]

    assert_agrees(lambda: [norm(x)], grouped, {"x": x, "weight": norm.weight}, 1e-12)
