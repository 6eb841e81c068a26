#!/usr/bin/env bash
# An experiment on three seeds; the tables go to benchmarks/results/<experiment>_seed<N>.md.
#   benchmarks/seeds.sh EXPERIMENT [SEED...] [-- OVERRIDE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
experiment=${1:?name an experiment, for example quickstart}
shift
seeds=()
while [[ $# -gt 0 && $1 != -- ]]; do seeds+=("$1"); shift; done
[[ ${1:-} == -- ]] && shift
[[ ${#seeds[@]} -gt 0 ]] || seeds=(0 1 2)

mkdir -p benchmarks/results
for seed in "${seeds[@]}"; do
    runs=runs/${experiment}_seeds/s$seed
    "$python" -m wmrl_gym train "experiment=$experiment" "seed=$seed" "runs=$runs" "$@"
    newest=$(ls -td "$runs"/*/ | head -n 1)
    cp "${newest}table.md" "benchmarks/results/${experiment}_seed$seed.md"
done
cat benchmarks/results/"$experiment"_seed*.md
