"""Models in, executables out."""

import json

import numpy as np
import pytest
import weft
from conftest import model_of
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def test_a_file_a_path_bytes_and_a_proto_give_the_same(dense_model, path_of):
    x = random(2, 4)
    (expected,) = ReferenceEvaluator(dense_model).run(None, {"x": x})
    path = path_of(dense_model)
    content = path.read_bytes()
    for model in (str(path), path, content, bytearray(content), memoryview(content), dense_model):
        y = weft.compile(model)(x)
        assert isinstance(y, np.ndarray) and y.dtype == np.float32
        np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_specs(dense_model, add_model):
    exe = weft.compile(dense_model)
    assert exe.inputs == [weft.TensorSpec("x", "float32", (2, 4))]
    assert exe.outputs == [weft.TensorSpec("y", "float32", (2, 5))]
    assert weft.compile(add_model).inputs[1].shape == ("N", 3)


@pytest.mark.parametrize("options", [{"plan": "none"}, {"plan": "xla"}, {"threads": 1}])
def test_options(dense_model, options):
    x = random(2, 4)
    expected = weft.compile(dense_model)(x)
    exe = weft.compile(dense_model, **options)
    np.testing.assert_allclose(exe(x), expected, rtol=1e-5)
    if options.get("plan") == "none":
        assert exe.kernel_count > weft.compile(dense_model).kernel_count


def test_new_shapes_bind_by_themselves_and_few_are_kept(add_model):
    exe = weft.compile(add_model, max_bindings=2)
    assert exe.bindings == 0
    for n, kept in [(2, 1), (5, 2), (2, 2), (7, 2), (5, 2)]:
        x, y = random(n, 3), random(n, 3)
        z, s = exe(x, y)
        np.testing.assert_allclose(z, x + y, rtol=1e-6)
        np.testing.assert_allclose(s, (x + y).sum(), rtol=1e-4, atol=1e-5)
        assert exe.bindings == kept
    out = [np.zeros((4, 3), np.float32), np.zeros((), np.float32)]
    exe.run_into(out, random(4, 3), random(4, 3))
    np.testing.assert_allclose(out[0], 2 * random(4, 3), rtol=1e-6)


def test_shapes_are_a_start_and_bindings_stay(add_model):
    exe = weft.compile(add_model, shapes={"x": (2, 3)})
    assert exe.bindings == 1
    assert exe(random(4, 3), random(4, 3))[0].shape == (4, 3)
    exe = weft.compile(add_model, bind={"N": 2})
    assert exe.bindings == 1
    with pytest.raises(weft.InvalidInput, match="N"):
        exe(random(4, 3), random(4, 3))
    with pytest.raises(weft.InvalidInput, match="'y'|N"):
        exe(random(2, 3), random(4, 3))


def test_other_types_compile_nothing(add_model):
    exe = weft.compile(add_model)
    with pytest.raises(weft.InvalidInput, match="'y' is f64, the model wants f32"):
        exe(random(2, 3), random(2, 3).astype(np.float64))
    assert exe.bindings == 0


def test_saved_models_load(dense_model, tmp_path):
    x = random(2, 4)
    exe = weft.compile(dense_model)
    exe.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft", threads=1)
    assert loaded.inputs == exe.inputs and loaded.outputs == exe.outputs
    np.testing.assert_array_equal(loaded(x), exe(x))
    assert loaded.explain() == exe.explain()


def test_explanations(dense_model, add_model):
    exe = weft.compile(dense_model)
    assert "kernels" in exe.explain()
    told = exe.explain_dict()
    assert told["ops"] == 3
    assert sum(len(kernel["ops"]) for kernel in told["kernels"]) >= 3
    assert exe.arena_bytes >= 0
    with pytest.raises(weft.InvalidInput, match="shapes="):
        weft.compile(add_model).explain()


def data_of(page):
    text = page.read_text()
    begin = text.index('<script id="data" type="application/json">')
    return json.loads(text[text.index(">", begin) + 1 : text.index("</script>", begin)])


def test_the_page(dense_model, add_model, tmp_path):
    exe = weft.compile(dense_model)
    page = tmp_path / "plan.html"
    assert exe.explain(html=page) == exe.explain()
    data = data_of(page)
    assert data["plan"] == exe.explain_dict()
    assert all(data["texts"][k["tile"]].startswith("kernel ") for k in data["kernel_texts"])
    exe.save(tmp_path / "m.weft")
    weft.load(tmp_path / "m.weft").explain(html=str(page))
    assert data_of(page)["plan"] == exe.explain_dict()
    assert data_of(page)["texts"] == []
    bound_later = weft.compile(add_model)
    bound_later(random(5, 3), random(5, 3))
    bound_later.explain(html=page)
    assert data_of(page)["inputs"][0]["shape"] == [5, 3]
    with pytest.raises(weft.InvalidInput):
        exe.explain(html=tmp_path / "no" / "plan.html")


def test_the_cache(dense_model, tmp_path):
    x = random(2, 4)
    first = weft.compile(dense_model, cache_dir=tmp_path)
    y = first(x)
    del first  # which waits for its entry
    assert any(tmp_path.iterdir())
    np.testing.assert_array_equal(weft.compile(dense_model, cache_dir=tmp_path)(x), y)


def test_progress(dense_model):
    told = []
    weft.compile(dense_model, progress=lambda *step: told.append(step))
    assert ("plan", 0, 0) in told
    name, done, total = told[-1]
    assert name == "generate" and done == total > 0

    def fail(*step):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        weft.compile(dense_model, progress=fail)


def test_targets():
    names = [target.name for target in weft.targets()]
    assert names[:2] == ["cpu", "cuda"]
    assert weft.targets()[0].is_here and "cores" in weft.targets()[0].description


def test_errors_have_the_class_of_the_exit_code(dense_model, path_of, tmp_path):
    assert issubclass(weft.InvalidInput, (weft.Error, ValueError))
    with pytest.raises(weft.InvalidInput, match="none.onnx") as raised:
        weft.compile(tmp_path / "none.onnx")
    assert raised.value.code == 2
    with pytest.raises(weft.InvalidInput, match="no such plan"):
        weft.compile(dense_model, plan="no such plan")
    with pytest.raises(weft.InvalidInput):
        weft.compile(b"this is no model")
    with pytest.raises(weft.InvalidInput):
        weft.load(path_of(dense_model))
    odd = model_of(
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, [2])],
        [("y", TensorProto.FLOAT, [2])],
    )
    with pytest.raises(weft.Unsupported, match="NoSuchOperator") as raised:
        weft.compile(odd)
    assert raised.value.code == 3
    if not any(target.name == "cuda" and target.is_here for target in weft.targets()):
        with pytest.raises(weft.MissingDevice) as raised:
            weft.compile(dense_model, target="cuda")
        assert raised.value.code == 4
    with pytest.raises(TypeError, match="dict"):
        weft.compile({})



def test_names_that_are_no_utf8_are_shown_escaped():
    model = model_of(
        [helper.make_node("Neg", ["x??"], ["y"])],
        [("x??", TensorProto.FLOAT, [2])],
        [("y", TensorProto.FLOAT, [2])],
    )
    exe = weft.compile(model.SerializeToString().replace(b"x??", b"x\xff\xfe"))
    assert exe.inputs[0].name == "x\\xff\\xfe"
    np.testing.assert_array_equal(exe(np.ones(2, np.float32)), [-1, -1])
    with pytest.raises(weft.InvalidInput, match=r"x\\xff"):
        exe()
