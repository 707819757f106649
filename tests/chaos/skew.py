"""A machine whose clock is wrong: a library that shifts the time of day of what loads it.

Clocks that only count on (`CLOCK_MONOTONIC`) stay as they are, as on a real machine.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    const char *seconds = getenv("CLOCK_SKEW_SECONDS");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    int of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && of_day) now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (result) *result = exact.tv_sec;
    return exact.tv_sec;
}
"""


def skewed(folder: Path, seconds: int) -> dict[str, str] | None:
    """The environment of a process whose clock is off by so much; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "skew.so"
    if not library.exists():
        source = folder / "skew.c"
        source.write_text(SOURCE)
        words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(words, check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_SKEW_SECONDS": str(seconds)}
