/*
 * Orders, in a form ThreadSanitizer can judge. It ignores fences, seqlock payloads are atomic to it
 * whatever their order, and it does not see that two mappings are one memory. So here the core's
 * own steps run in one mapping, and every announcement also hands over plain memory: one thread
 * fills a plain cell before it announces n, the other looks into the cell after it has seen n. If
 * the release or the acquire between them is lost, that is a data race, and ThreadSanitizer says
 * so. The guard's [G1] is judged in test_misuse.c, where plain fields of a handle pass between
 * threads.
 */
#include "check.h"
#include "lk_frame.h"
#include "lk_seqlock.h"
#include "lk_wait.h"

#include <pthread.h>

#define FRAMES 20000

static uint64_t cells[FRAMES + 1];

static uint64_t content(uint64_t n) {
    return n * UINT64_C(0x9E3779B97F4A7C15);
}

/* --- [W1] announce and wait --------------------------------------------------------------
 */

static struct {
    _Alignas(64) _Atomic uint64_t sequence;
    _Alignas(64) _Atomic uint64_t wake_at;
} event;

static void *announce(void *unused) {
    (void)unused;
    for (uint64_t n = 1; n <= FRAMES; n++) {
        cells[n] = ~content(n);
        lk_announce(&event.sequence, &event.wake_at, n);
    }
    return NULL;
}

static void *await(void *unused) {
    (void)unused;
    struct lk_spin spin = LK_SPIN_START;
    uint64_t seen = 0;
    while (seen < FRAMES) {
        uint64_t deadline = lk_clock_ns() + 1000000;
        seen =
            lk_wait_beyond(&event.sequence, &event.wake_at, seen, deadline, &spin, LK_WAIT_HYBRID);
        CHECK(seen == 0 || cells[seen] == ~content(seen));
    }
    return NULL;
}

/* --- [Q1] a sequence word ----------------------------------------------------------------
 */

static _Atomic uint64_t word;

static void *write_words(void *unused) {
    (void)unused;
    for (uint64_t n = 1; n <= FRAMES; n++) {
        lk_seqlock_begin_write(&word, lk_frame_word_writing(n));
        cells[n] = content(n) ^ 1;
        lk_seqlock_end_write(&word, lk_frame_word_complete(n));
    }
    return NULL;
}

static void *read_words(void *unused) {
    (void)unused;
    uint64_t found = 0;
    while (found < lk_frame_word_complete(FRAMES)) {
        found = lk_seqlock_begin_read(&word);
        CHECK(found < 2 || cells[found / 2] == (content(found / 2) ^ 1));
    }
    return NULL;
}

static void together(void *(*first)(void *), void *(*second)(void *)) {
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, first, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, second, NULL) == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

int main(void) {
    together(announce, await);
    together(write_words, read_words);
    return 0;
}
