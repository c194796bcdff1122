/*
 * lk_frame_reader.c: a fast-lane reader.
 *
 * Labels: [Q1] [Q2] of lk_seqlock.h for slots and metrics, [W1] [W2] of lk_wait.h for the head,
 * [S1] [S2] of lk_segment.c.
 *
 * Who writes: a reader writes only its own viewer entry and, together with other readers, the two
 * words watched_until (raised) and wake_at (raised). Nobody depends on them for correctness.
 * If a reader dies: its lease runs out, a later reader takes its entry, one needless wake happens.
 * Lossy: a reader that is slower than the writer skips frames, and is told how many.
 */
#include "lk_frame.h"
#include "lk_guard.h"
#include "lk_seqlock.h"
#include "lk_wait.h"

#include <stdlib.h>
#include <string.h>

/* Attempts before a read gives up on a writer that laps every one of them. */
#define READ_ATTEMPTS 64

static const uint64_t owner_check_every_ns = 250000000;
static const uint64_t successor_check_every_ns = 20000000;
static const uint64_t wait_slice_ns = 50000000;
static const uint64_t unheard_slice_ns = 5000000;

struct lk_frame_reader {
    struct lk_guard guard;
    lk_segment *segment;
    struct lk_frame_header *header;
    struct lk_segment_header owner; /* private copy: who created the segment */
    struct lk_frame_geometry geometry;
    struct lk_frame_viewer *viewer; /* NULL: the table is full, or this reader is not counted */
    uint64_t viewer_identity;
    uint64_t cursor; /* the last frame this reader had */
    uint64_t peeked; /* the frame being looked at, not yet known to be whole */
    uint32_t lead;   /* how far ahead of the oldest frame in-order reading aims, see overtaken() */
    uint64_t lease_ns;
    uint64_t announced_ns;
    uint64_t owner_checked_ns;
    uint64_t successor_checked_ns;
    bool owner_dead;
    bool moved; /* on a new segment whose geometry the caller has not asked for yet */
    struct lk_spin spin;
    struct lk_frame_stats stats;
    size_t run_id_size;
    char run_id[];
};

/* --- being seen by the writer ----------------------------------------------------------------- */

static struct lk_frame_viewer *claim_viewer(struct lk_frame_header *header,
                                            uint64_t *own_identity) {
    struct lk_process self;
    if (lk_process_self(&self) != LK_OK) {
        return NULL;
    }
    uint64_t ours = *own_identity = lk_process_word(&self);
    for (int take_dead = 0; take_dead <= 1; take_dead++) {
        for (uint32_t i = 0; i < LK_FRAME_VIEWERS; i++) {
            _Atomic uint64_t *identity = &header->viewers[i].identity;
            uint64_t found = atomic_load_explicit(identity, memory_order_relaxed);
            bool free_entry = found == 0;
            if (!free_entry && take_dead) {
                free_entry = lk_process_word_liveness(found) == LK_DEAD;
            }
            /* relaxed: the entry is only counted; whole words need no order among them */
            if (free_entry && atomic_compare_exchange_strong_explicit(identity, &found, ours,
                                                                      memory_order_relaxed,
                                                                      memory_order_relaxed)) {
                return &header->viewers[i];
            }
        }
    }
    return NULL;
}

/* Raise the time until which the writer counts as watched. */
static void extend_lease(struct lk_frame_header *header, uint64_t now, uint64_t lease_ns) {
    uint64_t until = now + lease_ns;
    uint64_t found = atomic_load_explicit(&header->watched_until_ns, memory_order_relaxed);
    /* Longer leases of other readers stand; a value no reader can have written does not. */
    while (found < until || found - now > LK_LEASE_MAX_NS) {
        /* relaxed: a single word that the writer reads now and then; nothing hangs on its order */
        if (atomic_compare_exchange_weak_explicit(&header->watched_until_ns, &found, until,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return;
        }
    }
}

static void announce(lk_frame_reader *reader, uint64_t now) {
    /* Seldom compared with the lease, so that fast readers do not fight over the line. */
    if (reader->lease_ns == 0 || now - reader->announced_ns < reader->lease_ns / 8) {
        return;
    }
    reader->announced_ns = now;
    if (reader->viewer != NULL) {
        atomic_store_explicit(&reader->viewer->last_seen_ns, now, memory_order_relaxed);
        atomic_store_explicit(&reader->viewer->frames_read, reader->stats.frames_read,
                              memory_order_relaxed);
    }
    extend_lease(reader->header, now, reader->lease_ns);
}

static void withdraw(lk_frame_reader *reader) {
    struct lk_frame_header *header = reader->header;
    if (reader->viewer != NULL) {
        /* relaxed: see claim_viewer. Only if it is still ours: to a reader of another pid namespace
         * we look dead, and it may have taken the entry over. */
        uint64_t ours = reader->viewer_identity;
        atomic_compare_exchange_strong_explicit(&reader->viewer->identity, &ours, 0,
                                                memory_order_relaxed, memory_order_relaxed);
        reader->viewer = NULL;
    }
    for (uint32_t i = 0; i < LK_FRAME_VIEWERS; i++) {
        if (atomic_load_explicit(&header->viewers[i].identity, memory_order_relaxed) != 0) {
            return; /* others may watch: their lease runs on */
        }
    }
    if (reader->announced_ns != 0) {
        atomic_store_explicit(&header->watched_until_ns, 0, memory_order_relaxed);
    }
}

/* --- attaching -------------------------------------------------------------------------------- */

static int open_segment(const lk_frame_reader *reader, lk_segment **segment,
                        struct lk_segment_header *owner, struct lk_frame_geometry *geometry) {
    struct lk_segment_request request = {
        .kind = LK_KIND_FRAME,
        .magic = LK_MAGIC_FRAME,
        .run_id = reader->run_id,
        .run_id_size = reader->run_id_size,
    };
    int status = lk_segment_attach(segment, &request, owner);
    if (status != LK_OK) {
        return status;
    }
    const struct lk_frame_header *header = lk_segment_base(*segment);
    memcpy(geometry, &header->geometry, sizeof *geometry);
    status = lk_frame_check(geometry, owner->total_size);
    if (status == LK_OK && lk_segment_damaged(*segment)) {
        status = LK_E_TRUNCATED;
    }
    if (status != LK_OK) {
        lk_segment_release(*segment);
    }
    return status;
}

/* The oldest frame that the ring can still hold. */
static uint64_t oldest(const lk_frame_reader *reader, uint64_t head) {
    return head > reader->geometry.capacity ? head - reader->geometry.capacity + 1 : 1;
}

static uint64_t load_head(const lk_frame_reader *reader) {
    /* [W1] acquire: pairs with the release in lk_announce; the slot it names is complete. */
    return atomic_load_explicit(&reader->header->head, memory_order_acquire);
}

/* Begin with the oldest frame there is: what came before it does not count as skipped. */
static void start_over(lk_frame_reader *reader, uint64_t head) {
    reader->cursor = head <= LK_FRAME_SEQ_MAX ? oldest(reader, head) - 1 : 0;
}

static void settle(lk_frame_reader *reader, lk_segment *segment) {
    uint64_t now = lk_clock_ns();
    reader->segment = segment;
    reader->header = lk_segment_base(segment);
    reader->cursor = 0;
    start_over(reader, load_head(reader));
    reader->peeked = 0;
    reader->lead = 0;
    reader->owner_dead = false;
    reader->owner_checked_ns = now;
    reader->announced_ns = 0;
    reader->viewer =
        reader->lease_ns != 0 ? claim_viewer(reader->header, &reader->viewer_identity) : NULL;
    announce(reader, now);
}

int lk_frame_attach(lk_frame_reader **out, const char *run_id, size_t run_id_size,
                    uint64_t lease_ns) {
    *out = NULL;
    if (run_id_size == 0 || lease_ns > LK_LEASE_MAX_NS) {
        return LK_E_INVALID;
    }
    lk_frame_reader *reader = calloc(1, sizeof *reader + run_id_size);
    if (reader == NULL) {
        return LK_E_SYSTEM;
    }
    reader->run_id_size = run_id_size;
    memcpy(reader->run_id, run_id, run_id_size);
    reader->lease_ns = lease_ns;
    reader->spin = LK_SPIN_START;
    lk_segment *segment;
    int status = open_segment(reader, &segment, &reader->owner, &reader->geometry);
    if (status != LK_OK) {
        free(reader);
        return status;
    }
    lk_guard_init(&reader->guard);
    settle(reader, segment);
    *out = reader;
    return LK_OK;
}

/* --- when the writer leaves ------------------------------------------------------------------- */

static bool writer_left(const lk_frame_reader *reader) {
    return reader->owner_dead || lk_segment_invalidated(reader->segment);
}

/* Looking at the owner's process costs system calls, so only when nothing new comes, and seldom. */
static void check_owner(lk_frame_reader *reader, uint64_t now) {
    if (now - reader->owner_checked_ns >= owner_check_every_ns) {
        reader->owner_checked_ns = now;
        reader->owner_dead = lk_segment_owner(&reader->owner) == LK_DEAD;
    }
}

/* Move to the segment that carries the run's name now: LK_E_MOVED, or LK_OK if it is still ours. */
static int follow(lk_frame_reader *reader, uint64_t now) {
    lk_segment *segment;
    struct lk_segment_header owner;
    struct lk_frame_geometry geometry;
    if (now - reader->successor_checked_ns < successor_check_every_ns) {
        return LK_OK;
    }
    reader->successor_checked_ns = now;
    int status = open_segment(reader, &segment, &owner, &geometry);
    switch (status) {
    case LK_OK: break;
    case LK_E_NOT_FOUND:
    case LK_E_NOT_READY:
    case LK_E_TOO_MANY: /* these two: we are out of something, but what we have can be read */
    case LK_E_SYSTEM: return LK_OK;
    default: return status;
    }
    const struct lk_segment_id *found = lk_segment_identity(segment);
    const struct lk_segment_id *ours = lk_segment_identity(reader->segment);
    if (found->device == ours->device && found->inode == ours->inode) {
        lk_segment_release(segment);
        return LK_OK;
    }
    withdraw(reader);
    lk_segment_release(reader->segment);
    reader->owner = owner;
    reader->geometry = geometry;
    reader->stats.reattached++;
    reader->moved = true;
    settle(reader, segment);
    return LK_E_MOVED;
}

/* Begin a call that reads: be seen, and move on if a new writer has come. */
static int enter(lk_frame_reader *reader, uint64_t *now) {
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    *now = lk_clock_ns();
    announce(reader, *now);
    if (writer_left(reader)) {
        status = follow(reader, *now);
    }
    if (reader->moved) {
        status = LK_E_MOVED; /* until the caller knows what its buffers must hold */
    }
    if (status != LK_OK) {
        lk_guard_exit(&reader->guard);
    }
    return status;
}

static int64_t leave(lk_frame_reader *reader, int64_t result) {
    if (lk_segment_damaged(reader->segment)) {
        /* Whether its writer lives or not, this mapping is lost: look for the next one. */
        reader->owner_dead = true;
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&reader->guard);
    return result;
}

int lk_frame_reader_config(lk_frame_reader *reader, struct lk_frame_config *out) {
    int status = lk_guard_enter(&reader->guard);
    if (status == LK_OK) {
        *out = lk_frame_config_of(&reader->geometry);
        reader->moved = false;
        lk_guard_exit(&reader->guard);
    }
    return status;
}

int lk_frame_writer_liveness(lk_frame_reader *reader) {
    uint64_t now;
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    enum lk_liveness owner = lk_segment_owner(&reader->owner);
    reader->owner_dead = owner == LK_DEAD;
    lk_guard_exit(&reader->guard);
    status = enter(reader, &now); /* if it left, a successor may be there */
    if (status == LK_E_MOVED || status == LK_E_CLOSED || status == LK_E_CONCURRENT) {
        return status;
    }
    if (status != LK_OK) {
        return LK_DEAD; /* what carries the name now is no writer's segment */
    }
    bool left = writer_left(reader) || lk_segment_damaged(reader->segment);
    lk_guard_exit(&reader->guard);
    return left ? LK_DEAD : (int)owner;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What a read wants from a slot. */
struct destination {
    void *pixels;   /* NULL: look only */
    void *metadata; /* NULL: not wanted */
    struct lk_frame_info *info;
};

enum attempt { ATTEMPT_GOT, ATTEMPT_LAPPED, ATTEMPT_CORRUPT };

static enum attempt copy_frame(lk_frame_reader *reader, uint64_t seq, uint64_t *word,
                               const struct destination *to) {
    struct lk_frame_slot *slot = lk_frame_slot_at(reader->header, &reader->geometry,
                                                  lk_frame_slot_index(&reader->geometry, seq));
    struct lk_frame_info *info = to->info;
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
    info->seq = seq;
    info->timestamp_ns = atomic_load_explicit(&slot->timestamp_ns, memory_order_relaxed);
    info->metrics.last_reward =
        lk_bits_double(atomic_load_explicit(&slot->last_reward, memory_order_relaxed));
    info->metrics.rolling_return =
        lk_bits_double(atomic_load_explicit(&slot->rolling_return, memory_order_relaxed));
    info->metrics.step_rate_hz =
        lk_bits_double(atomic_load_explicit(&slot->step_rate_hz, memory_order_relaxed));
    info->metadata_size = metadata_size == LK_NO_METADATA ? -1 : (int64_t)metadata_size;
    if (!lk_seqlock_unchanged(&slot->seq, *word)) {
        return ATTEMPT_LAPPED;
    }
    return fits || metadata_size == LK_NO_METADATA ? ATTEMPT_GOT : ATTEMPT_CORRUPT;
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
    uint64_t first = oldest(reader, head) + reader->lead;
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
    uint64_t first_head = load_head(reader);
    uint64_t head = first_head;
    uint64_t word = 0;
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        if (head > LK_FRAME_SEQ_MAX) {
            return LK_E_CORRUPT;
        }
        if (head < reader->cursor) {
            start_over(reader, head); /* the head was damaged when we read it, and is mended now */
        }
        uint64_t seq = choose(reader, choice, head);
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
        head = load_head(reader);
    }
    reader->stats.starved++;
    to->info->seq = 0; /* what the last attempt left there belongs to no frame the caller has */
    check_owner(reader, now);
    /* While the head stands still its slot can not have been lapped: except in a ring of one slot,
     * which a writer overwrites, or dies overwriting, in place. */
    bool explained = head != first_head || choice == LK_FRAME_NEXT ||
                     (reader->geometry.capacity == 1 && word == lk_frame_word_writing(head + 1));
    return explained ? 0 : LK_E_CORRUPT;
}

/* Begin a read: the guard is held if this answers LK_OK. */
static int begin_read(lk_frame_reader *reader, int choice, const void *metadata,
                      size_t metadata_size, uint64_t *now) {
    if (choice < LK_FRAME_NEWEST || choice > LK_FRAME_NEXT) {
        return LK_E_INVALID;
    }
    int status = enter(reader, now);
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
        return leave(reader, LK_E_SIZE);
    }
    struct destination to = {.pixels = pixels, .metadata = metadata, .info = info};
    int64_t seq = read_frame(reader, choice, &to, now);
    if (seq > 0) {
        account(reader, (uint64_t)seq);
    }
    return leave(reader, seq);
}

int64_t lk_frame_read_target(const struct lk_frame_target *target) {
    return lk_frame_read(target->reader, target->choice, target->pixels, target->pixels_size,
                         target->metadata, target->metadata_size, target->info);
}

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
    return leave(reader, seq);
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
    return (int)leave(reader, check_peeked(reader, seq));
}

int lk_frame_reader_view(lk_frame_reader *reader, uint32_t slot, lk_segment **segment,
                         const void **pixels) {
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    if (slot < reader->geometry.capacity) {
        lk_segment_retain(reader->segment);
        *segment = reader->segment;
        *pixels = (const void *)lk_frame_slot_at(reader->header, &reader->geometry, slot)->pixels;
    } else {
        status = LK_E_INVALID;
    }
    lk_guard_exit(&reader->guard);
    return status;
}

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
    return writer_left(reader) ? successor_check_every_ns : wait_slice_ns;
}

int lk_frame_wait(lk_frame_reader *reader, uint64_t timeout_ns, int strategy) {
    if (strategy < LK_WAIT_HYBRID || strategy > LK_WAIT_BLOCK) {
        return LK_E_INVALID;
    }
    uint64_t now = 0;
    uint64_t deadline = UINT64_MAX;
    for (;;) {
        int status = enter(reader, &now);
        if (status != LK_OK) {
            return status;
        }
        if (deadline == UINT64_MAX && timeout_ns < UINT64_MAX - now) {
            deadline = now + timeout_ns;
        }
        uint64_t head = load_head(reader);
        if (head < reader->cursor) {
            start_over(reader, head);
        }
        if (head > reader->cursor) {
            return (int)leave(reader, 1);
        }
        check_owner(reader, now);
        if (now >= deadline) {
            return (int)leave(reader, 0);
        }
        uint64_t slice_ns = wait_slice(reader);
        uint64_t slice_end = deadline - now < slice_ns ? deadline : now + slice_ns;
        uint64_t found = lk_wait_beyond(&reader->header->head, &reader->header->wake_at, head,
                                        slice_end, &reader->spin, (enum lk_wait_strategy)strategy);
        status = (int)leave(reader, found > head);
        if (status != LK_OK) {
            return status; /* a frame, at once: whoever waits for it wants it soon */
        }
    }
}

int lk_frame_metrics(lk_frame_reader *reader, struct lk_frame_metrics *out) {
    uint64_t now;
    int status = enter(reader, &now);
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
    return (int)leave(reader, status);
}

int lk_frame_reader_stats(lk_frame_reader *reader, struct lk_frame_stats *out) {
    int status = lk_guard_enter(&reader->guard);
    if (status == LK_OK) {
        *out = reader->stats;
        lk_guard_exit(&reader->guard);
    }
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

int lk_frame_reader_close(lk_frame_reader *reader) {
    if (lk_guard_close(&reader->guard)) {
        if (!lk_guard_forked(&reader->guard)) {
            withdraw(reader);
        }
        lk_segment_release(reader->segment);
        reader->segment = NULL;
        reader->header = NULL;
    }
    return LK_OK;
}

void lk_frame_reader_free(lk_frame_reader *reader) {
    if (reader != NULL) {
        lk_frame_reader_close(reader);
        free(reader);
    }
}
