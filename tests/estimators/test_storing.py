"""A saved estimator comes back whole, or the file is named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

pytest.importorskip("sklearn")

from slicekit import Diagonal, DirectSum, Orthogonal, Sparse
from slicekit.estimators import SliceClassifier, SliceRegressor
from slicekit.stored_files import digest
from tests.estimators.waves import BOTH, RIDGE, SMALL, gradient, ragged, waves

LABELS = [
    np.array(["ä", "b\n", "c"]),
    np.array([-1, 5, 2**40]),
    np.array([0.0, 1.0, 7.0]),
    np.array([True, False, True]),
    np.array(["x", "yy", "z"], dtype=object),
    np.array([1, 2, 3], dtype=np.int8),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda x: x.dtype.str)
@pytest.mark.parametrize("make", BOTH, ids=["ridge", "gradient"])
def test_labels_and_predictions_survive(make: Any, labels: Any, tmp_path: Path) -> None:
    X, times, y = ragged(gaps=0.2)
    model = SliceClassifier(**make(members=2)).fit(X, labels[y], times=times)
    model.save(tmp_path / "model")
    again = SliceClassifier.load(tmp_path / "model")
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X, times), model.predict(X, times))
    expected = model.predict_proba(X, times)
    np.testing.assert_array_equal(again.predict_proba(X, times), expected)
    assert again.history_ == model.history_


@pytest.mark.parametrize(
    "structure",
    [
        None,
        Diagonal(6),
        Orthogonal(8, block=4),
        Sparse(8, 0.5),
        DirectSum(Diagonal(4), Diagonal(2)),
    ],
    ids=str,
)
def test_parameters_survive(structure: Any, tmp_path: Path) -> None:
    X, y = waves(12)
    options: Any = gradient(structure=structure, width=np.int64(8), window=2)
    weights = {"slow": 2.0, "fast": np.float64(1.0)}
    model = SliceClassifier(**options, class_weight=weights).fit(X, y)
    model.save(tmp_path / "model")
    again = SliceClassifier.load(tmp_path / "model")
    told, expected = again.get_params(), model.get_params()
    del told["solver"], expected["solver"]
    assert told == expected
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X), model.predict_proba(X))


def test_a_random_state_object_is_not_stored(tmp_path: Path) -> None:
    X, y = waves(12)
    random: Any = np.random.RandomState(0)
    SliceClassifier(**SMALL | {"random_state": random}).fit(X, y).save(tmp_path / "model")
    assert SliceClassifier.load(tmp_path / "model").random_state is None


@pytest.mark.parametrize("targets", [(12,), (12, 2)])
def test_a_regressor_survives(targets: tuple[int, ...], tmp_path: Path) -> None:
    X, _ = waves(12, channels=1)
    model = SliceRegressor(**RIDGE).fit(X[:, 0], np.random.randn(*targets) * 9 + 4)
    model.save(tmp_path / "model")
    again = SliceRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[:, 0]), model.predict(X[:, 0]))
    assert vars(again)["n_features_in_"] == 20


def saved(folder: Path) -> Path:
    X, y = waves(12)
    SliceClassifier(**SMALL).fit(X, y).save(folder / "model.safetensors")
    return folder / "model.safetensors"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    for cut in (0, 5, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match=r"model\.safetensors"):
            SliceClassifier.load(path)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    save_file({"x": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"other\.safetensors .* no slicekit estimator"):
        SliceClassifier.load(tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="holds a SliceClassifier"):
        SliceRegressor.load(saved(tmp_path))
    with pytest.raises(FileNotFoundError, match="nothing"):
        SliceClassifier.load(tmp_path / "nothing")


def test_tensors_that_do_not_fit_are_an_error_with_the_name(tmp_path: Path) -> None:
    path = saved(tmp_path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    metadata = json.loads(raw[8 : 8 + size])["__metadata__"]
    tensors = load_file(path)
    tensors.pop(next(name for name in tensors if name.startswith("networks.")))
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged .* its digest"):
        SliceClassifier.load(path)
    metadata["digest"] = digest(metadata["slicekit"], as_torch(tensors))
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"model\.safetensors: the estimator can't be built"):
        SliceClassifier.load(path)


HOSTILE: dict[str, tuple[str, Any]] = {
    "a width": ("model.networks.0.arguments.width", 10**6),
    "a count": ("model.recipe.arguments.layers", "many"),
    "a name": ("fitted", {"predict": 3}),
    "channels": ("fitted.n_channels_in_", 5),
    "labels": ("fitted.classes_", {"dtype": "<U400000000", "values": ["a", "b", "c"]}),
    "an answer": ("fitted.classes_", {"dtype": "<U1", "values": list("abcd")}),
    "a window": ("model.windows.size", -1),
    "a duration": ("model.preparation.duration", "long"),
    "no networks": ("model.networks", []),
    "another network": ("model.networks.0", {"class": "Tensor", "arguments": {}}),
}


@pytest.mark.parametrize(("place", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_header_that_does_not_fit_is_an_error_with_the_name(
    place: str, value: Any, tmp_path: Path
) -> None:
    path = saved(tmp_path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["slicekit"])
    *way, last = place.split(".")
    inner = header
    for name in way:
        inner = inner[int(name) if isinstance(inner, list) else name]
    inner[int(last) if isinstance(inner, list) else last] = value
    text, tensors = json.dumps(header), load_file(path)
    metadata = {"slicekit": text, "digest": digest(text, as_torch(tensors))}
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"model\.safetensors: the estimator can't be built"):
        SliceClassifier.load(path)


def as_torch(tensors: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(x) for name, x in tensors.items()}


def test_what_can_not_be_described_leaves_the_old_file(tmp_path: Path) -> None:
    class Own(Diagonal):
        pass

    path = saved(tmp_path)
    before = path.read_bytes()
    X, y = waves(12)
    model = SliceClassifier(**SMALL).fit(X, y)
    model.classes_ = np.array([1j, 2j])
    with pytest.raises(TypeError, match="classes_"):
        model.save(path)
    assert path.read_bytes() == before
    assert [x.name for x in tmp_path.iterdir()] == [path.name]
    SliceClassifier(**gradient(structure=Own(8))).fit(X, y).save(path)
    with pytest.raises(ValueError, match=r"hand its class over"):
        SliceClassifier.load(path)
    assert SliceClassifier.load(path, classes=[Own]).get_params()["solver__structure"] == Own(8)


def test_a_file_that_does_not_fit_together_is_named(tmp_path: Path) -> None:
    X, y = waves(12)
    path = tmp_path / "model.safetensors"
    SliceClassifier(**RIDGE).fit(X, y).save(path)
    raw, tensors = path.read_bytes(), load_file(path)
    size = int.from_bytes(raw[:8], "little")
    told = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["slicekit"])

    def changed(pools: Any = None, **others: Any) -> None:
        header = json.loads(json.dumps(told))
        header["model"]["members"][0]["pools"][0][1] |= pools or {}
        text, now = json.dumps(header), tensors | others
        save_file(now, path, metadata={"slicekit": text, "digest": digest(text, as_torch(now))})
        with pytest.raises(ValueError, match=r"model\.safetensors: the estimator can't be built"):
            SliceClassifier.load(path)

    changed({"dilation": 10**12})
    changed({"level": -1})
    changed(**{"0.readouts.shares.columns": tensors["0.readouts.shares.columns"] + 10**6})
    changed(**{"0.pools.0.mixes": tensors["0.pools.0.mixes"][:, :1].copy()})
    changed(**{"0.weights": tensors["0.weights"][:2].copy()})


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    X, y = waves(12)
    with pytest.raises(FileNotFoundError, match="absent"):
        SliceClassifier(**SMALL).fit(X, y).save(tmp_path / "absent" / "model")
