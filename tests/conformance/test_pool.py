"""Processes that die or do not end cost one job."""

import os
import signal
import time

from pool import run_jobs


def serve(connection):
    while (job := connection.recv()) is not None:
        if job == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if job == "hang":
            time.sleep(3600)
        connection.send((job, os.getpid()))


def test_processes_are_replaced():
    jobs = {i: job for i, job in enumerate(["one", "two", "die", "three", "hang", "four"])}
    results = run_jobs(jobs, serve, lambda reason: reason, processes=1, time_limit=10)
    assert results[2] == "SIGSEGV"
    assert results[4] == "no end within 10 s"
    done = {results[i][0]: results[i][1] for i in (0, 1, 3, 5)}
    assert done["one"] == done["two"]
    assert len({done["two"], done["three"], done["four"]}) == 3


def test_jobs_are_shared_by_processes():
    results = run_jobs({i: i for i in range(40)}, serve, lambda reason: reason, processes=2, time_limit=60)
    assert [results[i][0] for i in range(40)] == list(range(40))
