#!/usr/bin/env bash
# Every figure that the CPU backend is judged by, on this machine, beside llama.cpp's llama-bench.
#
#   benchmarks/run_cpu.sh [--quick] [--llama-bench PATH] [--out FOLDER] [--models FOLDER] [--minutes N]
#                         [--only nano,f4,f6,q3,m3,kernels] [--deep] [--keep]
#
# Flash-shaped models are synthesised one at a time in --models (the largest, f6, takes 13.5 GB of disk and of page
# cache) and deleted again unless they were there before or --keep is given. JSON goes to --out, a summary to standard
# output. --quick: fewer rounds and shorter contexts, at most 20 minutes; steps that no time is left for are skipped and
# named. --deep: with --quick, too, the peer's decode at 16k, which takes it some 5 minutes to get to. Let nothing else
# run meanwhile.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
quick=0 keep=0 deep=0 minutes=0 peer="" out="$root/benchmarks/results/$(date +%F)-$(hostname)-cpu" models=/tmp
only=nano,f4,f6,q3,m3,kernels
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=1; shift ;;
        --keep) keep=1; shift ;;
        --deep) deep=1; shift ;;
        --llama-bench) peer=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --models) models=$2; shift 2 ;;
        --minutes) minutes=$2; shift 2 ;;
        --only) only=$2; shift 2 ;;
        *) sed -n '2,14p' "$0" >&2; exit 2 ;;
    esac
done
[ "$minutes" -gt 0 ] || minutes=$([ $quick = 1 ] && echo 20 || echo 600)
python=${PYTHON:-$([ -x "$root/.venv/bin/python" ] && echo "$root/.venv/bin/python" || echo python3)}
export PYTHONPATH=${PYTHONPATH:-$root/src}
[ -z "$peer" ] || [ -x "$peer" ] || { echo "--llama-bench $peer: there is no such program" >&2; exit 2; }
mkdir -p "$out"
end=$(($(date +%s) + minutes * 60))
skipped=() child=
# timeout leads a process group of its own: it takes the peer with it.
trap '[ -z "$child" ] || kill -- "-$child" 2>/dev/null; exit 130' INT TERM

say() { echo "[$(date +%T)] $*" >&2; }

# step NAME COMMAND...: within the time that is left; a step that fails does not end the others.
step() {
    local name=$1 left=$((end - $(date +%s))) began
    shift
    began=$(date +%s)
    if [ $left -lt 20 ]; then skipped+=("$name (no time left)"); return 0; fi
    say "$name"
    timeout "$left" "$@" >"$out/$name.txt" 2>"$out/$name.log" &
    child=$!
    local code=0
    wait "$child" || code=$?
    if [ $code != 0 ]; then
        skipped+=("$name ($([ $code = 124 ] && echo "not ready in time" || tail -1 "$out/$name.log"))")
        return 0
    fi
    say "    $(($(date +%s) - began)) s"
}
wd() { "$python" -m whitedwarf "$@"; }
bench() { local name=$1; shift; step "$name" "$python" -m whitedwarf bench "$@" --json "$out/$name.json"; }
peers() { local name=$1 file=$2; shift 2; [ -z "$peer" ] || bench "$name" peers --llama-bench "$peer" -m "$file" "$@"; }
wanted() { case ",$only," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }

# model NAME LAYERS QUANT: $file, synthesised if it is not there, and in the page cache.
model() {
    file=$models/$1.gguf made=0
    if [ $((end - $(date +%s))) -lt 60 ]; then skipped+=("$1 (no time left)"); return 1; fi
    if [ ! -e "$file" ]; then
        made=1
        say "writing $file"
        wd gguf synth "$file" --shape flash --layers "$2" --quant "$3" 2>>"$out/synth.log" || {
            skipped+=("$1 ($(tail -1 "$out/synth.log"))"); rm -f "$file"; return 1; }
    fi
    cat "$file" >/dev/null
}
# Its pages make room for those of the next file.
done_with() {
    "$python" - "$file" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(fd)
if hasattr(os, "posix_fadvise"):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
PY
    if [ $made = 1 ] && [ $keep = 0 ]; then rm -f "$file"; fi
}

say "load $(uptime | sed 's/.*average[s]*: *//'); $minutes minutes at most"
if wanted nano; then
    bench nano points -p 512 -n 128 -r 5
    step nano_once "$python" "$root/benchmarks/one_shot.py" "$out/nano_once.json"
fi
if wanted f4 && model f4 4 q2; then
    if [ $quick = 1 ]; then
        peers f4 "$file" -p 512 -n 64 --rounds 5
        peers f4_long "$file" -p 2048 -n 0 --rounds 3 --micro-batches 2048 --repack 0
        bench f4_depths points -m "$file" -p 512 -n 32 -d 0,2048,16384,32768 -r 5
        [ $deep = 0 ] || peers f4_deep "$file" -p 0 -n 64 -d 16384 --rounds 5 --micro-batches 512 --repack 0
    else
        peers f4 "$file" -p 512,2048 -n 64 --rounds 5
        bench f4_depths points -m "$file" -p 512 -n 64 -d 0,2048,16384,32768,65536 -r 5
        peers f4_deep "$file" -p 512 -n 64 -d 16384 --rounds 5
    fi
    [ -n "$peer" ] || bench f4 points -m "$file" -p 512,2048 -n 64 -r 5
    bench f4_batch batch -m "$file" --sequences 1,2,4,8,16 -d 512 -n 8 -r 5
    bench f4_layers -m "$file" --ctx-start 512 --ctx-max 512 -n 64 --repeats 5
    done_with
fi
for name in f6:6:q2 q3:3:q4 m3:3:mxfp4; do
    IFS=: read -r name layers quant <<<"$name"
    wanted "$name" && model "$name" "$layers" "$quant" || continue
    if [ $quick = 1 ] && [ "$name" = f6 ]; then
        peers "$name" "$file" -p 0 -n 64 --rounds 5 --micro-batches 512
    else
        peers "$name" "$file" -p 512 -n 64 --rounds $([ $quick = 1 ] && echo 3 || echo 5)
    fi
    [ -n "$peer" ] || bench "$name" points -m "$file" -p 512 -n 64 -r 5
    done_with
done
if wanted kernels; then
    bench kernels kernels -r $([ $quick = 1 ] && echo 3 || echo 9) --budget-s $([ $quick = 1 ] && echo 0.3 || echo 1)
fi

"$python" "$root/benchmarks/summary.py" "$out" | tee "$out/summary.txt"
for name in "${skipped[@]+"${skipped[@]}"}"; do say "not measured: $name"; done
say "figures: $out"
