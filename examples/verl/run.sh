#!/bin/bash
# Train the 4B agent: examples/verl/run.sh /path/to/the/model [overrides of verl's configuration ...]
# Before it: python examples/verl/prepare_data.py data; and a server for the world model (WMRL_WORLD_MODEL_URL).
set -euo pipefail
if [ $# -lt 1 ]; then sed -n 2,3p "$0" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-python}
# verl says at DEBUG only that a plugin failed; this says it aloud, and ends the script.
"$PYTHON" -m wmrl_gym.integrations.verl.check
exec "$PYTHON" -m verl.trainer.main_ppo --config-path "$here" --config-name wmrl_4b \
    actor_rollout_ref.model.path="$1" "${@:2}"
