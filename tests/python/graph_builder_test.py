"""Models that a program writes down."""

import numpy as np
import pytest
import weft


def test_a_loop_along_an_open_axis():
    b = weft.GraphBuilder()
    steps = weft.Extent.open("T")
    x = b.input("x", "float32", [steps, 3])
    zeros = b.broadcast_to(b.scalar("float32", 0), [3])

    def add(total, row):
        total = b.elementwise("add", [total, row])
        return [total, total]

    last, sums = b.scan([zeros], [x], add)
    b.output(last, "last")
    b.output(sums, "sums")
    exe = weft.compile(b.finish({"T": 2}))
    for length in (2, 5):
        rows = np.random.default_rng(0).standard_normal((length, 3), np.float32)
        last, sums = exe(rows)
        np.testing.assert_allclose(sums, rows.cumsum(0), rtol=1e-5)
        np.testing.assert_allclose(last, rows.sum(0), rtol=1e-5)


def test_branches_and_conditions():
    b = weft.GraphBuilder()
    x = b.input("x", "float32", [3])
    below = lambda limit: lambda y: b.elementwise(
        "lt", [b.reduce("sum", y, [0], False), b.scalar("float32", limit)]
    )
    (doubled,) = b.while_loop([x], below(100), lambda y: [b.elementwise("add", [y, y])])
    negated = lambda: b.elementwise("neg", [doubled])
    (y,) = b.conditional(below(150)(doubled), lambda: doubled, negated)
    b.output(y, "y")
    exe = weft.compile(b.finish())
    np.testing.assert_array_equal(exe(np.array([1, 1, 2], np.float32)), [32, 32, 64])
    np.testing.assert_array_equal(exe(np.array([1, 1, 4], np.float32)), [-32, -32, -128])


def test_transforms_of_complex_numbers():
    b = weft.GraphBuilder()
    x = b.input("x", "float64", [5, 6])
    real, imaginary = b.fourier(x, None, 1)
    back, rest = b.fourier(real, imaginary, axis=1, inverse=True)
    half = b.fourier(x, None, 1, bins=4)
    for name, made in zip("abcde", (real, imaginary, back, rest, half[1])):
        b.output(made, name)
    b.output(b.real_fourier_inverse(*half, axis=1, length=6), "f")
    signal = np.cos(np.arange(30.0)).reshape(5, 6)
    spectrum = np.fft.fft(signal)
    expected = [spectrum.real, spectrum.imag, signal, 0 * signal, spectrum.imag[:, :4], signal]
    for made, wanted in zip(weft.compile(b.finish())(signal), expected):
        np.testing.assert_allclose(made, wanted, atol=1e-12)


def test_what_a_region_raises_comes_out():
    b = weft.GraphBuilder()
    x = b.input("x", "float32", [3, 2])

    def fail(row):
        raise KeyError("no row")

    with pytest.raises(KeyError, match="no row"):
        b.scan([], [x], fail)
    b.output(b.scan([], [x], lambda row: [row])[0], "y")
    exe = weft.compile(b.finish())
    np.testing.assert_array_equal(exe(np.ones((3, 2), np.float32)), np.ones((3, 2)))
