"""A small system call filter: less of the kernel within reach of a script.

The namespaces isolate without it. It removes what no solution script needs and where kernel faults have most often
hidden: tracing, mounting, new namespaces, keys, BPF, io_uring, userfaultfd, rare kinds of sockets.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, JUMP_EQUAL, JUMP_SET, JUMP_GREATER_EQUAL, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
NEW_NAMESPACES = 0x7E020000
"""All CLONE_NEW* flags that clone takes."""

# Numbers from the kernel's tables (asm/unistd_64.h; asm-generic/unistd.h).
COMMON = {"clone3": 435}
"""Its flags lie in memory, where a filter cannot look: "not implemented" makes the C library fall back to clone."""

DENIED = {
    "x86_64": {
        **{"ptrace": 101, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169},
        **{"init_module": 175, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272},
        **{"perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310},
        **{"process_vm_writev": 311, "finit_module": 313, "bpf": 321, "userfaultfd": 323},
    },
    "aarch64": {
        **{"umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "unshare": 97, "kexec_load": 104},
        **{"init_module": 105, "ptrace": 117, "reboot": 142, "add_key": 217, "request_key": 218, "keyctl": 219},
        **{"swapon": 224, "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270},
        **{"process_vm_writev": 271, "finit_module": 273, "bpf": 280, "userfaultfd": 282},
    },
}
DENIED_EVERYWHERE = {
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429},
    **{"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442},
    **{"memfd_secret": 447},
}
UNSEEN_MEMORY = {"x86_64": {"shmget": 29, "memfd_create": 319}, "aarch64": {"shmget": 194, "memfd_create": 279}}
"""Memory that belongs to no process's own mappings: only a control group counts it."""

ARCHITECTURES = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}
"""Audit number of the architecture, and number of clone."""

SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""Numbers of socket and socketpair."""

SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
"""What programs use among themselves; 16 is netlink, by which the C library asks for interfaces. Not virtual machines'
own (vsock), which no network namespace confines, nor those that load a kernel module when first asked for."""


def filter_program(machine: str | None = None, *, only_seen_memory: bool = False) -> bytes | None:
    """Compiled filter, 8 bytes an instruction; None on a machine whose numbers are not known here.

    Args:
        machine: as `platform.machine` names it; None is this one.
        only_seen_memory: deny memory that no process has mapped, for where memory is limited by looking at processes.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return None
    architecture, clone = ARCHITECTURES[machine]
    program = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":  # the x32 numbers would be a way around the list
        program += [(JUMP_GREATER_EQUAL, 0, 1, 0x40000000), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    denied = {**DENIED[machine], **DENIED_EVERYWHERE, **(UNSEEN_MEMORY[machine] if only_seen_memory else {})}
    for number in sorted(denied.values()):
        program += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | errno.EPERM)]
    program += [(JUMP_EQUAL, 0, 1, COMMON["clone3"]), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    for number in SOCKETS[machine]:
        program += [(JUMP_EQUAL, 0, len(SOCKET_FAMILIES) + 3, number), (LOAD, 0, 0, FIRST_ARGUMENT)]
        left = range(len(SOCKET_FAMILIES), 0, -1)
        program += [(JUMP_EQUAL, skip, 0, family) for skip, family in zip(left, SOCKET_FAMILIES, strict=True)]
        program += [(RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    program += [
        (JUMP_EQUAL, 0, 3, clone),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_SET, 0, 1, NEW_NAMESPACES),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
