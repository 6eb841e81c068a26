#!/usr/bin/env bash
# An experiment on three seeds; the tables go to benchmarks/results/<experiment>_seed<N>.md.
#   benchmarks/seeds.sh EXPERIMENT [SEED...] [-- OVERRIDE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
experiment=${1:?name an experiment, for example quickstart}
shift
seeds=()
while [[ $# -gt 0 && $1 != -- ]]; do
    [[ $1 =~ ^[0-9]+$ ]] || { echo "seeds.sh: '$1' is no seed; overrides come after --" >&2; exit 2; }
    seeds+=("$1"); shift
done
[[ ${1:-} == -- ]] && shift
for override in "$@"; do
    # The result is looked for in the folder and under the name of these.
    [[ ! $override =~ ^[+]{0,2}(runs|seed|experiment|resume)= ]] || { echo "seeds.sh: it sets '${override%%=*}' itself" >&2; exit 2; }
done
[[ ${#seeds[@]} -gt 0 ]] || seeds=(0 1 2)

mkdir -p benchmarks/results
results=()
for seed in "${seeds[@]}"; do
    runs=runs/${experiment}_seeds/s$seed
    "$python" -m wmrl_gym train "experiment=$experiment" "seed=$seed" "runs=$runs" "$@"
    newest=$(ls -td "$runs"/*/ | head -n 1)
    results+=("benchmarks/results/${experiment}_seed$seed.md")
    cp "${newest}table.md" "${results[-1]}"
done
cat "${results[@]}"
