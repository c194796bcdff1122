/* lk_platform.c: clock, futex, process identity, fork detection. Copies are in lk_copy.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Whole content of a small /proc file, or -1. */
static ssize_t read_small_file(const char *path, char *out, size_t out_size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got = read(fd, out, out_size - 1);
    close(fd);
    if (got >= 0) {
        out[got] = '\0';
    }
    return got;
}

struct process_stat {
    char state;
    uint64_t threads;
    uint64_t start_ticks;
};

/* Fields 3, 20 and 22 of /proc/<pid>/stat. 0, or -1 when the file could not be read. */
static int read_process_stat(uint32_t pid, struct process_stat *out) {
    char path[48];
    char text[1024];
    /* The first thread's file says the same as /proc/<pid>/stat; but that one emulators such as
     * qemu make up for their own process, with a start time that others do not see. */
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", pid, pid);
    if (read_small_file(path, text, sizeof text) <= 0) {
        return -1;
    }
    /* The name in field 2 may hold spaces and parentheses: the fields start after the last one. */
    char *fields = strrchr(text, ')');
    if (fields == NULL || fields[1] != ' ') {
        errno = EIO;
        return -1;
    }
    fields += 2;
    out->state = fields[0];
    for (int field = 3; field < 20; field++) {
        fields = strchr(fields, ' ');
        if (fields == NULL) {
            errno = EIO;
            return -1;
        }
        fields++;
    }
    out->threads = strtoull(fields, &fields, 10);
    strtoull(fields, &fields, 10);
    out->start_ticks = strtoull(fields, NULL, 10);
    return 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void read_boot_id(uint8_t boot_id[16]) {
    char text[64] = "";
    memset(boot_id, 0, 16);
    read_small_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
    int nibbles = 0;
    for (const char *c = text; *c != '\0' && nibbles < 32; c++) {
        int digit = hex_digit(*c);
        if (digit >= 0) {
            boot_id[nibbles / 2] = (uint8_t)(boot_id[nibbles / 2] << 4 | digit);
            nibbles++;
        }
    }
}

static uint64_t pid_namespace(void) {
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

int lk_process_self(struct lk_process *out) {
    lk_fork_watch();
    struct process_stat self = {.start_ticks = 0};
    out->pid = (uint32_t)getpid();
    if (read_process_stat(out->pid, &self) != 0) {
        return LK_E_SYSTEM;
    }
    out->start_ticks = self.start_ticks;
    out->pid_namespace = pid_namespace();
    read_boot_id(out->boot_id);
    return LK_OK;
}

/* start_mask: which bits of the start time are known. */
static enum lk_liveness pid_liveness(uint32_t pid, uint64_t start_ticks, uint64_t start_mask) {
    struct process_stat stat_now;
    if (pid == 0 || pid > INT32_MAX) {
        return LK_DEAD;
    }
    if (read_process_stat(pid, &stat_now) != 0) {
        /* /proc may be restricted (hidepid); then the signal probe still knows. */
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? LK_DEAD : LK_ALIVE;
    }
    if ((stat_now.start_ticks & start_mask) != (start_ticks & start_mask)) {
        return LK_DEAD; /* the pid was given to a later process */
    }
    /* A zombie will never write again, though its pid exists until the parent reaps it. With
     * other threads left, only the first thread has ended and the process lives. */
    bool zombie = stat_now.state == 'Z' || stat_now.state == 'X';
    return zombie && stat_now.threads <= 1 ? LK_DEAD : LK_ALIVE;
}

enum lk_liveness lk_process_liveness(const struct lk_process *process) {
    struct lk_process self;
    if (lk_process_self(&self) != LK_OK) {
        return LK_UNKNOWN;
    }
    if (memcmp(process->boot_id, self.boot_id, sizeof self.boot_id) != 0) {
        return LK_DEAD; /* from before the last boot */
    }
    if (process->pid_namespace != self.pid_namespace) {
        return LK_UNKNOWN; /* its pid means nothing here */
    }
    return pid_liveness(process->pid, process->start_ticks, UINT64_MAX);
}

uint64_t lk_process_word(const struct lk_process *process) {
    return (uint64_t)process->pid << 32 | (process->start_ticks & UINT32_MAX);
}

enum lk_liveness lk_process_word_liveness(uint64_t word) {
    return pid_liveness((uint32_t)(word >> 32), word, UINT32_MAX);
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
