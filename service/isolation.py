"""Walls between the processes that hold secrets and their children, which read what strangers have sent."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x2008_0522
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Rights of Landlock to change something: to write to files, and to remove and to make files of every kind."""


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


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def write_only_below(folders: Sequence[Path]) -> bool:
    """Let this process, and what it starts, change no file but those below some folders; reading is not touched.

    Call it before there is a second thread. Files that are open already stay as they are. There is no way back.

    Returns
    -------
    bool
        False if the kernel, or the container, knows no Landlock. Then everything is as before.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_CREATE_RULESET_VERSION)
    if version < 1:
        return False
    handled = CHANGES | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rules = libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(ctypes.c_uint64(handled)), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        of_files = handled & (WRITE_FILE | TRUNCATE)
        for path, rights in (*((folder, handled) for folder in folders), (Path(os.devnull), of_files)):
            below = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = _PathBeneath(rights, below)
                added = libc.syscall(LANDLOCK_ADD_RULE, rules, LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule), 0)
                if added != 0:
                    return False
            finally:
                os.close(below)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)
