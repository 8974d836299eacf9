"""Layers of the delta-rule family written out, element by element and head by head.

States are S (values, keys), as in the papers. Nothing is shared with the mixers but their weights.
"""

import torch
from torch import Tensor

from slicekit.mixers.heads import MatrixMixer


def filtered(mixer: MatrixMixer, x: Tensor, activated: bool = True) -> tuple[Tensor, ...]:
    """Queries, keys and values: three maps, three filters, SiLU."""
    features = mixer.features
    mapped = []
    weights = features.map.weight.split(features.sizes)
    for i, weight in enumerate(weights):
        y = x @ weight.T
        convolution = features.convolution
        if convolution is not None:
            taps = convolution.weight.split(features.sizes)[i][:, 0]
            rows = []
            for t in range(x.shape[1]):
                row = torch.zeros_like(y[:, t])
                for j in range(taps.shape[1]):
                    place = t - taps.shape[1] + 1 + j
                    row = row + (taps[:, j] * y[:, place] if place >= 0 else 0)
                if convolution.bias is not None:
                    row = row + convolution.bias.split(features.sizes)[i]
                rows.append(row)
            y = torch.stack(rows, 1)
        mapped.append(y * torch.sigmoid(y) if activated else y)
    return tuple(mapped)


def normalised(x: Tensor) -> Tensor:
    return x / torch.sqrt((x**2).sum(-1, keepdim=True) + 1e-6)


def finished(mixer: MatrixMixer, read: list[list[Tensor]], x: Tensor) -> Tensor:
    """RMS norm of each head, gate, output map; read[t][h] is (batch, values)."""
    rows = []
    for t, heads in enumerate(read):
        parts = []
        for h, o in enumerate(heads):
            o = o / torch.sqrt((o**2).mean(-1, keepdim=True) + mixer.norm.eps) * mixer.norm.weight
            if mixer.output_gate is not None:
                here = slice(h * mixer.values, (h + 1) * mixer.values)
                g = x[:, t] @ mixer.output_gate.weight[here].T
                o = o * g * torch.sigmoid(g)
            parts.append(o)
        rows.append(torch.cat(parts, -1) @ mixer.output.weight.T)
    return torch.stack(rows, 1)


def delta_layer(
    mixer: MatrixMixer, x: Tensor, beta: Tensor, decay: Tensor | None, rank: int = 1
) -> Tensor:
    """A whole layer of delta steps.

    Args:
        mixer: whose weights to use.
        x: (batch, length, width).
        beta: (batch, length, rank * heads), the heads of the first factor first.
        decay: (batch, length, heads), or None.
        rank: delta steps of an element.
    """
    heads, dim, columns = mixer.heads, mixer.keys, mixer.values
    queries, keys, values = filtered(mixer, x)
    states = [x.new_zeros(x.shape[0], columns, dim) for _ in range(heads)]
    read = []
    for t in range(x.shape[1]):
        read.append([])
        for h in range(heads):
            s = states[h]
            if decay is not None:
                s = decay[:, t, h, None, None] * s
            for j in range(rank):
                place = j * heads + h
                k = normalised(keys[:, t, place * dim : (place + 1) * dim])
                v = values[:, t, place * columns : (place + 1) * columns]
                b = beta[:, t, place, None]
                s = s + torch.einsum("bv,bk->bvk", b * (v - torch.einsum("bvk,bk->bv", s, k)), k)
            q = normalised(queries[:, t, h * dim : (h + 1) * dim]) / dim**0.5
            read[-1].append(torch.einsum("bvk,bk->bv", s, q))
            states[h] = s
    return finished(mixer, read, x)


def mamba_decay(mixer, x: Tensor) -> Tensor:
    """(batch, length, heads)."""
    gates = mixer.decay
    steps = torch.log1p(torch.exp(x @ gates.map.weight.T + gates.step_bias))
    return torch.exp(-torch.exp(gates.log_rate) * steps)


def leaves_of(mixer: torch.nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The input and all parameters."""
    return {"x": x, **dict(mixer.named_parameters())}
