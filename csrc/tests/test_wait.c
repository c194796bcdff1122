/*
 * No wake-up is lost: two threads hand a number back and forth through two events, sleeping in the
 * kernel each time, with a deadline far longer than the test. One lost wake-up is one minute.
 */
#include "check.h"
#include "lk_wait.h"

#include <pthread.h>

#define ROUNDS 20000

struct event {
    _Alignas(64) _Atomic uint64_t sequence;
    _Alignas(64) _Atomic uint64_t wake_at;
};

static struct event there;
static struct event back;
static enum lk_wait_strategy strategy;

static void wait_for(struct event *event, uint64_t value, struct lk_spin *spin) {
    uint64_t deadline = lk_clock_ns() + UINT64_C(60000000000);
    uint64_t seen = value - 1;
    while (seen < value) {
        seen = lk_wait_beyond(&event->sequence, &event->wake_at, seen, deadline, spin, strategy);
        CHECK(lk_clock_ns() < deadline);
    }
    CHECK(seen == value);
}

static void *answer(void *unused) {
    (void)unused;
    struct lk_spin spin = LK_SPIN_START;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        wait_for(&there, i, &spin);
        lk_announce(&back.sequence, &back.wake_at, i);
    }
    return NULL;
}

static void ping_pong(enum lk_wait_strategy which) {
    strategy = which;
    atomic_store(&there.sequence, 0);
    atomic_store(&there.wake_at, 0);
    atomic_store(&back.sequence, 0);
    atomic_store(&back.wake_at, 0);
    pthread_t peer;
    struct lk_spin spin = LK_SPIN_START;
    CHECK(pthread_create(&peer, NULL, answer, NULL) == 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        lk_announce(&there.sequence, &there.wake_at, i);
        wait_for(&back, i, &spin);
    }
    pthread_join(peer, NULL);
}

static void a_wait_ends_at_its_deadline(void) {
    struct lk_spin spin = LK_SPIN_START;
    struct event nothing = {0, 0};
    for (int which = LK_WAIT_HYBRID; which <= LK_WAIT_BLOCK; which++) {
        uint64_t start = lk_clock_ns();
        uint64_t deadline = start + 5000000;
        uint64_t found = 0;
        while (lk_clock_ns() < deadline) {
            found = lk_wait_beyond(&nothing.sequence, &nothing.wake_at, 0, deadline, &spin,
                                   (enum lk_wait_strategy)which);
        }
        CHECK(found == 0);
        CHECK(lk_clock_ns() >= deadline);
    }
}

/* A sleep may end early for no reason, but one whose deadline is misread ends at once, each time.
 */
static void a_sleep_lasts_until_its_deadline(void) {
    _Atomic uint64_t word = 0;
    uint64_t deadline = lk_clock_ns() + 30000000;
    int turns = 0;
    while (lk_clock_ns() < deadline) {
        lk_futex_wait(&word, 0, deadline);
        turns++;
    }
    CHECK(turns < 20);
}

/* Only a wait that spins learns from having slept. */
static void a_sleep_after_spinning_is_learned_from(void) {
    struct lk_spin spin = LK_SPIN_START;
    struct event nothing = {0, 0};
    uint64_t soon = lk_clock_ns() + 5000000;
    lk_wait_beyond(&nothing.sequence, &nothing.wake_at, 0, soon, &spin, LK_WAIT_BLOCK);
    CHECK(spin.sleeps == 0 && spin.slept_ns == 0);
    soon = lk_clock_ns() + 5000000;
    lk_wait_beyond(&nothing.sequence, &nothing.wake_at, 0, soon, &spin, LK_WAIT_HYBRID);
    CHECK(spin.sleeps == 1 && spin.slept_ns > 0);
    CHECK(atomic_load(&nothing.wake_at) == 1);
}

int main(void) {
    a_sleep_after_spinning_is_learned_from();
    a_wait_ends_at_its_deadline();
    a_sleep_lasts_until_its_deadline();
    ping_pong(LK_WAIT_BLOCK);
    ping_pong(LK_WAIT_HYBRID);
    return 0;
}
