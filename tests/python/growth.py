"""How much memory repeated work leaves behind."""

import gc
import os


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(work, warm, rounds):
    """Bytes by which the process grows over rounds of work, after a few to get warm."""
    for _ in range(warm):
        work()
    gc.collect()
    before = resident_bytes()
    for _ in range(rounds):
        work()
    gc.collect()
    return resident_bytes() - before
