"""weft.InferenceSession beside onnxruntime's."""

import numpy as np
import onnxruntime
import pytest
import weft
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper


def sessions(model):
    content = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return [
        kind(content, sess_options=options, providers=providers)
        for kind in (onnxruntime.InferenceSession, weft.InferenceSession)
    ]


def test_runs_as_onnxruntime_does(add_model):
    feed = {"x": np.ones((2, 3), np.float32), "y": np.full((2, 3), 2, np.float32)}
    theirs, ours = sessions(add_model)
    for names in (None, ["s"], ["s", "z"]):
        expected, results = theirs.run(names, feed), ours.run(names, feed)
        assert isinstance(results, list) and len(results) == len(expected)
        for a, b in zip(results, expected):
            np.testing.assert_allclose(a, b)


def test_describes_the_model_as_onnxruntime_does(add_model):
    theirs, ours = sessions(add_model)
    for describe in ("get_inputs", "get_outputs"):
        for a, b in zip(getattr(ours, describe)(), getattr(theirs, describe)()):
            assert (a.name, a.type, a.shape) == (b.name, b.type, b.shape)


def test_random_numbers():
    model = model_of(
        [
            helper.make_node("RandomNormalLike", ["x"], ["noise"]),
            helper.make_node("Add", ["x", "noise"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["N", 100])],
        [("y", TensorProto.FLOAT, ["N", 100])],
    )
    session = weft.InferenceSession(model.SerializeToString())
    assert [arg.name for arg in session.get_inputs()] == ["x"]
    for rows in (50, 70):
        feed = {"x": np.full((rows, 100), 5, np.float32)}
        weft.set_seed(1)
        (a,), (b,) = session.run(None, feed), session.run(None, feed)
        weft.set_seed(1)
        (again,) = session.run(None, feed)
        np.testing.assert_array_equal(a, again)
        assert (a != b).mean() > 0.99
        assert abs(a.mean() - 5) < 0.1 and abs(a.std() - 1) < 0.1


def test_wrong_names(add_model):
    session = weft.InferenceSession(add_model.SerializeToString())
    feed = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 3), np.float32)}
    with pytest.raises(weft.InvalidInput, match="no output 'q'.*z, s"):
        session.run(["q"], feed)
    with pytest.raises(weft.InvalidInput, match="no tensor.*y"):
        session.run(None, {"x": feed["x"]})


def test_artefacts(dense_model, tmp_path):
    exe = weft.compile(dense_model)
    exe.save(tmp_path / "m.weft")
    x = np.ones((2, 4), np.float32)
    (y,) = weft.InferenceSession(tmp_path / "m.weft").run(None, {"x": x})
    np.testing.assert_array_equal(y, exe(x))


def test_sizes_that_depend_on_values():
    """Boxes that are left over: as many as onnxruntime leaves, whatever the image."""
    nodes = [
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node(
            "NonMaxSuppression", ["boxes", "scores", "most", "overlap", "score"], ["chosen"]
        ),
        helper.make_node("Gather", ["chosen", "column"], ["place"], axis=1),
        helper.make_node("Squeeze", ["boxes", "first"], ["flat"]),
        helper.make_node("Gather", ["flat", "place"], ["found"], axis=0),
        helper.make_node("ReduceMax", ["found", "row"], ["largest"], keepdims=0),
    ]
    constants = {
        "most": np.array([100], np.int64),
        "overlap": np.array([0.4], np.float32),
        "score": np.array([0.5], np.float32),
        "column": np.array(2, np.int64),
        "first": np.array([0], np.int64),
        "row": np.array([1], np.int64),
    }
    model = model_of(
        nodes,
        [("boxes", TensorProto.FLOAT, [1, "N", 4]), ("logits", TensorProto.FLOAT, [1, 2, "N"])],
        [
            ("found", TensorProto.FLOAT, ["M", 4]),
            ("largest", TensorProto.FLOAT, ["M"]),
            ("place", TensorProto.INT64, ["M"]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    theirs, ours = sessions(model)
    random = np.random.default_rng(3)
    counts = set()
    for boxes in (40, 40, 25, 60, 1):
        corners = random.random((1, boxes, 2), dtype=np.float32)
        sizes = 0.05 + 0.3 * random.random((1, boxes, 2), dtype=np.float32)
        feed = {
            "boxes": np.concatenate([corners, corners + sizes], axis=2),
            "logits": random.standard_normal((1, 2, boxes), dtype=np.float32),
        }
        expected, results = theirs.run(None, feed), ours.run(None, feed)
        for a, b in zip(results, expected, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b)
        counts.add(len(results[0]))
    assert len(counts) > 2
    with pytest.raises(weft.InvalidInput, match="depend on values"):
        ours.executable.save("never.weft")
