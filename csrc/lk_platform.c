/* lk_platform.c: clock, futex, process identity, fork detection. Copies are in lk_copy.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_platform.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

const char *lk_status_name(int status) {
    switch (status) {
    case LK_OK: return "LK_OK";
    case LK_E_SYSTEM: return "LK_E_SYSTEM";
    case LK_E_INVALID: return "LK_E_INVALID";
    case LK_E_NOT_FOUND: return "LK_E_NOT_FOUND";
    case LK_E_NOT_READY: return "LK_E_NOT_READY";
    case LK_E_EXISTS: return "LK_E_EXISTS";
    case LK_E_WRONG_KIND: return "LK_E_WRONG_KIND";
    case LK_E_WRONG_VERSION: return "LK_E_WRONG_VERSION";
    case LK_E_TRUNCATED: return "LK_E_TRUNCATED";
    case LK_E_BAD_GEOMETRY: return "LK_E_BAD_GEOMETRY";
    case LK_E_CORRUPT: return "LK_E_CORRUPT";
    case LK_E_NO_SPACE: return "LK_E_NO_SPACE";
    case LK_E_PERMISSION: return "LK_E_PERMISSION";
    case LK_E_CLOSED: return "LK_E_CLOSED";
    case LK_E_FORKED: return "LK_E_FORKED";
    case LK_E_CONCURRENT: return "LK_E_CONCURRENT";
    case LK_E_INVALIDATED: return "LK_E_INVALIDATED";
    case LK_E_SIZE: return "LK_E_SIZE";
    case LK_E_METADATA_SIZE: return "LK_E_METADATA_SIZE";
    case LK_E_RESERVED: return "LK_E_RESERVED";
    case LK_E_NOT_RESERVED: return "LK_E_NOT_RESERVED";
    case LK_E_TOO_MANY: return "LK_E_TOO_MANY";
    case LK_E_OVERWRITTEN: return "LK_E_OVERWRITTEN";
    case LK_E_MOVED: return "LK_E_MOVED";
    case LK_E_PEER_LOST: return "LK_E_PEER_LOST";
    case LK_E_TAKEN: return "LK_E_TAKEN";
    case LK_E_OUT_OF_TURN: return "LK_E_OUT_OF_TURN";
    case LK_E_TOO_LARGE: return "LK_E_TOO_LARGE";
    case LK_E_SCHEMA: return "LK_E_SCHEMA";
    case LK_E_UNTRUSTED: return "LK_E_UNTRUSTED";
    default: return "LK_E_UNNAMED";
    }
}

static inline uint64_t read_clock(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t lk_clock_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t lk_clock_coarse_ns(void) {
#if defined(CLOCK_MONOTONIC_COARSE)
    return read_clock(CLOCK_MONOTONIC_COARSE);
#else
    return lk_clock_ns();
#endif
}

/* --- futex ------------------------------------------------------------------------------------ */

#if defined(__linux__)

static uint32_t *futex_word(const _Atomic uint64_t *word) {
    /* The kernel looks at 32 bits: the low half, which comes first on the little-endian machines
     * the layout is defined for. */
    return (uint32_t *)(uintptr_t)word;
}

void lk_futex_wait(const _Atomic uint64_t *word, uint64_t expected, uint64_t deadline_ns) {
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000u),
        .tv_nsec = (long)(deadline_ns % 1000000000u),
    };
    /* FUTEX_WAIT_BITSET takes an absolute time, so an interrupted wait needs no arithmetic. */
    syscall(SYS_futex, futex_word(word), FUTEX_WAIT_BITSET, (uint32_t)expected, &deadline, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

void lk_futex_wake_all(const _Atomic uint64_t *word) {
    int saved = errno;
    syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

static bool futex_works(void) {
    _Atomic uint64_t probe = 0;
    return syscall(SYS_futex, futex_word(&probe), FUTEX_WAKE, 1, NULL, NULL, 0) == 0;
}

#else

/* Elsewhere: sleep in short bounded pieces behind the same call. */
void lk_futex_wait(const _Atomic uint64_t *word, uint64_t expected, uint64_t deadline_ns) {
    (void)word;
    (void)expected;
    uint64_t now = lk_clock_ns();
    if (now < deadline_ns) {
        uint64_t pause_ns = deadline_ns - now < 200000u ? deadline_ns - now : 200000u;
        struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)pause_ns};
        nanosleep(&pause, NULL);
    }
}

void lk_futex_wake_all(const _Atomic uint64_t *word) {
    (void)word;
}

static bool futex_works(void) {
    return false;
}

#endif

/* --- fork ------------------------------------------------------------------------------------- */

static uint32_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
    fork_generation++; /* the child has one thread here, so a plain increment is enough */
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

void lk_fork_watch(void) {
    pthread_once(&fork_once, watch_forks);
}

uint32_t lk_fork_generation(void) {
    return fork_generation;
}

/* --- process identity ------------------------------------------------------------------------- */

struct lk_process lk_process_self(void) {
    struct stat info;
    bool known = stat("/proc/self/ns/pid", &info) == 0;
    return (struct lk_process){
        .pid = (uint32_t)getpid(),
        .pid_namespace = known ? (uint64_t)info.st_ino : 0,
    };
}

/* --- description ------------------------------------------------------------------------------ */

int lk_platform_describe(struct lk_platform_info *out) {
    _Atomic uint32_t word32 = 0;
    _Atomic uint64_t word64 = 0;
    memset(out, 0, sizeof *out);
    out->atomics_lock_free = atomic_is_lock_free(&word32) && atomic_is_lock_free(&word64);
    out->futex_works = futex_works();
    out->cache_line = LK_CACHE_LINE;
    out->layout_major = LK_LAYOUT_MAJOR;
    out->layout_minor = LK_LAYOUT_MINOR;
    snprintf(out->copy_method, sizeof out->copy_method, "%s", lk_copy_method());
    snprintf(out->compiler, sizeof out->compiler, "%.60s", __VERSION__);
    return LK_OK;
}
