#!/usr/bin/env bash
# The drawer agent, and runs of experiment=libero_tiny, on initial states that are outside what they were trained on.
#   benchmarks/moved_drawers.sh FOLDER [RUN...]    tables go to FOLDER/cold_start and FOLDER/<name of the run>
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
folder=${1:?name a folder for the states and the tables}
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
states=$folder/moved.npz
read -ra drawers <<< "$("$python" -c 'from wmrl_gym.envs.libero.splits import DRAWERS; print(*DRAWERS)')"
[[ -f $states ]] || "$python" -m wmrl_gym.envs.libero.perturbation "$states" \
    --suite libero_90 --tasks "${drawers[@]}" --count 10 --seed 5 --workers 1

tasks=$(for drawer in "${drawers[@]}"; do for state in {0..9}; do printf '%s@%s,' "$drawer" "$state"; done; done)
settings=(env=libero env.suite=libero_90 env.chunk=8 env.horizon=56 env.image_size=64 env.workers=1
    "env.init_state_file=$states" "tasks.held_out=[${tasks%,}]" "tasks.train=[${drawers[0]}@0]"
    tasks.categories=wmrl_gym.envs.libero.splits.drawers_task_of_each
    evaluation.samples=4 evaluation.temperature=0.3 seed=100 threads=1)
"$python" -m wmrl_gym evaluate policy=drawer_agent "${settings[@]}" "output=$folder/cold_start"
for run in "$@"; do
    "$python" -m wmrl_gym evaluate "run=$run" tasks_of=configuration "${settings[@]}" "output=$folder/$(basename "$run")"
done
