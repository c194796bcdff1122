/* What a waiter learns about spinning, step by step: lk_spin.h has no clock or luck in it but one
 * look at the time. */
#include "check.h"
#include "lk_spin.h"

static const uint64_t never = UINT64_MAX;

static void spinning_takes_what_has_paid_lately(void) {
    struct lk_spin spin = {.budget_ns = 100, .most_ns = 50000, .slept_ns = 1000};
    CHECK(lk_spin_time(&spin, false) == 100);
    CHECK(lk_spin_time(&spin, true) == 1500); /* the last sleep, and half as long again */
    spin.budget_ns = 1501;
    CHECK(lk_spin_time(&spin, true) == 1501);
}

static void spinning_is_tried_again_after_enough_short_sleeps(void) {
    struct lk_spin spin = {.budget_ns = 7, .most_ns = 1000, .retry_after = 3, .slept_ns = 999};
    for (spin.sleeps = 0; spin.sleeps < 6; spin.sleeps++) {
        CHECK(lk_spin_begin(&spin, 50, never).retry == (spin.sleeps >= 3));
    }
    spin.slept_ns = 1000; /* as long as spinning may take at most */
    CHECK(!lk_spin_begin(&spin, 50, never).retry);
}

static void spinning_ends_at_the_deadline(void) {
    struct lk_spin spin = {.budget_ns = 100, .most_ns = 1000, .retry_after = 8};
    struct lk_spinning spinning = lk_spin_begin(&spin, 50, never);
    CHECK(spinning.begin_ns == 50 && spinning.looked_ns == 50 && spinning.end_ns == 150);
    CHECK(!spinning.preempted);
    CHECK(lk_spin_begin(&spin, 50, 151).end_ns == 150);
    CHECK(lk_spin_begin(&spin, 50, 149).end_ns == 149);
}

static void spinning_goes_on_until_its_end_or_a_preemption(void) {
    struct lk_spinning spinning = {.end_ns = never};
    /* We may lose the core between the two looks, but not each time. */
    do {
        spinning.looked_ns = lk_clock_ns();
    } while (!lk_spin_on(&spinning));
    CHECK(!spinning.preempted);
    CHECK(spinning.looked_ns <= lk_clock_ns() && spinning.looked_ns > 0);
    spinning.looked_ns = lk_clock_ns() - LK_SPIN_PREEMPTED_NS - 1;
    CHECK(!lk_spin_on(&spinning) && spinning.preempted);
    spinning.end_ns = lk_clock_ns();
    CHECK(!lk_spin_on(&spinning));
}

static uint32_t learned(uint32_t budget_ns, bool paid, bool preempted, uint64_t took_ns) {
    struct lk_spin spin = {.budget_ns = budget_ns, .most_ns = 1000};
    lk_spin_learn(&spin, paid, preempted, took_ns);
    return spin.budget_ns;
}

static void the_budget_follows_what_paid(void) {
    CHECK(learned(400, true, false, 200) == 400);
    CHECK(learned(400, true, false, 201) == 402);
    CHECK(learned(400, true, false, 499) == 998);
    CHECK(learned(400, true, false, 500) == 1000);
    CHECK(learned(400, true, false, 5000) == 1000); /* no more than the most */
    CHECK(learned(400, false, false, 400) == 200);
    CHECK(learned(400, true, true, 100) == 0);
    CHECK(learned(400, false, true, 100) == 0);
}

static void tries_become_rare_while_they_do_not_pay(void) {
    struct lk_spin spin = {.sleeps = 9, .retry_after = LK_SPIN_RETRY};
    lk_spin_learn_when_to_retry(&spin, false);
    CHECK(spin.sleeps == 0 && spin.retry_after == 2 * LK_SPIN_RETRY);
    for (int i = 0; i < 40; i++) {
        lk_spin_learn_when_to_retry(&spin, false);
    }
    CHECK(spin.retry_after == LK_SPIN_RETRY_MOST);
    spin.sleeps = 9;
    lk_spin_learn_when_to_retry(&spin, true);
    CHECK(spin.sleeps == 0 && spin.retry_after == LK_SPIN_RETRY);
}

static void only_a_try_changes_when_to_try_again(void) {
    struct lk_spin spin = {.budget_ns = 400, .most_ns = 1000, .sleeps = 5, .retry_after = 16};
    struct lk_spinning spinning = {.begin_ns = 100, .looked_ns = 400};
    lk_spin_end(&spin, &spinning, true);
    CHECK(spin.budget_ns == 600 && spin.sleeps == 5 && spin.retry_after == 16);
    spinning.retry = true;
    lk_spin_end(&spin, &spinning, false);
    CHECK(spin.budget_ns == 300 && spin.sleeps == 0 && spin.retry_after == 32);
    spinning.preempted = true; /* found, but at another process's cost */
    lk_spin_end(&spin, &spinning, true);
    CHECK(spin.budget_ns == 0 && spin.retry_after == 64);
    spinning.preempted = false;
    lk_spin_end(&spin, &spinning, true);
    CHECK(spin.retry_after == LK_SPIN_RETRY);
}

static void a_sleep_is_counted_and_its_length_kept(void) {
    struct lk_spin spin = {.most_ns = UINT32_MAX, .sleeps = 4};
    uint64_t begin_ns = lk_clock_ns();
    lk_spin_slept(&spin, begin_ns - 1000000);
    uint64_t most_ns = lk_clock_ns() - begin_ns + 1000000;
    CHECK(spin.sleeps == 5 && spin.slept_ns >= 1000000 && spin.slept_ns <= most_ns);
    spin.most_ns = 5000;
    lk_spin_slept(&spin, begin_ns - 1000000);
    CHECK(spin.sleeps == 6 && spin.slept_ns == 5000);
}

int main(void) {
    spinning_takes_what_has_paid_lately();
    spinning_is_tried_again_after_enough_short_sleeps();
    spinning_ends_at_the_deadline();
    spinning_goes_on_until_its_end_or_a_preemption();
    the_budget_follows_what_paid();
    tries_become_rare_while_they_do_not_pay();
    only_a_try_changes_when_to_try_again();
    a_sleep_is_counted_and_its_length_kept();
    return 0;
}
