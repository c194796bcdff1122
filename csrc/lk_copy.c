/*
 * lk_copy.c: copies between private memory and a seqlock's payload.
 *
 * A reader may copy a slot while the writer overwrites it; the sequence word then says so and the
 * copy is thrown away. In C11 a plain memcpy there is undefined behaviour, and a compiler may use
 * that. So the bytes move either in assembly, which the compiler must take as it is, or in relaxed
 * atomic words, which the language defines. Ordering is the caller's: fences and the sequence word.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_cpu.h"
#include "lk_platform.h"

#include <string.h>
#include <unistd.h>

#if defined(LK_COPY_X86)

/* Stores of a string operation may become visible in any order among themselves, but not before
 * earlier stores nor after later ones (Intel SDM vol. 3, "Fast-String Operation and Out-of-Order
 * Stores"): exactly the contract, and at memcpy's speed on every CPU with ERMS. */
static inline void move_bytes(void *to, const void *from, size_t size) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

/* Measured on an AMD EPYC: vectors take 0.6 to 0.75 of the time of string operations into a ring
 * that the nearest caches do not hold, and 0.96 at 21 kB; glibc's memcpy is no faster than string
 * operations. Out of a ring both are the same, but for small frames. On Intel Xeons string
 * operations were as fast as anything else. */
static inline bool vectors_are_faster(void) {
#if defined(LK_COPY_VECTORS) /* a test has its own opinion */
    return LK_COPY_VECTORS && lk_cpu.avx;
#else
    return lk_cpu.amd && lk_cpu.avx;
#endif
}

enum { BLOCK = 128, SMALL = 128 * 1024 };

static inline void move_block(uint8_t *to, const uint8_t *from) {
    __asm__ volatile("vmovdqu   (%1), %%ymm0\n\t"
                     "vmovdqu 32(%1), %%ymm1\n\t"
                     "vmovdqu 64(%1), %%ymm2\n\t"
                     "vmovdqu 96(%1), %%ymm3\n\t"
                     "vmovdqu %%ymm0,   (%0)\n\t"
                     "vmovdqu %%ymm1, 32(%0)\n\t"
                     "vmovdqu %%ymm2, 64(%0)\n\t"
                     "vmovdqu %%ymm3, 96(%0)"
                     :
                     : "r"(to), "r"(from)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

/* Ordinary loads and stores, which x86 makes visible in program order. The last block may overlap
 * the one before it: the same bytes once more. */
static inline void move_blocks(uint8_t *to, const uint8_t *from, size_t size) {
    size_t last = size - BLOCK;
    for (size_t at = 0; at < last; at += BLOCK) {
        move_block(to + at, from + at);
    }
    move_block(to + last, from + last);
    __asm__ volatile("vzeroupper" ::: "memory");
}

/* The same for bytes that another core has just written. They are asked for ahead of time, on the
 * supposition that the processor's own prefetching ends with each page: into the second cache,
 * since the nearest can wait for few lines at a time. Never beyond the last byte: what lies there
 * is the writer's next slot. The caller's array may begin anywhere, so stores are lined up.
 * Measured on an AMD EPYC at 21 kB: 0.97 of the time without either; 1 kB ahead, or into the
 * nearest cache, gains nothing.
 */
static inline void fetch_blocks(uint8_t *to, const uint8_t *from, size_t size) {
    enum { AHEAD = 2048, SECOND_CACHE = 2 };
    size_t last = size - BLOCK;
    size_t at = LK_CACHE_LINE - (uintptr_t)to % LK_CACHE_LINE;
    move_block(to, from);
    for (; at + AHEAD < last; at += BLOCK) {
        __builtin_prefetch(from + at + AHEAD, 0, SECOND_CACHE);
        __builtin_prefetch(from + at + AHEAD + LK_CACHE_LINE, 0, SECOND_CACHE);
        move_block(to + at, from + at);
    }
    for (; at < last; at += BLOCK) {
        move_block(to + at, from + at);
    }
    move_block(to + last, from + last);
    __asm__ volatile("vzeroupper" ::: "memory");
}

void lk_copy_to_shared(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    if (size >= BLOCK && vectors_are_faster()) {
        move_blocks((uint8_t *)shared, private_bytes, size);
    } else {
        move_bytes((void *)shared, private_bytes, size);
    }
}

void lk_copy_from_shared(void *private_bytes, const _Atomic uint64_t *shared, size_t size) {
    if (size >= BLOCK && size < SMALL && vectors_are_faster()) {
        fetch_blocks(private_bytes, (const uint8_t *)shared, size);
    } else {
        move_bytes(private_bytes, (const void *)shared, size);
    }
}

const char *lk_copy_method(void) {
    return vectors_are_faster() ? "vectors" : "rep movsb";
}

/* Non-temporal stores spare the read of each cache line that a normal store to memory outside the
 * cache begins with. They are weakly ordered even on x86: one sfence keeps them behind the odd
 * sequence word, the other keeps the even one behind them. */
void lk_copy_to_shared_streaming(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    uint8_t *to = (uint8_t *)shared;
    const uint8_t *from = private_bytes;
    __asm__ volatile("sfence" ::: "memory");
    for (; size >= 64; size -= 64, to += 64, from += 64) {
        __asm__ volatile("movdqu   (%1), %%xmm0\n\t"
                         "movdqu 16(%1), %%xmm1\n\t"
                         "movdqu 32(%1), %%xmm2\n\t"
                         "movdqu 48(%1), %%xmm3\n\t"
                         "movntdq %%xmm0,   (%0)\n\t"
                         "movntdq %%xmm1, 16(%0)\n\t"
                         "movntdq %%xmm2, 32(%0)\n\t"
                         "movntdq %%xmm3, 48(%0)"
                         :
                         : "r"(to), "r"(from)
                         : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
    }
    move_bytes(to, from, size);
    __asm__ volatile("sfence" ::: "memory");
}

#else

/* Byte counts that are no multiple of the step end in relaxed words and bytes. */
static void words_to_shared(_Atomic uint64_t *shared, const uint8_t *from, size_t size) {
    uint64_t word;
    for (; size >= 8; size -= 8, from += 8, shared++) {
        memcpy(&word, from, 8);
        atomic_store_explicit(shared, word, memory_order_relaxed);
    }
    _Atomic uint8_t *bytes = (_Atomic uint8_t *)shared;
    for (; size > 0; size--, from++, bytes++) {
        atomic_store_explicit(bytes, *from, memory_order_relaxed);
    }
}

static void words_from_shared(uint8_t *to, const _Atomic uint64_t *shared, size_t size) {
    for (; size >= 8; size -= 8, to += 8, shared++) {
        uint64_t word = atomic_load_explicit(shared, memory_order_relaxed);
        memcpy(to, &word, 8);
    }
    const _Atomic uint8_t *bytes = (const _Atomic uint8_t *)shared;
    for (; size > 0; size--, to++, bytes++) {
        *to = atomic_load_explicit(bytes, memory_order_relaxed);
    }
}

const char *lk_copy_method(void) {
#if defined(LK_COPY_AARCH64)
    return "ldp/stp";
#else
    return "atomic words";
#endif
}

#if defined(LK_COPY_AARCH64)

/* 64 bytes a turn through four vector registers; ordinary stores, ordered by the caller's dmb and
 * stlr like any others. */
static inline size_t move_blocks(void *to, const void *from, size_t size) {
    size_t blocks = size / 64;
    if (blocks > 0) {
        size_t left = blocks;
        __asm__ volatile("1:\n\t"
                         "ldp q0, q1, [%1], #32\n\t"
                         "ldp q2, q3, [%1], #32\n\t"
                         "stp q0, q1, [%0], #32\n\t"
                         "stp q2, q3, [%0], #32\n\t"
                         "subs %2, %2, #1\n\t"
                         "b.ne 1b"
                         : "+r"(to), "+r"(from), "+r"(left)
                         :
                         : "memory", "cc", "v0", "v1", "v2", "v3");
    }
    return blocks * 64;
}

void lk_copy_to_shared(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    size_t moved = move_blocks((void *)shared, private_bytes, size);
    words_to_shared(shared + moved / 8, (const uint8_t *)private_bytes + moved, size - moved);
}

void lk_copy_from_shared(void *private_bytes, const _Atomic uint64_t *shared, size_t size) {
    size_t moved = move_blocks(private_bytes, (const void *)shared, size);
    words_from_shared((uint8_t *)private_bytes + moved, shared + moved / 8, size - moved);
}

#else

void lk_copy_to_shared(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    words_to_shared(shared, private_bytes, size);
}

void lk_copy_from_shared(void *private_bytes, const _Atomic uint64_t *shared, size_t size) {
    words_from_shared(private_bytes, shared, size);
}

#endif

/* stnp on aarch64 is only a hint there, and words have no non-temporal form: one copy serves. */
void lk_copy_to_shared_streaming(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    lk_copy_to_shared(shared, private_bytes, size);
}

#endif

uint64_t lk_streaming_threshold(void) {
    /* Measured on a server whose shared cache is nominally 260 MB: rings of 29 MB still lived in
     * the cache, rings of 59 MB did not (the cache is shared with others). So the nominal size
     * counts only up to 32 MiB. */
    const uint64_t most = 32u << 20;
    const uint64_t least = 4u << 20;
    uint64_t cache = most;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long reported = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (reported > 0) {
        cache = (uint64_t)reported;
    }
#endif
    if (cache < least) {
        return least;
    }
    return cache < most ? cache : most;
}
