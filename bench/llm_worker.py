"""A process of the LLM benchmark: one candidate, as its parent asks."""

import llm_candidates
import numpy as np
from llm_candidates import Task
from worker import distance

IDS = "ids.npy"  # files of the folder that parent and workers share
LOGITS, GREEDY = "{form}.{weights}.logits.npy", "greedy.{prompt}.{weights}.npz"


class LlmWorker:
    """One candidate and its tasks by name. Each public method is a request; a task is given as its fields."""

    def __init__(self, candidate, folder, exchange, threads):
        self._made_of = candidate, folder, threads
        self._exchange = exchange
        self._ids = np.load(exchange / IDS)
        self._tasks = {}

    def open(self, **options):
        """Makes the candidate, with options of its own."""
        name, folder, threads = self._made_of
        kinds = llm_candidates.CANDIDATES | {llm_candidates.REFERENCE: llm_candidates.Reference}
        self._candidate = kinds[name](folder, threads, **options)
        return {}

    def prepare(self, form, task):
        """Makes the task `form` ready and runs it once. The story's tokens are repeated if they do not suffice."""
        self._tasks[form] = task = Task(**task)
        self._candidate.prepare(task, np.resize(self._ids, task.context + task.tokens))
        self._candidate.run(task)
        return {}

    def drop(self, form):
        """Forgets a task and frees what it holds."""
        self._candidate.drop(self._tasks.pop(form))
        return {}

    def step(self, form):
        """Milliseconds of one run; one before it, not timed, makes caches and threads as warm as in a series."""
        self._candidate.run(self._tasks[form])
        return {"ms": self._candidate.run(self._tasks[form])}

    def check(self, form, weights):
        """How far the last run of the task is from that of the reference with `weights`: the distance of the logits.

        Of a candidate without logits, the shortfall of the token that it chose: how much less its logit is than that
        of the best token, by the reference. With several tokens, that of the first one that is not the best.
        """
        task = self._tasks[form]
        if not hasattr(self._candidate, "greedy"):
            reference = np.load(self._exchange / LOGITS.format(form=form, weights=weights))
            return {"distance": distance(self._candidate.logits(task), reference)}
        prompt, tokens = self._candidate.greedy(task)
        with np.load(self._exchange / GREEDY.format(prompt=prompt, weights=weights)) as reference:
            for token, best, logits in zip(tokens, reference["tokens"], reference["logits"], strict=False):
                if token != best:
                    return {"shortfall": float(logits[best] - logits[token])}
        return {"shortfall": 0.0}

    def write_logits(self, form, weights):
        """Writes the logits of the task's last run, as the reference."""
        np.save(self._exchange / LOGITS.format(form=form, weights=weights), self._candidate.logits(self._tasks[form]))
        return {}

    def write_greedy(self, prompt, count, weights):
        """Writes the `count` likeliest tokens behind the first `prompt` tokens of the story, and their logits."""
        ids, logits = list(self._ids[:prompt]), []
        for _ in range(count):
            task = Task(len(ids))
            self._candidate.prepare(task, ids)
            self._candidate.run(task)
            logits.append(self._candidate.logits(task))
            ids.append(logits[-1].argmax())
        np.savez(self._exchange / GREEDY.format(prompt=prompt, weights=weights), tokens=ids[prompt:], logits=logits)
        return {}

    def write_all_logits(self, tokens, file):
        """Writes the logits of each of the first `tokens` tokens of the story."""
        task = Task(tokens)
        self._candidate.prepare(task, self._ids[:tokens])
        self._candidate.run(task)
        np.save(file, self._candidate.all_logits(task))
        return {}
