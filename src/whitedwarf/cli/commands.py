"""The table of commands: what `whitedwarf --help` shows, and where each one lives.

Nothing is imported here, so that the top-level help is there in a blink.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """One command: the words that call it, the module with its function, and one line of help."""

    name: str
    module: str  # its function is called `command`
    summary: str


COMMANDS = (
    Command("run", "whitedwarf.cli.run", "answer one prompt, or chat when none is given"),
    Command("agent", "whitedwarf.cli.agent", "work on a folder's files with a model that reads, edits and runs things"),
    Command("serve", "whitedwarf.cli.serve", "answer OpenAI's and Anthropic's clients over HTTP"),
    Command("supervise status", "whitedwarf.cli.supervise_status", "which models of a running supervisor are loaded"),
    Command("supervise unload", "whitedwarf.cli.supervise_unload", "have it stop models and give their memory back"),
    Command("supervise start", "whitedwarf.cli.supervise_start", "have it start a model before the first request"),
    Command("supervise logs", "whitedwarf.cli.supervise_logs", "what a model's process says"),
    Command("supervise stop", "whitedwarf.cli.supervise_stop", "end it with all its models"),
    Command("supervise", "whitedwarf.cli.supervise", "start models when they are asked for, stop them when idle"),
    Command(
        "cluster keys", "whitedwarf.cli.cluster_keys", "make the keys by which a cluster's machines know each other"
    ),
    Command("cluster start", "whitedwarf.cli.cluster_start", "a meeting place for machines that share a model"),
    Command("cluster join", "whitedwarf.cli.cluster_join", "hold some layers of a model for others"),
    Command("cluster status", "whitedwarf.cli.cluster_status", "who has joined, and what they hold"),
    Command("export-routes", "whitedwarf.cli.export_routes", "settings of a client for a supervisor's models"),
    Command("pull", "whitedwarf.cli.pull", "fetch a model: resumed, checked, and linked as the default"),
    Command("models", "whitedwarf.cli.models", "which models are on this machine"),
    Command("tokens", "whitedwarf.cli.tokens", "show how a text is cut into tokens"),
    Command("logits", "whitedwarf.cli.logits", "write the logits after each of given token ids to a .npy file"),
    Command("logprobs", "whitedwarf.cli.logprobs", "greedy answer with the likeliest candidates of each step, as JSON"),
    Command("perplexity", "whitedwarf.cli.perplexity", "how well the model predicts a text"),
    Command("eval", "whitedwarf.cli.eval", "ask questions with known answers, and grade what comes"),
    Command("score collect", "whitedwarf.cli.score_collect", "continuations by the official model, from its API"),
    Command("score run", "whitedwarf.cli.score_run", "how likely a model finds those continuations"),
    Command("score compare", "whitedwarf.cli.score_compare", "two such scores side by side"),
    Command("score vectors", "whitedwarf.cli.score_vectors", "check a model against official or golden vectors"),
    Command("score golden", "whitedwarf.cli.score_golden", "write golden vectors of a model"),
    Command("bench recipe", "whitedwarf.cli.bench_recipe", "requests to token ids, beside DeepSeek's own library"),
    Command("bench serve", "whitedwarf.cli.bench_serve", "a server under load: overhead, streams, long prompts"),
    Command("bench supervisor", "whitedwarf.cli.bench_supervisor", "what a supervisor adds to requests and streams"),
    Command(
        "bench kernels", "whitedwarf.cli.bench_kernels", "each kernel at each CPU level beside the machine's limits"
    ),
    Command("bench batch", "whitedwarf.cli.bench_batch", "decode of several sequences together"),
    Command("bench peers", "whitedwarf.cli.bench_peers", "llama.cpp on the same file in the same run, turn by turn"),
    Command("bench points", "whitedwarf.cli.bench_points", "prefill and decode at single depths, as llama-bench does"),
    Command("bench cluster", "whitedwarf.cli.bench_cluster", "what a hop costs, and what two machines read together"),
    Command("bench drafts", "whitedwarf.cli.bench_drafts", "what guessing tokens ahead gives, and what it costs"),
    Command("bench forms", "whitedwarf.cli.bench_forms", "what it costs to hold an answer to a JSON Schema"),
    Command("bench power", "whitedwarf.cli.bench_power", "processor time at 100, 50 and 25 percent of power"),
    Command("bench streaming", "whitedwarf.cli.bench_streaming", "experts read from the disk, beside plain mmap"),
    Command("bench plot", "whitedwarf.cli.bench_plot", "a picture of speeds: CSV files or result files"),
    Command("bench table", "whitedwarf.cli.bench_table", "result files as a Markdown table, also in a page made again"),
    Command("bench", "whitedwarf.cli.bench", "prefill and decode at growing contexts, beside the memory's limit"),
    Command("gguf inspect", "whitedwarf.cli.gguf_inspect", "what a model file is"),
    Command("gguf convert", "whitedwarf.cli.gguf_convert", "DeepSeek's safetensors to GGUF"),
    Command(
        "gguf quantize", "whitedwarf.cli.gguf_quantize", "a model with fewer bits, from a checkpoint or a GGUF file"
    ),
    Command("gguf verify", "whitedwarf.cli.gguf_verify", "check every value of a model file"),
    Command("gguf split", "whitedwarf.cli.gguf_split", "a model as several files"),
    Command("gguf merge", "whitedwarf.cli.gguf_merge", "the files of a split model as one"),
    Command("gguf splice", "whitedwarf.cli.gguf_splice", "routed experts of chosen layers from another file"),
    Command("gguf calibrate", "whitedwarf.cli.gguf_calibrate", "write a corpus to collect an importance matrix over"),
    Command("gguf imatrix", "whitedwarf.cli.gguf_imatrix", "collect an importance matrix from a running model"),
    Command("gguf synth", "whitedwarf.cli.gguf_synth", "write a model with random weights, to measure with"),
    Command("steer build", "whitedwarf.cli.steer_build", "directions to steer along, from two sets of prompts"),
    Command("steer sweep", "whitedwarf.cli.steer_sweep", "how likely a behaviour is at several scales of a direction"),
    Command("recipe render", "whitedwarf.cli.recipe_render", "requests of a vectors file to prompts and token ids"),
    Command("recipe parse", "whitedwarf.cli.recipe_parse", "answers of a vectors file to the events of their protocol"),
    Command("doctor", "whitedwarf.cli.doctor", "what this machine has, and which backend and model would be used"),
)


def find_command(words: list[str]) -> Command | None:
    """The command that `words` begin with."""
    for command in COMMANDS:
        names = command.name.split(" ")
        if words[: len(names)] == names:
            return command
    return None


def help_text(group: str = "") -> str:
    """All commands, or those of one group such as "gguf", with one line each."""
    shown = [command for command in COMMANDS if command.name.startswith(group)]
    width = max(len(command.name) for command in shown)
    lines = [f"  {command.name:<{width}}  {command.summary}" for command in shown]
    return "\n".join(
        [
            f"Usage: whitedwarf {group + ' ' if group else ''}COMMAND [OPTIONS]",
            "",
            "DeepSeek V4 on your own machines.",
            "",
            "Commands:",
            *lines,
            "",
            "`whitedwarf COMMAND --help` shows a command's options; `wd` is short for `whitedwarf`.",
        ]
    )
