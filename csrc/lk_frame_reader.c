/*
 * lk_frame_reader.c: how a fast-lane reader reads, and waits for something to read.
 *
 * Labels: [Q1] [Q2] of lk_seqlock.h for slots and metrics, [W1] [W2] of lk_wait.h for the head.
 *
 * Who writes: the lane's one writer, which never waits for a reader. A reader writes only the word
 * wake_at (raised, together with other readers), and what lk_frame_attach.c says.
 * If a reader dies: one needless wake happens.
 * Lossy: a reader that is slower than the writer skips frames, and is told how many.
 */
#include "lk_frame_reader.h"

#include "lk_seqlock.h"
#include "lk_wait.h"

/* Attempts before a read gives up on a writer that laps every one of them. */
#define READ_ATTEMPTS 64

static const uint64_t owner_check_every_ns = 250000000;
static const uint64_t wait_slice_ns = 50000000;
static const uint64_t unheard_slice_ns = 5000000;

/* --- reading ---------------------------------------------------------------------------------- */

/* Looking at the owner's process costs system calls, so only when nothing new comes, and seldom. */
static void check_owner(lk_frame_reader *reader, uint64_t now) {
    if (now - reader->owner_checked_ns >= owner_check_every_ns) {
        reader->owner_checked_ns = now;
        reader->owner_dead = lk_segment_role_holder(reader->segment, LK_ROLE_OWNER) == LK_DEAD;
    }
}

/* What a read wants from a slot. */
struct destination {
    void *pixels;   /* NULL: look only */
    void *metadata; /* NULL: not wanted */
    struct lk_frame_info *info;
};

enum attempt { ATTEMPT_GOT, ATTEMPT_LAPPED, ATTEMPT_CORRUPT };

/* What an attempt left in the caller's memory belongs to no frame that the caller has. */
static void forget(struct lk_frame_info *info) {
    info->seq = 0;
    info->metadata_size = -1;
}

static enum attempt copy_frame(lk_frame_reader *reader, uint64_t seq, uint64_t *word,
                               const struct destination *to) {
    struct lk_frame_slot *slot = lk_frame_slot_at(reader->header, &reader->geometry,
                                                  lk_frame_slot_index(&reader->geometry, seq));
    *word = lk_seqlock_begin_read(&slot->seq);
    if (*word != lk_frame_word_complete(seq)) {
        return ATTEMPT_LAPPED;
    }
    if (to->pixels != NULL) {
        lk_copy_from_shared(to->pixels, slot->pixels, reader->geometry.payload_size);
    }
    uint64_t metadata_size = atomic_load_explicit(&slot->metadata_size, memory_order_relaxed);
    bool fits = metadata_size <= reader->geometry.metadata_size;
    if (to->metadata != NULL && fits) {
        lk_copy_from_shared(to->metadata, lk_frame_slot_metadata(slot, &reader->geometry),
                            metadata_size);
    }
    uint64_t timestamp_ns = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
    struct lk_frame_metrics metrics = lk_frame_slot_metrics(slot);
    if (!lk_seqlock_unchanged(&slot->seq, *word)) {
        forget(to->info);
        return ATTEMPT_LAPPED;
    }
    if (!fits && metadata_size != LK_NO_METADATA) {
        forget(to->info);
        return ATTEMPT_CORRUPT;
    }
    /* Nothing reaches the caller before it was judged: lengths are taken from here. */
    to->info->seq = seq;
    to->info->timestamp_ns = timestamp_ns;
    to->info->metrics = metrics;
    to->info->metadata_size = fits ? (int64_t)metadata_size : -1;
    return ATTEMPT_GOT;
}

/* Which frame to try, 0 for none. */
static uint64_t choose(const lk_frame_reader *reader, int choice, uint64_t head) {
    if (choice == LK_FRAME_NEWEST) {
        return head;
    }
    if (head <= reader->cursor) {
        return 0;
    }
    uint64_t next = reader->cursor + 1;
    uint64_t first = lk_frame_reader_oldest(reader, head) + reader->lead;
    uint64_t in_order = next > first ? next : first;
    return choice == LK_FRAME_FRESH || in_order > head ? head : in_order;
}

/* A frame was overwritten before it was copied. The oldest frame is the writer's next victim, so
 * aim further ahead each time; a writer that died there must not hide the frames behind it. */
static void overtaken(lk_frame_reader *reader) {
    uint32_t most = reader->geometry.capacity - 1;
    uint32_t further = reader->lead > 0 ? 2 * reader->lead : 1;
    reader->lead = further < most ? further : most;
    reader->stats.retries++;
}

static uint64_t skipped_before(const lk_frame_reader *reader, uint64_t seq) {
    return seq > reader->cursor ? seq - reader->cursor - 1 : 0;
}

/* The reader has had this frame, and knows that it is whole. */
static void account(lk_frame_reader *reader, uint64_t seq) {
    reader->stats.skipped += skipped_before(reader, seq);
    reader->stats.frames_read++;
    reader->cursor = seq;
    reader->lead /= 2;
}

static int64_t read_frame(lk_frame_reader *reader, int choice, const struct destination *to,
                          uint64_t now) {
    uint64_t head = lk_frame_reader_head(reader);
    uint64_t word = 0;
    uint64_t seq = 0;
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        if (head > LK_FRAME_SEQ_MAX) {
            return LK_E_CORRUPT;
        }
        if (head < reader->cursor) {
            lk_frame_reader_start_over(
                reader, head); /* the head was damaged when we read it, and is mended now */
        }
        seq = choose(reader, choice, head);
        if (seq == 0 || seq == reader->cursor) {
            check_owner(reader, now);
        }
        if (seq == 0) {
            return 0;
        }
        switch (copy_frame(reader, seq, &word, to)) {
        case ATTEMPT_GOT: to->info->skipped = skipped_before(reader, seq); return (int64_t)seq;
        case ATTEMPT_CORRUPT: return LK_E_CORRUPT;
        case ATTEMPT_LAPPED: break;
        }
        overtaken(reader);
        lk_cpu_relax();
        head = lk_frame_reader_head(reader);
    }
    reader->stats.starved++;
    forget(to->info);
    check_owner(reader, now);
    /* The writer was faster, or died inside the only slot; or nobody that writes frames left that
     * word there. The head is one that was looked at after the word. */
    return lk_frame_word_possible(&reader->geometry, seq, word, head) ? 0 : LK_E_CORRUPT;
}

/* Begin a read: the guard is held if this answers LK_OK. */
static int begin_read(lk_frame_reader *reader, int choice, const void *metadata,
                      size_t metadata_size, uint64_t *now) {
    if (choice < LK_FRAME_NEWEST || choice > LK_FRAME_NEXT) {
        return LK_E_INVALID;
    }
    int status = lk_frame_reader_enter(reader, now);
    if (status == LK_OK && metadata != NULL && metadata_size < reader->geometry.metadata_size) {
        lk_guard_exit(&reader->guard);
        return LK_E_SIZE;
    }
    return status;
}

int64_t lk_frame_read(lk_frame_reader *reader, int choice, void *pixels, size_t pixels_size,
                      void *metadata, size_t metadata_size, struct lk_frame_info *info) {
    uint64_t now;
    int status = begin_read(reader, choice, metadata, metadata_size, &now);
    if (status != LK_OK) {
        return status;
    }
    if (pixels_size != reader->geometry.payload_size) {
        return lk_frame_reader_leave(reader, LK_E_SIZE);
    }
    struct destination to = {.pixels = pixels, .metadata = metadata, .info = info};
    int64_t seq = read_frame(reader, choice, &to, now);
    if (seq > 0) {
        account(reader, (uint64_t)seq);
    }
    return lk_frame_reader_leave(reader, seq);
}

int64_t lk_frame_read_target(const struct lk_frame_target *target) {
    return lk_frame_read(target->reader, target->choice, target->pixels, target->pixels_size,
                         target->metadata, target->metadata_size, target->info);
}

/* --- looking without a copy ------------------------------------------------------------------- */

int64_t lk_frame_peek(lk_frame_reader *reader, int choice, const void **pixels, uint32_t *slot,
                      void *metadata, size_t metadata_size, struct lk_frame_info *info) {
    uint64_t now;
    int status = begin_read(reader, choice, metadata, metadata_size, &now);
    if (status != LK_OK) {
        return status;
    }
    struct destination to = {.pixels = NULL, .metadata = metadata, .info = info};
    int64_t seq = read_frame(reader, choice, &to, now);
    if (seq > 0) {
        reader->peeked = (uint64_t)seq;
        *slot = lk_frame_slot_index(&reader->geometry, (uint64_t)seq);
        *pixels = (const void *)lk_frame_slot_at(reader->header, &reader->geometry, *slot)->pixels;
    }
    return lk_frame_reader_leave(reader, seq);
}

/* Whether frame `seq` has stayed whole until now; the first check of a peek counts it. */
static int check_peeked(lk_frame_reader *reader, uint64_t seq) {
    struct lk_frame_slot *slot = lk_frame_slot_at(reader->header, &reader->geometry,
                                                  lk_frame_slot_index(&reader->geometry, seq));
    bool whole = lk_seqlock_unchanged(&slot->seq, lk_frame_word_complete(seq));
    if (reader->peeked == seq) {
        reader->peeked = 0;
        if (whole) {
            account(reader, seq);
        } else {
            overtaken(reader);
        }
    }
    return whole ? LK_OK : LK_E_OVERWRITTEN;
}

int lk_frame_peek_check(lk_frame_reader *reader, uint64_t seq) {
    if (seq == 0) {
        return LK_E_INVALID;
    }
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    return (int)lk_frame_reader_leave(reader, check_peeked(reader, seq));
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Whether the writer looks for sleepers at each frame: from the first it publishes after somebody
 * has slept here. */
static bool will_be_woken(const lk_frame_reader *reader) {
    /* relaxed: the [W2] fence in lk_wait_beyond stands between this and the look at the head, which
     * then finds what the writer announced before it began to look for us. */
    return atomic_load_explicit(&reader->header->wakes, memory_order_relaxed) != 0;
}

/* In slices, to renew the lease, to notice a writer that dies without a word, to look for its
 * successor, which announces itself in another segment, and to be heard. */
static uint64_t wait_slice(const lk_frame_reader *reader) {
    if (!will_be_woken(reader)) {
        return unheard_slice_ns;
    }
    /* With the lag, or every other slice would end just before the check is due. */
    return lk_frame_reader_orphaned(reader) ? LK_FRAME_SUCCESSOR_CHECK_NS + LK_CLOCK_COARSE_LAG_NS
                                            : wait_slice_ns;
}

int lk_frame_wait(lk_frame_reader *reader, uint64_t timeout_ns, int strategy) {
    if (!lk_wait_strategy_known(strategy)) {
        return LK_E_INVALID;
    }
    uint64_t now = 0;
    uint64_t deadline = UINT64_MAX;
    for (;;) {
        int status = lk_frame_reader_enter(reader, &now);
        if (status != LK_OK) {
            return status;
        }
        uint64_t head = lk_frame_reader_head(reader);
        if (head < reader->cursor) {
            lk_frame_reader_start_over(reader, head);
        }
        if (head > reader->cursor) {
            return (int)lk_frame_reader_leave(reader, 1);
        }
        check_owner(reader, now);
        now = lk_clock_ns();
        if (deadline == UINT64_MAX && timeout_ns < UINT64_MAX - now) {
            deadline = now + timeout_ns;
        }
        if (now >= deadline) {
            return (int)lk_frame_reader_leave(reader, 0);
        }
        uint64_t slice_ns = wait_slice(reader);
        uint64_t slice_end = deadline - now < slice_ns ? deadline : now + slice_ns;
        uint64_t found = lk_wait_beyond(&reader->header->head, &reader->header->wake_at, head,
                                        slice_end, &reader->spin, (enum lk_wait_strategy)strategy);
        status = (int)lk_frame_reader_leave(reader, found > head);
        if (status != LK_OK) {
            return status; /* a frame, at once: whoever waits for it wants it soon */
        }
    }
}

/* --- the newest metrics ----------------------------------------------------------------------- */

int lk_frame_metrics(lk_frame_reader *reader, struct lk_frame_metrics *out) {
    uint64_t now;
    int status = lk_frame_reader_enter(reader, &now);
    if (status != LK_OK) {
        return status;
    }
    struct lk_frame_header *header = reader->header;
    for (int attempt = 0; attempt < READ_ATTEMPTS * 16 && status == 0; attempt++) {
        uint64_t word = lk_seqlock_begin_read(&header->metrics_seq);
        uint64_t reward = atomic_load_explicit(&header->last_reward, memory_order_relaxed);
        uint64_t rolling = atomic_load_explicit(&header->rolling_return, memory_order_relaxed);
        uint64_t rate = atomic_load_explicit(&header->step_rate_hz, memory_order_relaxed);
        if (word % 2 == 0 && lk_seqlock_unchanged(&header->metrics_seq, word)) {
            out->last_reward = lk_bits_double(reward);
            out->rolling_return = lk_bits_double(rolling);
            out->step_rate_hz = lk_bits_double(rate);
            status = 1;
        }
        lk_cpu_relax();
    }
    return (int)lk_frame_reader_leave(reader, status);
}
