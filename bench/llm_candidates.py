"""The candidates of the LLM benchmark behind one interface: each runs tokens behind a context.

A candidate is made with the folder of the plain model (llm_models.py has the others), the number of threads, and
options of its own. It offers
  prepare(task, ids)    makes a task ready to run: `ids` are the tokens of its context, then its own;
  run(task)             computes the logits of the task's last token and returns the milliseconds that took;
  logits(task)          those of the last token after a run, [vocabulary];
and instead of logits(), if there are none,
  greedy(task)          after a run, the tokens that it wrote behind its prompt: (length of the prompt, tokens).
Libraries are imported when a candidate is made: a process has only those that its candidate needs.
"""

import os
from dataclasses import dataclass

import llm_models
import memory
import numpy as np
from candidates import OpenVinoSession, OrtSession
from worker import timed

TANDEM_PLAIN, TANDEM_CONTRIB = "tandem_plain", "tandem_contrib"
ORT_CPU_PLAIN, ORT_CPU_CONTRIB = "ort_cpu_plain", "ort_cpu_contrib"
OPENVINO_CONSTANTS, ORT_GENAI = "openvino_constants", "ort_genai"
OPENVINO_GENAI, OPENVINO_GENAI_Q4_0 = "openvino_genai", "openvino_genai_q4_0"
LLAMA_CPP, LLAMA_CPP_Q4_0 = "llama_cpp", "llama_cpp_q4_0"

LAST, ALL = "dynamic_last", "dynamic"  # the models: logits of the last token, or of all
SHARED, SEPARATE = "shared", "separate"  # past and present: one buffer of fixed capacity, or an array each
CONTEXT_CHUNK = 512  # tokens of a context that are computed at a time


@dataclass(frozen=True)
class Task:
    """`tokens` tokens of each of `batch` equal sequences, behind a context. `capacity`: tokens, of a shared buffer."""

    tokens: int
    context: int = 0
    batch: int = 1
    capacity: int = llm_models.CAPACITY


class Graph:
    """A model with dynamic shapes in one session. A task has its own arrays, bound once.

    A subclass sets `_vary`, which gives a bound session of candidates.py each time it is called.
    """

    def __init__(self, kv=SEPARATE):
        self._kv = kv
        self._sessions, self._arrays = {}, {}

    def prepare(self, task, ids):
        past = {}
        for start in range(0, task.context, CONTEXT_CHUNK):
            tokens = min(CONTEXT_CHUNK, task.context - start)
            chunk = Task(tokens, start, task.batch, task.capacity)
            session, past = self._bind(chunk, ids[start : start + tokens], past)
            session.run()
        self._sessions[task], self._arrays[task] = self._bind(task, ids[task.context :], past)

    def drop(self, task):
        """Frees what a task holds."""
        del self._sessions[task], self._arrays[task]

    def run(self, task):
        return timed(self._sessions[task].run)

    def logits(self, task):
        return self.all_logits(task)[-1]

    def all_logits(self, task):
        """The logits of each of the task's tokens, [tokens, vocabulary]; of the last one, with the model LAST."""
        return self._arrays[task]["logits"][0]

    def _bind(self, task, ids, past):
        """A session and its arrays by name; `past`: those of a run that computed the context."""
        session = self._vary()
        outputs = [output for output in session.outputs if self._kv == SEPARATE or not _is_cache(output[0])]
        arguments = [*session.inputs, *outputs]
        arrays = memory.zeros([(name, dtype, self._shape(name, shape, task)) for name, dtype, shape in arguments])
        for name in [name for name in arrays if name.startswith("past_key_values.")]:
            present = _present(name)
            if task.context:
                arrays[name][:, :, : task.context] = past[present][:, :, : task.context]
            if self._kv == SHARED:
                arrays[present] = arrays[name]
        arrays["input_ids"][...] = np.asarray(ids) % arrays["logits"].shape[-1]  # a random model has fewer tokens
        arrays["attention_mask"][...] = 1
        if "position_ids" in arrays:
            arrays["position_ids"][...] = np.arange(task.context, task.context + task.tokens)
        session.bind(arrays)
        return session, arrays

    def _shape(self, name, shape, task):
        """The shape of an argument, whose dynamic dimensions are no numbers, in a task."""
        total = task.context + task.tokens
        if _is_cache(name):
            rows = task.context if name.startswith("past_key_values.") else total
            return [task.batch, shape[1], task.capacity if self._kv == SHARED else rows, shape[3]]
        if name == "attention_mask":
            return [task.batch, total]
        tokens = 1 if shape[1] == 1 else task.tokens
        return [task.batch, tokens, *shape[2:]]


class OrtCpu(Graph):
    """ONNX Runtime's CPU provider; `model` is LAST or ALL, `options` are entries of the session's configuration."""

    def __init__(self, folder, threads, kv=SEPARATE, model=LAST, **options):
        import onnxruntime

        super().__init__(kv)
        onnxruntime.set_default_logger_severity(3)  # errors only
        session = onnxruntime.InferenceSession(folder / f"{model}.onnx", **self._arguments(threads, options))
        self._vary = lambda: OrtSession(session)

    def _arguments(self, threads, options):
        import onnxruntime

        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = threads
        for name, value in options.items():
            session_options.add_session_config_entry(name, value)
        return {"sess_options": session_options, "providers": ["CPUExecutionProvider"]}


class OrtCpuContrib(OrtCpu):
    """The same with contrib operators. Past and present share a buffer, as in ORT GenAI."""

    def __init__(self, folder, threads, kv=SHARED, **options):
        super().__init__(llm_models.contrib(folder), threads, kv, **options)


class Reference(OrtCpu):
    """ONNX Runtime's CPU provider with activations in f32."""

    def __init__(self, folder, threads):
        super().__init__(folder, threads, **{"session.qdq_matmulnbits_accuracy_level": "1"})


class Tandem(OrtCpu):
    """Tandem, as its documentation says; `options` are its own."""

    def _arguments(self, threads, options):
        import onnxruntime_ep_tandem as tandem

        return {"sess_options": tandem.session_options(intra_op_num_threads=threads, **options)}


class TandemContrib(Tandem):
    """The same with contrib operators; `kv`: SHARED or SEPARATE."""

    def __init__(self, folder, threads, kv=SHARED, **options):
        super().__init__(llm_models.contrib(folder), threads, kv, **options)


class OpenVinoConstants(Graph):
    """OpenVINO with the weights as constants of the model, in f32 arithmetic; `properties` come on top.

    Dynamic quantization of activations stays as OpenVINO sets it, on: it concerns int4 weights, where it is fast.
    """

    HINTS = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}  # noqa: RUF012

    def __init__(self, folder, threads, hints=HINTS, model=LAST, **properties):
        import openvino

        super().__init__()
        core = openvino.Core()
        properties = {**hints, "INFERENCE_NUM_THREADS": threads, **properties}
        compiled = core.compile_model(core.read_model(folder / f"{model}.onnx"), "CPU", properties)
        self._vary = lambda: OpenVinoSession(openvino, compiled)


class OrtGenAi:
    """ORT GenAI on the contrib model. What is timed is append_tokens() without choosing a token."""

    def __init__(self, folder, threads):
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime_genai

        self._model = onnxruntime_genai.Model(str(llm_models.genai(folder)))  # its configuration has the threads
        parameters = onnxruntime_genai.GeneratorParams(self._model)
        self._generator = onnxruntime_genai.Generator(self._model, parameters)
        self._ids, self._in_cache = {}, None

    def prepare(self, task, ids):
        self._ids[task] = np.array([ids], np.int32)

    def run(self, task):
        ids = self._ids[task]
        if self._in_cache != task:
            self._generator.rewind_to(0)
            if task.context:
                self._generator.append_tokens(ids[:, : task.context])
            self._in_cache = task
        else:
            self._generator.rewind_to(task.context)
        return timed(lambda: self._generator.append_tokens(ids[:, task.context :]))

    def logits(self, task):
        return self._generator.get_logits()[0, -1]


class OpenVinoGenAi:
    """OpenVINO GenAI's LLMPipeline on the GGUF file of the package, with its own timing.

    It keeps no prompt for the next call: else the same prompt is not computed again. A decode is the third step behind
    a prompt, at the context of the task, of a token that the pipeline chose.
    """

    STEP = 2  # the step that counts, from 0: the first ones behind a prefill are slower

    def __init__(self, folder, threads):
        import openvino
        import openvino_genai

        self._openvino, self._genai = openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = llm_models.CAPACITY
        self._pipeline = openvino_genai.LLMPipeline(
            str(self._file(folder)), "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads
        )
        self._prompts, self._written = {}, {}

    def _file(self, folder):
        return llm_models.gguf_package()

    def prepare(self, task, ids):
        self._prompts[task] = np.array([ids[: task.context - self.STEP] if task.context else ids], np.int64)

    def run(self, task):
        config = self._genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos = (self.STEP + 2 if task.context else 1), True
        prompt = self._prompts[task]
        tensors = [self._openvino.Tensor(array) for array in (prompt, np.ones_like(prompt))]
        result = self._pipeline.generate(self._genai.TokenizedInputs(*tensors), config)
        self._written[task] = prompt.shape[1], [int(token) for token in result.tokens[0]]
        metrics = result.perf_metrics
        return metrics.raw_metrics.m_durations[self.STEP] / 1e3 if task.context else metrics.get_ttft().mean

    def greedy(self, task):
        return self._written[task]


class OpenVinoGenAiQ40(OpenVinoGenAi):
    """The same on the GGUF file with the weights of the ONNX models."""

    def _file(self, folder):
        return llm_models.gguf_q4_0(folder)


class LlamaCpp:
    """llama.cpp on the GGUF file of the package. It computes the logits of the last token only."""

    def __init__(self, folder, threads, **options):
        import llama_cpp

        self._library = llama_cpp
        self._llama = llama_cpp.Llama(
            str(self._file(folder)),
            n_ctx=llm_models.CAPACITY,
            n_batch=llm_models.CAPACITY,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
            **options,
        )
        self._ids, self._in_cache = {}, None

    def _file(self, folder):
        return llm_models.gguf_package()

    def prepare(self, task, ids):
        self._ids[task] = [int(token) for token in ids]

    def run(self, task):
        ids = self._ids[task]
        if self._in_cache != task:
            self._llama.reset()
            if task.context:
                self._llama.eval(ids[: task.context])
            self._in_cache = task
        self._llama.n_tokens = task.context  # eval() removes what lies behind
        return timed(lambda: self._evaluate(ids[task.context :]))

    def logits(self, task):
        row = self._library.llama_get_logits_ith(self._llama.ctx, -1)
        return np.ctypeslib.as_array(row, (self._llama.n_vocab(),)).copy()

    def all_logits(self, task):
        """The logits of each of the task's tokens, [tokens, vocabulary]; with the option logits_all."""
        return self._llama.scores[task.context : task.context + task.tokens]

    def _evaluate(self, ids):
        self._llama.eval(ids)
        self._library.llama_synchronize(self._llama.ctx)


class LlamaCppQ40(LlamaCpp):
    """The same on the GGUF file with the weights of the ONNX models, in the format that llama.cpp repacks."""

    def _file(self, folder):
        return llm_models.gguf_q4_0(folder)


REFERENCE = "reference"
TANDEMS = {TANDEM_PLAIN: Tandem, TANDEM_CONTRIB: TandemContrib}
PEERS = {
    ORT_CPU_PLAIN: OrtCpu,
    ORT_CPU_CONTRIB: OrtCpuContrib,
    ORT_GENAI: OrtGenAi,
    OPENVINO_CONSTANTS: OpenVinoConstants,
    OPENVINO_GENAI: OpenVinoGenAi,
    OPENVINO_GENAI_Q4_0: OpenVinoGenAiQ40,
    LLAMA_CPP: LlamaCpp,
    LLAMA_CPP_Q4_0: LlamaCppQ40,
}
CANDIDATES = TANDEMS | PEERS
ON_GGUF = (OPENVINO_GENAI, OPENVINO_GENAI_Q4_0, LLAMA_CPP, LLAMA_CPP_Q4_0)  # int4 only; in build/peers
ON_PACKAGE = (OPENVINO_GENAI, LLAMA_CPP)  # on the file of the package, whose weights are quantized in another way


def _is_cache(name):
    return name.startswith(("past_key_values.", "present."))


def _present(past):
    return past.replace("past_key_values.", "present.")
