"""A device is found by its name, or the message says which there are."""

import pytest
import torch

from slicekit import devices
from slicekit.devices import find_device


def have(monkeypatch: pytest.MonkeyPatch, **counts: int) -> None:
    monkeypatch.setattr(devices, "how_many", lambda kind: counts.get(kind, int(kind == "cpu")))


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda"), "mps"])
def test_a_device_that_is_there_is_found(device, monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, cuda=2, mps=1)
    assert find_device(device) == torch.device(device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", torch.device("cuda", 1)])
def test_a_device_that_is_not_there_is_an_error(device, monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, cuda=0, mps=0)
    with pytest.raises(ValueError, match=rf"here='{device}'.*no such device here; expected cpu$"):
        find_device(device, "here")


def test_the_message_says_which_devices_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, cuda=2)
    with pytest.raises(ValueError, match=r"expected cpu or cuda:0 or cuda:1$"):
        find_device("cuda:2")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "meta", ""])
def test_what_is_no_device_is_named(device: str) -> None:
    with pytest.raises(ValueError, match=f"device='{device}'; expected 'cpu', 'cuda'"):
        find_device(device)


def test_a_number_is_no_device() -> None:
    with pytest.raises(TypeError, match="device=0; expected"):
        find_device(0)  # type: ignore[arg-type]
