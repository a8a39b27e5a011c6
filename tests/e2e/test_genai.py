"""ONNX Runtime GenAI generates the same tokens on Tandem as on ONNX Runtime's CPU provider."""

import json

import numpy as np
import onnxruntime_ep_tandem as tandem
import pytest
from llm import PROMPT
from processes import in_process
from sessions import ORT_VERSION, WHOLE_GRAPH, run, tandem_session

pytestmark = pytest.mark.skipif(ORT_VERSION < (1, 24), reason="onnxruntime-genai needs a newer ONNX Runtime")

NEW_TOKENS = 8
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}


class Folder:
    """A folder that GenAI loads. For the new process; the tests pass what its constructor takes."""

    def __init__(self, export_folder, config, target):
        import genai_config
        import onnxruntime_genai as og

        self._og = og
        self._path = str(genai_config.use(export_folder, config, target))

    def generate(self, report_file=None, whole=False):
        """Tokens after PROMPT; on Tandem, if there is a `report_file`."""
        model = self.model(report_file, whole)
        parameters = self._og.GeneratorParams(model)
        parameters.set_search_options(do_sample=False)
        generator = self._og.Generator(model, parameters)
        generator.append_tokens(PROMPT)
        tokens = []
        for _ in range(NEW_TOKENS):
            generator.generate_next_token()
            tokens.append(int(generator.get_next_tokens()[0]))
        return tokens, report_file and tandem.read_report(report_file)

    def model(self, report_file=None, whole=False):
        config = self._og.Config(self._path)
        if report_file:
            config.append_provider(tandem.get_ep_name())
            config.set_provider_option(tandem.get_ep_name(), "report_file", report_file)
        if whole:
            config.overlay(json.dumps({"model": {"decoder": {"session_options": {WHOLE_GRAPH: "1"}}}}))
        return self._og.Model(config)

    def register(self):
        self._og.register_execution_provider_library("tandem_genai", tandem.get_library_path())


def generate_on_both(folder, report_file, whole):
    folder = Folder(*folder)
    expected, _ = folder.generate()
    folder.register()
    found, report = folder.generate(report_file, whole)
    return found, expected, report


@pytest.mark.parametrize(
    ("weights", "operators", "config", "whole"),
    [
        ("f32", "plain", "window", False),
        ("f32", "plain", "dynamic", False),
        ("f32", "contrib", "window", True),
        ("int4", "contrib", "window", True),
        ("int4", "contrib", "dynamic", False),
    ],
)
def test_tokens_are_those_of_the_cpu_provider(exports, tmp_path, weights, operators, config, whole):
    folder = exports.folder(weights, operators), config, tmp_path / "genai"
    report_file = tmp_path / "report.json"
    found, expected, report = in_process(
        generate_on_both, folder, report_file, whole, folder=tmp_path, environment=NO_TELEMETRY
    )
    assert found == expected
    sessions = report["sessions"]
    assert len(sessions) == (2 if config == "window" else 1)
    assert all(session["nodes"]["claimed"] > 10 for session in sessions)
    if operators == "contrib" and len(sessions) == 2:
        assert [session["unshared_bytes"] for session in sessions] == [0, 0]


def share_with_onnxruntime(folder, path, report_file, is_first):
    """ONNX Runtime and GenAI at the same time. Returns whether results outlast GenAI's model, and the report."""
    folder = Folder(*folder)

    def open_session():
        # Optimized, as GenAI's are: that changes constants.
        return tandem_session(path, whole=False, optimized=True, report_file=report_file)

    if is_first:
        session = open_session()
        folder.register()
        model = folder.model(report_file)
    else:
        folder.register()
        model = folder.model(report_file)
        session = open_session()
    report = tandem.read_report(report_file)
    feeds = {
        argument.name: np.zeros(argument.shape, np.float32 if "float" in argument.type else np.int32)
        for argument in session.get_inputs()
    }
    feeds["input_ids"] = np.array([[PROMPT[0]]])
    before = run(session, **feeds)["logits"]
    del model
    after = run(session, **feeds)["logits"]
    return bool((before == after).all()), report


@pytest.mark.parametrize("is_first", [True, False], ids=["onnxruntime first", "genai first"])
def test_genai_and_onnxruntime_share_weights(exports, tmp_path, is_first):
    folder = exports.folder("f32", "contrib"), "window", tmp_path / "genai"
    path = exports.model("f32", "contrib", "window_decode")
    same, report = in_process(
        share_with_onnxruntime,
        folder,
        path,
        tmp_path / "report.json",
        is_first,
        folder=tmp_path,
        environment=NO_TELEMETRY,
    )
    assert same
    assert len(report["sessions"]) == 3
    assert [session["unshared_bytes"] for session in report["sessions"]] == [0, 0, 0]


def unknown_option(folder):
    folder = Folder(*folder)
    folder.register()
    config = folder._og.Config(folder._path)
    config.append_provider(tandem.get_ep_name())
    config.set_provider_option(tandem.get_ep_name(), "precison", "FP32")
    with pytest.raises(Exception, match="did you mean 'precision'"):
        folder._og.Model(config)


def test_unknown_option_is_an_error(exports, tmp_path):
    folder = exports.folder("f32", "contrib"), "window", tmp_path / "genai"
    in_process(unknown_option, folder, folder=tmp_path, environment=NO_TELEMETRY)
