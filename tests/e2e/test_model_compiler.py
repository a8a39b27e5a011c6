"""onnxruntime.ModelCompiler compiles like a session."""

import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from compiled_models import names
from models import matrix, product
from sessions import assert_same_outputs, cpu_session, run, tandem_session

SIZE = 96

pytestmark = pytest.mark.skipif(not hasattr(onnxruntime, "ModelCompiler"), reason="needs onnxruntime.ModelCompiler")


@pytest.mark.parametrize("embeds", [False, True])
def test_model_compiler(pair, tmp_path, embeds):
    paths, feed = pair
    expected = run(cpu_session(paths[0]), **feed)
    folder = tmp_path / "made"
    folder.mkdir()
    compiler = onnxruntime.ModelCompiler(tandem.session_options(), paths[0], embed_compiled_data_into_model=embeds)
    compiler.compile_to_file(str(folder / "one.onnx"))
    assert len(names(folder)) == (1 if embeds else 2)
    assert_same_outputs(run(tandem_session(folder / "one.onnx"), **feed), expected)


def test_model_compiler_in_memory(rng):
    model, feed = product(matrix(rng, SIZE, SIZE)), {"x": matrix(rng, 2, SIZE)}
    compiler = onnxruntime.ModelCompiler(tandem.session_options(), model.bytes(), embed_compiled_data_into_model=True)
    session = tandem_session(compiler.compile_to_bytes())
    assert_same_outputs(run(session, **feed), run(cpu_session(model), **feed))


def test_model_compiler_to_a_stream(pair, tmp_path):
    paths, feed = pair
    parts = []
    compiler = onnxruntime.ModelCompiler(tandem.session_options(), str(paths[0]), embed_compiled_data_into_model=True)
    if not hasattr(compiler, "compile_to_stream"):
        pytest.skip("needs compile_to_stream")
    compiler.compile_to_stream(lambda part: parts.append(bytes(part)))
    session = tandem_session(b"".join(parts))
    assert_same_outputs(run(session, **feed), run(cpu_session(paths[0]), **feed))


def test_model_compiler_without_a_place_for_the_bundle(rng):
    model = product(matrix(rng, SIZE, SIZE)).bytes()
    compiler = onnxruntime.ModelCompiler(tandem.session_options(), model, embed_compiled_data_into_model=False)
    with pytest.raises(Exception, match=r"set ep.context_file_path.*or ep.context_embed_mode to 1"):
        compiler.compile_to_bytes()
