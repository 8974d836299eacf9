"""The layers of the xlstm package, with random weights, and the same weights in slicekit's."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit.mixers.mlstm import MLSTM
from slicekit.mixers.slstm import SLSTM
from slicekit.mixers.xlstm import MLSTMBlock, SLSTMBlock

Named = dict[str, Tensor]


def from_package(path: str) -> Any:
    """A module of the package."""
    return pytest.importorskip(path, reason="xlstm is a peer; PEERS=1 make test installs it")


def unsettled(module: nn.Module) -> Any:
    """The module with noise on its parameters, so that none is zero or one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def slstm_layer(width: int, heads: int, kernel: int = 4, **options: Any) -> Any:
    layer = from_package("xlstm.blocks.slstm.layer")
    config = layer.sLSTMLayerConfig(
        embedding_dim=width,
        num_heads=heads,
        conv1d_kernel_size=kernel,
        backend="vanilla",
        dtype="float32",
        **options,
    )
    return layer.sLSTMLayer(config)


def mlstm_layer(width: int, heads: int, length: int, bias: bool = False) -> Any:
    layer = from_package("xlstm.blocks.mlstm.layer")
    config = layer.mLSTMLayerConfig(
        embedding_dim=width, num_heads=heads, context_length=length, bias=bias
    )
    return layer.mLSTMLayer(config)


def slstm_names(theirs: Named, heads: int) -> Named:
    """Weights or gradients of the package's sLSTM under our names and in our shapes."""
    kernel, bias = theirs["slstm_cell._recurrent_kernel_"], theirs["slstm_cell._bias_"]
    # The package calls the maps of i and f by each other's names.
    gates = [theirs[f"{name}gate.weight"] for name in "fizo"]
    found = {
        "gates": torch.stack(gates, 1),
        "recurrent": kernel.unflatten(1, (4, -1)).permute(0, 3, 1, 2),
        "bias": bias.view(4, heads, -1).transpose(0, 1),
        "norm.weight": theirs["group_norm.weight"],
    }
    for name in ("weight", "bias"):
        if f"conv1d.conv.{name}" in theirs:
            found[f"convolution.{name}"] = theirs[f"conv1d.conv.{name}"]
    return found


def mlstm_names(theirs: Named) -> Named:
    """Weights or gradients of the package's mLSTM under our names."""
    found = {"skip": theirs["learnable_skip"], "norm.weight": theirs["mlstm_cell.outnorm.weight"]}
    parts = {
        "up": "proj_up",
        "convolution": "conv1d.conv",
        "queries": "q_proj",
        "keys": "k_proj",
        "values": "v_proj",
        "down": "proj_down",
    }
    for kind in ("weight", "bias"):
        found |= {
            f"{ours}.{kind}": theirs[f"{part}.{kind}"]
            for ours, part in parts.items()
            if f"{part}.{kind}" in theirs
        }
        gates = [theirs[f"mlstm_cell.{gate}gate.{kind}"] for gate in "if"]
        found[f"gates.{kind}"] = torch.cat(gates)
    return found


def block_names(theirs: Named, inside: Callable[[Named], Named]) -> Named:
    """Weights or gradients of one of the package's blocks under our names."""
    names = {
        "norm.weight": "xlstm_norm.weight",
        "norm_feedforward.weight": "ffn_norm.weight",
        "feedforward.up.weight": "ffn.proj_up.weight",
        "feedforward.down.weight": "ffn.proj_down.weight",
    }
    found = {ours: theirs[name] for ours, name in names.items() if name in theirs}
    layer = {k.removeprefix("xlstm."): v for k, v in theirs.items() if k.startswith("xlstm.")}
    return found | {f"mixer.{name}": x for name, x in inside(layer).items()}


def give_weights(ours: nn.Module, translated: Mapping[str, Tensor]) -> None:
    """Load translated weights; the package keeps its norms' scales less one."""
    norms = {name for name in translated if "norm" in name}
    ours.load_state_dict({k: x + 1 if k in norms else x for k, x in translated.items()})


def assert_same(
    ours: nn.Module,
    theirs: nn.Module,
    translate: Callable[[Named], Named],
    x: Tensor,
    tolerance: float,
) -> None:
    """Equal outputs and equal gradients, of x and of every parameter, for the same weights."""
    give_weights(ours, translate({k: p.detach() for k, p in theirs.named_parameters()}))
    x = x.requires_grad_()
    y, expected = ours(x), theirs(x)
    cotangent = torch.randn_like(expected)
    mine = dict(ours.named_parameters())
    peers = dict(theirs.named_parameters())
    found = torch.autograd.grad(y, [x, *mine.values()], cotangent)
    wanted = torch.autograd.grad(expected, [x, *peers.values()], cotangent)
    gradients = dict(zip(mine, found[1:], strict=True))
    translated = translate(dict(zip(peers, wanted[1:], strict=True)))
    errors = {"output": _error(y, expected), "gradient of x": _error(found[0], wanted[0])}
    assert gradients.keys() == translated.keys()
    errors |= {name: _error(gradients[name], translated[name]) for name in gradients}
    assert max(errors.values()) <= tolerance, errors


def _error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float(((found - expected).abs().max() / expected.abs().max()).detach())


def slstm_pair(width: int, heads: int, kernel: int, dtype: torch.dtype) -> tuple[SLSTM, Any]:
    theirs = unsettled(slstm_layer(width, heads, kernel)).to(dtype)
    return SLSTM(width, heads, kernel).to(dtype), theirs


def mlstm_pair(width: int, heads: int, length: int, bias: bool, dtype: torch.dtype) -> Any:
    theirs = unsettled(mlstm_layer(width, heads, length, bias)).to(dtype)
    return MLSTM(width, heads, bias=bias).to(dtype), theirs


def block_pair(kind: str, width: int, length: int, expansion: float | None = 4 / 3) -> Any:
    """A block of ours and one of the package's, in float64, and the names of its mixer."""
    blocks = from_package("xlstm.blocks.xlstm_block")
    if kind == "mlstm":
        layer = from_package("xlstm.blocks.mlstm.layer")
        inside = layer.mLSTMLayerConfig(embedding_dim=width, context_length=length)
        config = blocks.xLSTMBlockConfig(mlstm=inside, _num_blocks=3, _block_idx=0)
        theirs = unsettled(blocks.xLSTMBlock(config)).double()
        return MLSTMBlock(width, blocks=3).double(), theirs, mlstm_names
    layer = from_package("xlstm.blocks.slstm.layer")
    inside = layer.sLSTMLayerConfig(embedding_dim=width, backend="vanilla", dtype="float32")
    feedforward = from_package("xlstm.components.feedforward")
    part = None if expansion is None else feedforward.FeedForwardConfig(proj_factor=expansion)
    config = blocks.xLSTMBlockConfig(slstm=inside, feedforward=part, _num_blocks=3, _block_idx=1)
    theirs = unsettled(blocks.xLSTMBlock(config)).double()
    ours = SLSTMBlock(width, expansion=expansion, blocks=3).double()
    return ours, theirs, lambda named: slstm_names(named, heads=4)
