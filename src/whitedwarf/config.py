"""The options that several commands share, each described once: its flag, its range, its default and its help.

Frozen values; cyclopts turns them into flags. Nothing here loads a model or knows a command.
Flag names follow the original's (spec/product.md A.1).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

DEFAULT_CONTEXT = 32_768
AGENT_CONTEXT = 100_000
DEFAULT_SYSTEM = "You are a helpful assistant"

_MODEL = Group.create_ordered("Model and runtime")
_DRAFTS = Group.create_ordered("Tokens guessed ahead")
_STREAMING = Group.create_ordered("A model larger than memory")
_PROMPT = Group.create_ordered("Prompt")
_SAMPLING = Group.create_ordered("Sampling")
_SERVER = Group.create_ordered("Server")
_ANSWERS = Group.create_ordered("Answers")
_MEMORY = Group.create_ordered("Beginnings of prompts")
_LOGS = Group.create_ordered("Logs")
_STEERING = Group.create_ordered("Steering")
_AGENT = Group.create_ordered("Agent")
_SESSIONS = Group.create_ordered("Sessions")
_TOOLS = Group.create_ordered("Tools")
_ENDPOINT = Group.create_ordered("Another server")
_CLUSTER = Group.create_ordered("Cluster")
POSITIVE = Number(gte=1)
MOST_MB = 1 << 40  # more than there is; /metrics and clocks tell such numbers as floats
LONGEST_S = 1_000_000_000


@Parameter(name="*", group=_MODEL)
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Which file."""

    model: Annotated[str | None, Parameter(name=("--model", "-m"))] = None
    """GGUF file, or any shard of one. Default: $WHITEDWARF_MODEL, else ./ds4flash.gguf, else the bundled nano."""


@Parameter(name="*", group=_MODEL)
@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSettings(FileSettings):
    """Which file, and where it runs."""

    backend: Literal["auto", "cuda", "rocm", "cpu", "mlx", "torch", "reference"] = "auto"
    """Where the arithmetic runs; `whitedwarf doctor` says what is available. auto: on graphics cards if PyTorch finds
    some, else on the CPU."""
    device_memory: str | None = None
    """How much of each card a model may take, e.g. 20G (powers of 1000) or 20GiB (of 1024). Default: what is free, less
    a reserve."""


@Parameter(name="*", group=_CLUSTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """Whom the processes of a cluster trust, and how long they wait for each other."""

    cluster_keys: Path | None = None
    """Folder of keys that `whitedwarf cluster keys` made; each machine has one of its own."""
    plaintext: bool = False
    """Go without keys: nothing is encrypted, and everybody who reaches the ports can run programs as you."""
    cluster_patience: Annotated[float, Parameter(validator=Number(gte=1, lte=LONGEST_S))] = 10.0
    """Seconds without a byte after which a machine counts as lost."""
    debug: bool = False
    """Tell about connections and, in a coordinator, what each machine did for each piece of work, on stderr."""


@Parameter(name="*", group=_CLUSTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(TrustSettings):
    """The further machines that hold the later layers of the model, and how they are reached."""

    cluster: Annotated[str | None, Parameter(name="--cluster")] = None
    """HOST:PORT of a meeting place (`whitedwarf cluster start`). Default: the whole model is here."""
    layers: str | None = None
    """Layers of this process, 0:A. Default: so many that all machines have their share by memory and speed."""
    cluster_bits: Literal[32, 16, 8] = 32
    """Bits for each number on the way between machines. 32 gives the tokens of a single machine; 16 halves what a slow
    network carries and is hardly noticed; 8 is for trying."""
    cluster_wait: Annotated[float, Parameter(validator=Number(gte=0, lte=LONGEST_S))] = 30.0
    """Seconds that a request waits until there are machines for all layers."""


@Parameter(name="*", group=_MODEL)
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingSettings(PlaceSettings):
    """Which file, where it runs, and how much of it is in memory (spec/product.md F.1)."""

    ssd_streaming: Annotated[bool, Parameter(negative=(), group=_STREAMING)] = False
    """Keep the weights that every token uses in memory, and of the experts as many as fit beside; the others are read
    from the file when they are needed."""
    ssd_streaming_cache_experts: Annotated[str | None, Parameter(group=_STREAMING)] = None
    """How many experts are kept: a number of them, or memory for them such as 24GB (of 1024 MiB). Default: as many as
    fit into 80 % of what is available."""
    ssd_streaming_cold: Annotated[bool, Parameter(negative=(), group=_STREAMING)] = False
    """Begin without experts in memory, not with those that were used most so far."""
    ssd_streaming_preload_experts: Annotated[
        int | None, Parameter(validator=Number(gte=0), group=_STREAMING, show_default=False)
    ] = None
    """Begin with so many of them at most. Default: 4096."""
    simulate_used_memory: Annotated[str | None, Parameter(group=_STREAMING)] = None
    """Take so much memory away before the model is loaded, such as 32GB, to see how it does with the rest."""


@Parameter(name="*", group=_MODEL)
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings(StreamingSettings):
    """Which model, and how it runs."""

    context: Annotated[int | None, Parameter(name=("--ctx", "-c"), validator=POSITIVE)] = None
    """Context length in tokens. Default: 32768, or less if the model has less."""
    threads: Annotated[int | None, Parameter(name=("--threads", "-t"), validator=Number(gte=1, lte=1024))] = None
    """CPU threads. Default: one for each core that this process may use."""
    cpu: Annotated[bool, Parameter(negative=())] = False
    """Short for --backend cpu."""
    expert_misses: Literal["auto", "copy", "cpu"] = "auto"
    """What happens to experts in host memory that a card lacks: copied there, or computed by the CPU while few rows
    need them. auto: whichever a short measurement finds faster."""
    quality: bool = False
    """Float activations everywhere: slower, for parity and debugging."""
    kv_cache: Literal["packed", "packed-f16", "f16", "f32"] = "packed"
    """How KV rows are kept. packed: the official FP8/FP4 rounding, a third of f32's size; packed-f16: also the rotary
    part as f16, a fifth smaller again; f16, f32: no rounding but the type's own."""
    prefill_chunk: Annotated[int | None, Parameter(validator=POSITIVE)] = None
    """Prompt tokens per forward pass. Default: 512 to 4096 by the model's experts and the memory there is; the start-up
    line says how many. Slow machines read shorter pieces, so that nobody waits long."""
    power: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 100
    """Share of the time to compute in, in percent; the rest is rested, after each layer of a prompt and each token.
    Results stay the same."""
    draft: Annotated[Literal["auto", "off", "ngram", "mtp"] | None, Parameter(group=_DRAFTS)] = None
    """Guess tokens ahead and look at several in a pass, where that is measured to be faster; answers stay the same.
    ngram: what stands before is repeated; mtp: the model's own block guesses, too. auto: both on the CPU, as far as the
    model has a block. Default: off, with --mtp mtp."""
    mtp: Annotated[Path | None, Parameter(group=_DRAFTS)] = None
    """A GGUF file with the model's block for guesses, where its own has none."""
    mtp_draft: Annotated[int, Parameter(validator=Number(gte=1, lte=16), group=_DRAFTS)] = 16
    """Most tokens guessed at once, by whomever."""
    mtp_margin: Annotated[float, Parameter(validator=Number(gte=0, lte=1000), group=_DRAFTS)] = 0.0
    """By how much the logit of the block's best token must exceed the second one's."""
    force: bool = False
    """Go on although memory looks too small."""
    cluster: Annotated[ClusterSettings | None, Parameter(parse=False)] = None  # of commands that take these, too


@Parameter(name="*", group=_PROMPT)
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where a prompt comes from: at most one of the two."""

    prompt: Annotated[str | None, Parameter(name=("--prompt", "-p"), allow_leading_hyphen=True)] = None
    """The prompt's text."""
    prompt_file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """A file with the prompt's text; - reads standard input."""


@Parameter(name="*", group=_PROMPT)
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(SourceSettings):
    """What is asked, and how the model should go about it."""

    system: Annotated[str, Parameter(name=("--system", "-sys"), allow_leading_hyphen=True)] = DEFAULT_SYSTEM
    """System text; "" for none."""
    think: bool = False
    """Think before answering (the default)."""
    think_max: bool = False
    """Think as hard as possible; needs --ctx of at least 393216."""
    nothink: bool = False
    """Answer at once."""


@Parameter(name="*", group=_SAMPLING)
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How much is generated, and how each token is drawn."""

    max_tokens: Annotated[int, Parameter(name=("--tokens", "-n"), validator=POSITIVE)] = 50_000
    """Most tokens to generate; the context may allow fewer."""
    temperature: Annotated[float, Parameter(name="--temp", validator=Number(gte=0, lte=100))] = 1.0
    """0 always takes the likeliest token."""
    top_p: Annotated[float, Parameter(validator=Number(gte=0, lte=1))] = 1.0
    """Draw from the likeliest tokens that together have this probability."""
    min_p: Annotated[float, Parameter(validator=Number(gte=0, lte=1))] = 0.05
    """Leave out tokens less likely than this share of the likeliest."""
    seed: Annotated[int | None, Parameter(validator=POSITIVE)] = None
    """Makes the draw repeatable. Default: a new one each time."""


@Parameter(name="*", group=_SERVER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Where a server listens, who may use it, and how much it takes on."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for everybody on the network, best with --api-key-file."""
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 8000
    """Port to listen on; 0 takes a free one."""
    alias: Annotated[str | None, Parameter(name=("--alias", "-a"), allow_leading_hyphen=True)] = None
    """The id by which clients are told the model. Default: its name as one word."""
    parallel: Annotated[int, Parameter(validator=Number(gte=1, lte=256))] = 4
    """Requests answered at the same time; others wait."""
    max_waiting: Annotated[int, Parameter(validator=POSITIVE)] = 64
    """Requests that may wait; further ones are told to try again later (429)."""
    chdir: Path | None = None
    """Folder to go to before anything else; relative paths start there."""
    max_tokens: Annotated[int, Parameter(name=("--tokens", "-n"), validator=POSITIVE, group=_ANSWERS)] = 393_216
    """Most tokens of an answer when the request does not say; the context may allow fewer."""
    recipe: Annotated[Literal["v4", "v4.1"], Parameter(group=_ANSWERS)] = "v4"
    """How prompts are written: as DeepSeek V4 or as V4.1 was trained; must suit the model."""
    kv_ram_mb: Annotated[int, Parameter(validator=Number(gte=0, lte=MOST_MB), group=_MEMORY)] = 1024
    """Megabytes of memory for beginnings of prompts, which are not computed twice; 0 for none."""
    kv_disk_dir: Annotated[Path | None, Parameter(group=_MEMORY)] = None
    """Folder for beginnings of prompts that outlive the server, private to you. Default: none are written."""
    kv_disk_space_mb: Annotated[int, Parameter(validator=Number(gte=1, lte=MOST_MB), group=_MEMORY)] = 4096
    """Megabytes that this folder may take; what is worth least goes first. What is kept under a steering has a folder
    of its own in it, which may take as much again."""
    kv_disk_format: Annotated[Literal["packed", "ds4"], Parameter(group=_MEMORY)] = "packed"
    """How they are written. packed: as they are in memory, with a checksum; ds4: as ds4 reads them, about three times
    larger. Both are read."""
    kv_cache_min_tokens: Annotated[int, Parameter(validator=Number(gte=0), group=_MEMORY)] = 512
    """Shorter beginnings are neither written nor read."""
    kv_cache_cold_max_tokens: Annotated[int, Parameter(validator=Number(gte=0), group=_MEMORY)] = 30_000
    """Longest prompt whose beginning is written while it is read for the first time; 0 for none."""
    kv_cache_continued_interval_tokens: Annotated[int, Parameter(validator=Number(gte=0), group=_MEMORY)] = 10_000
    """A prompt is also written each time it has grown by this, rounded up to the alignment; 0 for never."""
    kv_cache_boundary_trim_tokens: Annotated[int, Parameter(validator=Number(gte=0), group=_MEMORY)] = 32
    """Tokens at the end of a first prompt that are left out: the next one may go on otherwise there."""
    kv_cache_boundary_align_tokens: Annotated[int, Parameter(validator=Number(gte=0), group=_MEMORY)] = 2048
    """What is left is rounded down to a multiple of this."""
    kv_cache_reject_different_quant: Annotated[bool, Parameter(negative=(), group=_MEMORY)] = False
    """Do not read what a model of another precision has written."""
    max_call_tokens: Annotated[int, Parameter(validator=POSITIVE)] = 65_536
    """A tool call that is longer is taken for one that never ends; a whole large file fits in the default."""
    disable_exact_dsml_tool_replay: Annotated[bool, Parameter(negative=())] = False
    """Write earlier tool calls anew from what clients send, not in the words in which the model made them."""
    tool_memory_max_ids: Annotated[int, Parameter(validator=Number(gte=0))] = 100_000
    """Tool calls whose words are remembered, at most."""
    api_key_file: Path | None = None
    """File of keys, one a line, that nobody else may read (chmod 600). Default: no key is asked for."""
    script: Path | None = None
    """Answer from this file instead of a model, to test clients: a line like {"pieces": ["Hello."]} for each answer,
    the last one again and again (docs/server.md)."""
    cors: bool = False
    """Let web pages of any site use this server."""
    allow_host: tuple[str, ...] = ()
    """A further name by which clients may call this server, besides its addresses and localhost; repeatable."""
    drain_s: Annotated[int, Parameter(validator=Number(gte=0, lte=LONGEST_S))] = 30
    """Seconds that running answers may take after SIGTERM or Ctrl+C; a second signal ends them at once."""
    trace: Annotated[Path | None, Parameter(group=_LOGS)] = None
    """File for all that is known about each request, private to you; an earlier trace is overwritten. Default: none."""
    log_format: Annotated[Literal["text", "json"], Parameter(group=_LOGS)] = "text"
    """How lines of the log are written, on stderr."""


@Parameter(name="*", group=_STEERING)
@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSettings:
    """Which direction to take out of the model's activations, and how much of it (spec/model.md 8.2)."""

    file: Annotated[Path | None, Parameter(name=("--dir-steering-file", "--steering"))] = None
    """File with one direction for each layer, as `whitedwarf steer build` writes it. Default: no steering."""
    ffn: Annotated[float | None, Parameter(name="--dir-steering-ffn", validator=Number(gte=-100, lte=100))] = None
    """How much of it to take out after feed-forward layers; negative amplifies it. Default with a file alone: 1."""
    attention: Annotated[float | None, Parameter(name="--dir-steering-attn", validator=Number(gte=-100, lte=100))] = (
        None
    )
    """The same after attention. Default: 0."""


@Parameter(name="*", group=_MODEL)
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModelSettings(ModelSettings):
    """Which model the agent runs on, and how."""

    context: Annotated[int | None, Parameter(name=("--ctx", "-c"), validator=POSITIVE)] = None
    """Context length in tokens. Default: 100000, or less if the model has less."""
    recipe: Literal["v4", "v4.1"] = "v4"
    """How prompts are written: as DeepSeek V4 or as V4.1 was trained; must suit the model."""
    script: Path | None = None
    """Answers come from this file instead of a model, one a line, to try the agent out (docs/agent.md)."""


@Parameter(name="*", group=_AGENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFlags(SourceSettings):
    """How the agent is talked to, what it may do, and what it keeps."""

    system: Annotated[str, Parameter(name=("--system", "-sys"), allow_leading_hyphen=True)] = ""
    """Further words to the system's text."""
    think: bool = False
    """Think before answering (the default)."""
    think_max: bool = False
    """Think as hard as possible; needs --ctx of at least 393216."""
    nothink: bool = False
    """Answer at once."""
    print: bool = False
    """One prompt, and only the answer on stdout; all else on stderr. Reads the prompt from stdin without -p."""
    plain: bool = False
    """Lines instead of the full screen; the default without a terminal that can do more."""
    screen_reader: bool = False
    """A full screen without bars, boxes and redrawing, for screen readers."""
    non_interactive: bool = False
    """For scripts: prompts on stdin, each ended by 200 ms of silence; +DWARFSTAR_WAITING and +DWARFSTAR_QUEUED on
    stderr say when the next one may come. With -p: one turn."""
    chdir: Path | None = None
    """Folder to work in; everything else is relative to it. Default: the current one."""
    trace: Path | None = None
    """File to which everything that happens is added, private to you, known secrets masked. Default: none."""
    session: Annotated[str | None, Parameter(group=_SESSIONS)] = None
    """Go on with this session: its id, or the first digits of it."""
    continue_: Annotated[bool, Parameter(name="--continue", group=_SESSIONS)] = False
    """Go on with the last session."""
    sessions_dir: Annotated[Path | None, Parameter(group=_SESSIONS)] = None
    """Folder for sessions, private to you. Default: ~/.whitedwarf/sessions."""
    allow: Annotated[tuple[str, ...], Parameter(group=_TOOLS)] = ()
    """A tool that runs without asking, or an effect: read, write, run, network; repeatable."""
    ask: Annotated[tuple[str, ...], Parameter(group=_TOOLS)] = ()
    """A tool, or an effect, about which you are asked each time."""
    deny: Annotated[tuple[str, ...], Parameter(group=_TOOLS)] = ()
    """A tool, or an effect, that is refused."""
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), group=_TOOLS)] = False
    """Ask about no tool: whatever is not denied runs. Only where it can do no harm."""
    allow_write: Annotated[tuple[Path, ...], Parameter(group=_TOOLS)] = ()
    """A further folder below which files may be written, besides the working one; repeatable."""
    mcp_config: Annotated[Path | None, Parameter(group=_TOOLS)] = None
    """File that names MCP servers (docs/agent.md). Default: ~/.whitedwarf/mcp.json, if it is there."""
    url: Annotated[str | None, Parameter(group=_ENDPOINT)] = None
    """Use the model of a server that speaks OpenAI's Chat Completions, such as http://127.0.0.1:8000, instead of one in
    this process."""
    model_name: Annotated[str | None, Parameter(group=_ENDPOINT, allow_leading_hyphen=True)] = None
    """The server's name for the model. Default: its only one."""
    api_key_env: Annotated[str | None, Parameter(group=_ENDPOINT)] = None
    """Environment variable with the key for it. Default: no key is sent."""
    extra_body: Annotated[str | None, Parameter(group=_ENDPOINT, allow_leading_hyphen=True)] = None
    """JSON object with further members of each request; null takes one away that we would send."""


DEFAULT_FILE = FileSettings()
DEFAULT_STREAMING = StreamingSettings()
DEFAULT_MODEL = ModelSettings()
DEFAULT_SOURCE = SourceSettings()
DEFAULT_CHAT = ChatSettings()
DEFAULT_SAMPLING = SamplingSettings()
DEFAULT_SERVE = ServeSettings()
DEFAULT_STEERING = SteeringSettings()
DEFAULT_AGENT = AgentFlags()
DEFAULT_AGENT_MODEL = AgentModelSettings()
DEFAULT_TRUST = TrustSettings()
DEFAULT_CLUSTER = ClusterSettings()
