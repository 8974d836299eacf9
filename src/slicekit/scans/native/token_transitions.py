"""Tokens of structures that no kernel knows, by the kernels of those that they make transitions of.

Torch makes one transition for each token, M_v. Where these are blocks, or diagonal plus low rank,
M_v - I are the matrices of a block-diagonal or joint DPLR structure with a channel for each token,
and a step's increment is the unit vector of its token. A product with unit vectors is a copy, so
nothing but the recurrence is left to the kernel, and gradients go through the table once.
"""

import torch

from slicekit.dispatch import autocast_off
from slicekit.flows import Euler
from slicekit.native import available
from slicekit.native.panels import MOST_RANK
from slicekit.scans.native.policy import why_not
from slicekit.scans.sources import FromTable
from slicekit.structures import BlockTransition, JointDPLR, LowRankTransition
from slicekit.structures.block_diagonal import Blocks

MOST_TOKENS = 512
"""Rows of a table up to which the product with unit vectors is no matter."""


def with_kernel(source: FromTable) -> FromTable:
    """A source of the same transitions that kernels take, or the same source where there is none.

    Args:
        source: of tokens, on any device.
    """
    rows = source.path.shape[0]
    if torch.compiler.is_compiling() or rows > min(MOST_TOKENS, source.index.numel()):
        return source
    if not available() or not source.path.is_cpu or not why_not(source, False):
        return source
    with autocast_off(source.path.device):
        made = source.rows()
        tokens = torch.eye(rows, dtype=source.path.dtype)
        if type(made) is BlockTransition:
            unit = torch.eye(made.blocks.shape[-1], dtype=made.blocks.dtype)
            blocks = Blocks(made.dim, made.blocks.shape[-1])
            return FromTable(blocks, Euler(), {"blocks": made.blocks - unit}, tokens, source.index)
        if type(made) is LowRankTransition and made.left.shape[-1] <= min(made.dim, MOST_RANK):
            factors = {"diagonal": made.diagonal - 1, "left": made.left, "right": made.right}
            joint = JointDPLR(made.dim, made.left.shape[-1])
            return FromTable(joint, Euler(), factors, tokens, source.index)
    return source
