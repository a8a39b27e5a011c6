"""Sessions are used and made from several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from models import Model, chain, matrix, product
from sessions import assert_close, run, tandem_session

THREADS = 4
SIZE = 128


def in_threads(work, *arguments):
    """Results of `work`, called in THREADS threads with one of each argument; the first exception, if one fails."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, *arguments))


@pytest.fixture
def weights(rng):
    return matrix(rng, SIZE, SIZE)


def assert_right(session, weights, batches, rng):
    """Products of many different inputs."""
    for batch in batches:
        x = matrix(rng, batch, SIZE)
        assert_close(run(session, x=x)["y"], x @ weights)


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("batch", ["batch", 2], ids=["dynamic", "static"])
def test_threads_on_one_session_get_their_own_results(weights, streams, batch):
    session = tandem_session(product(weights, (batch, None)), num_streams=streams)

    def work(seed):
        rng = np.random.default_rng(seed)
        batches = rng.integers(1, 9, 50) if batch == "batch" else [2] * 50
        assert_right(session, weights, batches, rng)

    in_threads(work, range(THREADS))


def test_threads_on_a_folded_session_get_their_own_results(rng):
    matrices = [matrix(rng, SIZE, SIZE) / 8 for _ in range(8)]
    session = tandem_session(chain(*matrices), fold="on", num_streams=2)

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            x = matrix(rng, rng.integers(1, 9), SIZE)
            expected = x
            for weight in matrices:
                expected = np.maximum(expected @ weight, 0)
            assert_close(run(session, x=x)["y"], expected, 1e-5)

    in_threads(work, range(THREADS))


def test_sessions_run_at_the_same_time(rng):
    matrices = [matrix(rng, SIZE, SIZE) for _ in range(THREADS)]
    sessions = [tandem_session(product(weights)) for weights in matrices]

    def work(session, weights, seed):
        assert_right(session, weights, [3] * 50, np.random.default_rng(seed))

    in_threads(work, sessions, matrices, range(THREADS))


def test_sessions_of_shared_weights_run_at_the_same_time(weights):
    sessions = [tandem_session(product(weights, (batch, None))) for batch in (1, 2, 3, 4)]

    def work(session, batch, seed):
        assert_right(session, weights, [batch] * 50, np.random.default_rng(seed))

    in_threads(work, sessions, (1, 2, 3, 4), range(THREADS))


def test_sessions_made_at_the_same_time_share_weights(tmp_path, alone, rng):
    matrices = [matrix(rng, SIZE, SIZE) for _ in range(6)]
    path = chain(*matrices).save(tmp_path / "model.onnx")

    sessions = in_threads(lambda _: tandem_session(path, report_file=alone.file), range(2 * THREADS))
    assert alone.process["sessions"] == len(sessions)
    assert alone.process["forms"]["packed"]["count"] == len(matrices)
    x = matrix(rng, 2, SIZE)
    first, *others = [run(session, x=x)["y"] for session in sessions]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_sessions_come_and_go_in_every_thread(tmp_path, weights):
    path = product(weights).save(tmp_path / "model.onnx")

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(10):
            assert_right(tandem_session(path), weights, [1, 3], rng)

    in_threads(work, range(THREADS))


def test_a_failing_run_does_not_disturb_the_others(rng):
    table = matrix(rng, SIZE, SIZE)
    model = Model()
    ids = model.input("ids", ["n"], np.int64)
    model.output(model.add("Gather", model.weight(table), ids, name="y"))
    session = tandem_session(model, num_streams=2)

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            ids = rng.integers(0, SIZE, 5)
            if seed % 2:
                with pytest.raises(Exception, match="is outside"):
                    run(session, ids=ids + SIZE)
            else:
                np.testing.assert_array_equal(run(session, ids=ids)["y"], table[ids])

    in_threads(work, range(THREADS))
