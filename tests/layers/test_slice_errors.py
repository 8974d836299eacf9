"""What a layer is not given: every error names the argument, what it is and what was expected."""

from typing import Any

import pytest
import torch

from slicekit import Chunked, Dense, Euler, Learned, Orthogonal, SLiCE, State, TimeAndInput
from tests.layers.reference import INPUTS


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"channels": 2.5}, TypeError, r"channels=2.5 is a float; expected a whole number"),
        ({"channels": 0}, ValueError, r"channels=0; expected at least 1"),
        ({"channels": "3"}, TypeError, r"channels='3' is a str"),
        ({"structure": 8}, TypeError, r"structure=8; expected a structure such as"),
        ({"structure": Dense}, TypeError, r"structure=<class .*Dense'>; expected a structure"),
        ({"drive": "time"}, TypeError, r"drive='time'; expected a drive such as TimeAndInput\(\)"),
        ({"drive": TimeAndInput}, TypeError, r"drive=<class .*TimeAndInput'>; expected a drive"),
        ({"initial": Learned}, TypeError, r"initial=<class .*Learned'>; expected an initial state"),
        ({"flow": "euler"}, TypeError, r"flow='euler'; expected a flow such as"),
        ({"scan": "chunked"}, TypeError, r"scan='chunked'; expected a scan such as"),
        ({"scan": Chunked}, TypeError, r"scan=<class .*Chunked'>; expected a scan such as"),
        (
            {"structure": Orthogonal(4, 2), "flow": Euler()},
            ValueError,
            r"flow=Euler\(\) with Orthogonal.*leave flow=None",
        ),
    ],
)
def test_unfit_settings_are_named(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SLiCE(**({"channels": INPUTS, "structure": Dense(4)} | settings))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(2, 5), ValueError, r"x has shape \(2, 5\); expected \(batch, length, 2\)"),
        (torch.zeros(2, 5, 3), ValueError, r"x has shape \(2, 5, 3\); expected"),
        (torch.zeros(2, 0, INPUTS), ValueError, r"x has length 0; an empty sequence"),
        (torch.zeros(2, 5, INPUTS).long(), TypeError, r"x has dtype torch.int64; expected a float"),
        (
            torch.zeros(2, 5, INPUTS).double(),
            TypeError,
            r"x has dtype torch.float64, but the layer has torch.float32",
        ),
        ([[[0.0, 1.0]]], TypeError, r"x is a list; expected a torch.Tensor"),
    ],
)
def test_an_unfit_input_is_named(x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SLiCE(INPUTS, Dense(4))(x)


def test_an_unfit_element_is_named() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(2, 1, 2\); expected \(batch, 2\)"):
        SLiCE(INPUTS, Dense(4)).step(torch.zeros(2, 1, INPUTS))


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (torch.zeros(2, 4), TypeError, r"state is a Tensor; expected a State, or None"),
        (State({}), KeyError, r"state has no 'hidden'; it holds nothing"),
        (
            State({"hidden": torch.zeros(3, 4)}),
            ValueError,
            r"state\['hidden'\] has shape \(3, 4\); expected \(2, 4\)",
        ),
        (
            State({"hidden": torch.zeros(2, 4), "previous": torch.zeros(2, 3)}),
            ValueError,
            r"state\['previous'\] has shape \(2, 3\); expected \(2, 2\)",
        ),
    ],
)
def test_an_unfit_state_is_named(state: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SLiCE(INPUTS, Dense(4))(torch.zeros(2, 5, INPUTS), state)
