"""Problems of any size for the native scan, and where it has no kernel."""

import pytest
import torch
from torch import Tensor

from slicekit import Native, Recurrent
from slicekit.flows import Flow
from slicekit.native import available, reason
from slicekit.scans import Scan
from slicekit.structures import Structure
from tests.market import NO_KERNEL
from tests.scans.problems import Answers, Problem, Setting, assert_near, with_gradients

needs_library = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")
PLAIN = Setting()
DRIVEN = Setting(matrix=True, inputs="dense")
TOKENS = Setting(tokens=True)
PROJECTIVE = Setting(projective=True)
each_setting = pytest.mark.parametrize(
    "setting", [PLAIN, DRIVEN, TOKENS, PROJECTIVE], ids=["plain", "driven", "tokens", "projective"]
)


def make(
    structure: Structure,
    setting: Setting = PLAIN,
    *,
    batch: int = 3,
    length: int = 9,
    channels: int = 3,
    columns: int = 3,
    vocabulary: int = 4,
) -> Problem:
    """A problem of any size, in float64 that float32 can hold, whose states stay of size one."""
    source = torch.Generator().manual_seed(5)

    def randn(*shape: int, std: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=source) * std).double()

    dim, std = structure.dim, (channels * max(length, 9)) ** -0.5
    made = structure.init(channels, source)
    leaves = {
        f"parameters.{k}": x.double() if x.is_floating_point() else x for k, x in made.items()
    }
    shape = (vocabulary,) if setting.tokens else (batch, length)
    leaves["path"] = randn(*shape, channels, std=std).float().double()
    tail = (columns,) if setting.matrix else ()
    leaves["initial_state"] = randn(batch, dim, *tail)
    if setting.inputs == "dense":
        leaves["inputs"] = randn(batch, length, dim, *tail)
    if setting.inputs == "outer":
        leaves["left"], leaves["right"] = randn(batch, length, dim), randn(batch, length, columns)
    index = torch.randint(-1, vocabulary, (batch, length), generator=source)
    return Problem(structure, setting, leaves, index, None)


def answers(problem: Problem, flow: Flow | None = None, scan: Scan | None = None) -> Answers:
    """Values and gradients, by Native() unless another scan is named."""
    chosen = scan or Native()
    return with_gradients(lambda x: problem.solve(x, flow, chosen), problem.leaves)


def assert_is_the_loop(problem: Problem, flow: Flow | None = None) -> None:
    """Values and gradients in both precisions are those of the loop in float64."""
    looped = answers(problem, flow, Recurrent())
    assert_near(answers(problem, flow), looped, 1e-10)
    assert_near(answers(problem.to(torch.float32), flow), looped, 1e-4)


def assert_same(found: Answers, expected: Answers) -> None:
    """To the last bit."""
    for name, x in expected.items():
        assert torch.equal(found[name], x), name


OPEN = ("dplr", "joint-dplr", "sparse-by-density", "sparse-by-epsilon", "hadamard-8")
OPEN += ("unbounded-hadamard-32", "open-sum")
KINDS = {"hadamard-8": "WalshHadamard", "unbounded-hadamard-32": "WalshHadamard"}
KINDS |= {"dplr": "DPLR", "open-sum": "DPLR", "joint-dplr": "JointDPLR"}


def missing(name: str, flow_name: str) -> str:
    """What a refusal has to name; empty where there is a kernel."""
    if name in NO_KERNEL:
        return f"no kernel for .*{NO_KERNEL[name]}"
    if flow_name == "exponential" and name in OPEN:
        return f"no kernel for the exponential flow of {KINDS.get(name, 'Sparse')}"
    return ""
