"""The native scan is the loop to rounding at the sizes where kernels go wrong.

What it computes at the sizes of the market is compared with the dense loop in test_agreement.py.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicekit import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    Euler,
    Exponential,
    JointDPLR,
    Native,
    Orthogonal,
    Recurrent,
    Sparse,
    WalshHadamard,
)
from slicekit.structures import Structure
from tests.market import FLOWS, STRUCTURES, every_structure_and_flow
from tests.native.increment_scans import threads
from tests.scans.native.problems import (
    DRIVEN,
    PLAIN,
    PROJECTIVE,
    TOKENS,
    answers,
    assert_is_the_loop,
    each_setting,
    make,
    missing,
    needs_library,
)
from tests.scans.problems import SETTINGS, Problem, Setting, assert_near

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
@pytest.mark.parametrize("length", [1, 130])
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
