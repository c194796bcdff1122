/*
 * scribble.h: a peer that scribbles, for the tests in which one process stores random and edge
 * values over the words of a live segment while another one uses every call of its lane.
 *
 * The user may get results and named statuses. What it may not get: a crash, a sanitizer report, a
 * length or a pointer that leaves its memory, a call that does not come back.
 *
 * usage of each test: test_scribble_LANE [SECONDS [SEED]]
 */
#ifndef LK_TESTS_SCRIBBLE_H
#define LK_TESTS_SCRIBBLE_H

#include "check.h"

#include "lk_layout.h"
#include "lk_platform.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SCRIBBLE_SECONDS 2 /* of each lane, unless the command line says more */
#define SCRIBBLE_TURN_NS UINT64_C(40000000)
#define SCRIBBLE_WATCHDOG 60 /* seconds: a turn that takes longer hangs */

/* Bytes of a segment that are worth scribbling over: `width` at every `step`. */
struct scribble_range {
    uint64_t begin, end, step, width;
};

struct scribble_plan {
    char name[160];
    const struct scribble_range *ranges;
    uint32_t count;
};

/* What both processes count, in memory that they share. */
struct scribble_counts {
    _Atomic uint64_t scribbles;
};

/* What the user counts. */
struct scribble_tally {
    uint64_t calls;
    uint64_t results; /* calls that had a result: a frame, an exchange, a message, a record */
    uint64_t statuses[32];
};

static struct scribble_tally tally;
static uint64_t scribble_state;

static inline uint64_t chance(void) {
    uint64_t x = scribble_state; /* xorshift64* */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    scribble_state = x;
    return x * UINT64_C(2685821657736338717);
}

static inline uint64_t below(uint64_t limit) {
    return (chance() >> 11) % limit;
}

/* Every answer is a result or a status with a name. */
static inline int64_t answer(int64_t status) {
    CHECK(status >= LK_E_SCHEMA);
    tally.calls++;
    tally.statuses[status < 0 ? -status : 0]++;
    tally.results += status > 0;
    return status;
}

/* Read every byte, so that one outside of what was promised shows. */
static inline void touch(const void *bytes, size_t size) {
    static volatile uint8_t sink;
    const volatile uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        sink = at[i];
    }
    (void)sink;
}

static inline void *exactly(size_t size) {
    void *memory = malloc(size > 0 ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

/* --- the scribbler ---------------------------------------------------------------------------- */

static inline uint64_t bad_value(uint64_t good) {
    static const uint64_t edges[] = {
        0,          1,          2,          3,          7,          63,
        64,         65,         4095,       4096,       0x7fffffff, 0x80000000,
        0xffffffff, 0x40000000, 1ull << 32, 1ull << 38, 1ull << 62, (1ull << 62) + 64,
        1ull << 63, ~0ull >> 1, ~0ull,      ~0ull - 63, ~0ull - 64, 0x5245444900000000,
    };
    switch (below(6)) {
    case 0: return edges[below(sizeof edges / sizeof edges[0])];
    case 1: return good + below(5) - 2;
    case 2: return good + 64 * (below(5) - 2);
    case 3: return good ^ (1ull << below(64));
    case 4: return below(1u << 16);
    default: return chance();
    }
}

static inline void scribble_word(uint8_t *base, uint64_t at) {
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(base + (at & ~7ull));
    uint64_t good = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t bad = bad_value(good);
    if (below(3) == 0) { /* one half of it */
        uint64_t half = below(2) == 0 ? 0xffffffffull : 0xffffffff00000000ull;
        bad = (good & ~half) | (bad & half);
    }
    atomic_store_explicit(word, bad, memory_order_relaxed);
    for (uint64_t i = below(64); i > 0; i--) {
        lk_cpu_relax();
    }
    if (below(4) != 0) { /* mostly as it was, unless somebody else has moved it on */
        atomic_compare_exchange_strong_explicit(word, &bad, good, memory_order_relaxed,
                                                memory_order_relaxed);
    }
    for (uint64_t i = below(256); i > 0; i--) {
        lk_cpu_relax();
    }
}

static inline void scribble_over(const struct scribble_plan *plan, uint8_t *base, uint64_t size,
                                 uint32_t only) {
    uint32_t which = only < plan->count ? only : (uint32_t)below(plan->count + 1);
    if (which == plan->count) {
        scribble_word(base, below(size - 8));
        return;
    }
    const struct scribble_range *range = &plan->ranges[which];
    uint64_t steps = (range->end - range->begin) / range->step;
    uint64_t at = range->begin + below(steps) * range->step + below(range->width);
    if (at + 8 <= size) {
        scribble_word(base, at);
    }
}

/* Until it is killed, or its user is; the segment is looked up again and again, for the lane may
 * get a new one. */
static inline void scribble(const struct scribble_plan *plan, struct scribble_counts *counts,
                            pid_t user) {
    char slashed[200];
    snprintf(slashed, sizeof slashed, "/%s", plan->name);
    /* Half of the turns keep to one kind of words, so that the others let calls get far. */
    uint32_t only = (uint32_t)below(UINT64_C(2) * plan->count);
    while (getppid() == user) {
        struct stat info;
        int fd = shm_open(slashed, O_RDWR, 0);
        if (fd < 0 || fstat(fd, &info) != 0 || info.st_size < (off_t)LK_HEADER_SIZE) {
            if (fd >= 0) {
                close(fd);
            }
            pause_ms(1);
            continue;
        }
        uint64_t size = (uint64_t)info.st_size;
        uint8_t *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        CHECK(base != MAP_FAILED);
        for (int i = 0; i < 500; i++) {
            scribble_over(plan, base, size, only);
        }
        atomic_fetch_add_explicit(&counts->scribbles, 500, memory_order_relaxed);
        munmap(base, size);
    }
    _exit(0);
}

/* --- the user --------------------------------------------------------------------------------- */

struct scribble_user {
    void (*begin)(struct scribble_plan *plan); /* make the lane */
    void (*use)(void);                         /* one call, or a few */
    void (*end)(void);                         /* let go of all handles */
};

static inline void remove_segment(const char *name) {
    char slashed[200];
    snprintf(slashed, sizeof slashed, "/%s", name);
    shm_unlink(slashed);
}

static inline void scribble_turn(const struct scribble_user *user, struct scribble_counts *counts) {
    struct scribble_plan plan;
    alarm(SCRIBBLE_WATCHDOG);
    user->begin(&plan);
    uint64_t seed = chance();
    pid_t self = getpid();
    pid_t peer = fork();
    CHECK(peer >= 0);
    if (peer == 0) {
        scribble_state = seed | 1;
        scribble(&plan, counts, self);
    }
    uint64_t end = lk_clock_ns() + SCRIBBLE_TURN_NS;
    do {
        user->use();
    } while (lk_clock_ns() < end);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    user->end();
    remove_segment(plan.name);
}

static inline int scribble_main(int count, char **arguments, const struct scribble_user *user) {
    struct scribble_counts *counts =
        mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    uint64_t seconds = count > 1 ? strtoull(arguments[1], NULL, 10) : SCRIBBLE_SECONDS;
    uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : lk_clock_ns();
    scribble_state = seed | 1;
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    uint64_t begin = lk_clock_ns();
    /* Calls that all failed, or all worked, would have shown nothing. */
    while (lk_clock_ns() - begin < seconds * UINT64_C(1000000000) || tally.results == 0 ||
           tally.statuses[-LK_E_CORRUPT] == 0) {
        scribble_turn(user, counts);
    }
    printf("%.1f s, %llu words scribbled over, %llu calls, %llu of them with a result\n",
           (double)(lk_clock_ns() - begin) / 1e9, (unsigned long long)counts->scribbles,
           (unsigned long long)tally.calls, (unsigned long long)tally.results);
    for (int i = 1; i < 32; i++) {
        if (tally.statuses[i] != 0) {
            printf("  %-20s %llu\n", lk_status_name(-i), (unsigned long long)tally.statuses[i]);
        }
    }
    return 0;
}

#endif
