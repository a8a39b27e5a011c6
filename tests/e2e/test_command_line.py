"""python -m onnxruntime_ep_tandem, and the functions behind it."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime_ep_tandem as tandem
import pytest
from compiled_models import damage, names, packed_tensor
from models import chain, matrix, product
from onnxruntime_ep_tandem import bundles, profiles
from sessions import assert_close, assert_same_outputs, cpu_session, run, tandem_session

SIZE = 64


def command(*arguments):
    result = [sys.executable, "-m", "onnxruntime_ep_tandem", *map(str, arguments)]
    return subprocess.run(result, capture_output=True, text=True, timeout=60)


@pytest.fixture
def models(tmp_path, rng):
    shared, own = matrix(rng, SIZE, SIZE), matrix(rng, SIZE, SIZE)
    return [
        product(shared).save(tmp_path / "source" / "one.onnx"),
        chain(shared, own).save(tmp_path / "source" / "two.onnx"),
    ]


@pytest.fixture
def bundle(models, tmp_path):
    return tandem.compile(models, tmp_path / "compiled")


def test_info_names_library_and_devices():
    result = command("info")
    assert result.returncode == 0, result.stderr
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert lines[0] == ["library", tandem.get_library_path()]
    assert lines[1][0] == "device"
    assert lines[1][1].startswith("CPU")


def test_report_of_models_shows_what_they_share(models):
    result = command("report", *models, "--option", "fold=off", "--option", "num_of_threads=1")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [session["model"] for session in report["sessions"]] == [str(path) for path in models]
    assert report["sessions"][0]["unshared_bytes"] == 0
    assert report["sessions"][0]["options"]["fold"] == "off"


def test_compile_makes_a_model_for_each_and_one_bundle(models, tmp_path, rng):
    folder = tmp_path / "compiled"
    result = command("compile", *models, "-o", folder, "--option", "num_of_threads=1", "--device", "CPU")
    assert result.returncode == 0, result.stderr
    assert "2 of 2: two.onnx" in result.stderr
    assert "saved by sharing   0.0 MB" in result.stdout
    assert names(folder) == ["one.onnx", "one_TandemExecutionProvider.safetensors", "two.onnx"]
    feed = {"x": matrix(rng, 2, SIZE)}
    for model in models:
        expected = run(cpu_session(model), **feed)
        assert_same_outputs(run(tandem_session(folder / model.name), **feed), expected)


def test_compile_does_not_overwrite(models, tmp_path):
    tandem.compile(models[:1], tmp_path / "compiled", bundle="all.safetensors")
    with pytest.raises(FileExistsError, match=r"one\.onnx' exists already"):
        tandem.compile(models, tmp_path / "compiled")
    with pytest.raises(FileExistsError, match="two models become"):
        tandem.compile([models[0], models[0]], tmp_path / "other")
    tandem.compile(models[1:], tmp_path / "compiled", bundle="all.safetensors")
    assert names(tmp_path / "compiled") == ["all.safetensors", "one.onnx", "two.onnx"]


def test_inspect_tells_who_uses_what(bundle):
    found = bundles.inspect(bundle)
    assert len(found["programs"]) == 2
    assert sorted(len(weight["programs"]) for weight in found["weights"]) == [1, 2]
    [shared] = [weight for weight in found["weights"] if len(weight["programs"]) == 2]
    assert shared["form"] == "packed"
    assert set(shared["names"]) == {"w", "w0"}
    assert found["saved_bytes"] == shared["bytes"] == SIZE * SIZE * 4
    assert found["file_bytes"] == bundle.stat().st_size
    result = command("inspect", bundle, "--json")
    assert json.loads(result.stdout) == found
    result = command("inspect", bundle)
    assert result.returncode == 0, result.stderr
    assert "format 1.0" in result.stdout
    assert "x -> y" in result.stdout


def test_verify_finds_damage(bundle):
    assert command("verify", bundle).stdout.strip().endswith("tensors are as they were written")
    for at in (packed_tensor(bundle), 300):
        damage(bundle, at)
        result = command("verify", bundle)
        assert result.returncode == 1
        assert str(bundle) in result.stderr
        assert "Traceback" not in result.stderr
        damage(bundle, at)
    bundle.write_bytes(bundle.read_bytes()[:-1])
    assert "is truncated: found" in command("verify", bundle).stderr


def test_what_is_no_bundle(tmp_path):
    file = tmp_path / "file"
    for content in (b"", b"x" * 100, b"\x02\0\0\0\0\0\0\0{}"):
        file.write_bytes(content)
        with pytest.raises(bundles.BundleError, match="is no bundle"):
            bundles.inspect(file)


def test_run_reads_and_writes_arrays(models, tmp_path, rng):
    x = matrix(rng, 3, SIZE)
    np.save(tmp_path / "x.npy", x)
    result = command("run", models[0], "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"y  float32[3, {SIZE}]\n"
    assert_close(np.load(tmp_path / "out" / "y.npy"), run(cpu_session(models[0]), x=x)["y"])
    result = command("run", models[0])
    assert result.returncode == 1
    assert "give --input NAME=FILE.npy for x tensor(float)" in result.stderr


def test_profile_sums_up_by_type_and_by_node(models, tmp_path, rng):
    file = tmp_path / "profile.json"
    session = tandem_session(models[1], profile_file=file)
    for _ in range(3):
        run(session, x=matrix(rng, 1000, SIZE))  # operators are too short to be measured otherwise
    result = command("profile", file)
    assert result.returncode == 1
    assert "has no run of Tandem; a profile is written when its session ends" in result.stderr
    del session
    found = profiles.summary(file)
    assert found["runs"] == 3
    assert found["runs_us"] >= found["ops_us"] > 0
    assert {row["op_name"]: row["count"] for row in found["types"]} == {"SharedMatMul": 6, "Relu": 6}
    assert {row["count"] for row in found["nodes"]} == {3}
    for table in (found["types"], found["nodes"]):
        assert sum(row["us"] for row in table) == pytest.approx(found["ops_us"])
    result = command("profile", file, "--top", "1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("3 runs, ")
    assert "SharedMatMul  Tandem in OpenVINO" in result.stdout
    assert "3 more; --top shows them" in result.stdout
    assert "between operators: " in result.stdout


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1}', '{"weights": []}', "[]"])
def test_what_is_no_profile(tmp_path, content):
    file = tmp_path / "file"
    file.write_text(content)
    result = command("profile", file)
    assert result.returncode == 1
    assert f"'{file}'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: command"),
        (["report"], "required: MODEL"),
        (["report", "x.onnx", "--option", "fold"], "'fold' is not NAME=VALUE"),
        (["compile", "x.onnx"], "required: -o"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_wrong_command_lines_are_refused(arguments, message):
    result = command(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_model_that_does_not_exist(tmp_path):
    for arguments in (["report"], ["compile", "-o", tmp_path / "out"], ["run"]):
        result = command(*arguments, tmp_path / "nothing.onnx")
        assert result.returncode == 1
        assert "nothing.onnx" in result.stderr
        assert "Traceback" not in result.stderr


def test_an_option_that_does_not_exist(models):
    result = command("report", models[0], "--option", "precison=FP32")
    assert result.returncode == 1
    assert "did you mean 'precision'" in result.stderr
