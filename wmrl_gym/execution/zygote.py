"""A process that has imported the scientific stack once, and forks itself into sandboxes.

Importing NumPy, pandas and scikit-learn costs a second of CPU time, many times what a small script needs. This program
imports them and then waits. On request it forks a child that joins the namespaces of a sandbox which bubblewrap has
set up, drops every privilege, and becomes the runner: from there on all is as with a fresh interpreter.

It only imports and never computes: a fork of a process that has run an OpenMP region, or that has a second thread,
would hang or misbehave. It holds no secret, since its memory is what every script starts with, and it imports nothing
of ours.

It is started as ``python /dev/fd/N``, with sockets and the runner's source as further descriptors.
"""

import array
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import types
from typing import Any, NoReturn

ALL_NAMESPACES = 0x7E020000
"""All of CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}: what ``bwrap --unshare-all`` makes."""

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522

LIBC = ctypes.CDLL(None, use_errno=True)


class FilterProgram(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def check(result: int, what: str) -> None:
    """Raise if a call of the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def join_namespaces(init: int) -> None:
    """Enter every namespace of the process behind a pidfd. Children, not the caller, enter the PID namespace.

    The caller's rights are judged once, before the user namespace changes: as root, or as the owner of the outer user
    namespace, it may enter all.
    """
    check(LIBC.setns(init, ALL_NAMESPACES), "setns")


def drop_privileges(uid: int, seccomp: bytes) -> None:
    """Become an ordinary uid of the sandbox for good: no capability, none to be gained, system calls filtered."""
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    check(LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")
    capability = 0
    while LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if capability < 36:
        raise OSError(f"only {capability} capabilities could be dropped")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    check(LIBC.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    # A change of identity hides /proc/self from its own process; a fresh interpreter sees it.
    check(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")
    if seccomp:
        program = FilterProgram(len(seccomp) // 8, seccomp)
        check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "seccomp")


def become_script(runner: types.ModuleType, request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """In the grandchild, inside the PID namespace: turn into the runner. Ends the process."""
    os.setsid()
    for target, source in enumerate(descriptors):  # standard input is the channel, then output and error
        os.dup2(source, target)
    os.closerange(3, 1 << 16)
    os.chdir(request["directory"])
    os.environ.update(request["environment"])
    drop_privileges(request["uid"], bytes.fromhex(request["seccomp"]))
    runner.main(runner.leave_at_once)
    raise AssertionError("the runner does not return")


def watch_over_script(runner: types.ModuleType, request: dict[str, Any], descriptors: list[int]) -> int:
    """In the child: enter the sandbox, fork the script, report its pid and how it ended. Stays outside its sight.

    Returns:
        Never in the child. In the grandchild the script's `SystemExit` passes through.
    """
    init, status, *rest = descriptors
    try:
        join_namespaces(init)
        script = os.fork()
    except OSError as error:
        os.write(status, f"failed {error}\n".encode())
        os._exit(1)
    if script == 0:
        os.close(status)
        become_script(runner, request, rest)
    for descriptor in rest:
        os.close(descriptor)
    os.write(status, f"started {script}\n".encode())
    _, ended = os.waitpid(script, 0)
    code = os.waitstatus_to_exitcode(ended)
    os.write(status, f"ended {code if code >= 0 else 128 - code}\n".encode())
    os._exit(0)


def preload(names: list[str]) -> str | None:
    """Import what is installed of these modules; the reason if the result may not be forked."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(f"{error.name}"):
                return f"importing {name} failed: {error}"
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"importing {', '.join(names)} left {threads} threads running, and a fork would lose all but one"
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise write to, and so copy, every page
    return None


def serve(runner: types.ModuleType, requests: socket.socket) -> None:
    """Answer requests until the trainer is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
    while True:
        message, ancillary, _, _ = requests.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
        if not message:
            return
        descriptors = array.array("i")
        for _, _, content in ancillary:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            watch_over_script(runner, json.loads(message), list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def main() -> None:
    """Import, report, serve."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    runner = types.ModuleType("runner")
    with open(int(sys.argv[2]), "rb") as file:
        exec(compile(file.read(), "runner.py", "exec"), runner.__dict__)
    if os.geteuid() == 0:
        os.setgroups([])
    problem = preload(sys.argv[3:])
    requests.send((problem or "ready").encode())
    if problem is None:
        sys.stdout.flush()  # what is buffered now would be printed again by every child
        sys.stderr.flush()
        serve(runner, requests)


if __name__ == "__main__":
    main()
