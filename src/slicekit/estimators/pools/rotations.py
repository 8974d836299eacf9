"""Means over parts of the series of many damped rotations, which are linear in the series.

    z_t = Σ_k h_k u_{t-k},    h_k = r^k cos(ωk + φ),    u_t = Σ_c B_c x_t^c

Since sums over parts commute with filters, only the sums of the series at each delay are kept.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicekit.checks import check_shape
from slicekit.estimators.pools.base import (
    Features,
    Memory,
    Parts,
    Pool,
    check_floats,
    check_level,
    draw_mixes,
    following,
)

MEMORIES = (0.7, 4.0)
"""Shortest and longest time in which a rotation is damped by e, in elements of its level."""


@dataclass(frozen=True, eq=False)
class RotationPool(Pool):
    """Damped rotations on one level of the pyramid.

    Args:
        level: of the pyramid.
        length: of the longest path in training.
        parts: of it.
        responses: (rotations, delays), h.
        mixes: (rotations, channels), B.
    """

    level: int
    length: int
    parts: int
    responses: Tensor
    mixes: Tensor

    def __post_init__(self) -> None:
        """Check what a file may say."""
        check_level(self.level, length=self.length, parts=self.parts)
        check_shape("responses", self.responses, (len(self.mixes), "delays"))
        check_floats(self.responses, self.mixes)

    @classmethod
    def draw(
        cls,
        level: int,
        length: int,
        parts: int,
        channels: int,
        random: np.random.Generator,
        count: int = 32,
        delays: int = 24,
    ) -> "RotationPool":
        """Random rotations."""
        memory = np.exp(random.uniform(np.log(MEMORIES[0]), np.log(MEMORIES[1]), (count, 1)))
        speed, phase = (random.uniform(0, top, (count, 1)) for top in (np.pi, 2 * np.pi))
        k = np.arange(delays)
        responses = np.exp(-k / memory) * np.cos(speed * k + phase)
        responses /= np.abs(responses).sum(1, keepdims=True)
        mixes = draw_mixes(count, channels, random)
        return cls(level, length, parts, torch.from_numpy(responses.astype(np.float32)), mixes)

    def _parts(self) -> Parts:
        return Parts(self.parts, self.length, 2**self.level)

    def whole(self, x: Tensor, lengths: Tensor, threads: int) -> Memory:
        """The sums over whole series."""
        first, last = (b[:, None, :, None] for b in self._parts().bounds(lengths))
        totals = torch.nn.functional.pad(x.double().cumsum(-1), (1, 0))
        delay = torch.arange(self.responses.shape[1])
        before = (delay - first).clamp_min(0) - (delay - last).clamp_min(0)
        shape = (len(x), x.shape[1], self.parts, len(delay))

        def up_to(bound: Tensor) -> Tensor:
            places = (bound - delay).clamp_min(0).expand(shape).flatten(2)
            return totals.gather(-1, places).reshape(shape)

        sums = up_to(last) - up_to(first) + before * x[:, :, :1, None].double()
        return {"sums": sums, "count": lengths}

    def step(self, memory: Memory | None, x: Tensor) -> Memory:
        """The sums with one more element."""
        delays = self.responses.shape[1]
        if memory is None:
            shape = (*x.shape, self.parts, delays)
            memory = {
                "sums": torch.zeros(shape, dtype=torch.float64),
                "count": torch.zeros(len(x), dtype=torch.int64),
                "past": x.unsqueeze(-1).repeat(1, 1, delays),
            }
        past = following(memory["past"], x)
        sums = memory["sums"].clone()
        sums[:, :, self._parts().now(int(memory["count"][0]))] += past.flip(-1)
        return {"sums": sums, "count": memory["count"] + 1, "past": past}

    def features(self, memory: Memory) -> Features:
        """The rotations' means over the parts."""
        means = self._parts().means(memory["sums"].mT, memory["count"]).mT.float()
        turned = torch.einsum("ncpk,jk->ncpj", means, self.responses)
        return {"rotations": torch.einsum("ncpj,jc->njp", turned, self.mixes).flatten(1)}
