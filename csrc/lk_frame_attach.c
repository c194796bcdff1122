/*
 * lk_frame_attach.c: a fast-lane reader's place in the lane: attaching, being seen by the writer,
 * following the run to a new segment, leaving.
 *
 * Labels: [W1] of lk_wait.h for the head, [S1] [S2] of lk_segment.c.
 *
 * Who writes: a reader writes only its own viewer entry and, together with other readers, the word
 * watched_until (raised). Nobody depends on them for correctness.
 * If a reader dies: its lease runs out, and a later reader takes its entry, whose role is free.
 * If the writer dies: the segment stays as it is until a successor has the run's name, to which the
 * reader then moves.
 */
#include "lk_frame_reader.h"

#include <stdlib.h>
#include <string.h>

/* --- being seen by the writer ----------------------------------------------------------------- */

/* NULL: all entries belong to readers that live. */
static struct lk_frame_viewer *claim_viewer(lk_segment *segment) {
    struct lk_frame_header *header = lk_segment_base(segment);
    for (uint32_t i = 0; i < LK_FRAME_VIEWERS; i++) {
        if (lk_segment_take_role(segment, LK_ROLE_VIEWER + i) == LK_OK) {
            /* relaxed: only for people to look at; the role says whose entry it is */
            atomic_store_explicit(&header->viewers[i].pid, lk_process_self().pid,
                                  memory_order_relaxed);
            return &header->viewers[i];
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

void lk_frame_reader_announce(lk_frame_reader *reader, uint64_t now) {
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
        atomic_store_explicit(&reader->viewer->pid, 0, memory_order_relaxed); /* as claim_viewer */
        lk_segment_drop_role(reader->segment,
                             LK_ROLE_VIEWER + (uint32_t)(reader->viewer - header->viewers));
        reader->viewer = NULL;
    }
    for (uint32_t i = 0; i < LK_FRAME_VIEWERS; i++) {
        if (atomic_load_explicit(&header->viewers[i].pid, memory_order_relaxed) != 0) {
            return; /* others may watch: their lease runs on */
        }
    }
    if (reader->announced_ns != 0) {
        atomic_store_explicit(&header->watched_until_ns, 0, memory_order_relaxed);
    }
}

/* --- attaching -------------------------------------------------------------------------------- */

static int open_segment(const lk_frame_reader *reader, lk_segment **segment,
                        struct lk_frame_geometry *geometry) {
    struct lk_segment_request request = {
        .kind = LK_KIND_FRAME,
        .magic = LK_MAGIC_FRAME,
        .run_id = reader->run_id,
        .run_id_size = reader->run_id_size,
        .allow_uid = reader->allows_uid ? &reader->allow_uid : NULL,
    };
    struct lk_segment_header common;
    int status = lk_segment_attach(segment, &request, &common);
    if (status != LK_OK) {
        return status;
    }
    const struct lk_frame_header *header = lk_segment_base(*segment);
    memcpy(geometry, &header->geometry, sizeof *geometry);
    lk_copied_once(geometry);
    status = lk_frame_check(geometry, common.total_size);
    if (status == LK_OK && lk_segment_damaged(*segment)) {
        status = LK_E_TRUNCATED;
    }
    if (status != LK_OK) {
        lk_segment_release(*segment);
    }
    return status;
}

static void settle(lk_frame_reader *reader, lk_segment *segment) {
    uint64_t now = lk_clock_coarse_ns();
    reader->segment = segment;
    reader->header = lk_segment_base(segment);
    lk_frame_reader_start_over(reader, lk_frame_reader_head(reader));
    reader->peeked = 0;
    reader->lead = 0;
    reader->owner_dead = false;
    reader->owner_checked_ns = now;
    reader->announced_ns = 0;
    reader->viewer = reader->lease_ns != 0 ? claim_viewer(segment) : NULL;
    lk_frame_reader_be_seen(reader, now);
}

int lk_frame_attach(lk_frame_reader **out, const char *run_id, size_t run_id_size,
                    uint64_t lease_ns, const uint32_t *allow_uid) {
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
    reader->allows_uid = allow_uid != NULL;
    reader->allow_uid = allow_uid != NULL ? *allow_uid : 0;
    reader->spin = LK_SPIN_START;
    lk_segment *segment;
    int status = open_segment(reader, &segment, &reader->geometry);
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

int lk_frame_reader_follow(lk_frame_reader *reader, uint64_t now) {
    lk_segment *segment;
    struct lk_frame_geometry geometry;
    if (now - reader->successor_checked_ns < LK_FRAME_SUCCESSOR_CHECK_NS) {
        return LK_OK;
    }
    reader->successor_checked_ns = now;
    int status = open_segment(reader, &segment, &geometry);
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
    reader->geometry = geometry;
    reader->stats.reattached++;
    reader->moved = true;
    settle(reader, segment);
    return LK_E_MOVED;
}

int lk_frame_writer_liveness(lk_frame_reader *reader) {
    uint64_t now;
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    enum lk_liveness owner = lk_segment_role_holder(reader->segment, LK_ROLE_OWNER);
    reader->owner_dead = owner == LK_DEAD;
    lk_guard_exit(&reader->guard);
    status = lk_frame_reader_enter(reader, &now); /* if it left, a successor may be there */
    if (status == LK_E_MOVED || status == LK_E_CLOSED || status == LK_E_CONCURRENT) {
        return status;
    }
    if (status != LK_OK) {
        return LK_DEAD; /* what carries the name now is no writer's segment */
    }
    bool left = lk_frame_reader_orphaned(reader) || lk_segment_damaged(reader->segment);
    lk_guard_exit(&reader->guard);
    return left ? LK_DEAD : (int)owner;
}

/* --- asking ----------------------------------------------------------------------------------- */

int lk_frame_reader_config(lk_frame_reader *reader, struct lk_frame_config *out) {
    int status = lk_guard_enter(&reader->guard);
    if (status == LK_OK) {
        *out = lk_frame_config_of(&reader->geometry);
        reader->moved = false;
        lk_guard_exit(&reader->guard);
    }
    return status;
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
