"""Walls between the processes that hold secrets and their children, which read what strangers have sent."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x2008_0522


def hide_secrets() -> None:
    """Keep other processes of this user from reading the memory of this one, and the environment it was started with.

    Its children are such processes; they become readable themselves again when they start another program. Root reads
    on.
    """
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def leave_network() -> bool:
    """Move this process, and what it starts, into a network of its own in which there is nothing.

    Call it before there is a second thread. What a user of this machine may do with files, he may do afterwards; that
    goes for sockets in the file system, too.

    Returns
    -------
    bool
        False if the kernel, or the container, does not let this user do that. Then everything is as before.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:  # root
        return True
    user, group = os.geteuid(), os.getegid()
    # Somebody else may do so within users of his own, where he is who he was and may do no more.
    # The files that say so must be his.
    if libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1 or libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), nothing)
    return True
