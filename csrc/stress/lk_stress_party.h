/*
 * lk_stress_party.h: one party of a stress run: its belongings, its counts, what it does.
 *
 * Each party is a thread or a process, with handles and buffers of its own. They meet in the lane
 * that is stressed and in one anonymous shared page, where each counts what it finds. Nothing
 * synchronises them but the lane: a lock between them would order exactly what is to be found out
 * of order.
 *
 * Labels
 *   [X1] the head, read past the lane's reader: acquire / released by lk_announce, and by what
 *        stands for it in lk_stress_writer.c
 */
#ifndef LK_STRESS_PARTY_H
#define LK_STRESS_PARTY_H

#include "lk_stress_steps.h"

#define LK_STRESS_READERS_MAX 8u
#define LK_STRESS_RUN_ID_MAX 256u
/* With what tells the two lanes of a run apart. */
#define LK_STRESS_LANE_ID_SIZE (LK_STRESS_RUN_ID_MAX + 8)

/* One party's counts; only that party writes them. */
struct lk_stress_tally {
    _Atomic uint64_t published, frames, torn, reordered, skipped, retries, waits, lost;
    _Atomic int failure, system_error;
    _Atomic uint32_t ended;
    uint8_t padding[2 * LK_CACHE_LINE - 8 * 8 - 3 * 4];
};

struct lk_stress_board {
    _Atomic uint32_t stop;
    _Atomic uint32_t readers_done;
    _Atomic uint32_t readers_ready; /* those of a ping-pong: each knows the lanes it waits on */
    uint8_t padding[2 * LK_CACHE_LINE - 3 * 4];
    struct lk_stress_tally tallies[1 + LK_STRESS_READERS_MAX];
};

/* What one party has for itself. */
struct lk_stress_party {
    const struct lk_stress_plan *plan;
    struct lk_stress_board *board;
    struct lk_stress_tally *tally;
    size_t pixels_size;
    uint8_t *pixels;
    uint8_t *metadata;
    uint64_t seq;       /* the last frame published, or the newest one seen */
    uint64_t timestamp; /* of that frame */
    uint64_t metrics_seq;
    struct lk_spin spin;
    bool slow; /* this frame goes through the slowed-down steps */
};

/* A lane seen from outside the reader: its mapping and its checked geometry. */
struct lk_stress_lane {
    lk_segment *segment;
    struct lk_frame_header *header;
    struct lk_frame_geometry geometry;
};

/* --- counting and ending ---------------------------------------------------------------------- */

static inline void lk_stress_add(_Atomic uint64_t *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static inline bool lk_stress_stopped(const struct lk_stress_party *me) {
    return atomic_load_explicit(&me->board->stop, memory_order_relaxed) != 0;
}

static inline void lk_stress_stop_all(struct lk_stress_board *board) {
    atomic_store_explicit(&board->stop, 1, memory_order_relaxed);
}

static inline bool lk_stress_reader_done(const struct lk_stress_party *me) {
    return lk_stress_stopped(me) ||
           (me->plan->frames != 0 &&
            atomic_load_explicit(&me->tally->frames, memory_order_relaxed) >= me->plan->frames);
}

/* Leave the core to others now and then: the parties may have to share one. */
static inline void lk_stress_give_way(uint64_t turn) {
    if (turn % 1024 == 1023) {
        sched_yield();
    } else {
        lk_cpu_relax();
    }
}

/* The party can not go on: all of them stop. */
void lk_stress_fail(struct lk_stress_party *me, int64_t status);

/* One more of what the run looks for; enough of it stops the run. */
void lk_stress_found(struct lk_stress_party *me, _Atomic uint64_t *what);

/* Decide whether the next frame is disturbed, and set the steps accordingly. */
void lk_stress_draw(struct lk_stress_party *me);

/* --- lanes ------------------------------------------------------------------------------------ */

/* Run id of the lane from the writer (0) and of the one back to it (1). */
size_t lk_stress_lane_run_id(const struct lk_stress_plan *plan, int back,
                             char out[LK_STRESS_LANE_ID_SIZE]);

/* Each waits for a lane that its writer is about to create. */
int lk_stress_find_lane(struct lk_stress_party *me, int back, struct lk_stress_lane *lane);
int lk_stress_find_reader(struct lk_stress_party *me, int back, lk_frame_reader **reader);
void lk_stress_forget_lane(struct lk_stress_lane *lane);
int lk_stress_open_writer(const struct lk_stress_party *me, int back, lk_frame_writer **writer);
void lk_stress_close_writer(lk_frame_writer *writer);

/* --- frames ----------------------------------------------------------------------------------- */

/* Every bit of the result depends on every bit of seq; different seq, different result. */
uint64_t lk_stress_scramble(uint64_t seq);

bool lk_stress_publish_next(struct lk_stress_party *me, lk_frame_writer *writer);
int64_t lk_stress_read_once(struct lk_stress_party *me, lk_frame_reader *reader, int choice,
                            struct lk_frame_info *info);
void lk_stress_judge(struct lk_stress_party *me, uint64_t seq, const struct lk_frame_info *info);

/* Frames must not become older from one read to the next. */
void lk_stress_judge_order(struct lk_stress_party *me, uint64_t seq, uint64_t timestamp);

/* Metrics of the header have a sequence word of their own, and must not grow older either. */
void lk_stress_judge_metrics(struct lk_stress_party *me, const struct lk_frame_metrics *metrics);
void lk_stress_note_stats(struct lk_stress_party *me, lk_frame_reader *reader);

/* --- what a party does until the run ends ----------------------------------------------------- */

void lk_stress_write_freely(struct lk_stress_party *me);
void lk_stress_read_frames(struct lk_stress_party *me);
void lk_stress_read_message_passing(struct lk_stress_party *me);
void lk_stress_read_seqlock(struct lk_stress_party *me);

/* Both sides of the ping-pong. */
void lk_stress_volley(struct lk_stress_party *me, bool first);
void lk_stress_wait_along(struct lk_stress_party *me);

#endif
