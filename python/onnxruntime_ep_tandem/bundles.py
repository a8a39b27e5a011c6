"""Compiled models and their bundle: docs/bundle-format.md says what is in one."""

import gc
import json
import pathlib

_SUFFIX = "_TandemExecutionProvider.safetensors"
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000


class BundleError(Exception):
    """A bundle is not what it should be; the message names file, found and expected."""


def compile(models, folder, *, bundle=None, progress=None, **options):
    """Compiles ONNX models into `folder`: one small model for each, of the same name, and one bundle for all.

    `bundle` is its file name; None takes that of the first model. A bundle that exists grows. `progress`, if it is
    given, is called with (number, count, model) before each. `options` are Tandem's (docs/options.md). Returns the
    bundle's path. Raises FileExistsError, before anything is compiled, if a compiled model exists or two models have
    one name; and what ONNX Runtime raises.

    A compiled model has the IR version of the ONNX Runtime that wrote it, which older ones may refuse; the bundle
    loads with all.
    """
    import onnxruntime

    import onnxruntime_ep_tandem as tandem

    sources = [pathlib.Path(model) for model in models]
    targets = [pathlib.Path(folder) / source.name for source in sources]
    for target in targets:
        if target.exists() or targets.count(target) > 1:
            raise FileExistsError(f"'{target}' exists already" if target.exists() else f"two models become '{target}'")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    bundle = bundle or sources[0].stem + _SUFFIX
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if progress:
            progress(number, len(sources), source)
        settings = tandem.session_options(bundle_file=bundle, **options)
        settings.add_session_config_entry("ep.context_enable", "1")
        settings.add_session_config_entry("ep.context_file_path", str(target))
        onnxruntime.InferenceSession(str(source), settings, enable_fallback=0)
        gc.collect()
    return pathlib.Path(folder) / bundle


def inspect(bundle):
    """What a bundle holds, as a dict: `programs` and `weights`, who uses what, and bytes.

    `saved_bytes` is what the weights would take more if every program had its own. Raises BundleError for a file that
    is no bundle.
    """
    header, metadata, _ = _read(bundle)
    weights = {
        name: {"tensor": name, "form": name.split("/")[0], "bytes": _size(entry), "names": [], "programs": []}
        for name, entry in header.items()
        if name.startswith(("packed/", "weight/"))
    }
    programs, used_bytes = [], 0
    for name in header:
        if not name.startswith("program/"):
            continue
        program = json.loads(tensor_bytes(bundle, name))
        used = {weight["tensor"] for weight in program["weights"]}
        for weight in program["weights"]:
            entry = weights[weight["tensor"]]
            if weight["name"] not in entry["names"]:
                entry["names"].append(weight["name"])
            if name not in entry["programs"]:
                entry["programs"].append(name)
        weight_bytes = sum(weights[tensor]["bytes"] for tensor in used)
        used_bytes += weight_bytes
        programs.append(
            {
                "program": name,
                "device": program["device"],
                "inputs": program["inputs"],
                "outputs": [output["name"] for output in program["outputs"]],
                "functions": len(program["functions"]),
                "calls": len(program["calls"]),
                "weights": len(used),
                "weight_bytes": weight_bytes,
            }
        )
    unique_bytes = sum(weight["bytes"] for weight in weights.values() if weight["programs"])
    return {
        "format": metadata["tandem.format"],
        "tandem": metadata.get("tandem.version", ""),
        "openvino": metadata.get("tandem.openvino", ""),
        "file_bytes": pathlib.Path(bundle).stat().st_size,
        "weight_bytes": unique_bytes,
        "saved_bytes": used_bytes - unique_bytes,
        "programs": programs,
        "weights": list(weights.values()),
    }


def verify(bundle):
    """Compares everything in a bundle with its digests and returns how many tensors there are.

    Needs the package `xxhash`. Raises BundleError, naming the first tensor that is damaged.
    """
    import xxhash

    header, metadata, text = _read(bundle)
    found = metadata["tandem.header"]
    place = f'"tandem.header":"{found}"'.encode()
    zeroed = text.replace(place, place.replace(found.encode(), b"0" * 32), 1)
    expected = xxhash.xxh3_128_hexdigest(zeroed)
    if found != expected:
        raise BundleError(f"'{bundle}': the header is damaged: found digest {found}, expected {expected}")
    digests = json.loads(metadata["tandem.digests"])
    for name in header:
        if name.startswith("pad/"):
            continue
        digest = xxhash.xxh3_128_hexdigest(tensor_bytes(bundle, name))
        if digest != digests[name]:
            raise BundleError(f"'{bundle}': '{name}' is damaged: found digest {digest}, expected {digests[name]}")
    return len(digests)


def tensor_bytes(bundle, name):
    """The bytes of a tensor of a bundle."""
    header, _, text = _read(bundle)
    start, end = header[name]["data_offsets"]
    with open(bundle, "rb") as file:
        file.seek(_LENGTH_BYTES + len(text) + start)
        return file.read(end - start)


def _size(entry):
    start, end = entry["data_offsets"]
    return end - start


def _read(bundle):
    """The tensors, the metadata, and the header as bytes."""
    path = pathlib.Path(bundle)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > min(_MAX_HEADER_BYTES, path.stat().st_size):
            raise BundleError(f"'{path}' is no bundle: found a header of {length} bytes")
        text = file.read(length)
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__")
        version = metadata["tandem.format"]
    except (ValueError, KeyError, AttributeError) as error:
        raise BundleError(f"'{path}' is no bundle: {error}") from error
    if version.split(".")[0] != "1":
        raise BundleError(f"'{path}': found format '{version}', expected 1.x")
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if _LENGTH_BYTES + length + end != path.stat().st_size:
        expected = _LENGTH_BYTES + length + end
        raise BundleError(f"'{path}' is truncated: found {path.stat().st_size} bytes, expected {expected}")
    return header, metadata, text
