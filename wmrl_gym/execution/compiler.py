"""A process that compiles what it is sent, and throws the code away: only whether it compiles is asked.

A kilobyte of source can become gigabytes of bytecode: every nested ``finally`` doubles what stands in it. So a script
is compiled here, where memory and processor time have limits, and never in the trainer.

Requests and answers are lines of JSON, on standard input and standard output. A request is a script. An answer is
``{"problem": text or null, "memory": whether the limit on memory was met, "ended": whether this was the last answer}``.
It imports nothing of ours. Started as ``python /dev/fd/N NAME SECONDS MEGABYTES``.
"""

import json
import math
import resource
import sys
import traceback
from typing import Any


def memory_mb(key: str) -> float:
    """``VmSize`` or ``VmPeak`` of this process, in MB."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:"))


def problem_of(script: str, name: str) -> str | None:
    """Why a script does not compile, as Python says it; None if it does."""
    try:
        compile(script, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        return "".join(traceback.format_exception_only(error)).rstrip()
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        return f"SyntaxError: {str(error) or type(error).__name__}"
    return None


def main() -> None:
    """Answer until the trainer is gone, or a script has taken much memory: then a fresh process shall go on."""
    name, seconds, megabytes = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    base = memory_mb("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (int((base + megabytes) * 2**20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    ended = False
    while not ended:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit if hard < 0 else min(limit, hard), hard))
        answer: dict[str, Any] = {"problem": "SyntaxError: MemoryError", "memory": False}
        try:
            line = sys.stdin.buffer.readline()
            if not line:
                return
            answer["problem"] = problem_of(json.loads(line), name)
        except MemoryError:
            ended = True
        del line
        # A request that fails leaves much of the limit unused: lists grow by doubling.
        ended = ended or memory_mb("VmPeak") - base > megabytes / 4
        answer["memory"] = ended and answer["problem"] == "SyntaxError: MemoryError"
        answer["ended"] = ended
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
