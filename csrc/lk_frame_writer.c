/*
 * lk_frame_writer.c: the fast lane's one writer.
 *
 * Labels: [Q1] [Q2] of lk_seqlock.h around each slot and the header metrics, [W1] [W2] of lk_wait.h
 * for the head, [S1] [S2] of lk_segment.c for the segment's beginning and end.
 *
 * Who writes: the writer alone, except wake_at, watched_until and the viewer entries, which it only
 * reads. Who reads: any number of readers, never waited for.
 * If the writer dies inside a publish, the slot's word stays odd and head still names the frame
 * before: readers keep that one (with capacity 1 there is no frame before, so they have none).
 * Lossy: frame n is gone when frame n + capacity begins.
 */
#include "lk_frame.h"
#include "lk_guard.h"
#include "lk_seqlock.h"
#include "lk_wait.h"

#include <stdlib.h>
#include <string.h>

/* What each publish touches comes first, on few cache lines: the copy itself drives them out of the
 * nearest cache each time. */
struct lk_frame_writer {
    struct lk_guard guard;
    bool reserved;
    bool wakes; /* somebody has slept here: announcements look for sleepers */
    lk_segment *segment;
    struct lk_frame_header *header;
    void (*copy_pixels)(_Atomic uint64_t *shared, const void *private_bytes, size_t size);
    uint64_t published; /* the head, from private memory: nobody else may move it for us */
    _Atomic uint64_t heartbeat_ns; /* light calls beat, too */
    uint32_t next_index;
    struct lk_frame_metrics metrics;
    struct lk_frame_geometry geometry;
    struct lk_segment_id id;
};

/* --- creation --------------------------------------------------------------------------------- */

static int open_segment(lk_frame_writer *writer, const struct lk_segment_request *request) {
    int status = lk_segment_create(&writer->segment, request);
    if (status == LK_OK) {
        writer->header = lk_segment_base(writer->segment);
        writer->header->geometry = writer->geometry;
        lk_segment_make_ready(writer->segment);
    }
    return status;
}

int lk_frame_create(lk_frame_writer **out, const char *run_id, size_t run_id_size,
                    const struct lk_frame_config *config) {
    *out = NULL;
    struct lk_segment_request request = {
        .kind = LK_KIND_FRAME,
        .magic = LK_MAGIC_FRAME,
        .run_id = run_id,
        .run_id_size = run_id_size,
    };
    lk_frame_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return LK_E_SYSTEM;
    }
    int status = lk_frame_plan(config, &writer->geometry, &request.total_size);
    if (status == LK_OK) {
        status = open_segment(writer, &request);
    }
    if (status != LK_OK) {
        free(writer);
        return status;
    }
    bool larger_than_cache = request.total_size > lk_streaming_threshold();
    writer->copy_pixels = larger_than_cache ? lk_copy_to_shared_streaming : lk_copy_to_shared;
    writer->id = *lk_segment_identity(writer->segment);
    lk_guard_init(&writer->guard);
    *out = writer;
    return LK_OK;
}

/* --- publishing ------------------------------------------------------------------------------- */

static int enter(lk_frame_writer *writer) {
    int status = lk_guard_enter(&writer->guard);
    if (status == LK_OK && lk_segment_invalidated(writer->segment)) {
        lk_guard_exit(&writer->guard);
        return LK_E_INVALIDATED; /* we left, or another process took us for dead */
    }
    return status;
}

static int enter_lightly(lk_frame_writer *writer) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK && lk_segment_invalidated(writer->segment)) {
        lk_guard_exit_lightly(&writer->guard);
        return LK_E_INVALIDATED; /* as in enter */
    }
    return status;
}

static int64_t leave(lk_frame_writer *writer, int64_t result) {
    if (lk_segment_damaged(writer->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&writer->guard);
    return result;
}

static int leave_lightly(lk_frame_writer *writer, int result) {
    if (lk_segment_damaged(writer->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit_lightly(&writer->guard);
    return result;
}

static void beat(lk_frame_writer *writer, uint64_t now) {
    /* At most ten times a second: readers poll the flags on the same cache line. relaxed, all of
     * it: if two threads beat at once, the time of either will do. */
    uint64_t before = atomic_load_explicit(&writer->heartbeat_ns, memory_order_relaxed);
    if (now - before >= LK_HEARTBEAT_NS) {
        atomic_store_explicit(&writer->heartbeat_ns, now, memory_order_relaxed);
        atomic_store_explicit(&writer->header->segment.heartbeat_ns, now, memory_order_relaxed);
    }
}

static void store_metrics(lk_frame_writer *writer, const struct lk_frame_metrics *metrics) {
    struct lk_frame_header *header = writer->header;
    writer->metrics = *metrics;
    uint64_t seq = atomic_load_explicit(&header->metrics_seq, memory_order_relaxed) | 1;
    lk_seqlock_begin_write(&header->metrics_seq, seq);
    atomic_store_explicit(&header->last_reward, lk_double_bits(metrics->last_reward),
                          memory_order_relaxed);
    atomic_store_explicit(&header->rolling_return, lk_double_bits(metrics->rolling_return),
                          memory_order_relaxed);
    atomic_store_explicit(&header->step_rate_hz, lk_double_bits(metrics->step_rate_hz),
                          memory_order_relaxed);
    lk_seqlock_end_write(&header->metrics_seq, seq + 1);
}

static struct lk_frame_slot *next_slot(lk_frame_writer *writer) {
    return lk_frame_slot_at(writer->header, &writer->geometry, writer->next_index);
}

static void begin_frame(lk_frame_writer *writer) {
    lk_seqlock_begin_write(&next_slot(writer)->seq, lk_frame_word_writing(writer->published + 1));
}

/* Make a frame the newest one, and wake whoever sleeps for it. */
static void announce(lk_frame_writer *writer, uint64_t seq) {
    struct lk_frame_header *header = writer->header;
    if (!writer->wakes && atomic_load_explicit(&header->wake_at, memory_order_relaxed) != 0) {
        writer->wakes = true;
        /* [W2] release: pairs with the [W2] fence in lk_wait_beyond, of a reader that has found it
         * before: will_be_woken in lk_frame_reader.c. Without it, that reader could count on being
         * woken and yet miss a head that was announced before. */
        atomic_store_explicit(&header->wakes, 1, memory_order_release);
    }
    if (writer->wakes) {
        lk_announce(&header->head, &header->wake_at, seq);
    } else {
        lk_announce_unheard(&header->head, seq);
    }
}

/* Everything after the pixels: what belongs to the frame, the even word, the head. */
static int64_t finish_frame(lk_frame_writer *writer, const void *metadata, size_t metadata_size) {
    struct lk_frame_slot *slot = next_slot(writer);
    const struct lk_frame_metrics *metrics = &writer->metrics;
    uint64_t seq = writer->published + 1;
    uint64_t now = lk_clock_ns();
    if (metadata != NULL) {
        lk_copy_to_shared(lk_frame_slot_metadata(slot, &writer->geometry), metadata, metadata_size);
    }
    atomic_store_explicit(&slot->timestamp_ns, now, memory_order_relaxed);
    atomic_store_explicit(&slot->last_reward, lk_double_bits(metrics->last_reward),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->rolling_return, lk_double_bits(metrics->rolling_return),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->step_rate_hz, lk_double_bits(metrics->step_rate_hz),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->metadata_size, metadata != NULL ? metadata_size : LK_NO_METADATA,
                          memory_order_relaxed);
    lk_seqlock_end_write(&slot->seq, lk_frame_word_complete(seq));
    writer->published = seq;
    writer->next_index =
        writer->next_index + 1 < writer->geometry.capacity ? writer->next_index + 1 : 0;
    beat(writer, now);
    announce(writer, seq);
    return (int64_t)seq;
}

static int check_publish(const lk_frame_writer *writer, size_t pixels_size, size_t metadata_size) {
    if (writer->reserved) {
        return LK_E_RESERVED;
    }
    if (pixels_size != writer->geometry.payload_size) {
        return LK_E_SIZE;
    }
    return metadata_size <= writer->geometry.metadata_size ? LK_OK : LK_E_METADATA_SIZE;
}

static int64_t publish(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                       const void *metadata, size_t metadata_size,
                       const struct lk_frame_metrics *metrics) {
    int64_t result = enter(writer);
    if (result != LK_OK) {
        return result;
    }
    result = check_publish(writer, pixels_size, metadata_size);
    if (result == LK_OK) {
        if (metrics != NULL) {
            store_metrics(writer, metrics);
        }
        begin_frame(writer);
        writer->copy_pixels(next_slot(writer)->pixels, pixels, pixels_size);
        result = finish_frame(writer, metadata, metadata_size);
    }
    return leave(writer, result);
}

int64_t lk_frame_publish(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                         const void *metadata, size_t metadata_size) {
    return publish(writer, pixels, pixels_size, metadata, metadata_size, NULL);
}

int64_t lk_frame_publish_metrics(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                                 const void *metadata, size_t metadata_size, double last_reward,
                                 double rolling_return, double step_rate_hz) {
    struct lk_frame_metrics metrics = {last_reward, rolling_return, step_rate_hz};
    return publish(writer, pixels, pixels_size, metadata, metadata_size, &metrics);
}

int64_t lk_frame_publish_source(const struct lk_frame_source *source) {
    lk_frame_writer *writer = source->writer;
    return publish(writer, source->pixels, writer->geometry.payload_size, NULL, 0, NULL);
}

int64_t lk_frame_reserve(lk_frame_writer *writer, void **pixels) {
    int64_t result = enter(writer);
    if (result != LK_OK) {
        return result;
    }
    if (writer->reserved) {
        return leave(writer, LK_E_RESERVED);
    }
    begin_frame(writer);
    lk_streaming_fence();
    writer->reserved = true;
    *pixels = next_slot(writer)->pixels;
    return leave(writer, writer->next_index);
}

int64_t lk_frame_commit(lk_frame_writer *writer) {
    return lk_frame_commit_metadata(writer, NULL, 0);
}

int64_t lk_frame_commit_metadata(lk_frame_writer *writer, const void *metadata,
                                 size_t metadata_size) {
    int64_t result = enter(writer);
    if (result != LK_OK) {
        return result;
    }
    if (!writer->reserved) {
        result = LK_E_NOT_RESERVED;
    } else if (metadata_size > writer->geometry.metadata_size) {
        result = LK_E_METADATA_SIZE;
    } else {
        writer->reserved = false;
        lk_streaming_fence();
        result = finish_frame(writer, metadata, metadata_size);
    }
    return leave(writer, result);
}

int lk_frame_writer_view(lk_frame_writer *writer, uint32_t slot, lk_segment **segment,
                         void **pixels) {
    int status = lk_guard_enter(&writer->guard);
    if (status != LK_OK) {
        return status;
    }
    if (slot < writer->geometry.capacity) {
        lk_segment_retain(writer->segment);
        *segment = writer->segment;
        *pixels = lk_frame_slot_at(writer->header, &writer->geometry, slot)->pixels;
    } else {
        status = LK_E_INVALID;
    }
    lk_guard_exit(&writer->guard);
    return status;
}

int lk_frame_abandon(lk_frame_writer *writer) {
    int status = enter(writer);
    if (status != LK_OK) {
        return status;
    }
    /* The slot's word stays odd; the next frame takes the same slot and starts it over. */
    status = writer->reserved ? LK_OK : LK_E_NOT_RESERVED;
    writer->reserved = false;
    return (int)leave(writer, status);
}

int lk_frame_set_metrics(lk_frame_writer *writer, double last_reward, double rolling_return,
                         double step_rate_hz) {
    int status = enter(writer);
    if (status != LK_OK) {
        return status;
    }
    struct lk_frame_metrics metrics = {last_reward, rolling_return, step_rate_hz};
    store_metrics(writer, &metrics);
    return (int)leave(writer, LK_OK);
}

int lk_frame_heartbeat(lk_frame_writer *writer) {
    int status = enter_lightly(writer);
    if (status != LK_OK) {
        return status;
    }
    beat(writer, lk_clock_ns());
    return leave_lightly(writer, LK_OK);
}

int lk_frame_watched(lk_frame_writer *writer) {
    int status = enter_lightly(writer);
    if (status != LK_OK) {
        return status;
    }
    uint64_t until = atomic_load_explicit(&writer->header->watched_until_ns, memory_order_relaxed);
    uint64_t now = lk_clock_coarse_ns(); /* after the load: readers add the lease to theirs */
    return leave_lightly(writer, until > now && until - now <= LK_LEASE_MAX_NS);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void say_goodbye(lk_frame_writer *writer) {
    lk_segment_invalidate(writer->segment);
    lk_futex_wake_all(&writer->header->head);
}

int lk_frame_invalidate(lk_frame_writer *writer) {
    int status = lk_guard_enter(&writer->guard);
    if (status == LK_OK) {
        say_goodbye(writer);
        lk_guard_exit(&writer->guard);
    }
    return status;
}

int lk_frame_writer_close(lk_frame_writer *writer) {
    if (lk_guard_close(&writer->guard)) {
        /* A forked child lets go of its own mapping only: the segment is its parent's. */
        if (!lk_guard_forked(&writer->guard)) {
            lk_segment_disown(writer->segment);
            say_goodbye(writer);
            lk_segment_drop_role(writer->segment, LK_ROLE_OWNER); /* views may keep the rest */
        }
        lk_segment_release(writer->segment);
        writer->segment = NULL;
        writer->header = NULL;
    }
    return LK_OK;
}

int lk_frame_writer_unlink(lk_frame_writer *writer) {
    return lk_guard_forked(&writer->guard) ? LK_E_FORKED : lk_segment_unlink(&writer->id);
}

void lk_frame_writer_free(lk_frame_writer *writer) {
    if (writer != NULL) {
        lk_frame_writer_close(writer);
        free(writer);
    }
}
