"""Models in, arrays out."""

import numpy as np
import weft
from onnx.reference import ReferenceEvaluator


def test_a_file_a_path_bytes_and_a_proto_give_the_same(dense_model, path_of):
    x = np.random.default_rng(1).standard_normal((2, 4), np.float32)
    (expected,) = ReferenceEvaluator(dense_model).run(None, {"x": x})
    path = path_of(dense_model)
    for model in (str(path), path, path.read_bytes(), bytearray(path.read_bytes()), dense_model):
        y = weft.compile(model)(x)
        assert isinstance(y, np.ndarray) and y.dtype == np.float32
        np.testing.assert_allclose(y, expected, rtol=1e-5)
