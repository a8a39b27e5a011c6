"""A pool of processes that each do one job after the other, and are replaced when one of them dies."""

import multiprocessing
import queue
import signal
import threading

CONTEXT = multiprocessing.get_context("spawn")


class Died(Exception):
    """The process that did the job ended, or had to be ended."""


class Process:
    """Calls `serve(connection)` in a process: it receives jobs, sends results, and ends when a job is None."""

    def __init__(self, serve):
        self._connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def do(self, job, time_limit):
        """The job's result. After Died the process is gone."""
        try:
            self._connection.send(job)
            if self._connection.poll(time_limit):
                return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            raise Died(signal.Signals(-code).name if code < 0 else f"exit status {code}") from None
        self._process.kill()
        self._process.join()
        raise Died(f"no end within {time_limit} s")

    def close(self):
        try:
            self._connection.send(None)
        except OSError:
            return
        self._process.join()


def run_jobs(jobs, serve, when_died, processes, time_limit):
    """The results of `jobs` ({key: job}), by key; `when_died(reason)` is the result of one whose process died."""
    waiting, results = queue.SimpleQueue(), {}
    for item in jobs.items():
        waiting.put(item)

    def drive():
        process = None
        while not waiting.empty():
            try:
                key, job = waiting.get_nowait()
            except queue.Empty:
                break
            process = process or Process(serve)
            try:
                results[key] = process.do(job, time_limit)
            except Died as error:
                process, results[key] = None, when_died(str(error))
        if process:
            process.close()

    threads = [threading.Thread(target=drive) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
