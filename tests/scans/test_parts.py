"""The whole is its parts; padding, tables and states passed on are exact."""

import pytest
import torch
from torch import Tensor

from slicekit import Outer, Projective, Tabulated, solve
from slicekit.paths import mask_past_end
from tests.market import CHANNELS, STRUCTURES, every_structure, make_parameters
from tests.scans.problems import (
    SCANS,
    SETTINGS,
    Answers,
    Problem,
    Setting,
    assert_near,
    with_gradients,
)

pytestmark = pytest.mark.filterwarnings("ignore:Associative.. composes")

LENGTH = 9
every_scan = pytest.mark.parametrize("scan", SCANS)


@every_scan
@pytest.mark.parametrize("setting", ["affine", "tokens"])
@every_structure
def test_the_whole_equals_its_parts(name: str, setting: str, scan: str) -> None:
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])

    def in_parts(leaves: dict[str, Tensor]) -> Answers:
        parameters, path = problem.parameters(leaves), problem.increments(leaves)
        inputs, state, parts = leaves.get("inputs"), leaves["initial_state"], []
        for steps in (slice(0, 1), slice(1, 6), slice(6, None)):
            if isinstance(path, Tabulated):
                part = Tabulated(path.table, path.index[:, steps])
            else:
                part = path[:, steps]
            states, state = solve(
                problem.structure,
                parameters,
                part,
                state,
                scan=SCANS[scan],
                inputs=None if inputs is None else inputs[:, steps],
            )
            parts.append(states)
        return {"states": torch.cat(parts, 1), "last": state}

    whole = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves)
    assert_near(with_gradients(in_parts, problem.leaves), whole, 1e-10)


@pytest.mark.parametrize("scan", ["recurrent", "chunked"])
@pytest.mark.parametrize("at", range(1, LENGTH))
def test_a_projective_whole_equals_its_parts_wherever_it_is_cut(at: int, scan: str) -> None:
    problem = Problem.make(STRUCTURES["blocks"], SETTINGS["projective"], length=LENGTH, scale=2.0)

    def in_parts(leaves: dict[str, Tensor]) -> Answers:
        parameters, path = problem.parameters(leaves), leaves["path"]
        state, parts = Projective.of(leaves["initial_state"]), []
        for part in path.split([at, LENGTH - at], 1):
            states, state = solve(problem.structure, parameters, part, state, scan=SCANS[scan])
            parts.append(states)
        return {
            "direction": torch.cat([x.direction for x in parts], 1),
            "log_norm": torch.cat([x.log_norm for x in parts], 1),
            "last direction": state.direction,
            "last log_norm": state.log_norm,
        }

    whole = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves)
    assert_near(with_gradients(in_parts, problem.leaves), whole, 1e-10)


@every_scan
@every_structure
def test_a_padded_series_is_the_series_alone(name: str, scan: str) -> None:
    """Garbage in the padding, NaN and infinity included, reaches neither values nor gradients."""
    setting = Setting(matrix=True, inputs="outer", padded=True)
    problem = Problem.make(STRUCTURES[name], setting)
    assert problem.lengths is not None
    garbage = torch.tensor([torch.nan, torch.inf, 1e30]).double()

    def spoilt(x: Tensor) -> Tensor:
        assert problem.lengths is not None
        past = torch.arange(x.shape[1]) >= problem.lengths[:, None]
        noise = garbage[torch.randint(0, 3, x.shape)]
        return torch.where(past[..., None], noise, x)

    dirty = {k: spoilt(problem.leaves[k]) for k in ("path", "left", "right")}
    padded = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves | dirty)
    clean = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves)
    assert_near(padded, clean, 1e-12)
    parameters = problem.parameters(problem.leaves)
    for row, length in enumerate(problem.lengths.tolist()):
        own = {k: x[row : row + 1] for k, x in problem.leaves.items() if "param" not in k}
        last, end = padded["states"][row], own["initial_state"]
        if length:
            states, end = solve(
                problem.structure,
                parameters,
                own["path"][:, :length],
                own["initial_state"],
                scan=SCANS[scan],
                inputs=Outer(own["left"][:, :length], own["right"][:, :length]),
            )
            torch.testing.assert_close(last[:length], states[0])
        torch.testing.assert_close(last[length:], end.expand(LENGTH - length, -1, -1))
        torch.testing.assert_close(padded["last"][row], end[0])


@every_scan
def test_gradients_in_the_padding_are_exactly_zero(scan: str) -> None:
    problem = Problem.make(STRUCTURES["blocks"], SETTINGS["affine-padded"])
    found = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves)
    assert problem.lengths is not None
    for leaf in ("path", "inputs"):
        gradient = found[f"gradient of {leaf}"]
        assert torch.equal(gradient, mask_past_end(gradient, problem.lengths))


@every_scan
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@every_structure
def test_a_table_is_the_increments_it_stands_for(name: str, padded: bool, scan: str) -> None:
    problem = Problem.make(STRUCTURES[name], Setting(inputs="dense", tokens=True, padded=padded))

    def written_out(leaves: dict[str, Tensor]) -> Answers:
        increments = Tabulated(leaves["path"], problem.index).dense()
        states, last = solve(
            problem.structure,
            problem.parameters(leaves),
            increments,
            leaves["initial_state"],
            scan=SCANS[scan],
            inputs=leaves["inputs"],
            lengths=problem.lengths,
        )
        return {"states": states, "last": last}

    tabulated = with_gradients(lambda x: problem.solve(x, None, SCANS[scan]), problem.leaves)
    assert_near(tabulated, with_gradients(written_out, problem.leaves), 1e-10)


@every_scan
def test_identities_alone_leave_the_state_where_it_is(scan: str) -> None:
    structure = STRUCTURES["orthogonal-sum"]
    nothing = Tabulated(torch.randn(2, CHANNELS).double(), torch.full((1, 4), -1))
    state = torch.randn(1, structure.dim).double()
    states, last = solve(structure, make_parameters(structure), nothing, state, scan=SCANS[scan])
    assert torch.equal(states, state.unsqueeze(1).expand(-1, 4, -1))
    assert torch.equal(last, state)
