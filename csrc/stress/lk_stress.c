/*
 * lk_stress.c: the parties of a stress run, and what they check.
 *
 * Each party is a thread or a process, pinned to a core, with handles and buffers of its own. They
 * meet in the lane that is stressed and in one anonymous shared page, where each counts what it
 * finds. Nothing synchronises them but the lane: a lock between them would order exactly what is
 * to be found out of order.
 *
 * Labels
 *   [X1] the head, read past the lane's reader: acquire / released by lk_announce, and by what
 *        stands for it in lk_stress_writer.c
 *   [X2] working: release when a party ends / acquire in lk_stress_poll, so that final counts are
 *        complete
 *
 * If a party dies, its segment stays behind until lk_stress_finish reclaims it.
 */
#include "lk_stress_steps.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READERS_MAX 8u
#define LONGEST_DELAY 64u
#define RUN_ID_MAX 256u

/* How long a waiter sleeps before it asks why, and how long before that the announcement must have
 * been made to count as lost: a scheduler that is half a second late is not the lane's fault. */
static const uint64_t patience_ns = 1000000000;
static const uint64_t lost_after_ns = 500000000;

/* How long a reader looks for a lane that its writer is about to create. */
static const uint64_t attach_patience_ns = 10000000000;

_Thread_local struct lk_stress_steps lk_stress_steps;

/* One party's counts; only that party writes them. */
struct tally {
    _Atomic uint64_t published, frames, torn, reordered, skipped, retries, waits, lost;
    _Atomic int failure, system_error;
    _Atomic uint32_t ended;
    uint8_t padding[2 * LK_CACHE_LINE - 8 * 8 - 3 * 4];
};

struct board {
    _Atomic uint32_t stop;
    _Atomic uint32_t readers_done;
    uint8_t padding[2 * LK_CACHE_LINE - 2 * 4];
    struct tally tallies[1 + READERS_MAX];
};

struct party {
    struct lk_stress_run *run;
    uint32_t index; /* 0: the writer */
    pthread_t thread;
    pid_t pid;
};

struct lk_stress_run {
    struct lk_stress_plan plan;
    char run_id[RUN_ID_MAX];
    struct board *board;
    uint32_t started;
    struct party parties[1 + READERS_MAX];
};

/* --- frames that can be checked --------------------------------------------------------------- */

/* Every bit of the result depends on every bit of seq; different seq, different result. */
static uint64_t scramble(uint64_t seq) {
    uint64_t x = seq + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static const uint64_t stride = 0x9E3779B97F4A7C15u;
static const uint64_t metadata_salt = 0x6D65746164617461u;

static void fill(uint64_t word, void *bytes, size_t size) {
    uint8_t *to = bytes;
    for (; size >= 8; size -= 8, to += 8, word += stride) {
        memcpy(to, &word, 8);
    }
    memcpy(to, &word, size);
}

static bool filled(uint64_t word, const void *bytes, size_t size) {
    const uint8_t *from = bytes;
    uint64_t wrong = 0;
    uint64_t found;
    for (; size >= 8; size -= 8, from += 8, word += stride) {
        memcpy(&found, from, 8);
        wrong |= found ^ word;
    }
    return wrong == 0 && memcmp(from, &word, size) == 0;
}

static int64_t metadata_size_of(uint64_t seq, size_t capacity) {
    return capacity == 0 || seq % 5 == 0 ? -1 : (int64_t)(scramble(seq) % (capacity + 1));
}

static struct lk_frame_metrics metrics_of(uint64_t seq) {
    double n = (double)seq;
    return (struct lk_frame_metrics){.last_reward = n, .rolling_return = -n, .step_rate_hz = 2 * n};
}

int64_t lk_stress_fill(uint64_t seq, void *pixels, size_t pixels_size, void *metadata,
                       size_t metadata_capacity, double *metrics) {
    int64_t metadata_size = metadata_size_of(seq, metadata_capacity);
    struct lk_frame_metrics numbers = metrics_of(seq);
    fill(scramble(seq), pixels, pixels_size);
    if (metadata_size > 0) {
        fill(scramble(seq) ^ metadata_salt, metadata, (size_t)metadata_size);
    }
    memcpy(metrics, &numbers, sizeof numbers);
    return metadata_size;
}

uint64_t lk_stress_metrics_seq(double last_reward, double rolling_return, double step_rate_hz) {
    bool belong = last_reward >= 0 && last_reward < 0x1p53 && rolling_return == -last_reward &&
                  step_rate_hz == 2 * last_reward;
    return belong ? (uint64_t)last_reward : 0;
}

int lk_stress_check(uint64_t seq, const void *pixels, size_t pixels_size, const void *metadata,
                    int64_t metadata_size, size_t metadata_capacity, double last_reward,
                    double rolling_return, double step_rate_hz) {
    return lk_stress_metrics_seq(last_reward, rolling_return, step_rate_hz) == seq &&
           metadata_size == metadata_size_of(seq, metadata_capacity) &&
           filled(scramble(seq), pixels, pixels_size) &&
           (metadata_size <= 0 ||
            filled(scramble(seq) ^ metadata_salt, metadata, (size_t)metadata_size));
}

/* --- a party's belongings --------------------------------------------------------------------- */

struct party_state {
    const struct lk_stress_plan *plan;
    struct board *board;
    struct tally *tally;
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
struct lane {
    lk_segment *segment;
    struct lk_frame_header *header;
    struct lk_frame_geometry geometry;
};

static void add(_Atomic uint64_t *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static bool stopped(const struct party_state *me) {
    return atomic_load_explicit(&me->board->stop, memory_order_relaxed) != 0;
}

static void stop_all(struct board *board) {
    atomic_store_explicit(&board->stop, 1, memory_order_relaxed);
}

static void fail(struct party_state *me, int64_t status) {
    if (stopped(me) && (status == LK_E_NOT_FOUND || status == LK_E_NOT_READY)) {
        return; /* the lane was not there in time for the end */
    }
    atomic_store_explicit(&me->tally->system_error, errno, memory_order_relaxed);
    atomic_store_explicit(&me->tally->failure, (int)status, memory_order_relaxed);
    stop_all(me->board);
}

static void found(struct party_state *me, _Atomic uint64_t *what) {
    add(what, 1);
    struct tally *t = me->tally;
    uint64_t all = atomic_load_explicit(&t->torn, memory_order_relaxed) +
                   atomic_load_explicit(&t->reordered, memory_order_relaxed) +
                   atomic_load_explicit(&t->lost, memory_order_relaxed);
    if (me->plan->enough != 0 && all >= me->plan->enough) {
        stop_all(me->board);
    }
}

static bool reader_done(const struct party_state *me) {
    return stopped(me) ||
           (me->plan->frames != 0 &&
            atomic_load_explicit(&me->tally->frames, memory_order_relaxed) >= me->plan->frames);
}

/* Decide whether the next frame is disturbed, and set the steps accordingly. */
static void draw(struct party_state *me) {
    uint32_t every = me->plan->delay_every;
    me->slow = every != 0 && lk_stress_random() % every == 0;
    lk_stress_steps.longest = me->slow ? LONGEST_DELAY : 0;
}

/* Leave the core to others now and then: the parties may have to share one. */
static void give_way(uint64_t turn) {
    if (turn % 1024 == 1023) {
        sched_yield();
    } else {
        lk_cpu_relax();
    }
}

static void forget_lane(struct lane *lane) {
    if (lane->segment != NULL) {
        lk_segment_release(lane->segment);
        lane->segment = NULL;
    }
}

/* Run id of the lane from the writer (0) and of the one back to it (1). */
static size_t lane_run_id(const struct lk_stress_plan *plan, int back, char *out) {
    int size = snprintf(out, RUN_ID_MAX + 8, "%.*s%s", (int)plan->run_id_size, plan->run_id,
                        back ? "-back" : "");
    return (size_t)size;
}

/* Call again while a lane is not there yet. */
static bool not_yet(struct party_state *me, int status, uint64_t since) {
    bool coming = status == LK_E_NOT_FOUND || status == LK_E_NOT_READY;
    if (!coming || stopped(me) || lk_clock_ns() - since > attach_patience_ns) {
        return false;
    }
    usleep(1000);
    return true;
}

static int find_lane(struct party_state *me, int back, struct lane *lane) {
    char run_id[RUN_ID_MAX + 8];
    struct lk_segment_request request = {
        .kind = LK_KIND_FRAME,
        .magic = LK_MAGIC_FRAME,
        .run_id = run_id,
        .run_id_size = lane_run_id(me->plan, back, run_id),
    };
    struct lk_segment_header owner;
    uint64_t since = lk_clock_ns();
    int status;
    do {
        status = lk_segment_attach(&lane->segment, &request, &owner);
    } while (status != LK_OK && not_yet(me, status, since));
    if (status != LK_OK) {
        lane->segment = NULL;
        return status;
    }
    lane->header = lk_segment_base(lane->segment);
    lane->geometry = lane->header->geometry;
    status = lk_frame_check(&lane->geometry, owner.total_size);
    if (status != LK_OK) {
        forget_lane(lane);
    }
    return status;
}

static int find_reader(struct party_state *me, int back, lk_frame_reader **reader) {
    char run_id[RUN_ID_MAX + 8];
    size_t size = lane_run_id(me->plan, back, run_id);
    uint64_t since = lk_clock_ns();
    int status;
    do {
        status = lk_frame_attach(reader, run_id, size, 0);
    } while (status != LK_OK && not_yet(me, status, since));
    return status;
}

static int open_writer(const struct party_state *me, int back, lk_frame_writer **writer) {
    char run_id[RUN_ID_MAX + 8];
    size_t size = lane_run_id(me->plan, back, run_id);
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

static void close_writer(lk_frame_writer *writer) {
    if (writer != NULL) {
        lk_frame_writer_close(writer);
        lk_frame_writer_unlink(writer);
        lk_frame_writer_free(writer);
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static bool publish_next(struct party_state *me, lk_frame_writer *writer) {
    struct lk_frame_metrics metrics;
    uint64_t seq = me->seq + 1;
    int64_t size = lk_stress_fill(seq, me->pixels, me->pixels_size, me->metadata,
                                  me->plan->metadata_size, &metrics.last_reward);
    const void *metadata = size >= 0 ? me->metadata : NULL;
    size_t metadata_size = size >= 0 ? (size_t)size : 0;
    int64_t result;
    draw(me);
    if (me->slow) {
        result = lk_stress_publish_slowly(writer, me->pixels, me->pixels_size, metadata,
                                          metadata_size, &metrics);
    } else {
        result = lk_frame_publish_metrics(writer, me->pixels, me->pixels_size, metadata,
                                          metadata_size, metrics.last_reward,
                                          metrics.rolling_return, metrics.step_rate_hz);
    }
    if (result != (int64_t)seq) {
        fail(me, result < 0 ? result : LK_E_CORRUPT);
        return false;
    }
    me->seq = seq;
    add(&me->tally->published, 1);
    return true;
}

static void write_freely(struct party_state *me) {
    lk_frame_writer *writer = NULL;
    int status = open_writer(me, 0, &writer);
    if (status != LK_OK) {
        fail(me, status);
        return;
    }
    for (uint64_t turn = 0;
         !stopped(me) &&
         atomic_load_explicit(&me->board->readers_done, memory_order_relaxed) < me->plan->readers;
         turn++) {
        if (!publish_next(me, writer)) {
            break;
        }
        if (turn % 1024 == 1023) {
            sched_yield();
        }
    }
    close_writer(writer);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void judge(struct party_state *me, uint64_t seq, const struct lk_frame_info *info) {
    bool whole =
        lk_stress_check(seq, me->pixels, me->pixels_size, me->metadata, info->metadata_size,
                        me->plan->metadata_size, info->metrics.last_reward,
                        info->metrics.rolling_return, info->metrics.step_rate_hz) == 1;
    if (!whole) {
        found(me, &me->tally->torn);
    }
}

/* Frames must not become older from one read to the next. */
static void judge_order(struct party_state *me, uint64_t seq, uint64_t timestamp) {
    if (seq < me->seq || timestamp < me->timestamp) {
        found(me, &me->tally->reordered);
    }
    me->seq = seq;
    me->timestamp = timestamp;
}

/* Metrics of the header have a sequence word of their own, and must not grow older either. */
static void judge_metrics(struct party_state *me, const struct lk_frame_metrics *metrics) {
    if (metrics->last_reward == 0 && metrics->rolling_return == 0 && metrics->step_rate_hz == 0) {
        return; /* nothing was published yet */
    }
    uint64_t seq =
        lk_stress_metrics_seq(metrics->last_reward, metrics->rolling_return, metrics->step_rate_hz);
    if (seq == 0) {
        found(me, &me->tally->torn);
    } else if (seq < me->metrics_seq) {
        found(me, &me->tally->reordered);
    } else {
        me->metrics_seq = seq;
    }
}

static int64_t read_once(struct party_state *me, lk_frame_reader *reader, int choice,
                         struct lk_frame_info *info) {
    draw(me);
    int64_t (*read)(lk_frame_reader *, int, void *, size_t, void *, size_t, struct lk_frame_info *);
    read = me->slow ? lk_stress_read_slowly : lk_frame_read;
    int64_t seq = read(reader, choice, me->pixels, me->pixels_size, me->metadata,
                       me->plan->metadata_size, info);
    if (seq > 0) {
        /* The newest frame is looked at again while no other comes; it counts once. */
        add(&me->tally->frames, (uint64_t)seq != me->seq);
        judge(me, (uint64_t)seq, info);
        judge_order(me, (uint64_t)seq, info->timestamp_ns);
    } else if (seq == LK_E_CORRUPT) {
        found(me, &me->tally->reordered); /* the head stands at a frame that is not there */
        seq = 0;
    }
    return seq;
}

static void note_stats(struct party_state *me, lk_frame_reader *reader) {
    struct lk_frame_stats stats;
    if (lk_frame_reader_stats(reader, &stats) == LK_OK) {
        atomic_store_explicit(&me->tally->skipped, stats.skipped, memory_order_relaxed);
        atomic_store_explicit(&me->tally->retries, stats.retries, memory_order_relaxed);
    }
}

static void read_frames(struct party_state *me) {
    lk_frame_reader *reader = NULL;
    struct lk_frame_info info;
    struct lk_frame_metrics metrics;
    int status = find_reader(me, 0, &reader);
    if (status != LK_OK) {
        fail(me, status);
        return;
    }
    uint64_t idle = 0;
    for (uint64_t turn = 0; !reader_done(me); turn++) {
        /* Mostly in order, which sees the most frames; the newest one now and then. */
        int choice = turn % 64 == 0 ? LK_FRAME_NEWEST : LK_FRAME_NEXT;
        int64_t seq = read_once(me, reader, choice, &info);
        if (seq < 0) {
            if (!stopped(me)) {
                fail(me, seq);
            }
            break;
        }
        if (seq == 0) {
            give_way(++idle);
        }
        if (turn % 16 == 0 && lk_frame_metrics(reader, &metrics) == 1) {
            judge_metrics(me, &metrics);
        }
        if (turn % 4096 == 0) {
            note_stats(me, reader);
        }
    }
    note_stats(me, reader);
    lk_frame_reader_free(reader);
}

/* --- litmus shapes ---------------------------------------------------------------------------- */

/* Copy what one slot holds. True when the slot's word says that the copy is whole. */
static bool copy_slot(struct party_state *me, const struct lane *lane, struct lk_frame_slot *slot,
                      uint64_t word, struct lk_frame_info *info) {
    slow_copy_from_shared(me->pixels, slot->pixels, me->pixels_size);
    uint64_t size = atomic_load_explicit(&slot->metadata_size, memory_order_relaxed);
    if (size <= lane->geometry.metadata_size) {
        slow_copy_from_shared(me->metadata, lk_frame_slot_metadata(slot, &lane->geometry), size);
    }
    info->metadata_size = size == LK_NO_METADATA ? -1 : (int64_t)size;
    info->timestamp_ns = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
    info->metrics.last_reward =
        lk_bits_double(atomic_load_explicit(&slot->last_reward, memory_order_relaxed));
    info->metrics.rolling_return =
        lk_bits_double(atomic_load_explicit(&slot->rolling_return, memory_order_relaxed));
    info->metrics.step_rate_hz =
        lk_bits_double(atomic_load_explicit(&slot->step_rate_hz, memory_order_relaxed));
    return slow_seqlock_unchanged(&slot->seq, word);
}

/* Message passing: head n was stored after slot n was complete, so whoever reads n there finds the
 * slot's word at 2n, or beyond when the writer came round again. */
static void read_message_passing(struct party_state *me) {
    struct lane lane = {.segment = NULL};
    int status = find_lane(me, 0, &lane);
    if (status != LK_OK) {
        fail(me, status);
        return;
    }
    uint64_t idle = 0;
    while (!reader_done(me)) {
        draw(me);
        /* [X1] acquire: pairs with the [W1] release in lk_announce; it is what is tested here. */
        uint64_t head = atomic_load_explicit(&lane.header->head, memory_order_acquire);
        if (head == me->seq) {
            give_way(++idle);
            continue;
        }
        uint64_t before = me->seq;
        struct lk_frame_slot *slot = lk_frame_slot_at(lane.header, &lane.geometry,
                                                      lk_frame_slot_index(&lane.geometry, head));
        lk_stress_pause();
        uint64_t word = slow_seqlock_begin_read(&slot->seq);
        struct lk_frame_info info;
        if (word < lk_frame_word_complete(head)) {
            found(me, &me->tally->reordered);
        } else if (word > lk_frame_word_complete(head) ||
                   !copy_slot(me, &lane, slot, word, &info)) {
            add(&me->tally->retries, 1);
        } else {
            add(&me->tally->frames, 1);
            judge(me, head, &info);
            judge_order(me, head, info.timestamp_ns);
        }
        if (head < before) {
            found(me, &me->tally->reordered);
        } else if (before != 0) {
            add(&me->tally->skipped, head - before - 1);
        }
        me->seq = head;
    }
    forget_lane(&lane);
}

static void read_header_metrics(struct party_state *me, struct lk_frame_header *header) {
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
        judge_metrics(me, &metrics);
    } else {
        add(&me->tally->retries, 1);
    }
}

/* What the seqlock reader knows of one slot. */
struct sight {
    uint64_t word;    /* the last one found there */
    uint64_t counted; /* the last one whose frame was whole */
};

/* Seqlock: a slot whose word is even before and after the copy holds that frame, whether the head
 * has named it yet or not. Nothing but [Q1] and [Q2] protects this reader. */
static void read_seqlock(struct party_state *me) {
    struct lane lane = {.segment = NULL};
    int status = find_lane(me, 0, &lane);
    struct sight *last = calloc(me->plan->capacity, sizeof *last);
    if (status != LK_OK || last == NULL) {
        fail(me, status != LK_OK ? status : LK_E_SYSTEM);
        forget_lane(&lane);
        free(last);
        return;
    }
    uint64_t idle = 0;
    uint32_t index = 0;
    for (uint64_t turn = 0; !reader_done(me); turn++) {
        draw(me);
        if (turn % 4 == 0) {
            read_header_metrics(me, lane.header);
        }
        index = index + 1 < lane.geometry.capacity ? index + 1 : 0;
        struct lk_frame_slot *slot = lk_frame_slot_at(lane.header, &lane.geometry, index);
        struct lk_frame_info info;
        uint64_t word = slow_seqlock_begin_read(&slot->seq);
        if (word == 0) {
            give_way(++idle);
        } else if (word % 2 != 0 || !copy_slot(me, &lane, slot, word, &info)) {
            add(&me->tally->retries, 1);
        } else {
            add(&me->tally->frames, word != last[index].counted);
            last[index].counted = word;
            judge(me, word / 2, &info);
        }
        if (word < last[index].word) {
            found(me, &me->tally->reordered);
        }
        last[index].word = word;
        if (turn % 4096 == 4095) {
            sched_yield();
        }
    }
    free(last);
    forget_lane(&lane);
}

/*
 * Store buffering: the announcer stores the head and looks at wake_at, the waiter stores wake_at
 * and looks at the head; one of them must see the other. If neither does, the waiter sleeps on
 * although the announcement was made: its deadline passes, and the frame it then finds is old.
 * Returns false when the run ends.
 */
static bool await(struct party_state *me, const struct lane *lane, uint64_t seen) {
    const struct lk_frame_geometry *geometry = &lane->geometry;
    while (!stopped(me) && !lk_segment_invalidated(lane->segment)) {
        draw(me);
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
        add(&me->tally->waits, 1);
        if (lk_clock_ns() >= deadline) {
            struct lk_frame_slot *slot =
                lk_frame_slot_at(lane->header, geometry, lk_frame_slot_index(geometry, seen + 1));
            uint64_t made = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
            if (heard && made + lost_after_ns < deadline) {
                found(me, &me->tally->lost);
            }
        }
        return true;
    }
    return false;
}

/* Both sides of the ping-pong: `to` is the lane this party writes, `from` the one it waits on. */
static void volley(struct party_state *me, bool first) {
    lk_frame_writer *to = NULL;
    lk_frame_reader *reader = NULL;
    struct lane from = {.segment = NULL};
    struct lk_frame_info info;
    int status = open_writer(me, first ? 0 : 1, &to);
    if (status == LK_OK) {
        status = find_lane(me, first ? 1 : 0, &from);
    }
    if (status == LK_OK) {
        status = find_reader(me, first ? 1 : 0, &reader);
    }
    if (status != LK_OK) {
        fail(me, status);
    }
    uint64_t sent = 0;
    uint64_t received = 0;
    while (status == LK_OK && !stopped(me)) {
        if (first || sent < received) {
            me->seq = sent++;
            if (!publish_next(me, to)) {
                break;
            }
        }
        if (!await(me, &from, received)) {
            break;
        }
        me->seq = received++;
        int64_t seq = read_once(me, reader, LK_FRAME_NEWEST, &info);
        /* One at a time: the newest frame can only be the one that was announced. */
        if (seq != (int64_t)received && !stopped(me)) {
            found(me, &me->tally->reordered);
        }
        if (!first && reader_done(me)) {
            break;
        }
    }
    if (reader != NULL) {
        note_stats(me, reader);
        lk_frame_reader_free(reader);
    }
    forget_lane(&from);
    close_writer(to);
}

/* Readers beside the ping-pong: they wait on the same words, and are woken with the others. */
static void wait_along(struct party_state *me) {
    struct lane lane = {.segment = NULL};
    int status = find_lane(me, 0, &lane);
    if (status != LK_OK) {
        fail(me, status);
        return;
    }
    while (!reader_done(me) && await(me, &lane, me->seq)) {
        /* [X1] acquire: pairs with the [W1] release in lk_announce. */
        uint64_t head = atomic_load_explicit(&lane.header->head, memory_order_acquire);
        if (head < me->seq) {
            found(me, &me->tally->reordered);
        }
        add(&me->tally->frames, 1);
        me->seq = head;
    }
    forget_lane(&lane);
}

/* --- parties ---------------------------------------------------------------------------------- */

int lk_stress_pin(int core) {
    if (core < 0) {
        return LK_OK;
    }
    if (core >= CPU_SETSIZE) {
        return LK_E_INVALID;
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((unsigned)core, &cores);
    return sched_setaffinity(0, sizeof cores, &cores) == 0 ? LK_OK : LK_E_SYSTEM;
}

static void act(struct party_state *me, uint32_t index) {
    if (me->plan->shape == LK_STRESS_STORE_BUFFERING) {
        if (index <= 1) {
            volley(me, index == 0);
        } else {
            wait_along(me);
        }
    } else if (index == 0) {
        write_freely(me);
    } else if (me->plan->shape == LK_STRESS_MESSAGE_PASSING) {
        read_message_passing(me);
    } else if (me->plan->shape == LK_STRESS_SEQLOCK) {
        read_seqlock(me);
    } else {
        read_frames(me);
    }
}

static void play(const struct party *party) {
    const struct lk_stress_plan *plan = &party->run->plan;
    struct board *board = party->run->board;
    size_t pixels_size = (size_t)plan->width * plan->height * plan->channels;
    struct party_state me = {
        .plan = plan,
        .board = board,
        .tally = &board->tallies[party->index],
        .pixels_size = pixels_size,
        .pixels = calloc(1, pixels_size),
        .metadata = calloc(1, (size_t)plan->metadata_size + 1),
        .spin = LK_SPIN_START,
    };
    lk_stress_steps.random = scramble(plan->seed + party->index) | 1; /* xorshift: never 0 */
    lk_stress_steps.longest = 0;
    lk_stress_steps.fault = plan->fault;
    int status =
        lk_stress_pin(party->index == 0 ? plan->writer_core : plan->reader_cores[party->index - 1]);
    if (status != LK_OK || me.pixels == NULL || me.metadata == NULL) {
        fail(&me, status != LK_OK ? status : LK_E_SYSTEM);
    } else {
        act(&me, party->index);
    }
    free(me.pixels);
    free(me.metadata);
    if (party->index > 0) {
        atomic_fetch_add_explicit(&board->readers_done, 1, memory_order_relaxed);
    }
    /* [X2] release: pairs with the acquire in lk_stress_poll. */
    atomic_store_explicit(&me.tally->ended, 1, memory_order_release);
}

static void *play_as_thread(void *party) {
    play(party);
    return NULL;
}

static int start_process(struct party *party) {
    pid_t parent = getpid();
    party->pid = fork();
    if (party->pid < 0) {
        return LK_E_SYSTEM;
    }
    if (party->pid == 0) {
        /* Without its parent nobody would stop it; SIGTERM removes its segment first. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) {
            _exit(1);
        }
        play(party);
        _exit(0);
    }
    return LK_OK;
}

static int start_party(struct lk_stress_run *run, uint32_t index) {
    struct party *party = &run->parties[index];
    *party = (struct party){.run = run, .index = index};
    if (run->plan.processes) {
        return start_process(party);
    }
    errno = pthread_create(&party->thread, NULL, play_as_thread, party);
    return errno == 0 ? LK_OK : LK_E_SYSTEM;
}

static bool sensible(const struct lk_stress_plan *plan) {
    return plan->shape >= LK_STRESS_FRAMES && plan->shape <= LK_STRESS_STORE_BUFFERING &&
           plan->fault >= LK_STRESS_SOUND && plan->fault <= LK_STRESS_LOST_WAKE &&
           plan->readers >= 1 && plan->readers <= READERS_MAX && plan->run_id_size > 0 &&
           plan->run_id_size < RUN_ID_MAX && (plan->channels == 1 || plan->channels == 3);
}

int lk_stress_start(lk_stress_run **out, const struct lk_stress_plan *plan) {
    *out = NULL;
    if (!sensible(plan)) {
        return LK_E_INVALID;
    }
    lk_stress_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return LK_E_SYSTEM;
    }
    run->board =
        mmap(NULL, sizeof *run->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->board == MAP_FAILED) {
        free(run);
        return LK_E_SYSTEM;
    }
    run->plan = *plan;
    memcpy(run->run_id, plan->run_id, plan->run_id_size);
    run->plan.run_id = run->run_id;
    lk_process_protect();
    int status = LK_OK;
    for (uint32_t i = 0; i <= plan->readers && status == LK_OK; i++) {
        status = start_party(run, i);
        run->started += status == LK_OK;
    }
    if (status != LK_OK) {
        struct lk_stress_counts ignored;
        int reason = errno;
        lk_stress_stop(run);
        lk_stress_finish(run, &ignored);
        errno = reason;
        return status;
    }
    *out = run;
    return LK_OK;
}

/* A process that died without a word is a failure of its party. */
static void reap(struct lk_stress_run *run, int options) {
    for (uint32_t i = 0; run->plan.processes && i < run->started; i++) {
        struct party *party = &run->parties[i];
        int status = 0;
        if (party->pid > 0 && waitpid(party->pid, &status, options) == party->pid) {
            party->pid = 0;
            if (status != 0) {
                struct tally *tally = &run->board->tallies[i];
                atomic_store_explicit(&tally->system_error, ECHILD, memory_order_relaxed);
                atomic_store_explicit(&tally->failure, LK_E_SYSTEM, memory_order_relaxed);
                atomic_store_explicit(&tally->ended, 1, memory_order_relaxed);
                stop_all(run->board);
            }
        }
    }
}

int lk_stress_poll(lk_stress_run *run, struct lk_stress_counts *out) {
    reap(run, WNOHANG);
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < run->started; i++) {
        struct tally *tally = &run->board->tallies[i];
        /* [X2] acquire: pairs with the release in play. */
        out->working += atomic_load_explicit(&tally->ended, memory_order_acquire) == 0;
        out->published += atomic_load_explicit(&tally->published, memory_order_relaxed);
        out->frames += atomic_load_explicit(&tally->frames, memory_order_relaxed);
        out->torn += atomic_load_explicit(&tally->torn, memory_order_relaxed);
        out->reordered += atomic_load_explicit(&tally->reordered, memory_order_relaxed);
        out->skipped += atomic_load_explicit(&tally->skipped, memory_order_relaxed);
        out->retries += atomic_load_explicit(&tally->retries, memory_order_relaxed);
        out->waits += atomic_load_explicit(&tally->waits, memory_order_relaxed);
        out->lost += atomic_load_explicit(&tally->lost, memory_order_relaxed);
        int failure = atomic_load_explicit(&tally->failure, memory_order_relaxed);
        if (failure != LK_OK && out->failure == LK_OK) {
            out->failure = failure;
            out->system_error = atomic_load_explicit(&tally->system_error, memory_order_relaxed);
        }
    }
    return (int)out->working;
}

void lk_stress_stop(lk_stress_run *run) {
    stop_all(run->board);
}

int lk_stress_finish(lk_stress_run *run, struct lk_stress_counts *out) {
    for (uint32_t i = 0; !run->plan.processes && i < run->started; i++) {
        pthread_join(run->parties[i].thread, NULL);
    }
    reap(run, 0);
    lk_stress_poll(run, out);
    for (int back = 0; back <= 1; back++) {
        char run_id[RUN_ID_MAX + 8];
        char name[LK_NAME_SIZE];
        size_t size = lane_run_id(&run->plan, back, run_id);
        if (lk_segment_name(LK_KIND_FRAME, run_id, size, name, sizeof name) == LK_OK) {
            lk_segment_reclaim(name, 0); /* there is one only if its process was killed */
        }
    }
    munmap(run->board, sizeof *run->board);
    free(run);
    return LK_OK;
}
