/*
 * lk_stress_party.c: what every party of a stress run needs: lanes, frames, and their judgement.
 *
 * Labels: none of its own.
 *
 * Who writes: each party its own tally, everybody the word that stops them all.
 * If a party dies, its segment stays behind until lk_stress_finish reclaims it.
 */
#include "lk_stress_party.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define LONGEST_DELAY 64u

_Thread_local struct lk_stress_steps lk_stress_steps;

void lk_stress_fail(struct lk_stress_party *me, int64_t status) {
    if (lk_stress_stopped(me) && (status == LK_E_NOT_FOUND || status == LK_E_NOT_READY)) {
        return; /* the lane was not there in time for the end */
    }
    atomic_store_explicit(&me->tally->system_error, errno, memory_order_relaxed);
    atomic_store_explicit(&me->tally->failure, (int)status, memory_order_relaxed);
    lk_stress_stop_all(me->board);
}

void lk_stress_found(struct lk_stress_party *me, _Atomic uint64_t *what) {
    lk_stress_add(what, 1);
    struct lk_stress_tally *t = me->tally;
    uint64_t all = atomic_load_explicit(&t->torn, memory_order_relaxed) +
                   atomic_load_explicit(&t->reordered, memory_order_relaxed) +
                   atomic_load_explicit(&t->lost, memory_order_relaxed);
    if (me->plan->enough != 0 && all >= me->plan->enough) {
        lk_stress_stop_all(me->board);
    }
}

void lk_stress_draw(struct lk_stress_party *me) {
    uint32_t every = me->plan->delay_every;
    me->slow = every != 0 && lk_stress_random() % every == 0;
    lk_stress_steps.longest = me->slow ? LONGEST_DELAY : 0;
}

/* --- lanes ------------------------------------------------------------------------------------ */

size_t lk_stress_lane_run_id(const struct lk_stress_plan *plan, int back,
                             char out[LK_STRESS_LANE_ID_SIZE]) {
    int size = snprintf(out, LK_STRESS_LANE_ID_SIZE, "%.*s%s", (int)plan->run_id_size, plan->run_id,
                        back ? "-back" : "");
    return (size_t)size;
}

/* Call again while a lane is not there yet. It comes, however busy the machine is: a writer that
 * fails or dies stops all parties. */
static bool not_yet(const struct lk_stress_party *me, int status) {
    bool coming = status == LK_E_NOT_FOUND || status == LK_E_NOT_READY;
    if (!coming || lk_stress_stopped(me)) {
        return false;
    }
    usleep(1000);
    return true;
}

void lk_stress_forget_lane(struct lk_stress_lane *lane) {
    if (lane->segment != NULL) {
        lk_segment_release(lane->segment);
        lane->segment = NULL;
    }
}

int lk_stress_find_lane(struct lk_stress_party *me, int back, struct lk_stress_lane *lane) {
    char run_id[LK_STRESS_LANE_ID_SIZE];
    struct lk_segment_request request = {
        .kind = LK_KIND_FRAME,
        .magic = LK_MAGIC_FRAME,
        .run_id = run_id,
        .run_id_size = lk_stress_lane_run_id(me->plan, back, run_id),
    };
    struct lk_segment_header owner;
    int status;
    do {
        status = lk_segment_attach(&lane->segment, &request, &owner);
    } while (status != LK_OK && not_yet(me, status));
    if (status != LK_OK) {
        lane->segment = NULL;
        return status;
    }
    lane->header = lk_segment_base(lane->segment);
    lane->geometry = lane->header->geometry;
    status = lk_frame_check(&lane->geometry, owner.total_size);
    if (status != LK_OK) {
        lk_stress_forget_lane(lane);
    }
    return status;
}

int lk_stress_find_reader(struct lk_stress_party *me, int back, lk_frame_reader **reader) {
    char run_id[LK_STRESS_LANE_ID_SIZE];
    size_t size = lk_stress_lane_run_id(me->plan, back, run_id);
    int status;
    do {
        status = lk_frame_attach(reader, run_id, size, 0, NULL);
    } while (status != LK_OK && not_yet(me, status));
    return status;
}

int lk_stress_open_writer(const struct lk_stress_party *me, int back, lk_frame_writer **writer) {
    char run_id[LK_STRESS_LANE_ID_SIZE];
    size_t size = lk_stress_lane_run_id(me->plan, back, run_id);
    const struct lk_stress_plan *plan = me->plan;
    struct lk_frame_config config = {
        .width = plan->width,
        .height = plan->height,
        .channels = plan->channels,
        .pixel_format = plan->channels == 1 ? LK_PIXEL_GRAY : LK_PIXEL_RGB,
        .capacity = plan->capacity,
        .metadata_size = plan->metadata_size,
    };
    return lk_frame_create(writer, run_id, size, &config);
}

void lk_stress_close_writer(lk_frame_writer *writer) {
    if (writer != NULL) {
        lk_frame_writer_close(writer);
        lk_frame_writer_unlink(writer);
        lk_frame_writer_free(writer);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

bool lk_stress_publish_next(struct lk_stress_party *me, lk_frame_writer *writer) {
    struct lk_frame_metrics metrics;
    uint64_t seq = me->seq + 1;
    int64_t size = lk_stress_fill(seq, me->pixels, me->pixels_size, me->metadata,
                                  me->plan->metadata_size, &metrics.last_reward);
    const void *metadata = size >= 0 ? me->metadata : NULL;
    size_t metadata_size = size >= 0 ? (size_t)size : 0;
    int64_t result;
    lk_stress_draw(me);
    if (me->slow) {
        result = lk_stress_publish_slowly(writer, me->pixels, me->pixels_size, metadata,
                                          metadata_size, &metrics);
    } else {
        result = lk_frame_publish_metrics(writer, me->pixels, me->pixels_size, metadata,
                                          metadata_size, metrics.last_reward,
                                          metrics.rolling_return, metrics.step_rate_hz);
    }
    if (result != (int64_t)seq) {
        lk_stress_fail(me, result < 0 ? result : LK_E_CORRUPT);
        return false;
    }
    me->seq = seq;
    lk_stress_add(&me->tally->published, 1);
    return true;
}

void lk_stress_judge(struct lk_stress_party *me, uint64_t seq, const struct lk_frame_info *info) {
    bool whole =
        lk_stress_check(seq, me->pixels, me->pixels_size, me->metadata, info->metadata_size,
                        me->plan->metadata_size, info->metrics.last_reward,
                        info->metrics.rolling_return, info->metrics.step_rate_hz) == 1;
    if (!whole) {
        lk_stress_found(me, &me->tally->torn);
    }
}

void lk_stress_judge_order(struct lk_stress_party *me, uint64_t seq, uint64_t timestamp) {
    if (seq < me->seq || timestamp < me->timestamp) {
        lk_stress_found(me, &me->tally->reordered);
    }
    me->seq = seq;
    me->timestamp = timestamp;
}

void lk_stress_judge_metrics(struct lk_stress_party *me, const struct lk_frame_metrics *metrics) {
    if (metrics->last_reward == 0 && metrics->rolling_return == 0 && metrics->step_rate_hz == 0) {
        return; /* nothing was published yet */
    }
    uint64_t seq =
        lk_stress_metrics_seq(metrics->last_reward, metrics->rolling_return, metrics->step_rate_hz);
    if (seq == 0) {
        lk_stress_found(me, &me->tally->torn);
    } else if (seq < me->metrics_seq) {
        lk_stress_found(me, &me->tally->reordered);
    } else {
        me->metrics_seq = seq;
    }
}

int64_t lk_stress_read_once(struct lk_stress_party *me, lk_frame_reader *reader, int choice,
                            struct lk_frame_info *info) {
    lk_stress_draw(me);
    int64_t (*read)(lk_frame_reader *, int, void *, size_t, void *, size_t, struct lk_frame_info *);
    read = me->slow ? lk_stress_read_slowly : lk_frame_read;
    int64_t seq = read(reader, choice, me->pixels, me->pixels_size, me->metadata,
                       me->plan->metadata_size, info);
    if (seq > 0) {
        /* The newest frame is looked at again while no other comes; it counts once. */
        lk_stress_add(&me->tally->frames, (uint64_t)seq != me->seq);
        lk_stress_judge(me, (uint64_t)seq, info);
        lk_stress_judge_order(me, (uint64_t)seq, info->timestamp_ns);
    } else if (seq == LK_E_CORRUPT) {
        lk_stress_found(me,
                        &me->tally->reordered); /* the head stands at a frame that is not there */
        seq = 0;
    }
    return seq;
}

void lk_stress_note_stats(struct lk_stress_party *me, lk_frame_reader *reader) {
    struct lk_frame_stats stats;
    if (lk_frame_reader_stats(reader, &stats) == LK_OK) {
        atomic_store_explicit(&me->tally->skipped, stats.skipped, memory_order_relaxed);
        atomic_store_explicit(&me->tally->retries, stats.retries, memory_order_relaxed);
    }
}
