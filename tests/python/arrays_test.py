"""Arrays of all kinds go in and come out, and no more are copied than have to be."""

import ml_dtypes
import numpy as np
import pytest
import weft
from conftest import model_of
from onnx import TensorProto, helper


def double_model(dtype=TensorProto.FLOAT, shape=(3, 4)):
    """y = x + x."""
    return model_of(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [("x", dtype, shape)],
        [("y", dtype, shape)],
    )


def ramp(dtype=np.float32, shape=(3, 4)):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.fixture(scope="module")
def double():
    return weft.compile(double_model())


class DLPackOnly:
    """An array that has DLPack and nothing else; `readonly` says what numpy says of its own."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "int8", "int16", "int32", "int64"]
    + ["uint8", "uint16", "uint32", "uint64"],
)
def test_numbers_of_each_type(dtype):
    x = ramp(dtype)
    y = weft.compile(double_model(helper.np_dtype_to_tensor_dtype(x.dtype)))(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x + x)


def test_bools():
    exe = weft.compile(
        model_of(
            [helper.make_node("Not", ["x"], ["y"])],
            [("x", TensorProto.BOOL, [3])],
            [("y", TensorProto.BOOL, [3])],
        )
    )
    y = exe(np.array([True, False, True]))
    assert y.dtype == np.bool_
    np.testing.assert_array_equal(y, [False, True, False])


def test_bfloat16_comes_and_goes_as_that_of_ml_dtypes():
    x = ramp(ml_dtypes.bfloat16)
    exe = weft.compile(double_model(TensorProto.BFLOAT16))
    assert exe.inputs[0].dtype == "bfloat16"
    y = exe(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), 2 * x.astype(np.float32))
    out = np.zeros_like(x)
    exe.run_into(out, x)
    np.testing.assert_array_equal(out, y)


def views(x):
    """Arrays with x's shape in other layouts, by name."""
    wide = np.zeros((3, 9), x.dtype)
    record = np.zeros(x.shape, [("pad", "u1"), ("v", x.dtype)])
    return {
        "fortran": np.asfortranarray(x),
        "reversed": np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
        "spread": wide[:, ::2][:, :4],
        "broadcast": np.broadcast_to(x[:1], x.shape),
        "unaligned": np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape),
        "field": record["v"],
    }


@pytest.mark.parametrize("kind", views(ramp()).keys())
def test_inputs_of_any_layout(double, kind):
    x = views(ramp())[kind]
    if x.flags.writeable and kind not in ("fortran", "reversed"):
        x[...] = ramp()
    np.testing.assert_array_equal(double(x), x + x)


@pytest.mark.parametrize("kind", ["fortran", "reversed", "spread"])
def test_outputs_of_other_layouts(double, kind):
    out = views(ramp())[kind]
    double.run_into(out, ramp())
    np.testing.assert_array_equal(out, 2 * ramp())


def test_a_dense_input_is_not_copied():
    """Half a gigabyte of input makes the process no larger by that."""
    n = 1 << 27
    exe = weft.compile(
        model_of(
            [helper.make_node("ReduceMax", ["x"], ["y"], keepdims=0)],
            [("x", TensorProto.FLOAT, [n])],
            [("y", TensorProto.FLOAT, [])],
        ),
        threads=1,
    )
    x = np.zeros(n, np.float32)
    x[5] = 3
    exe(x)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert exe(x) == 3
    with open("/proc/self/status") as status:
        after = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak < 2 * n * 4 / 1024 and after - peak < 1024


def test_read_only_arrays_go_in_and_are_refused_as_outputs(double):
    x = ramp()
    x.flags.writeable = False
    np.testing.assert_array_equal(double(x), x + x)
    np.testing.assert_array_equal(double(DLPackOnly(x)), x + x)
    for out in (x, DLPackOnly(x)):
        with pytest.raises(weft.InvalidInput, match="'y'.*read-only"):
            double.run_into(out, ramp())
    np.testing.assert_array_equal(x, ramp())


def test_dlpack(double):
    x, out = ramp(), np.zeros((3, 4), np.float32)
    np.testing.assert_array_equal(double(DLPackOnly(x)), x + x)
    np.testing.assert_array_equal(double(DLPackOnly(np.asfortranarray(x))), x + x)
    double.run_into([DLPackOnly(out)], x)
    np.testing.assert_array_equal(out, x + x)


def test_buffers_of_python(double):
    x = memoryview(ramp())
    np.testing.assert_array_equal(double(x), 2 * ramp())
    y = weft.compile(double_model(TensorProto.UINT8, [4]))(b"\1\2\3\4")
    np.testing.assert_array_equal(y, [2, 4, 6, 8])


def test_scalars_and_empty_arrays():
    exe = weft.compile(double_model(TensorProto.FLOAT, []))
    y = exe(np.float32(1.5))
    assert y.shape == () and y == 3
    exe = weft.compile(double_model(TensorProto.FLOAT, [0, 4]))
    assert exe(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_outputs_may_be_inputs(double):
    x = ramp()
    double.run_into(x, x)
    np.testing.assert_array_equal(x, 2 * ramp())


def test_inputs_and_outputs_by_name(add_model):
    exe = weft.compile(add_model, bind={"N": 2})
    x, y = ramp(shape=(2, 3)), np.ones((2, 3), np.float32)
    z, s = exe(y=y, x=x)
    np.testing.assert_array_equal(z, x + y)
    assert s == (x + y).sum()
    z2, s2 = exe(x, y=y)
    np.testing.assert_array_equal(z2, z)
    out = {"s": np.zeros((), np.float32), "z": np.zeros((2, 3), np.float32)}
    exe.run_into(out, x, y)
    np.testing.assert_array_equal(out["z"], z)
    assert out["s"] == s


@pytest.mark.parametrize(
    "tensors, named, text",
    [
        ((ramp((">f4")),), {}, "'x'"),
        ((ramp(np.complex64),), {}, "'x'"),
        (([[1.0]],), {}, "'x'.*list"),
        ((ramp(np.float64),), {}, "f64.*f32|f32.*f64"),
        ((ramp(shape=(4, 3)),), {}, "'x'.*3,4"),
        ((ramp(), ramp()), {}, "2 inputs.*has 1: x"),
        ((), {}, "no tensor.*x"),
        ((ramp(),), {"x": ramp()}, "'x' is given twice"),
        ((), {"z": ramp()}, "no input 'z'.*: x"),
    ],
)
def test_wrong_inputs_are_named(double, tensors, named, text):
    with pytest.raises(weft.InvalidInput, match=text):
        double(*tensors, **named)
    np.testing.assert_array_equal(double(ramp()), 2 * ramp())


def test_wrong_outputs_are_named(double):
    for outputs, text in [
        ([], "no tensor.*output y"),
        (np.zeros((3, 3), np.float32), "y"),
        ([ramp(), ramp()], "2 outputs.*has 1: y"),
        ({"q": ramp()}, "no output 'q'"),
        (ramp(np.float64), "y"),
    ]:
        with pytest.raises(weft.InvalidInput, match=text):
            double.run_into(outputs, ramp())
