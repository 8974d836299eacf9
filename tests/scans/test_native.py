"""The native scan: where there is a kernel, who chooses it, and that it is the loop to rounding.

What it computes at the sizes of the market is compared with the dense loop in test_agreement.py;
here are the sizes at which kernels go wrong, and what surrounds them: threads, memory, transforms.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import slicekit.scans.chunked.policy
import slicekit.scans.native.fused
import slicekit.scans.native.policy
from slicekit import (
    DPLR,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    Euler,
    Exponential,
    JointDPLR,
    Native,
    Orthogonal,
    Projective,
    Recurrent,
    SLiCE,
    Sparse,
    Tabulated,
    WalshHadamard,
    propagate,
    solve,
)
from slicekit.flows import Flow
from slicekit.native import available, reason
from slicekit.scans import Scan
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    RotationTransition,
    Structure,
    SumTransition,
    Transition,
)
from tests.market import (
    FLOWS,
    NO_KERNEL,
    STRUCTURES,
    TINY,
    every_structure,
    every_structure_and_flow,
    every_tiny_structure,
    make_parameters,
)
from tests.native.increment_scans import poisoned_memory, threads
from tests.scans.problems import (
    SETTINGS,
    Answers,
    Problem,
    Setting,
    assert_near,
    with_gradients,
)

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


@pytest.mark.skipif(os.environ.get("SLICEKIT_NATIVE") == "off", reason="switched off")
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_where_there_is_a_compiler_there_is_a_library() -> None:
    """Without a library all other tests of kernels would pass by being skipped."""
    if "SLICEKIT_NATIVE" not in os.environ:
        try:
            metadata.distribution("slicekit")
        except metadata.PackageNotFoundError:
            pytest.skip("slicekit is not installed, and SLICEKIT_NATIVE names no library")
    assert available(), reason()


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


@needs_library
@pytest.mark.parametrize(
    "setting", ["affine-padded", "tokens", "projective", "projective-matrix-tokens-padded"]
)
@every_structure_and_flow
def test_where_there_is_no_kernel_it_says_so_and_another_scan_is_chosen(
    name: str, flow_name: str, setting: str
) -> None:
    problem, flow = Problem.make(STRUCTURES[name], SETTINGS[setting]), FLOWS[flow_name]
    lacking = missing(name, flow_name)
    if not lacking:
        problem.solve(problem.leaves, flow, Native())
        return
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}.*leave scan=None"):
        problem.solve(problem.leaves, flow, Native())
    chosen = with_gradients(lambda x: problem.solve(x, flow, None), problem.leaves)
    dense = with_gradients(lambda x: problem.reference(x, flow), problem.leaves)
    assert_near(chosen, dense, 1e-9)


@needs_library
@pytest.mark.parametrize(
    ("structure", "flow", "lacking"),
    [
        (BlockDiagonal(130, 65), Exponential(), "blocks of 65 rows.*at most 64"),
        (JointDPLR(257, 257), Euler(), "rank=257.*at most 256"),
        (BlockDiagonal(blocks=[1, 2] * 129), Euler(), "more than 256 parts"),
    ],
    ids=["block", "rank", "parts"],
)
def test_sizes_beyond_the_kernels_are_refused_and_left_to_another_scan(
    structure: Structure, flow: Flow, lacking: str
) -> None:
    problem = make(structure, length=2)
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}"):
        problem.solve(problem.leaves, flow, Native())
    chosen = with_gradients(lambda x: problem.solve(x, flow, None), problem.leaves)
    assert_near(chosen, answers(problem, flow, Recurrent()), 1e-9)


@needs_library
def test_blocks_and_ranks_at_the_limit_are_taken() -> None:
    assert_is_the_loop(make(BlockDiagonal(64, 64), length=2), Exponential())
    assert_is_the_loop(make(JointDPLR(256, 256), length=2))
    assert_is_the_loop(make(BlockDiagonal(blocks=[1, 2] * 128), length=2))


def given_transition(kind: str, dtype: torch.dtype = torch.float64) -> Transition:
    """Transitions (2, 5) of one kind, of about unit norm."""

    def randn(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.randn(2, 5, *shape, dtype=dtype) * 0.5

    structure = DPLR(4, 1)
    complex_ = torch.complex128
    made: dict[str, Callable[[], Transition]] = {
        "diagonal": lambda: DiagonalTransition(randn(4)),
        "complex diagonal": lambda: DiagonalTransition(randn(4, dtype=complex_)),
        "blocks": lambda: BlockTransition(randn(2, 2, 2)),
        "low rank": lambda: LowRankTransition(randn(4), randn(4, 2), randn(4, 2)),
        "sum": lambda: SumTransition(
            (DiagonalTransition(randn(1)), BlockTransition(randn(1, 3, 3)))
        ),
        "rotations": lambda: RotationTransition(torch.linalg.qr(randn(2, 2, 2))[0]),
        "complex blocks": lambda: BlockTransition(randn(2, 2, 2, dtype=complex_)),
        "complex low rank": lambda: LowRankTransition(
            randn(4, dtype=complex_), randn(4, 2, dtype=complex_), randn(4, 2, dtype=complex_)
        ),
        "actions": lambda: structure.combine(make_parameters(structure), randn(3)).euler(),
    }
    return made[kind]()


def propagated(kind: str, asked: str, scan: Scan | None) -> Answers:
    """Values and gradients of `propagate` for a plain state, a readout or a projective state."""
    torch.manual_seed(1)
    transition = given_transition(kind)
    dtype = transition.tensors()[0].dtype
    state, query = torch.randn(2, 4, dtype=dtype), torch.randn(2, 5, 4, dtype=dtype)
    count = len(transition.tensors())
    leaves = {str(i): x for i, x in enumerate((*transition.tensors(), state, query))}
    leaves = {k: x.requires_grad_() for k, x in leaves.items()}
    *tensors, state, query = leaves.values()
    moved = transition.with_tensors(tuple(tensors[:count]))
    found: Answers
    if asked == "projective":
        states, last = propagate(moved, Projective.of(state), scan=scan)
        found = {"direction": states.direction, "log_norm": states.log_norm.real}
        found |= {"last": last.direction}
    else:
        readout = query if asked == "readout" else None
        outputs, last = propagate(moved, state, readout=readout, scan=scan)
        found = {"outputs": outputs, "last": last}
    total = torch.stack([(x.abs() * x.detach().abs().cos()).sum() for x in found.values()]).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    named = {f"gradient of {k}": g for k, g in zip(leaves, gradients, strict=True)}
    parts = found | named
    return {k: torch.view_as_real(x) if x.is_complex() else x for k, x in parts.items()}


COUPLED = "couples the parts of a direct sum"
GIVEN = [
    *(
        (kind, asked, "")
        for kind in ("diagonal", "complex diagonal", "blocks", "low rank")
        for asked in ("states", "readout", "projective")
    ),
    ("sum", "states", ""),
    ("sum", "readout", COUPLED),
    ("sum", "projective", ""),
    ("rotations", "states", "no kernel for RotationTransition"),
    ("actions", "states", "no kernel for EulerAction"),
    ("complex blocks", "states", "no kernel for BlockTransition of torch.complex128"),
    ("complex low rank", "states", "no kernel for LowRankTransition of torch.complex128"),
]


@needs_library
@pytest.mark.parametrize(("kind", "asked", "lacking"), GIVEN)
def test_given_transitions_run_on_kernels_or_are_refused(
    kind: str, asked: str, lacking: str
) -> None:
    expected = propagated(kind, asked, Recurrent())
    assert_near(propagated(kind, asked, None), expected, 1e-10)
    if not lacking:
        assert_near(propagated(kind, asked, Native()), expected, 1e-10)
        return
    with pytest.raises(ValueError, match=rf"^scan=Native\(\): .*{lacking}"):
        propagated(kind, asked, Native())


@needs_library
@pytest.mark.parametrize("scan", [Native(), Chunked(), Recurrent()], ids=repr)
def test_log_norms_of_complex_states_are_real(scan: Scan) -> None:
    transition = given_transition("complex diagonal")
    start = Projective.of(torch.randn(2, 4, dtype=torch.complex128))
    states, last = propagate(transition, start, scan=scan)
    assert states.log_norm.dtype == last.log_norm.dtype == torch.float64


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that run, in order."""
    used: list[str] = []
    run_opaque = slicekit.scans.native.policy.run_opaque

    def spy(engine: str, *arguments: Any) -> Any:
        used.append(engine)
        return run_opaque(engine, *arguments)

    for module in (slicekit.scans.native.policy, slicekit.scans.chunked.policy):
        monkeypatch.setattr(module, "run_opaque", spy)
    run_at_once = slicekit.scans.native.fused.run_at_once

    def spy_at_once(*arguments: Any) -> Any:
        used.append("native")
        return run_at_once(*arguments)

    monkeypatch.setattr(slicekit.scans.native.fused, "run_at_once", spy_at_once)
    return used


@needs_library
@pytest.mark.parametrize("setting", ["plain", "tokens-outer-padded", "projective"])
@every_structure_and_flow
def test_solve_chooses_the_kernels_wherever_there_are_some(
    name: str, flow_name: str, setting: str, engines: list[str]
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    problem.solve(problem.leaves, FLOWS[flow_name], None)
    lacking = missing(name, flow_name)
    if name in NO_KERNEL and SETTINGS[setting].tokens:  # whose transitions are blocks or low rank
        lacking = (name, flow_name) == ("householder", "exponential")
    assert engines == ["chunked" if lacking else "native"]


@needs_library
@pytest.mark.parametrize(("kind", "asked", "lacking"), GIVEN)
def test_propagate_chooses_the_kernels_wherever_there_are_some(
    kind: str, asked: str, lacking: str, engines: list[str]
) -> None:
    propagated(kind, asked, None)
    otherwise = [] if kind == "actions" else ["chunked"]
    assert engines == (otherwise if lacking else ["native"])


WITHOUT = """
import warnings
import torch
import slicekit.scans.chunked.policy
from slicekit import Dense, Native, propagate, solve
from slicekit.structures import DiagonalTransition

engines, run = [], slicekit.scans.chunked.policy.run_opaque
def spy(engine, *arguments):
    engines.append(engine)
    return run(engine, *arguments)
slicekit.scans.chunked.policy.run_opaque = spy

structure = Dense(4)
parameters, path, state = structure.init(3), torch.randn(2, 5, 3), torch.randn(2, 4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        solve(structure, parameters, path, state)
        propagate(DiagonalTransition(torch.rand(2, 5, 4)), state)
try:
    solve(structure, parameters, path, state, scan=Native())
except ValueError as error:
    print(error)
print(*engines)
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
"""


def run_without(wish: str) -> tuple[str, str, list[str]]:
    """What Native() says, the engines and the warnings of a process that has no library."""
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=os.environ | {"SLICEKIT_NATIVE": wish},
        capture_output=True,
        text=True,
        check=True,
    )
    refusal, engines, *warned = shown.stdout.splitlines()
    return refusal, engines, [line for line in warned if line]


ADVICE = "leave scan=None or use Chunked()"


def test_switched_off_it_gives_way_in_silence() -> None:
    refusal, engines, warned = run_without("off")
    assert refusal == f"scan=Native(): switched off by SLICEKIT_NATIVE=off; {ADVICE}"
    assert engines.split() == ["chunked"] * 6
    assert warned == []


def test_without_a_library_it_gives_way_with_one_warning() -> None:
    refusal, engines, warned = run_without("/nonexistent/library.so")
    reason = "SLICEKIT_NATIVE=/nonexistent/library.so is no file"
    assert refusal == f"scan=Native(): {reason}; {ADVICE}"
    assert engines.split() == ["chunked"] * 6
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning: slicekit runs without its C++ kernels")


BLOCKS = [(1, 1), (1, 7), (1, 17), (1, 32), (2, 1), (2, 5), (3, 3), (4, 5), (5, 2), (5, 5), (7, 3)]
BLOCKS += [(8, 1), (8, 3), (9, 1), (9, 3), (15, 2), (16, 1), (17, 3), (31, 1), (33, 2)]


@needs_library
@each_setting
@pytest.mark.parametrize(("block", "count"), BLOCKS)
def test_blocks_of_any_size_and_number_are_the_loop(
    block: int, count: int, setting: Setting
) -> None:
    assert_is_the_loop(make(BlockDiagonal(block * count, block), setting))


@needs_library
@each_setting
@pytest.mark.parametrize(("block", "count"), [(1, 5), (2, 3), (3, 5), (4, 4), (8, 3), (17, 2)])
def test_exponentials_of_blocks_of_any_size_are_the_loop(
    block: int, count: int, setting: Setting
) -> None:
    assert_is_the_loop(make(BlockDiagonal(block * count, block), setting), Exponential())


@needs_library
@each_setting
@pytest.mark.parametrize(("block", "count"), [(2, 1), (2, 9), (3, 5), (4, 3), (5, 7), (9, 2)])
def test_rotations_of_any_size_are_the_loop(block: int, count: int, setting: Setting) -> None:
    assert_is_the_loop(make(Orthogonal(block * count, block), setting, length=20))


@needs_library
@each_setting
@pytest.mark.parametrize(
    "sizes", [[1], [3, 1, 2], [5, 5, 1, 1, 1, 17], [16, 8, 4, 2, 1], [2, 31, 2]], ids=str
)
def test_ragged_blocks_are_the_loop(sizes: list[int], setting: Setting) -> None:
    for flow in (Euler(), Exponential()):
        assert_is_the_loop(make(BlockDiagonal(blocks=sizes), setting), flow)


@needs_library
@each_setting
@pytest.mark.parametrize(
    ("dim", "rank"), [(1, 1), (2, 2), (7, 3), (13, 4), (17, 5), (8, 1), (31, 9)]
)
def test_low_ranks_of_any_size_are_the_loop(dim: int, rank: int, setting: Setting) -> None:
    for structure in (JointDPLR(dim, rank), DPLR(dim, rank)):
        assert_is_the_loop(make(structure, setting))


@needs_library
@each_setting
@pytest.mark.parametrize("dim", [1, 2, 4, 8, 16, 32, 64, 128])
def test_walsh_hadamard_of_any_size_is_the_loop(dim: int, setting: Setting) -> None:
    for bounded in (False, True):
        assert_is_the_loop(make(WalshHadamard(dim, bounded=bounded), setting))


@needs_library
@each_setting
@pytest.mark.parametrize("dim", [1, 2, 7, 17, 31])
def test_sparse_and_partly_dense_matrices_of_any_size_are_the_loop(
    dim: int, setting: Setting
) -> None:
    assert_is_the_loop(make(Sparse(dim, density=0.3), setting))
    assert_is_the_loop(make(DiagonalDense(dim + 5, 5), setting))


VARIED: dict[str, Structure] = {
    "diagonal": Diagonal(11),
    "ragged": BlockDiagonal(blocks=[3, 3, 7, 1]),
    "dense": Dense(33),
    "joint-dplr": JointDPLR(13, 2),
    "dplr": DPLR(13, 2),
    "hadamard": WalshHadamard(16),
    "sparse": Sparse(11, density=0.3),
    "orthogonal-2": Orthogonal(6, 2),
    "orthogonal-3": Orthogonal(15, 3),
    "sum": DirectSum(Dense(5), Sparse(4, density=0.5), JointDPLR(3, 1), Diagonal(2), DPLR(5, 2)),
    "rotated-sum": DirectSum(Dense(2), Orthogonal(4, 2), Diagonal(3), Orthogonal(5, 5)),
}
each_varied = pytest.mark.parametrize("name", VARIED)


@needs_library
@pytest.mark.parametrize("channels", [1, 2, 3, 15, 16, 17, 20, 35])
@pytest.mark.parametrize("name", ["ragged", "joint-dplr", "orthogonal-3", "sum"])
def test_any_number_of_channels_is_the_loop(name: str, channels: int) -> None:
    for setting in (DRIVEN, TOKENS):
        assert_is_the_loop(make(VARIED[name], setting, channels=channels))


@needs_library
@each_setting
@pytest.mark.parametrize("length", [1, 97, 200])
@each_varied
def test_any_length_is_the_loop(name: str, length: int, setting: Setting) -> None:
    problem = make(VARIED[name], setting, batch=1, length=length)
    assert_near(answers(problem), answers(problem, None, Recurrent()), 1e-10)


@needs_library
@pytest.mark.parametrize("length", [2, 47, 49, 63, 64, 65, 95, 96, 130])
@pytest.mark.parametrize(
    "structure", [BlockDiagonal(blocks=[3, 3, 7]), Dense(65), Orthogonal(6, 2)], ids=repr
)
def test_lengths_around_those_of_chunks_are_the_loop(structure: Structure, length: int) -> None:
    problem = make(structure, PROJECTIVE, batch=2, length=length)
    assert_near(answers(problem), answers(problem, None, Recurrent()), 1e-10)


@needs_library
@each_setting
@pytest.mark.parametrize("batch", [0, 1, 8, 17, 33])
@each_varied
def test_any_batch_is_the_loop(name: str, batch: int, setting: Setting) -> None:
    problem = make(VARIED[name], setting, batch=batch, length=5)
    found = answers(problem)
    assert_near(found, answers(problem, None, Recurrent()), 1e-10)
    if batch == 0:
        assert not any(x.any() for x in found.values())


@needs_library
@pytest.mark.parametrize("columns", [1, 2, 17])
@each_varied
def test_any_number_of_columns_is_the_loop(name: str, columns: int) -> None:
    outer = Setting(matrix=True, inputs="outer", tokens=True)
    coupled = Setting(matrix=True, projective=True)
    for setting in (DRIVEN, outer, coupled):
        assert_is_the_loop(make(VARIED[name], setting, columns=columns, length=20))


@needs_library
@pytest.mark.parametrize("vocabulary", [1, 48, 97])
@each_varied
def test_any_vocabulary_is_the_loop(name: str, vocabulary: int) -> None:
    assert_is_the_loop(make(VARIED[name], TOKENS, vocabulary=vocabulary, length=30))


def parts() -> st.SearchStrategy[Structure]:
    """Any part of a direct sum."""
    few, more = st.integers(1, 5), st.integers(1, 18)
    return st.one_of(
        st.builds(Diagonal, more),
        st.builds(lambda b, k: BlockDiagonal(b * k, b), more, few),
        st.builds(lambda b, k: Orthogonal((b + 1) * k, b + 1), few, few),
        st.builds(lambda r, n: JointDPLR(r + n, r), few, more),
        st.builds(lambda n: WalshHadamard(2**n), few),
        st.builds(lambda r, n: DPLR(r + n, r), few, more),
        st.builds(lambda dim: Sparse(dim, density=0.3), more),
    )


@needs_library
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(
    structures=st.lists(parts(), min_size=1, max_size=4),
    setting=st.sampled_from([PLAIN, DRIVEN, TOKENS, Setting(inputs="dense", tokens=True)]),
    batch=st.integers(1, 9),
    length=st.integers(1, 70),
    channels=st.integers(1, 19),
    count=st.sampled_from([1, 1, 2, 5]),
)
def test_any_sum_of_parts_is_the_loop(
    structures: list[Structure],
    setting: Setting,
    batch: int,
    length: int,
    channels: int,
    count: int,
) -> None:
    sizes = {"batch": batch, "length": length, "channels": channels}
    problem = make(DirectSum(*structures), setting, **sizes)
    with threads(count):
        found = answers(problem)
    assert_near(found, answers(problem, None, Recurrent()), 1e-10)


@needs_library
@pytest.mark.parametrize("setting", ["affine-padded", "tokens", "projective", "outer"])
@every_structure_and_flow
def test_transitions_made_again_change_nothing(name: str, flow_name: str, setting: str) -> None:
    if missing(name, flow_name):
        pytest.skip("there is no kernel")
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting], length=50, scale=0.05)
    flow = FLOWS[flow_name]
    kept = answers(problem, flow)
    assert_near(answers(problem, flow, Native(keep=0)), kept, 1e-12)


def transposed(x: Tensor) -> Tensor:
    """The same numbers, with the first two axes exchanged in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.ndim > 1 else x


def strided(x: Tensor) -> Tensor:
    """The same numbers, every second one of a larger tensor."""
    return torch.stack([x, torch.full_like(x, 7)], -1)[..., 0]


@needs_library
@pytest.mark.parametrize("view", [transposed, strided], ids=["transposed", "strided"])
@pytest.mark.parametrize("setting", ["affine", "matrix", "outer", "tokens", "projective"])
@every_structure
def test_views_are_read_as_what_they_show(
    name: str, setting: str, view: Callable[[Tensor], Tensor]
) -> None:
    if missing(name, "natural"):
        pytest.skip("there is no kernel")
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    index = view(problem.index)

    def seen(leaves: dict[str, Tensor]) -> Answers:
        looks = Problem(problem.structure, problem.setting, leaves, index, None)
        shown = {k: view(x) for k, x in leaves.items()}
        # Viewed again, the answers send views of gradients back.
        return {k: view(x) for k, x in looks.solve(shown, None, Native()).items()}

    assert_near(with_gradients(seen, problem.leaves), answers(problem), 1e-12)


@needs_library
@pytest.mark.parametrize("tokens", [False, True], ids=["increments", "tokens"])
@every_structure
def test_expanded_tensors_and_gradients_are_read_as_what_they_show(name: str, tokens: bool) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    structure, batch, length = STRUCTURES[name], 3, 5
    parameters = make_parameters(structure)
    increment, state, u = (
        torch.randn(n).double().requires_grad_() for n in (3, structure.dim, structure.dim)
    )
    index = torch.tensor([[0, -1, 0, 0, 0]]).expand(batch, length)

    def gradients(scan: Scan, copy: Callable[[Tensor], Tensor]) -> Answers:
        path: Tensor | Tabulated = copy(0.3 * increment.expand(batch, length, 3))
        path = Tabulated(0.3 * increment.expand(1, 3), copy(index)) if tokens else path
        start, driven = copy(state.expand(batch, -1)), copy(u.expand(batch, length, -1))
        states, last = solve(structure, parameters, path, start, None, scan, driven)
        found = torch.autograd.grad(states.sum() + last.sum(), (increment, state, u))
        named = zip(("increment", "state", "inputs"), found, strict=True)
        return {"states": states.detach(), "last": last.detach()} | dict(named)

    expected = gradients(Recurrent(), Tensor.contiguous)
    assert_near(gradients(Native(), lambda x: x), expected, 1e-10)


@needs_library
def test_signs_that_are_yet_to_be_applied_are_applied() -> None:
    problem = make(Dense(5), DRIVEN)
    negative = {k: torch.complex(x, -x).conj().imag for k, x in problem.leaves.items()}
    assert all(x.is_neg() for x in negative.values())
    assert_near(
        problem.solve(negative, None, Native()), problem.solve(problem.leaves, None, Native()), 0
    )


SPLIT: dict[str, tuple[Structure, Flow | None]] = {
    "blocks": (BlockDiagonal(40, 5), None),
    "ragged": (BlockDiagonal(blocks=[17, 3, 3, 3, 1, 1, 1, 1]), None),
    "diagonal": (Diagonal(37), None),
    "exponential": (BlockDiagonal(36, 3), Exponential()),
    "orthogonal": (Orthogonal(40, 4), None),
    "joint-dplr": (JointDPLR(19, 2), None),
    "dplr": (DPLR(19, 2), None),
    "hadamard": (WalshHadamard(32), None),
    "sparse": (Sparse(19, density=0.3), None),
    "small-and-large": (BlockDiagonal(blocks=[2] * 60 + [17]), Exponential()),
    "dense-and-orthogonal": (DirectSum(Dense(16), Orthogonal(16, 4)), None),
}
each_split = pytest.mark.parametrize("name", SPLIT)


@needs_library
@pytest.mark.parametrize("setting", [PLAIN, DRIVEN, TOKENS], ids=["plain", "driven", "tokens"])
@pytest.mark.parametrize("batch", [1, 2, 7])
@each_split
def test_threads_change_nothing_but_rounding(name: str, batch: int, setting: Setting) -> None:
    structure, flow = SPLIT[name]
    problem = make(structure, setting, batch=batch, length=60)
    looped = answers(problem, flow, Recurrent())
    for count in (1, 2, 3, 5):
        with threads(count):
            found, again = answers(problem, flow), answers(problem, flow)
        assert_near(found, looped, 1e-10)
        assert_same(again, found)


@needs_library
@each_split
def test_threads_may_change_between_the_passes(name: str) -> None:
    structure, flow = SPLIT[name]
    problem = make(structure, batch=1, length=60)
    expected = answers(problem, flow)
    for before, after in ((1, 3), (3, 1)):

        def both(leaves: dict[str, Tensor], before: int = before, after: int = after) -> Answers:
            torch.set_num_threads(before)
            found = problem.solve(leaves, flow, Native())
            torch.set_num_threads(after)
            return found

        with threads(1):
            assert_near(with_gradients(both, problem.leaves), expected, 1e-12)


@needs_library
def test_calls_from_several_python_threads_do_not_meet() -> None:
    problems = [
        (make(structure, setting, batch=2 + i % 3, length=40 + i), flow)
        for i, (structure, flow) in enumerate(SPLIT.values())
        for setting in (PLAIN, DRIVEN, TOKENS)
    ]
    one_by_one = [answers(problem, flow) for problem, flow in problems]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            together = list(pool.map(lambda pair: answers(*pair), problems))
            for found, expected in zip(together, one_by_one, strict=True):
                assert_near(found, expected, 1e-12)


@needs_library
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "again"])
@pytest.mark.parametrize("batch", [1, 3])
@each_setting
def test_nothing_depends_on_what_memory_held_before(
    setting: Setting, batch: int, keep: bool, count: int
) -> None:
    scan = Native(keep=None if keep else 0)
    for structure, flow in SPLIT.values():
        problem = make(structure, setting, batch=batch, length=20)
        with threads(count):
            expected = answers(problem, flow, scan)
            with poisoned_memory():
                assert torch.empty(3).isnan().all()
                found = answers(problem, flow, scan)
        assert_near(found, expected, 1e-12)


@needs_library
@pytest.mark.parametrize("kind", ["increments", "tokens", "projective"])
@every_tiny_structure
def test_gradients_are_those_of_finite_differences(name: str, kind: str) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    tokens, projective = kind == "tokens", kind == "projective"
    inputs = "dense" if kind == "increments" else "none"
    setting = Setting(inputs=inputs, tokens=tokens, padded=True, projective=projective)
    problem = Problem.make(TINY[name], setting, length=10 if projective else 3)
    names = [k for k, x in problem.leaves.items() if x.is_floating_point()]

    def found(*values: Tensor) -> tuple[Tensor, ...]:
        leaves = problem.leaves | dict(zip(names, values, strict=True))
        return tuple(problem.solve(leaves, None, Native()).values())

    assert torch.autograd.gradcheck(
        found, [problem.leaves[k].clone().requires_grad_() for k in names], fast_mode=True
    )


@needs_library
@pytest.mark.parametrize("name", ["blocks", "dplr", "orthogonal-4", "sparse-by-density"])
def test_second_derivatives_are_refused_and_sent_to_recurrent(name: str) -> None:
    problem = Problem.make(STRUCTURES[name], PLAIN)
    path = problem.leaves["path"].clone().requires_grad_()
    h = problem.solve(problem.leaves | {"path": path}, None, Native())["states"]
    (first,) = torch.autograd.grad(h.square().sum(), path, create_graph=True)
    with pytest.raises(RuntimeError, match=r"Native\(\) give first derivatives only.*Recurrent"):
        first.square().sum().backward()


@needs_library
@pytest.mark.parametrize("answer", ["states", "last"])
@every_structure
def test_gradients_of_one_answer_alone_are_right(name: str, answer: str) -> None:
    if name in NO_KERNEL:
        pytest.skip("there is no kernel")
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine"])
    native, looped = (
        with_gradients(
            lambda x, s=scan: {answer: problem.solve(x, None, s)[answer]}, problem.leaves
        )
        for scan in (Native(), Recurrent())
    )
    assert_near(native, looped, 1e-10)


@needs_library
@pytest.mark.parametrize("leaf", ["path", "initial_state", "inputs"])
@pytest.mark.parametrize("name", ["ragged", "dplr", "sparse-by-density", "open-sum", "hadamard-8"])
def test_a_single_leaf_may_be_differentiated(name: str, leaf: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS["affine"])
    found = []
    for scan in (Native(), Recurrent()):
        x = problem.leaves[leaf].clone().requires_grad_()
        states = problem.solve(problem.leaves | {leaf: x}, None, scan)["states"]
        found.append(torch.autograd.grad(states.square().sum(), x)[0])
    torch.testing.assert_close(*found)


@needs_library
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("setting", ["affine", "tokens", "projective"])
@pytest.mark.parametrize("name", ["blocks", "dplr", "orthogonal-sum", "sparse-by-density"])
def test_without_gradients_the_values_are_the_same(
    name: str, setting: str, context: Callable[[], Any]
) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    expected = answers(problem)
    with context():
        inside = {k: x.clone() for k, x in problem.leaves.items()}
        found = problem.solve(inside, None, Native())
    assert not any(x.requires_grad for x in found.values())
    assert_near(found, {k: expected[k] for k in found}, 1e-12)


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
    torch.testing.assert_close(found, wanted)


STEPS = 20_000


@needs_library
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["increments", "tokens"])
@pytest.mark.parametrize("block", [2, 3, 4, 5])
def test_rotations_keep_every_norm_over_very_many_equal_steps(
    block: int, kind: str, columns: int
) -> None:
    structure = DirectSum(Orthogonal(3 * block, block), Diagonal(1))
    parameters = {k: x.float() for k, x in make_parameters(structure).items()}
    parameters["part1_values"] = torch.zeros(3, 1)
    state, increment = torch.randn(2, 3 * block + 1, columns), torch.randn(1, 3)
    path = increment.expand(2, STEPS, 3)
    tokens = Tabulated(increment, torch.zeros(2, STEPS, dtype=torch.int64))
    states, _ = solve(
        structure, parameters, tokens if kind == "tokens" else path, state, scan=Native()
    )
    blocks = states[:, :, :-1].unflatten(2, (3, block)).double().norm(dim=3)
    before = state[:, :-1].unflatten(1, (3, block)).double().norm(dim=2).unsqueeze(1)
    assert (blocks / before - 1).abs().max() < 1e-5
    assert (states[:, :, -1] == state[:, None, -1]).all()


@needs_library
@pytest.mark.parametrize(
    ("drift", "tokens"), [(0.3, False), (-0.3, True)], ids=["exploding", "vanishing-tokens"]
)
def test_projective_states_outlive_the_range_of_single_precision(
    drift: float, tokens: bool
) -> None:
    steps, structure = 3000, DirectSum(Dense(7), JointDPLR(4, 1))
    parameters = {k: x.float() * 0.1 for k, x in make_parameters(structure).items()}
    parameters["part0_blocks"][0] = drift * torch.eye(7) + 0.2 / 7  # one direction ahead
    parameters["part1_diagonal"][0] = drift
    table = torch.cat([torch.ones(50, 1), torch.randn(50, 2)], -1)
    index, state = torch.randint(0, 50, (1, steps)), torch.randn(1, 11)
    weights = torch.randn(1, steps, 11).double()

    def found(scan: Scan, dtype: torch.dtype) -> Answers:
        leaves = {k: x.to(dtype).requires_grad_() for k, x in parameters.items()}
        rows = table.to(dtype).requires_grad_()
        path = Tabulated(rows, index) if tokens else rows[index]
        h, last = solve(structure, leaves, path, Projective.of(state.to(dtype)), Euler(), scan)
        loss = (weights * h.direction).sum() + h.log_norm.double().sum() / steps
        gradients = torch.autograd.grad(loss, (*leaves.values(), rows))
        named = {f"gradient {i}": x for i, x in enumerate(gradients)}
        values = {"direction": h.direction, "log_norm": h.log_norm, "last": last.direction}
        return {k: x.detach() for k, x in (values | named).items()}

    single, double = found(Native(), torch.float32), found(Recurrent(), torch.float64)
    assert double["log_norm"].abs().max() > 250  # float32 ends at exp(88)
    assert_near(single, double, 1e-4)
