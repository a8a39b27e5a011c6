"""The option cache_dir: what is compiled is kept for later processes, and found by content."""

import gc
import os
import shutil

import pytest
from compiled_models import compile_model, damage, names, packed_tensor
from models import chain, interrupted, matrix, product
from processes import in_process
from sessions import assert_same_outputs, cpu_session, run, tandem_session

SIZE = 256


def open_session(model, cache, report, **options):
    return tandem_session(model, cache_dir=cache, report_file=report.file, **options)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def test_a_later_session_uses_the_bundle_in_place(cache, alone, rng, tmp_path):
    model, feed = chain(matrix(rng, SIZE, SIZE), matrix(rng, SIZE, SIZE)), {"x": matrix(rng, 2, SIZE)}
    first = open_session(model, cache, alone)
    assert alone.process["weight_bytes_in_private_memory"] > 0
    expected = run(first, **feed)
    assert_same_outputs(expected, run(cpu_session(model), **feed))
    del first
    gc.collect()
    assert len(names(cache)) == 1

    elsewhere = model.save(tmp_path / "renamed" / "copy.onnx")
    second = open_session(elsewhere, cache, alone)
    assert alone.process["weight_bytes_in_private_memory"] == 0
    assert_same_outputs(run(second, **feed), expected, 0)
    assert len(names(cache)) == 1


def private_bytes(model, cache, report_file):
    from sessions import Report

    report = Report(report_file)
    session = open_session(model, cache, report)
    private = report.process["weight_bytes_in_private_memory"]
    del session
    return private


def test_another_process_finds_it(cache, rng, tmp_path):
    path = product(matrix(rng, SIZE, SIZE)).save(tmp_path / "model.onnx")
    arguments = (str(path), str(cache), str(tmp_path / "report.json"))
    assert in_process(private_bytes, *arguments, folder=tmp_path) > 0
    assert in_process(private_bytes, *arguments, folder=tmp_path) == 0


def test_models_over_the_same_weights_share_a_bundle(cache, rng, report):
    weight = matrix(rng, SIZE, SIZE)
    for model in (product(weight), chain(weight), product(matrix(rng, SIZE, SIZE))):
        open_session(model, cache, report)
    assert len(names(cache)) == 2
    sizes = sorted(path.stat().st_size for path in cache.iterdir())
    assert sizes[1] < 1.5 * sizes[0], "one copy of the weight that two models have"


def test_a_model_with_other_weights_is_not_found(cache, rng, alone):
    for _ in range(2):
        session = open_session(product(matrix(rng, SIZE, SIZE)), cache, alone)
        assert alone.process["weight_bytes_in_private_memory"] > 0
        del session
        gc.collect()


def test_damage_is_repaired(cache, rng, report, capfd):
    model, feed = product(matrix(rng, SIZE, SIZE)), {"x": matrix(rng, 2, SIZE)}
    expected = run(open_session(model, cache, report), **feed)
    [bundle] = cache.iterdir()
    gc.collect()
    for at in (packed_tensor(bundle), 50):
        time = bundle.stat().st_mtime_ns
        damage(bundle, at)
        os.utime(bundle, ns=(time, time))
        for built_again in (True, False):
            assert_same_outputs(run(open_session(model, cache, report, verify="full"), **feed), expected, 0)
            assert ("cache_dir: built again" in capfd.readouterr().err) == built_again
            gc.collect()


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path, rng, report, capfd):
    file = tmp_path / "file"
    file.write_text("")
    model, feed = product(matrix(rng, SIZE, SIZE)), {"x": matrix(rng, 2, SIZE)}
    session = open_session(model, file / "cache", report)
    assert_same_outputs(run(session, **feed), run(cpu_session(model), **feed))
    assert capfd.readouterr().err.count("cache_dir: nothing is kept") == 1


def test_the_limit_is_kept(cache, rng, report, capfd):
    models = [product(matrix(rng, 512, 512)) for _ in range(3)]
    for model in models:
        open_session(model, cache, report, cache_size_limit=3)
    assert len(names(cache)) == 2, "each takes more than a MiB"
    open_session(models[0], cache, report, cache_size_limit=1)
    assert "cache_size_limit is 1.0 MiB" in capfd.readouterr().err
    assert len(names(cache)) == 2


def test_the_least_recently_used_makes_room(cache, rng, report):
    models = [product(matrix(rng, 512, 512)) for _ in range(3)]
    bundles = []
    for model in models[:2]:
        open_session(model, cache, report, cache_size_limit=3)
        [new] = set(cache.iterdir()) - set(bundles)
        bundles.append(new)
    for age, bundle in zip((7200, 9000), bundles, strict=True):
        status = bundle.stat()
        os.utime(bundle, ns=(status.st_atime_ns - age * 10**9, status.st_mtime_ns))
    open_session(models[1], cache, report, cache_size_limit=3)  # is used now
    open_session(models[2], cache, report, cache_size_limit=3)
    assert not bundles[0].exists()
    assert bundles[1].exists()


def test_compiling_takes_precedence(cache, rng, tmp_path):
    path = compile_model(product(matrix(rng, SIZE, SIZE)), tmp_path / "compiled.onnx", cache_dir=cache)
    assert path.exists()
    assert not cache.exists()


def test_partitions(cache, rng, report):
    model = interrupted(rng, SIZE)
    feed = {"x": matrix(rng, 2, SIZE)}
    expected = run(cpu_session(model), **feed)
    for _ in range(2):
        session = open_session(model, cache, report, whole=False)
        assert_same_outputs(run(session, **feed), expected, 1e-4)
        del session
        gc.collect()
    assert report is not None
    assert len(names(cache)) == 2, "of different weights"
    shutil.rmtree(cache)
