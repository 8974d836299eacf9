"""Models on disk: everything comes back, nothing is half written, and nothing is unpickled."""

import builtins
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from slicekit import (
    Associative,
    Block,
    Chunked,
    Dense,
    Diagonal,
    Differences,
    DirectSum,
    Exponential,
    FirstInput,
    Last,
    Learned,
    LogODE,
    Mean,
    Pointwise,
    Recurrent,
    SequenceModel,
    SLiCE,
    Sparse,
    TimeAndInput,
    Wiring,
    files,
    load,
    save,
    stored_files,
)
from slicekit.layers import FeedForward, LayerNorm, RMSNorm
from slicekit.paths.lie_bases import _basis
from slicekit.stored_files import digest
from slicekit.structures import Structure
from tests.market import STRUCTURES, Circulant, every_structure
from tests.mixers.market import MIXERS, every_mixer

LAYERS: dict[str, Callable[[], SLiCE]] = {
    "defaults": lambda: SLiCE(3, Dense(4)),
    "time": lambda: SLiCE(3, Dense(4), drive=TimeAndInput(dt=1 / 3), initial=Learned()),
    "differences": lambda: SLiCE(
        3, Dense(4), drive=Differences(times=0.1, origin=True, scale=0.3), affine=True
    ),
    "projective": lambda: SLiCE(3, Dense(4), initial=FirstInput(drives=True), projective=True),
    "exponential": lambda: SLiCE(3, Diagonal(4), flow=Exponential(substeps=3), scan=Recurrent()),
    "chunked": lambda: SLiCE(3, Dense(4), flow=Exponential(), scan=Chunked(2)),
    "associative": lambda: SLiCE(3, Dense(4), scan=Associative()),
}


def make_model(structure: Structure | None = None, **rest: Any) -> SequenceModel:
    described = STRUCTURES["sparse-by-density"] if structure is None else structure
    settings: dict[str, Any] = {"vocabulary": 5, "outputs": 2, "layers": 2} | rest
    return SequenceModel(width=4, mixer=lambda width: SLiCE(width, described), **settings)


MODELS: dict[str, Callable[[], SequenceModel]] = {
    "tokens": make_model,
    "series": lambda: make_model(vocabulary=None, channels=3),
    "mean": lambda: make_model(pool=Mean()),
    "last": lambda: make_model(pool=Last()),
    "heads": lambda: make_model(outputs=(2, 3), dropout=0.2),
    "pre-norm": lambda: make_model(wiring=Wiring.pre_norm(expansion=2)),
    "pre-norm-without-the-last": lambda: make_model(wiring=Wiring.pre_norm(), final_norm=False),
    "last-norm": lambda: make_model(final_norm=True),
    "gated": lambda: make_model(
        wiring=Wiring(
            norm=RMSNorm(eps=1e-3),
            after_mixer=True,
            feedforward=FeedForward(nn.GLU, 2, back=True),
            drop_branches=True,
        ),
        final_norm=True,
    ),
    "own-blocks": lambda: SequenceModel(
        channels=3,
        outputs=2,
        width=4,
        blocks=[
            Block(SLiCE(4, Dense(4)), 4, Wiring(norm=LayerNorm(eps=0.1))),
            Block(SLiCE(4, Diagonal(6)), 4, Wiring.pre_norm(), dropout=0.1),
        ],
    ),
}


def assert_equal(again: nn.Module, model: nn.Module) -> None:
    """The same classes, descriptions and tensors."""
    assert repr(again) == repr(model)
    stored, expected = again.state_dict(), model.state_dict()
    assert stored.keys() == expected.keys()
    for name, x in expected.items():
        assert stored[name].dtype == x.dtype and torch.equal(stored[name], x)


def flat(answer: Any) -> list[Tensor]:
    return answer if isinstance(answer, list) else [answer]


@every_structure
def test_a_layer_of_every_structure_comes_back(name: str, tmp_path: Path) -> None:
    layer, x = SLiCE(3, STRUCTURES[name]), torch.randn(2, 5, 3)
    save(layer, tmp_path / "layer")
    again = load(tmp_path / "layer", classes=[Circulant])
    assert_equal(again, layer)
    assert again.structure == layer.structure
    assert torch.equal(again(x), layer(x))


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_layer_of_all_policies_comes_back(make: Callable[[], SLiCE], tmp_path: Path) -> None:
    layer, x = make(), torch.randn(2, 5, 3)
    save(layer, tmp_path / "layer")
    again = load(tmp_path / "layer")
    assert_equal(again, layer)
    assert again.configuration() == layer.configuration()
    assert torch.equal(again(x), layer(x))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_comes_back_in_evaluation_mode(
    make: Callable[[], SequenceModel], tmp_path: Path
) -> None:
    model = make()
    tokens = model.vocabulary is not None
    x = torch.randint(5, (2, 6)) if tokens else torch.randn(2, 6, 3)
    save(model, str(tmp_path / "model.safetensors"))
    again = load(str(tmp_path / "model.safetensors"))
    assert not again.training
    assert_equal(again, model)
    for y, expected in zip(flat(again(x)), flat(model.eval()(x)), strict=True):
        assert torch.equal(y, expected)


def test_a_block_comes_back(tmp_path: Path) -> None:
    block = Block(SLiCE(3, Dense(4)), 3, Wiring.pre_norm(), dropout=0.1)
    save(block, tmp_path / "block")
    assert_equal(load(tmp_path / "block"), block)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_dtype_is_kept(dtype: torch.dtype, tmp_path: Path) -> None:
    model = make_model().to(dtype)
    save(model, tmp_path / "model")
    assert_equal(load(tmp_path / "model"), model)


def test_several_dtypes_are_kept_tensor_by_tensor(tmp_path: Path) -> None:
    model = make_model()
    model.blocks.to(torch.bfloat16)
    save(model, tmp_path / "model")
    assert_equal(load(tmp_path / "model"), model)


def test_a_loaded_model_trains_and_saves_again(tmp_path: Path) -> None:
    save(make_model(), tmp_path / "model")
    again = load(tmp_path / "model")
    again(torch.randint(5, (2, 6))).sum().backward()
    assert all(p.grad is not None for p in again.parameters())
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.add_(1)
    save(again, tmp_path / "model")
    assert_equal(load(tmp_path / "model"), again)


def test_what_was_frozen_is_frozen_again(tmp_path: Path) -> None:
    model = make_model(outputs=5)
    model.embedding.requires_grad_(False)
    model.blocks[1].get_submodule("mixer.A").requires_grad_(False)
    model.heads[0].weight = model.embedding.weight  # tied, and both frozen
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    expected = {name: x.requires_grad for name, x in model.named_parameters()}
    assert {name: x.requires_grad for name, x in again.named_parameters()} == expected
    assert not all(expected.values()) and any(expected.values())
    assert again.heads[0].weight is again.embedding.weight


class Fixed(nn.Module):
    """A linear map that starts frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2, 2).requires_grad_(False)

    def configuration(self) -> dict[str, Any]:
        return {}


def test_what_a_constructor_freezes_may_be_trained_after_loading(tmp_path: Path) -> None:
    path, model = tmp_path / "model", Fixed()
    model.map.bias.requires_grad_()
    save(model, path)
    again = load(path, classes=[Fixed])
    assert again.map.bias.requires_grad and not again.map.weight.requires_grad
    rewrite(path, lambda configuration, tensors: configuration.pop("frozen"))
    older = load(path, classes=[Fixed])
    assert not any(x.requires_grad for x in older.parameters())


@dataclass(frozen=True)
class Dressed(Circulant):
    """A structure of a user's with an argument of its own."""

    name: str = "plain"


def test_a_users_own_structure_comes_back_if_its_class_is_handed_over(tmp_path: Path) -> None:
    layer = SLiCE(3, Dressed(4, name="fancy"))
    save(layer, tmp_path / "layer")
    message = r"layer.*holds a Dressed; hand its class over: load\(\.\.\., classes=\[Dressed\]\)"
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "layer")
    again = load(tmp_path / "layer", classes=[Dressed])
    assert again.structure == layer.structure


def test_a_users_class_with_one_of_our_names_is_not_taken_for_ours(tmp_path: Path) -> None:
    own = dataclass(frozen=True)(type("Diagonal", (Diagonal,), {"__doc__": "Not slicekit's."}))
    save(SLiCE(3, own(4)), tmp_path / "layer")
    with pytest.raises(ValueError, match=r"holds a Diagonal; hand its class over"):
        load(tmp_path / "layer")
    assert type(load(tmp_path / "layer", classes=[own]).structure) is own
    save(SLiCE(3, Diagonal(4)), tmp_path / "ours")
    assert type(load(tmp_path / "ours", classes=[own]).structure) is Diagonal


class Wrapper(nn.Module):
    """A module of a user's that says how it was made."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.inner(x)

    def configuration(self) -> dict[str, Any]:
        return {"inner": self.inner, "factor": self.factor}


def test_a_users_own_module_comes_back_through_its_configuration(tmp_path: Path) -> None:
    model, x = Wrapper(SLiCE(3, Dense(4)), 0.1), torch.randn(2, 5, 3)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", classes=[Wrapper])
    assert torch.equal(again(x), model(x))


def test_what_can_not_be_described_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    gates = Pointwise(nn.Linear(4, 3), channels=3)
    model = SequenceModel(
        vocabulary=5, outputs=2, width=4, mixer=lambda width: SLiCE(width, Dense(4), drive=gates)
    )
    with pytest.raises(TypeError, match=r"model\.blocks\[0\]\.mixer\.drive is a Pointwise"):
        save(model, tmp_path / "model")
    with pytest.raises(TypeError, match=r"model is a Linear"):
        save(nn.Linear(2, 2), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_save_that_is_cut_short_leaves_the_old_file_and_no_other(
    error: type[BaseException], written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    old = make_model()
    save(old, path)

    def killed(_: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        raise error("killed")

    monkeypatch.setattr(*((files.os, "fsync") if written else (stored_files, "_in_order")), killed)
    with pytest.raises(error, match="killed"):
        save(make_model(), path)
    assert list(tmp_path.iterdir()) == [path]
    assert_equal(load(path), old)


def test_a_save_over_an_old_file_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(make_model(), path)
    new = make_model(layers=3)
    save(new, path)
    assert list(tmp_path.iterdir()) == [path]
    assert_equal(load(path), new)


def test_missing_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no model at .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=rf"no model at {tmp_path}"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no directory .*nowhere to write model to"):
        save(make_model(), tmp_path / "nowhere" / "model")


def test_truncated_files_are_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(make_model(), path)
    whole = path.read_bytes()
    for size in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"model is damaged or truncated"):
            load(path)
        assert path.read_bytes() == whole[:size]


def test_every_damage_to_the_header_is_noticed_or_harmless(tmp_path: Path) -> None:
    """One flipped bit: an error that names the file, or a model (of another dt, say)."""
    path = tmp_path / "model"
    save(make_model(), path)
    whole = path.read_bytes()
    size = 8 + int.from_bytes(whole[:8], "little")
    noticed = 0
    for place in range(0, size, 11):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 7
        path.write_bytes(damaged)
        try:
            assert isinstance(load(path), SequenceModel)
        except ValueError as error:
            assert str(path) in str(error)
            noticed += 1
    assert noticed > 0.9 * size / 11


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], None]) -> None:
    """Change the configuration and the tensors of a file, as one who knows about digests would."""
    with safe_open(path, framework="pt") as stored:
        configuration = json.loads(stored.metadata()["slicekit"])
        tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    change(configuration, tensors)
    text = json.dumps(configuration)
    save_file(tensors, path, metadata={"slicekit": text, "digest": digest(text, tensors)})


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"slicekit": "[1, 2]"}])
def test_a_file_of_someone_else_is_named(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
    with pytest.raises(
        ValueError, match=r"foreign.safetensors is a safetensors file, but no slice"
    ):
        load(path)


def _another_format(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["format"] = "slicekit-model-999"


def _an_unknown_class(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["class"] = "Mystery"


def _no_class(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    del configuration["model"]["class"]


def _no_module(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"] = 7


def _an_unknown_argument(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["colour"] = "red"


def _an_unfit_argument(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["channels"] = -3


def _another_class_of_torch(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["drive"] = {"nn": "DataParallel"}


def _something_of_torch(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["drive"] = {"nn": "functional"}


def _another_size(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["channels"] = 2


def _a_huge_size(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["structure"]["arguments"]["dim"] = 400_000


def _a_size_beyond_all(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"]["channels"] = 10**30


def _too_deep(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    for _ in range(420):
        configuration["model"] = {"list": [configuration["model"]]}


def _too_many_parts(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    sizes = {"vocabulary": 2, "outputs": 2, "width": 2, "layers": 10**9}
    arguments = sizes | {"mixer": {"nn": "Identity"}}
    configuration["model"] = {"class": "SequenceModel", "arguments": arguments}


def _a_class_that_is_none_of_ours(
    configuration: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    configuration["model"] = {"class": "Tensor", "arguments": {"*": {"tuple": [10**12]}}}


def _arguments_that_are_none(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["model"]["arguments"] = "none"


def _another_dtype(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    tensors["A.blocks"] = tensors["A.blocks"].long()


def _a_missing_tensor(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    del tensors["A.blocks"]


def _a_tensor_too_many(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    tensors["extra"] = torch.zeros(1)


def _a_frozen_word(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["frozen"] = "A.blocks"


def _a_frozen_stranger(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["frozen"] = ["A.blocks", "__class__"]


def _a_frozen_list(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    configuration["frozen"] = [["A.blocks"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_another_format, "is a safetensors file, but no slicekit model"),
        (_an_unknown_class, "can't be built again: it holds a Mystery; hand its class over"),
        (_no_class, "can't be built again: 'class'"),
        (_no_module, "can't be built again: it describes a int, not a module"),
        (_an_unknown_argument, "can't be built again: .*colour"),
        (_an_unfit_argument, "can't be built again: channels=-3; expected at least 1"),
        (_something_of_torch, "can't be built again: it names torch.nn.functional"),
        (_another_class_of_torch, "can't be built again: it names torch.nn.DataParallel"),
        (_another_size, r"the tensors do not fit the configuration: .*size mismatch for A\.blocks"),
        (_a_huge_size, r"the tensors do not fit the configuration: .*size mismatch for A\.blocks"),
        (_a_size_beyond_all, "can't be built again"),
        (_too_deep, "can't be built again: it is nested too deeply"),
        (_too_many_parts, "can't be built again: it describes far more parts than it has tensors"),
        (_a_class_that_is_none_of_ours, "can't be built again: it holds a Tensor"),
        (_arguments_that_are_none, "can't be built again: 'str' object has no attribute 'items'"),
        (_another_dtype, r"A\.blocks has dtype torch.int64; expected a floating dtype"),
        (_a_missing_tensor, r"the tensors do not fit the configuration: .*Missing key.*A\.blocks"),
        (_a_tensor_too_many, r"the tensors do not fit the configuration: .*Unexpected key.*extra"),
        (_a_frozen_word, "can't be built again: its frozen parameters are no list of names"),
        (_a_frozen_stranger, "can't be built again: it freezes '__class__', which is no parameter"),
        (_a_frozen_list, r"can't be built again: it freezes \['A.blocks'\], which is no parameter"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(
    change: Callable[[dict[str, Any], dict[str, Tensor]], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    save(SLiCE(3, Dense(4)), path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=rf"(?s){path}.*{message}"):
        load(path)


def test_every_flipped_bit_of_the_numbers_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(make_model(), path)
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for place in range(start, len(whole), 13):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model is damaged .* does not fit its digest"):
            load(path)


def test_an_older_file_loads_with_one_warning(tmp_path: Path) -> None:
    path, model = tmp_path / "model", make_model()
    save(model, path)
    with safe_open(path, framework="pt") as stored:
        text = stored.metadata()["slicekit"].replace("slicekit-model-2", "slicekit-model-1")
        tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata={"slicekit": text})
    with pytest.warns(UserWarning, match="model is from an older slicekit") as caught:
        again = load(path)
    assert len(caught) == 1
    assert_equal(again, model)
    save_file(tensors, path, metadata={"slicekit": text.replace("model-1", "model-2")})
    with pytest.raises(ValueError, match="does not fit its digest"):
        load(path)


def _too_few(places: Tensor) -> Tensor:
    return places[:-1]


def _of_another_dtype(places: Tensor) -> Tensor:
    return places.int()


def _in_another_order(places: Tensor) -> Tensor:
    return places.flip(0).contiguous()


def _twice_the_same(places: Tensor) -> Tensor:
    return torch.cat([places[:1], places[:-1]])


def _out_of_range(places: Tensor) -> Tensor:
    return torch.cat([places[:-1], places.new_tensor([4 * 8 * 8])])


@pytest.mark.parametrize("summed", [False, True], ids=["alone", "in a sum"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_too_few, r"expected one integer for each value"),
        (_of_another_dtype, r"places has dtype torch.int32"),
        (_in_another_order, r"places do not increase within 0\.\.255"),
        (_twice_the_same, r"places do not increase within"),
        (_out_of_range, r"places do not increase within"),
    ],
)
def test_damaged_places_of_a_sparse_structure_are_named(
    damage: Callable[[Tensor], Tensor], message: str, summed: bool, tmp_path: Path
) -> None:
    path, structure = tmp_path / "layer", Sparse(8, 0.5)
    layer = SLiCE(3, DirectSum(Diagonal(2), structure) if summed else structure)
    save(layer, path)
    name = "A.part1_places" if summed else "A.places"

    def change(configuration: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors[name] = damage(tensors[name])

    rewrite(path, change)
    with pytest.raises(ValueError, match=rf"{path}.*{message}"):
        load(path)
    if damage is not _of_another_dtype:  # which torch casts
        spoilt = layer.state_dict() | {name: damage(layer.state_dict()[name])}
        with pytest.raises(ValueError, match=message):
            layer.load_state_dict(spoilt)


@every_mixer
def test_every_mixer_comes_back_with_its_own_numbers(name: str, tmp_path: Path) -> None:
    mixer = MIXERS[name]()
    save(mixer, tmp_path / "mixer")
    before = torch.random.get_rng_state()
    again = load(tmp_path / "mixer")
    assert torch.equal(torch.random.get_rng_state(), before), "nothing is drawn"
    assert_equal(again, mixer)


def test_a_basis_made_while_loading_is_a_whole_one(tmp_path: Path) -> None:
    """Bases are kept for all layers, also if the first was asked for without numbers."""
    layer, x = SLiCE(5, Dense(3), flow=LogODE(depth=2, window=3)), torch.randn(2, 7, 5)
    save(layer, tmp_path / "layer")
    _basis.cache_clear()
    assert torch.equal(load(tmp_path / "layer")(x), layer(x))


def test_no_pickle_is_involved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("code from a file must not run")

    model = make_model(pool=Mean())
    with monkeypatch.context() as patched:
        for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
            patched.setattr(pickle, name, refuse)
        patched.setattr(torch, "save", refuse)
        patched.setattr(torch, "load", refuse)
        patched.setattr(builtins, "eval", refuse)
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
    assert_equal(again, model)


def test_the_file_is_plain_safetensors_for_everyone_else(tmp_path: Path) -> None:
    model = make_model()
    save(model, tmp_path / "model")
    with safe_open(tmp_path / "model", framework="pt") as stored:
        assert set(stored.keys()) == set(model.state_dict())
        configuration = json.loads(stored.metadata()["slicekit"])
    assert configuration["format"] == "slicekit-model-2"
    assert configuration["model"]["class"] == "SequenceModel"


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    layer, files = SLiCE(3, Diagonal(4)), set()
    for _ in range(12):
        save(layer, tmp_path / "layer.safetensors")
        files.add((tmp_path / "layer.safetensors").read_bytes())
    assert len(files) == 1
