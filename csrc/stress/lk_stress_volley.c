/*
 * lk_stress_volley.c: the shape in which everybody waits: two parties that answer each other, and
 * others that sleep on the same words.
 *
 * Labels: [X1] of lk_stress_party.h.
 *
 * Who writes: each of the two a lane of its own. Who reads: the other one, and those beside them.
 * If one of them dies: the others wait in slices, and end when somebody stops the run.
 */
#include "lk_stress_party.h"

#include <unistd.h>

/* How long a waiter sleeps before it asks why, and how long before that the announcement must have
 * been made to count as lost: a scheduler that is half a second late is not the lane's fault. */
static const uint64_t patience_ns = 1000000000;
static const uint64_t lost_after_ns = 500000000;

/*
 * Store buffering: the announcer stores the head and looks at wake_at, the waiter stores wake_at
 * and looks at the head; one of them must see the other. If neither does, the waiter sleeps on
 * although the announcement was made: its deadline passes, and the frame it then finds is old.
 * Returns false when the run ends.
 */
static bool await(struct lk_stress_party *me, const struct lk_stress_lane *lane, uint64_t seen) {
    const struct lk_frame_geometry *geometry = &lane->geometry;
    while (!lk_stress_stopped(me) && !lk_segment_invalidated(lane->segment)) {
        lk_stress_draw(me);
        if (lk_stress_broken(LK_STRESS_LOST_WAKE)) {
            /* Come to the wait at any moment of the announcer's delay. */
            for (uint64_t left = lk_stress_random() % (4 * LK_STRESS_HOLD_NS / 100); left > 0;
                 left--) {
                lk_cpu_relax();
            }
        }
        lk_stress_pause();
        enum lk_wait_strategy strategy =
            lk_stress_random() % 4 == 0 && !lk_stress_broken(LK_STRESS_LOST_WAKE) ? LK_WAIT_HYBRID
                                                                                  : LK_WAIT_BLOCK;
        /* Until the lane's writer has stored this, a sleeper may be overlooked by design. */
        bool heard = atomic_load_explicit(&lane->header->wakes, memory_order_relaxed) != 0;
        uint64_t deadline = lk_clock_ns() + patience_ns;
        uint64_t (*wait)(const _Atomic uint64_t *, _Atomic uint64_t *, uint64_t, uint64_t,
                         struct lk_spin *, enum lk_wait_strategy) =
            me->slow ? lk_stress_wait_slowly : lk_wait_beyond;
        uint64_t head =
            wait(&lane->header->head, &lane->header->wake_at, seen, deadline, &me->spin, strategy);
        if (head == seen) {
            continue; /* woken for no reason, or the other party is slow */
        }
        lk_stress_add(&me->tally->waits, 1);
        if (lk_clock_ns() >= deadline) {
            struct lk_frame_slot *slot =
                lk_frame_slot_at(lane->header, geometry, lk_frame_slot_index(geometry, seen + 1));
            uint64_t made = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
            if (heard && made + lost_after_ns < deadline) {
                lk_stress_found(me, &me->tally->lost);
            }
        }
        return true;
    }
    return false;
}

/* --- coming in time --------------------------------------------------------------------------- */

/* A lane is gone when its ping-pong ends, which may take less time than a process needs to begin:
 * nobody serves before all have found their lanes. False when the run ends first.
 * relaxed, like the count in say_ready: only how many there are matters, and nothing is handed over
 * with it; an order here would hide what the lanes are tested for. */
static bool readers_ready(const struct lk_stress_party *me) {
    while (atomic_load_explicit(&me->board->readers_ready, memory_order_relaxed) <
           me->plan->readers) {
        if (lk_stress_stopped(me)) {
            return false;
        }
        usleep(1000);
    }
    return true;
}

static void say_ready(struct lk_stress_party *me) {
    atomic_fetch_add_explicit(&me->board->readers_ready, 1, memory_order_relaxed);
}

/* --- the parties ------------------------------------------------------------------------------ */

/* Both sides of the ping-pong: `to` is the lane this party writes, `from` the one it waits on. */
void lk_stress_volley(struct lk_stress_party *me, bool first) {
    lk_frame_writer *to = NULL;
    lk_frame_reader *reader = NULL;
    struct lk_stress_lane from = {.segment = NULL};
    struct lk_frame_info info;
    int status = lk_stress_open_writer(me, first ? 0 : 1, &to);
    if (status == LK_OK) {
        status = lk_stress_find_lane(me, first ? 1 : 0, &from);
    }
    if (status == LK_OK) {
        status = lk_stress_find_reader(me, first ? 1 : 0, &reader);
    }
    if (status != LK_OK) {
        lk_stress_fail(me, status);
    }
    uint64_t sent = 0;
    uint64_t received = 0;
    bool begun = status == LK_OK;
    if (begun && first) {
        begun = readers_ready(me);
    } else if (begun) {
        say_ready(me);
    }
    while (begun && !lk_stress_stopped(me)) {
        if (first || sent < received) {
            me->seq = sent++;
            if (!lk_stress_publish_next(me, to)) {
                break;
            }
        }
        if (!await(me, &from, received)) {
            break;
        }
        me->seq = received++;
        int64_t seq = lk_stress_read_once(me, reader, LK_FRAME_NEWEST, &info);
        /* One at a time: the newest frame can only be the one that was announced. */
        if (seq != (int64_t)received && !lk_stress_stopped(me)) {
            lk_stress_found(me, &me->tally->reordered);
        }
        if (!first && lk_stress_reader_done(me)) {
            break;
        }
    }
    if (reader != NULL) {
        lk_stress_note_stats(me, reader);
        lk_frame_reader_free(reader);
    }
    lk_stress_forget_lane(&from);
    lk_stress_close_writer(to);
}

/* Readers beside the ping-pong: they wait on the same words, and are woken with the others. */
void lk_stress_wait_along(struct lk_stress_party *me) {
    struct lk_stress_lane lane = {.segment = NULL};
    int status = lk_stress_find_lane(me, 0, &lane);
    if (status != LK_OK) {
        lk_stress_fail(me, status);
        return;
    }
    say_ready(me);
    while (!lk_stress_reader_done(me) && await(me, &lane, me->seq)) {
        /* [X1] acquire: pairs with the [W1] release in lk_announce. */
        uint64_t head = atomic_load_explicit(&lane.header->head, memory_order_acquire);
        if (head < me->seq) {
            lk_stress_found(me, &me->tally->reordered);
        }
        lk_stress_add(&me->tally->frames, 1);
        me->seq = head;
    }
    lk_stress_forget_lane(&lane);
}
