/*
 * lk_platform.h: what the core needs from the machine: clock, futex, process identity, fork
 * detection, and the copies between private and shared memory.
 */
#ifndef LK_PLATFORM_H
#define LK_PLATFORM_H

#include "lanekit.h"
#include "lk_layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define LK_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LK_THREAD_SANITIZER 1
#endif
#endif
#ifndef LK_THREAD_SANITIZER
#define LK_THREAD_SANITIZER 0
#endif

/* Which copy frames take. The assembly is opaque to the compiler, so the C11 race that a plain
 * memcpy under a seqlock would be does not exist; sanitizers and other machines get atomic words.
 */
#if !LK_THREAD_SANITIZER && defined(__x86_64__)
#define LK_COPY_X86 1
#elif !LK_THREAD_SANITIZER && defined(__aarch64__)
#define LK_COPY_AARCH64 1
#endif

/* The same clock, as of the system's last tick: some milliseconds behind, in a quarter of the time.
 * For leases and checks that are made now and then. */
uint64_t lk_clock_coarse_ns(void);
/* How far behind at most: a kernel has at least 100 ticks a second. */
#define LK_CLOCK_COARSE_LAG_NS UINT64_C(10000000)

/* Tell the core that we spin: saves power, and on x86 avoids a costly pipeline flush at the end. */
static inline void lk_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * Copies between private memory and a seqlock's payload.
 *
 * Contract: race-free by construction; the stores to shared memory become visible after stores
 * that precede the call behind a release fence, and before a release store that follows it.
 * Shared addresses are 8-byte aligned. The streaming variant, for which they are 16-byte aligned,
 * writes past the caches: it pays when the ring is so large that a slot has left them before its
 * turn comes again.
 */
void lk_copy_to_shared(_Atomic uint64_t *shared, const void *private_bytes, size_t size);
void lk_copy_to_shared_streaming(_Atomic uint64_t *shared, const void *private_bytes, size_t size);
void lk_copy_from_shared(void *private_bytes, const _Atomic uint64_t *shared, size_t size);

/*
 * Make a plain copy of shared memory the only one: what is judged must be what is used. Without
 * this a compiler may keep no copy at all, and load the shared bytes again after they were judged,
 * when a peer has changed them. `copy` is the private memory that was just filled.
 */
static inline void lk_copied_once(const void *copy) {
    __asm__ volatile("" : : "r"(copy) : "memory");
}

/* Keep non-temporal stores, which even x86 reorders, on their side of this point. A release fence
 * does so elsewhere. For memory that is lent to code we do not know. */
static inline void lk_streaming_fence(void) {
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#endif
}

/* Rings from this size on are written with the streaming copy. */
uint64_t lk_streaming_threshold(void);

/* How this processor copies best, for people. */
const char *lk_copy_method(void);

/*
 * Sleep until *word differs from expected, a wake, or the absolute deadline (CLOCK_MONOTONIC).
 * May return early for no reason; the caller looks again. Shared between processes. Only the low
 * 32 bits of the word are compared: a sleeper would have to miss exactly 2^32 changes.
 */
void lk_futex_wait(const _Atomic uint64_t *word, uint64_t expected, uint64_t deadline_ns);
void lk_futex_wake_all(const _Atomic uint64_t *word);

/* Who a process is, for people to read. Whether it lives, only lk_lock.h knows. */
struct lk_process {
    uint32_t pid;
    uint64_t pid_namespace; /* 0: not known */
};

/* This process's identity, right also after fork(). */
struct lk_process lk_process_self(void);

/* Counts the fork() calls between this process and the one that loaded the core, from the first
 * lk_fork_watch on. */
void lk_fork_watch(void);
uint32_t lk_fork_generation(void);

/* uint64_t words carry doubles through atomics. */
static inline uint64_t lk_double_bits(double value) {
    union {
        double value;
        uint64_t bits;
    } u = {.value = value};
    return u.bits;
}

static inline double lk_bits_double(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } u = {.bits = bits};
    return u.value;
}

#endif
