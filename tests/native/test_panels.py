"""The C interface of the fused recurrence: what it refuses, by name and before it writes."""

import ctypes
from collections.abc import Iterable
from ctypes import byref

import pytest
import torch
from torch import Tensor

from slicekit.native import available, reason
from slicekit.native.kernel import Kind, function
from slicekit.native.library import STATUS, check
from slicekit.native.panels import MOST_PARTS, MOST_RANK, Panels, Part, _Part, _Problem
from tests.native.increment_scans import (
    BAD_INDEX,
    BAD_OPTION,
    BAD_POINTER,
    BAD_SIZE,
    BAD_WORKSPACE,
    OK,
    threads,
)

pytestmark = pytest.mark.skipif(not available(), reason=f"no native library: {reason()}")

UNTOUCHED = 7
DIM = 24
PARTS = (
    Part(Kind.BLOCKS, 6, 3),
    Part(Kind.SKEW, 6, 3, True),
    Part(Kind.LOW_RANK, 4, 2),
    Part(Kind.HADAMARD, 8),
)
SHAPES = ((2, 3, 3), (2, 3), (4,), (4, 2), (4, 2), (8,))
PASSES = ("slicekit_panels_forward", "slicekit_panels_backward")


class Call:
    """A complete problem in C, with memory that nothing was written to yet.

    Attributes:
        problem: the C structure.
        outputs: everything that a pass may write to.
        held: everything that it reads.
    """

    def __init__(
        self, *, tokens: bool = False, inputs: bool = False, rescale: int = 0, kept: bool = False
    ) -> None:
        batch, length, channels, columns = 2, 5, 3, 2
        parts = PARTS if not kept else tuple(p for p in PARTS if not p.exponential)
        shapes = SHAPES if not kept else (SHAPES[0], *SHAPES[2:])
        dim = sum(part.dim for part in parts)

        def randn(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=torch.float64)

        states = (batch, length, dim, columns)
        parameters = tuple(randn(channels, *shape) for shape in shapes)
        path = randn(4, channels) if tokens else randn(batch, length, channels)
        self.index = torch.randint(0, 4, (batch, length)) if tokens else None
        state, u = randn(batch, dim, columns), randn(*states) if inputs else None
        panels = Panels(parts, parameters, path, self.index, state, u, rescale, 64)
        self.problem = panels._problem()
        in_states, in_last = randn(*states), randn(batch, dim, columns)
        self.problem.in_states, self.problem.in_last = in_states.data_ptr(), in_last.data_ptr()
        written = {
            "states": randn(*states),
            "factors": randn(*states),
            "in_increments": torch.empty_like(path),
            "in_state": torch.empty_like(state),
        }
        written |= {"in_inputs": randn(*states)} if inputs else {}
        written |= {"kept": randn(panels.plan.kept())} if kept else {}
        gradients = [torch.empty_like(x) for x in parameters]
        self.problem.in_parameters = panels.plan.pointers(gradients)
        for name, x in written.items():
            setattr(self.problem, name, x.data_ptr())
        size = function("slicekit_panels_workspace")(byref(self.problem), 1)
        assert size > 0
        space = torch.empty(size, dtype=torch.uint8)
        self.problem.work, self.problem.work_bytes = space.data_ptr(), size
        self.outputs = [*written.values(), *gradients, space]
        self.held = (panels, in_states, in_last)
        for x in self.outputs:
            x.fill_(UNTOUCHED)

    def run(self, name: str, **changes: object) -> int:
        """What a pass returns when some fields are changed."""
        return function(name)(byref(self.changed(**changes)))

    def sizes(self, **changes: object) -> list[int]:
        """What the two functions that only look at sizes return."""
        changed = byref(self.changed(**changes))
        measure = function("slicekit_panels_workspace")
        return [measure(changed, 0), measure(changed, 1), function("slicekit_panels_kept")(changed)]

    def changed(self, **changes: object) -> _Problem:
        """A copy of the problem with some fields changed."""
        changed = _Problem.from_buffer_copy(self.problem)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    def untouched(self) -> bool:
        """Whether nothing was written anywhere."""
        return all(bool((x == UNTOUCHED).all()) for x in self.outputs)


def as_parts(parts: Iterable[Part]) -> ctypes.Array:
    """Parts as C takes them."""
    made = [_Part(p.kind, p.dim, p.size, int(p.exponential)) for p in parts]
    return (_Part * len(made))(*made)


def only(*given: int) -> dict[str, object]:
    """A problem of one part: kind, dim, size and whether it is exponentiated."""
    kind, dim, size, exponential = given
    parts = (_Part * 1)(_Part(kind, dim, size, exponential))
    return {"parts": 1, "dim": dim, "part": parts}


def pointers(call: Call, name: str, lacking: int) -> ctypes.Array:
    """The parameters' pointers, one of them null."""
    count = 3 * len(PARTS)
    kept = [getattr(call.problem, name)[i] for i in range(count)]
    return (ctypes.c_void_p * count)(*(None if i == lacking else p for i, p in enumerate(kept)))


BAD_SIZES = [
    *(
        ({name: size}, BAD_SIZE)
        for name in ("length", "channels", "dim", "columns", "threads", "parts")
        for size in (0, -1, 2**62)
    ),
    *(({name: size}, BAD_SIZE) for name in ("batch", "vocabulary") for size in (-1, 2**62)),
    ({"batch": 2**30, "length": 2**30}, BAD_SIZE),
    ({"parts": 300}, BAD_SIZE),
    ({"parts": MOST_PARTS + 1}, BAD_SIZE),
    ({"parts": len(PARTS) - 1}, BAD_SIZE),
    ({"dim": DIM + 1}, BAD_SIZE),
    ({"real": 3}, BAD_OPTION),
    ({"real": 0}, BAD_OPTION),
    ({"real": 16}, BAD_OPTION),
    ({"rescale": -1}, BAD_OPTION),
    ({"restore": -1}, BAD_OPTION),
    ({"half": 1}, BAD_OPTION),  # of doubles
    *(({"real": 4, "half": half}, BAD_OPTION) for half in (-1, 2)),
    ({"real": 4, "half": 1, "inputs": 1}, BAD_OPTION),
    ({"directed": 1}, BAD_OPTION),  # without rescale
    *(({"directed": directed, "rescale": 8}, BAD_OPTION) for directed in (-1, 2)),
    ({"directed": 1, "rescale": 8, "columns": 2}, BAD_OPTION),
    ({"lengths": 1, "vocabulary": 1}, BAD_OPTION),
    ({"last": 1}, BAD_OPTION),
    (only(4, DIM, 1, 0), BAD_OPTION),
    (only(-1, DIM, 1, 0), BAD_OPTION),
    (only(Kind.BLOCKS, DIM, 5, 0), BAD_SIZE),
    (only(Kind.BLOCKS, DIM, 0, 0), BAD_SIZE),
    (only(Kind.BLOCKS, DIM, -3, 0), BAD_SIZE),
    (only(Kind.BLOCKS, DIM, 2 * DIM, 0), BAD_SIZE),
    (only(Kind.BLOCKS, 0, 1, 0), BAD_SIZE),
    (only(Kind.BLOCKS, -DIM, 1, 0), BAD_SIZE),
    (only(Kind.SKEW, DIM, 5, 1), BAD_SIZE),
    (only(Kind.SKEW, DIM, 3, 0), BAD_OPTION),
    (only(Kind.HADAMARD, 12, 0, 0), BAD_SIZE),
    (only(Kind.HADAMARD, 8, 0, 1), BAD_OPTION),
    (only(Kind.LOW_RANK, DIM, 0, 0), BAD_SIZE),
    (only(Kind.LOW_RANK, DIM, -1, 0), BAD_SIZE),
    (only(Kind.LOW_RANK, DIM, 300, 0), BAD_SIZE),
    (only(Kind.LOW_RANK, DIM, MOST_RANK + 1, 0), BAD_SIZE),
    (only(Kind.LOW_RANK, DIM, 2, 1), BAD_OPTION),
    ({"part": None}, BAD_POINTER),
]


def shown(fault: object) -> str:
    """A fault's name in the list of tests."""
    if not isinstance(fault, dict):
        return str(fault)
    part = fault.get("part")
    if part is None:
        return "-".join(f"{name}={value}" for name, value in fault.items())
    return "part-" + "-".join(str(getattr(part[0], field[0])) for field in _Part._fields_)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize(("fault", "status"), BAD_SIZES, ids=shown)
def test_bad_sizes_and_options_are_named_before_anything_is_written(
    fault: dict[str, object], status: int, name: str
) -> None:
    call = Call()
    assert call.run(name, **fault) == status
    assert call.untouched()
    assert call.run(name) == OK


@pytest.mark.parametrize(("fault", "status"), BAD_SIZES, ids=shown)
def test_questions_about_sizes_answer_bad_ones_with_negative_statuses(
    fault: dict[str, object], status: int
) -> None:
    assert Call().sizes(**fault) == [-status] * 3


def test_sizes_beyond_any_memory_are_refused() -> None:
    dim = 2**26
    huge = {"batch": 1, "length": 1, "columns": 1, "channels": 2**20}
    assert Call().sizes(**huge, **only(Kind.BLOCKS, dim, dim, 0)) == [-BAD_SIZE] * 3


def test_a_missing_problem_is_named() -> None:
    for name in PASSES:
        assert function(name)(None) == BAD_POINTER
    assert function("slicekit_panels_workspace")(None, 0) == -BAD_POINTER
    assert function("slicekit_panels_kept")(None) == -BAD_POINTER


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("lacking", ["increments", "state", "states", "parameters", "work", "part"])
def test_arrays_that_both_passes_need_are_missed(lacking: str, name: str) -> None:
    call = Call()
    assert call.run(name, **{lacking: None}) == BAD_POINTER
    assert call.untouched()


@pytest.mark.parametrize("lacking", ["in_states", "in_state"])
def test_arrays_that_the_backward_pass_needs_are_missed(lacking: str) -> None:
    call = Call()
    assert call.run(PASSES[1], **{lacking: None}) == BAD_POINTER
    assert call.untouched()
    assert call.run(PASSES[0], **{lacking: None}) == OK


@pytest.mark.parametrize("lacking", [0, 3, 6, 7, 8, 9])
def test_every_parameter_is_missed(lacking: int) -> None:
    call = Call()
    for name in PASSES:
        assert call.run(name, parameters=pointers(call, "parameters", lacking)) == BAD_POINTER
    without = pointers(call, "in_parameters", lacking)
    assert call.run(PASSES[1], in_parameters=without) == BAD_POINTER
    assert call.untouched()


@pytest.mark.parametrize("unused", [1, 2, 4, 5, 10, 11])
def test_parameters_that_a_part_does_not_have_may_be_anything(unused: int) -> None:
    call = Call()
    count = 3 * len(PARTS)
    addresses = [call.problem.parameters[i] for i in range(count)]
    addresses[unused] = 1
    assert call.run(PASSES[0], parameters=(ctypes.c_void_p * count)(*addresses)) == OK


@pytest.mark.parametrize("name", PASSES)
def test_a_rescaled_state_needs_its_factors_and_takes_no_inputs(name: str) -> None:
    call = Call(rescale=2)
    assert call.run(name, factors=None) == BAD_POINTER
    assert call.run(name, inputs=call.problem.states) == BAD_OPTION
    assert call.sizes(inputs=call.problem.states) == [-BAD_OPTION] * 3
    assert call.untouched()
    assert call.run(name) == OK


def test_inputs_and_their_gradients_come_together() -> None:
    call = Call(inputs=True)
    assert call.run(PASSES[1], in_inputs=None) == BAD_POINTER
    assert call.run(PASSES[1], inputs=None) == BAD_POINTER
    assert call.untouched()
    assert call.run(PASSES[1]) == OK


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("place", [0, 4, 9])
@pytest.mark.parametrize("token", [-2, 4, 2**40, -(2**63)])
def test_tokens_outside_the_table_are_named(token: int, place: int, name: str) -> None:
    call = Call(tokens=True)
    assert call.index is not None
    before = int(call.index.view(-1)[place])
    call.index.view(-1)[place] = token
    assert call.run(name) == BAD_INDEX
    assert call.untouched()
    call.index.view(-1)[place] = before
    assert call.run(name, index=None) == BAD_POINTER
    assert call.untouched()
    assert call.run(name) == OK


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize(
    "options", [{}, {"tokens": True}, {"inputs": True}, {"rescale": 2}], ids=str
)
def test_too_small_a_work_space_is_named_and_not_written_to(
    options: dict[str, bool], name: str
) -> None:
    call = Call(**options)
    needed = call.sizes()[PASSES.index(name)]
    for size in (-1, 0, 1, needed // 2, needed - 65):
        assert call.run(name, work_bytes=size) == BAD_WORKSPACE
        assert call.untouched(), f"written to with {size} of {needed} bytes"


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("offset", [0, 1, 8, 63])
def test_the_work_space_may_begin_anywhere(offset: int, name: str) -> None:
    call = Call()
    needed = call.sizes()[PASSES.index(name)]
    space = torch.full((needed + offset + 64,), UNTOUCHED, dtype=torch.uint8)
    assert call.run(name, work=space.data_ptr() + offset, work_bytes=needed) == OK
    assert (space[:offset] == UNTOUCHED).all()
    assert (space[offset + needed :] == UNTOUCHED).all()


def test_transitions_are_kept_only_where_they_can_be() -> None:
    call = Call(kept=True)
    assert call.run(PASSES[0]) == OK and call.run(PASSES[1]) == OK
    kept = call.problem.kept
    other = Call()
    assert other.sizes()[2] == 0
    for name in PASSES:
        assert other.run(name, kept=kept) == BAD_OPTION
    assert other.untouched()


def test_what_is_kept_of_tokens_is_one_transition_for_each() -> None:
    call = Call(tokens=True)
    assert call.sizes()[2] % 4 == 0
    room = torch.full((call.sizes()[2] + 1,), float("nan"), dtype=torch.float64)
    for name in PASSES:
        assert call.run(name, kept=room.data_ptr()) == OK
    assert not room[:-1].isnan().any() and room[-1].isnan()


def test_a_product_is_asked_for_by_its_own_name_and_arrays() -> None:
    call, name = Call(inputs=True), "slicekit_panels_product"
    columns = function("slicekit_panels_columns")(byref(call.problem))
    assert columns == max(4, 8)  # rows of the parts that are no blocks
    product = torch.full((2, DIM, columns), float(UNTOUCHED), dtype=torch.float64)
    powers = torch.full(product.shape, UNTOUCHED)
    driven = torch.full((2, DIM, 2), float(UNTOUCHED), dtype=torch.float64)
    given = {"product": product.data_ptr(), "powers": powers.data_ptr()}
    given |= {"driven": driven.data_ptr(), "rescale": 2, "state": None, "states": None}
    size = function("slicekit_panels_workspace")(byref(call.changed(**given)), 0)
    space = torch.empty(size, dtype=torch.uint8)
    given |= {"work": space.data_ptr(), "work_bytes": size}
    for lacking in ("product", "powers", "driven", "increments", "parameters", "work"):
        faulty = given | {lacking: None} | ({"rescale": 0} if lacking == "product" else {})
        assert call.run(name, **faulty) == BAD_POINTER
    assert call.run(name, **given | {"work_bytes": size - 65}) == BAD_WORKSPACE
    assert call.run(name, **given | {"made": 1}) == BAD_POINTER
    for other in PASSES:
        assert call.run(other, **given) == BAD_OPTION
    assert call.untouched() and all((x == UNTOUCHED).all() for x in (product, powers, driven))
    assert call.run(name, **given) == OK
    assert call.untouched() and product.isfinite().all()


@pytest.mark.parametrize("name", PASSES)
def test_transitions_that_were_made_before_must_be_there(name: str) -> None:
    call = Call()
    assert call.run(name, made=1) == BAD_POINTER
    assert call.untouched()


def test_an_empty_batch_needs_no_arrays() -> None:
    call = Call()
    assert call.sizes(batch=0) == [0, 0, 0]
    for name in PASSES:
        assert call.run(name, batch=0, increments=None, state=None, states=None) == OK
    assert call.untouched()


def test_a_missing_gradient_of_the_last_state_is_zero() -> None:
    call = Call()
    assert call.run(PASSES[0]) == OK
    assert call.run(PASSES[1], in_last=None) == OK
    without = [x.clone() for x in call.outputs[:-1]]
    call.held[2].zero_()
    assert call.run(PASSES[1]) == OK
    assert all(torch.equal(x, y) for x, y in zip(call.outputs, without, strict=False))


@pytest.mark.parametrize("status", STATUS)
def test_statuses_become_errors_that_name_the_function(status: int) -> None:
    with pytest.raises(RuntimeError, match=f"slicekit_panels_forward was given {STATUS[status]}"):
        check(status, "slicekit_panels_forward")


def panels(part: Part, dim: int, token: int = 0) -> Panels:
    """A problem as Python makes it, right or wrong."""
    index = torch.full((1, 2), token)
    parameters = tuple(torch.zeros(3, numbers) for numbers in part.numbers)
    return Panels((part,), parameters, torch.zeros(4, 3), index, torch.zeros(1, dim, 1), None, 0, 0)


@pytest.mark.parametrize(
    ("part", "dim", "status"),
    [
        (Part(Kind.BLOCKS, 6, 4), 6, BAD_SIZE),
        (Part(Kind.BLOCKS, 6, 3), 7, BAD_SIZE),
        (Part(Kind.SKEW, 6, 3), 6, BAD_OPTION),
        (Part(Kind.HADAMARD, 12), 12, BAD_SIZE),
    ],
)
def test_python_raises_what_the_kernels_refuse(part: Part, dim: int, status: int) -> None:
    given = panels(part, dim)
    for call in (lambda: given.plan.kept(), lambda: given.forward(None)):
        with pytest.raises(RuntimeError, match=f"slicekit_panels_.* was given {STATUS[status]}"):
            call()


def test_python_raises_at_tokens_outside_the_table() -> None:
    with pytest.raises(RuntimeError, match="panels_forward was given an index outside its table"):
        panels(Part(Kind.BLOCKS, 6, 3), 6, token=4).forward(None)


SPARED = ((Part(Kind.BLOCKS, 8, 4), (2, 4, 4)), (Part(Kind.BLOCKS, 8, 4, True), (2, 4, 4)))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("batch", "length"), [(3, 9), (40, 5), (2, 400)])
@pytest.mark.parametrize(("part", "shape"), SPARED, ids=["euler", "exponential"])
def test_a_pace_and_a_still_position_equal_increments_that_are_written_down(
    part: Part, shape: tuple[int, ...], batch: int, length: int, keep: bool
) -> None:
    pace, channels = 0.05, 17
    parameters = (torch.randn(channels + 1, *shape, dtype=torch.float64) / 4,)
    values = torch.randn(batch, length, channels, dtype=torch.float64)
    path = torch.nn.functional.pad(pace * values, (1, 0), value=pace)
    path[:, 0] = 0
    state = torch.randn(batch, part.dim, 1, dtype=torch.float64)
    spared = Panels((part,), parameters, values, None, state, None, 0, 0, pace, True)
    kept = torch.full((spared.plan.kept() * keep,), torch.nan, dtype=torch.float64)
    kept = kept if kept.numel() else None
    found, factors = spared.forward(kept)
    written = Panels((part,), parameters, path, None, state, None, 0, 0)
    expected, _ = written.forward(None)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(found[:, 0], state)
    g, last = torch.randn_like(found), torch.zeros_like(state)
    in_parameters, in_values, in_state, _ = spared.backward(found, factors, kept, g, None)
    wanted, in_path, start, _ = written.backward(expected, factors, None, g, last)
    in_path = pace * in_path[..., 1:]
    in_path[:, 0] = 0
    torch.testing.assert_close(in_parameters, wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(in_values, in_path, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(in_state, start, rtol=1e-10, atol=1e-12)


def test_a_table_may_have_a_pace() -> None:
    part, pace, index = Part(Kind.BLOCKS, 8, 4), 0.05, torch.tensor([[2, 0, 1], [1, 1, 2]])
    parameters, values = (torch.randn(6, 2, 4, 4) / 4,), torch.randn(3, 5)
    state = torch.randn(2, 8, 1)
    table = torch.nn.functional.pad(pace * values, (1, 0), value=pace)
    spared = Panels((part,), parameters, values, index, state, None, 0, 0, pace)
    written = Panels((part,), parameters, table, index, state, None, 0, 0)
    found, factors = spared.forward(None)
    torch.testing.assert_close(found, written.forward(None)[0])
    g = torch.randn_like(found)
    in_parameters, in_values, *_ = spared.backward(found, factors, None, g, None)
    wanted, in_table, *_ = written.backward(found, factors, None, g, None)
    torch.testing.assert_close(in_parameters, wanted)
    torch.testing.assert_close(in_values, pace * in_table[:, 1:])


@pytest.mark.parametrize(
    ("tokens", "changes"),
    [
        (True, {"still": 2}),
        (False, {"still": 2}),
        (False, {"still": -1}),
        (False, {"pace": float("nan")}),
        (False, {"pace": 0.5, "channels": 1}),
    ],
)
def test_paces_and_still_positions_that_make_no_sense(tokens: bool, changes: dict) -> None:
    call = Call(tokens=tokens)
    assert [call.run(name, **changes) for name in PASSES] == [BAD_OPTION] * 2
    assert call.untouched()


@pytest.mark.parametrize(
    ("channels", "length", "keeps"), [(4, 8, False), (8, 8, True), (9, 9999, False)]
)
def test_transitions_that_are_soon_made_again_are_not_kept(
    channels: int, length: int, keeps: bool
) -> None:
    path, state = torch.zeros(1, length, channels), torch.zeros(1, 128, 1)
    part, parameters = Part(Kind.BLOCKS, 128, 4), (torch.zeros(channels, 32, 4, 4),)
    panels = Panels((part,), parameters, path, None, state, None, 0, 0)
    assert panels.plan.kept() > 0
    assert bool(panels.worth_keeping(2**40)) is keeps
    assert panels.worth_keeping(0) == 0


SPLIT = {
    "blocks": (Part(Kind.BLOCKS, 64, 4),),
    "ragged": (Part(Kind.BLOCKS, 6, 3), Part(Kind.BLOCKS, 5, 1), Part(Kind.BLOCKS, 40, 20)),
    "diagonal": (Part(Kind.BLOCKS, 37, 1),),
}


@pytest.mark.usefixtures("every_isa", "poisoned_memory")
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("parts", SPLIT.values(), ids=SPLIT.keys())
def test_transitions_are_kept_in_one_order_by_any_number_of_threads(
    parts: tuple[Part, ...], batch: int, columns: int
) -> None:
    """Passes on different numbers of threads, which split the state, share them."""
    channels, length = 4, 450
    parameters = tuple(torch.randn(channels, n).double() / 9 for p in parts for n in p.numbers)
    path = torch.randn(batch, length, channels).double() / 9
    state = torch.randn(batch, sum(part.dim for part in parts), columns).double()
    panels = Panels(parts, parameters, path, None, state, None, 0, 0)
    kept = state.new_empty(panels.plan.kept())
    with threads(1):
        states, _ = panels.forward(kept)
        in_states, in_last = torch.randn_like(states), torch.randn_like(state)
        expected = panels.backward(states, None, None, in_states, in_last)
    for count in (2, 3, 5):
        with threads(count):
            own = torch.empty_like(kept)
            found, _ = panels.forward(own)
            assert torch.equal(own, kept) and torch.equal(found, states)
            gradients = panels.backward(states, None, kept, in_states, in_last)
        torch.testing.assert_close(gradients, expected, rtol=1e-10, atol=1e-10)
