/*
 * limits.c: what this machine can do at best, for lanekit to be compared with.
 *
 * Compiled at run time by limits.py. Everything is timed here, one sample per operation, with the
 * two clock reads inside the sample: the limit pays for its own timing as lanekit does for its.
 *
 * A plain ring has the geometry of a fast-lane segment (csrc/lk_layout.h), and its head in the
 * same place, so that these functions also read a segment that lanekit writes. It has no protocol
 * at all: no sequence words, no metrics, no timestamp, no waking.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { HEADER_SIZE = 4096, HEAD_OFFSET = 576, SLOT_HEADER = 64, SPINS_PER_CLOCK = 1 << 16 };

struct limit_ring {
    unsigned char *base;
    size_t stride;
    size_t payload;
    uint32_t capacity;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static _Atomic uint64_t *head_of(const struct limit_ring *ring) {
    return (_Atomic uint64_t *)(void *)(ring->base + HEAD_OFFSET);
}

static unsigned char *pixels_of(const struct limit_ring *ring, uint64_t seq) {
    return ring->base + HEADER_SIZE + (seq - 1) % ring->capacity * ring->stride + SLOT_HEADER;
}

/* The first value that differs from `seen`, or `seen` when timeout_ns passed: a peer may be gone.
 */
static uint64_t spin_beyond(_Atomic uint64_t *word, uint64_t seen, uint64_t timeout_ns) {
    uint64_t deadline = now_ns() + timeout_ns;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            uint64_t found = atomic_load_explicit(word, memory_order_acquire);
            if (found != seen) {
                return found;
            }
        }
    } while (now_ns() < deadline);
    return seen;
}

/* An empty sample: what the two clock reads cost. */
void limit_clock(uint32_t count, uint32_t *samples) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = now_ns();
        samples[i] = (uint32_t)(now_ns() - start);
    }
}

/* memcpy as Python can call it. */
void limit_memcpy(void *to, const void *from, size_t size) {
    memcpy(to, from, size);
}

/* The same, again and again, each copy a sample. */
void limit_copies(void *to, const void *from, size_t size, uint32_t count, uint32_t *samples) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = now_ns();
        memcpy(to, from, size);
        samples[i] = (uint32_t)(now_ns() - start);
    }
}

/* Copy frames into one slot after the other, taking the sources in turn. */
void limit_copy_in(const struct limit_ring *ring, const void *const *sources, uint32_t source_count,
                   uint32_t count, uint32_t *samples) {
    _Atomic uint64_t *head = head_of(ring);
    uint64_t seq = atomic_load_explicit(head, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        seq++;
        unsigned char *to = pixels_of(ring, seq);
        const void *from = sources[i % source_count];
        uint64_t start = now_ns();
        memcpy(to, from, ring->payload);
        samples[i] = (uint32_t)(now_ns() - start);
        atomic_store_explicit(head, seq, memory_order_release);
    }
}

/* The same without a clock in between: nanoseconds for all of them. */
uint64_t limit_copy_in_untimed(const struct limit_ring *ring, const void *const *sources,
                               uint32_t source_count, uint32_t count) {
    _Atomic uint64_t *head = head_of(ring);
    uint64_t seq = atomic_load_explicit(head, memory_order_relaxed);
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        seq++;
        memcpy(pixels_of(ring, seq), sources[i % source_count], ring->payload);
        atomic_store_explicit(head, seq, memory_order_release);
    }
    return now_ns() - start;
}

/*
 * One of lanekit's own calls from a C loop: what is left when neither Python nor cffi is in the
 * way. It comes as a pointer, with its arguments in a struct of lanekit's (lk_frame_source,
 * lk_frame_target), so that this file needs nothing of lanekit to compile. fresh: a ring whose head
 * must have moved before each call, or NULL.
 */
typedef int64_t described_call(const void *arguments);

uint32_t limit_call(void *function, const void *arguments, const struct limit_ring *fresh,
                    uint32_t count, uint32_t *samples, uint64_t timeout_ns) {
    described_call *call = (described_call *)function;
    uint64_t seen = fresh != NULL ? atomic_load_explicit(head_of(fresh), memory_order_acquire) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (fresh != NULL) {
            seen = spin_beyond(head_of(fresh), seen, timeout_ns);
        }
        uint64_t start = now_ns();
        int64_t seq = call(arguments);
        samples[i] = (uint32_t)(now_ns() - start);
        if (seq <= 0) {
            return i;
        }
    }
    return count;
}

/*
 * Copy the newest frame out, whatever a writer does to it meanwhile. fresh: only once the head has
 * moved on. find: whether loading the head (a cache line the writer owns) is part of the sample.
 * Returns how many copies were made before the writer fell silent for timeout_ns.
 */
uint32_t limit_copy_out(const struct limit_ring *ring, void *to, int fresh, int find,
                        uint32_t count, uint32_t *samples, uint64_t timeout_ns) {
    _Atomic uint64_t *head = head_of(ring);
    uint64_t seen = atomic_load_explicit(head, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (fresh && spin_beyond(head, seen, timeout_ns) == seen) {
            return i;
        }
        seen = find ? seen : atomic_load_explicit(head, memory_order_acquire);
        uint64_t start = now_ns();
        seen = find ? atomic_load_explicit(head, memory_order_acquire) : seen;
        memcpy(to, pixels_of(ring, seen), ring->payload);
        samples[i] = (uint32_t)(now_ns() - start);
    }
    return count;
}

/* Spin until the head leaves `seen`; returns the new one. */
uint64_t limit_wait_head(const struct limit_ring *ring, uint64_t seen, uint64_t timeout_ns) {
    return spin_beyond(head_of(ring), seen, timeout_ns);
}

/* Touch every page, so that no sample pays for a page fault. */
uint64_t limit_touch(const unsigned char *memory, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i += 4096) {
        sum += ((const volatile unsigned char *)memory)[i];
    }
    return sum;
}

/* One cache line sent to and fro: each sample is a round trip. Returns the rounds that worked. */
uint32_t limit_ping(void *line, uint32_t count, uint32_t *samples, uint64_t timeout_ns) {
    _Atomic uint64_t *word = line;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ours = 2 * (uint64_t)i + 1;
        uint64_t start = now_ns();
        atomic_store_explicit(word, ours, memory_order_release);
        if (spin_beyond(word, ours, timeout_ns) == ours) {
            return i;
        }
        samples[i] = (uint32_t)(now_ns() - start);
    }
    return count;
}

uint32_t limit_pong(void *line, uint32_t count, uint64_t timeout_ns) {
    _Atomic uint64_t *word = line;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = 2 * (uint64_t)i;
        if (spin_beyond(word, before, timeout_ns) == before) {
            return i;
        }
        atomic_store_explicit(word, before + 2, memory_order_release);
    }
    return count;
}

/*
 * The way of one frame without any protocol: memcpy into the ring, move the head; on the other side
 * spin on the head, memcpy out. Times are absolute, so that the two sides' samples can be joined.
 */
void limit_send(const struct limit_ring *ring, const void *from, uint64_t *started) {
    _Atomic uint64_t *head = head_of(ring);
    uint64_t seq = atomic_load_explicit(head, memory_order_relaxed) + 1;
    *started = now_ns();
    memcpy(pixels_of(ring, seq), from, ring->payload);
    atomic_store_explicit(head, seq, memory_order_release);
}

uint64_t limit_receive(const struct limit_ring *ring, void *to, uint64_t seen, uint64_t timeout_ns,
                       uint64_t *received) {
    uint64_t seq = spin_beyond(head_of(ring), seen, timeout_ns);
    memcpy(to, pixels_of(ring, seq), ring->payload);
    *received = now_ns();
    return seq;
}
