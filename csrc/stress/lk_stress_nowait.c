/*
 * lk_stress_nowait.c: the shapes in which nobody waits: a writer that runs freely, and the readers
 * of what it leaves behind.
 *
 * Labels: [X1] of lk_stress_party.h.
 *
 * Who writes: the writer alone. Who reads: read_frames through the lane's reader, the other two
 * past it, so that one pair of orders and nothing else stands between them and a broken frame.
 * If the writer dies: the readers go on looking until somebody stops the run.
 */
#include "lk_stress_party.h"

#include <stdlib.h>

void lk_stress_write_freely(struct lk_stress_party *me) {
    lk_frame_writer *writer = NULL;
    int status = lk_stress_open_writer(me, 0, &writer);
    if (status != LK_OK) {
        lk_stress_fail(me, status);
        return;
    }
    for (uint64_t turn = 0;
         !lk_stress_stopped(me) &&
         atomic_load_explicit(&me->board->readers_done, memory_order_relaxed) < me->plan->readers;
         turn++) {
        if (!lk_stress_publish_next(me, writer)) {
            break;
        }
        if (turn % 1024 == 1023) {
            sched_yield();
        }
    }
    lk_stress_close_writer(writer);
}

void lk_stress_read_frames(struct lk_stress_party *me) {
    lk_frame_reader *reader = NULL;
    struct lk_frame_info info;
    struct lk_frame_metrics metrics;
    int status = lk_stress_find_reader(me, 0, &reader);
    if (status != LK_OK) {
        lk_stress_fail(me, status);
        return;
    }
    uint64_t idle = 0;
    for (uint64_t turn = 0; !lk_stress_reader_done(me); turn++) {
        /* Mostly in order, which sees the most frames; the newest one now and then. */
        int choice = turn % 64 == 0 ? LK_FRAME_NEWEST : LK_FRAME_NEXT;
        int64_t seq = lk_stress_read_once(me, reader, choice, &info);
        if (seq < 0) {
            if (!lk_stress_stopped(me)) {
                lk_stress_fail(me, seq);
            }
            break;
        }
        if (seq == 0) {
            lk_stress_give_way(++idle);
        }
        if (turn % 16 == 0 && lk_frame_metrics(reader, &metrics) == 1) {
            lk_stress_judge_metrics(me, &metrics);
        }
        if (turn % 4096 == 0) {
            lk_stress_note_stats(me, reader);
        }
    }
    lk_stress_note_stats(me, reader);
    lk_frame_reader_free(reader);
}

/* --- past the lane's reader ------------------------------------------------------------------- */

/* Copy what one slot holds. True when the slot's word says that the copy is whole. */
static bool copy_slot(struct lk_stress_party *me, const struct lk_stress_lane *lane,
                      struct lk_frame_slot *slot, uint64_t word, struct lk_frame_info *info) {
    slow_copy_from_shared(me->pixels, slot->pixels, me->pixels_size);
    uint64_t size = atomic_load_explicit(&slot->metadata_size, memory_order_relaxed);
    if (size <= lane->geometry.metadata_size) {
        slow_copy_from_shared(me->metadata, lk_frame_slot_metadata(slot, &lane->geometry), size);
    }
    info->metadata_size = size == LK_NO_METADATA ? -1 : (int64_t)size;
    info->timestamp_ns = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
    info->metrics = lk_frame_slot_metrics(slot);
    return slow_seqlock_unchanged(&slot->seq, word);
}

/* Message passing: head n was stored after slot n was complete, so whoever reads n there finds the
 * slot's word at 2n, or beyond when the writer came round again. */
void lk_stress_read_message_passing(struct lk_stress_party *me) {
    struct lk_stress_lane lane = {.segment = NULL};
    int status = lk_stress_find_lane(me, 0, &lane);
    if (status != LK_OK) {
        lk_stress_fail(me, status);
        return;
    }
    uint64_t idle = 0;
    while (!lk_stress_reader_done(me)) {
        lk_stress_draw(me);
        /* [X1] acquire: pairs with the [W1] release in lk_announce; it is what is tested here. */
        uint64_t head = atomic_load_explicit(&lane.header->head, memory_order_acquire);
        if (head == me->seq) {
            lk_stress_give_way(++idle);
            continue;
        }
        uint64_t before = me->seq;
        struct lk_frame_slot *slot = lk_frame_slot_at(lane.header, &lane.geometry,
                                                      lk_frame_slot_index(&lane.geometry, head));
        lk_stress_pause();
        uint64_t word = slow_seqlock_begin_read(&slot->seq);
        struct lk_frame_info info;
        if (word < lk_frame_word_complete(head)) {
            lk_stress_found(me, &me->tally->reordered);
        } else if (word > lk_frame_word_complete(head) ||
                   !copy_slot(me, &lane, slot, word, &info)) {
            lk_stress_add(&me->tally->retries, 1);
        } else {
            lk_stress_add(&me->tally->frames, 1);
            lk_stress_judge(me, head, &info);
            lk_stress_judge_order(me, head, info.timestamp_ns);
        }
        if (head < before) {
            lk_stress_found(me, &me->tally->reordered);
        } else if (before != 0) {
            lk_stress_add(&me->tally->skipped, head - before - 1);
        }
        me->seq = head;
    }
    lk_stress_forget_lane(&lane);
}

static void read_header_metrics(struct lk_stress_party *me, struct lk_frame_header *header) {
    struct lk_frame_metrics metrics;
    uint64_t word = slow_seqlock_begin_read(&header->metrics_seq);
    metrics.last_reward =
        lk_bits_double(atomic_load_explicit(&header->last_reward, memory_order_relaxed));
    lk_stress_pause();
    metrics.rolling_return =
        lk_bits_double(atomic_load_explicit(&header->rolling_return, memory_order_relaxed));
    lk_stress_pause();
    metrics.step_rate_hz =
        lk_bits_double(atomic_load_explicit(&header->step_rate_hz, memory_order_relaxed));
    if (word % 2 == 0 && slow_seqlock_unchanged(&header->metrics_seq, word)) {
        lk_stress_judge_metrics(me, &metrics);
    } else {
        lk_stress_add(&me->tally->retries, 1);
    }
}

/* What the seqlock reader knows of one slot. */
struct sight {
    uint64_t word;    /* the last one found there */
    uint64_t counted; /* the last one whose frame was whole */
};

/* Seqlock: a slot whose word is even before and after the copy holds that frame, whether the head
 * has named it yet or not. Nothing but [Q1] and [Q2] protects this reader. */
void lk_stress_read_seqlock(struct lk_stress_party *me) {
    struct lk_stress_lane lane = {.segment = NULL};
    int status = lk_stress_find_lane(me, 0, &lane);
    struct sight *last = calloc(me->plan->capacity, sizeof *last);
    if (status != LK_OK || last == NULL) {
        lk_stress_fail(me, status != LK_OK ? status : LK_E_SYSTEM);
        lk_stress_forget_lane(&lane);
        free(last);
        return;
    }
    uint64_t idle = 0;
    uint32_t index = 0;
    for (uint64_t turn = 0; !lk_stress_reader_done(me); turn++) {
        lk_stress_draw(me);
        if (turn % 4 == 0) {
            read_header_metrics(me, lane.header);
        }
        index = index + 1 < lane.geometry.capacity ? index + 1 : 0;
        struct lk_frame_slot *slot = lk_frame_slot_at(lane.header, &lane.geometry, index);
        struct lk_frame_info info;
        uint64_t word = slow_seqlock_begin_read(&slot->seq);
        if (word == 0) {
            lk_stress_give_way(++idle);
        } else if (word % 2 != 0 || !copy_slot(me, &lane, slot, word, &info)) {
            lk_stress_add(&me->tally->retries, 1);
        } else {
            lk_stress_add(&me->tally->frames, word != last[index].counted);
            last[index].counted = word;
            lk_stress_judge(me, word / 2, &info);
        }
        if (word < last[index].word) {
            lk_stress_found(me, &me->tally->reordered);
        }
        last[index].word = word;
        if (turn % 4096 == 4095) {
            sched_yield();
        }
    }
    free(last);
    lk_stress_forget_lane(&lane);
}
