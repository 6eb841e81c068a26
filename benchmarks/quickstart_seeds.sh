#!/usr/bin/env bash
# The quickstart on three seeds; the tables go to benchmarks/results/quickstart_seed<N>.md.
#   benchmarks/quickstart_seeds.sh [SEED...] [-- OVERRIDE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
seeds=()
while [[ $# -gt 0 && $1 != -- ]]; do seeds+=("$1"); shift; done
[[ ${1:-} == -- ]] && shift
[[ ${#seeds[@]} -gt 0 ]] || seeds=(0 1 2)

mkdir -p benchmarks/results
for seed in "${seeds[@]}"; do
    runs=runs/quickstart_seeds/s$seed
    "$python" -m wmrl_gym train experiment=quickstart "seed=$seed" "runs=$runs" "$@"
    newest=$(ls -td "$runs"/*/ | head -n 1)
    cp "${newest}table.md" "benchmarks/results/quickstart_seed$seed.md"
done
cat benchmarks/results/quickstart_seed*.md
