/*
 * lk_traj_writer.c: how a producer of the trajectory lane puts records.
 *
 * Labels: [J1] to [J4] of lk_traj_ring.h, [S2] of lk_segment.c.
 *
 * Who writes: the producer alone, its ring's data beyond head, the first and the third line of its
 * ring's control block, and, when the consumer sleeps, the bell. Who reads: the consumer.
 * If a producer dies: head still names the end of its last finished record, so the unfinished one
 * was never there. lk_traj_attach.c says what becomes of the ring.
 * If the consumer dies: the ring fills up, and the producer waits for a successor.
 * Nothing is lossy: a full ring makes put wait.
 */
#include "lk_traj_writer.h"

#include "lk_traj_ring.h"

#include <string.h>

static const uint64_t wait_slice_ns = 50000000;
/* A producer of small records sleeps until there is room for many: a wake for each would cost more
 * than the record. But not for longer than this, once there is room for one: the consumer may keep
 * what it has taken. */
static const uint64_t greedy_slice_ns = 1000000;
enum { GREEDY_SHARE = 8, SMALL_SHARE = 16, LARGE_FIELD = 4096 };
static const uint64_t consumer_check_every_ns = 200000000;

static int check_lane(const lk_traj_writer *writer) {
    if (lk_segment_invalidated(writer->segment)) {
        return LK_E_PEER_LOST; /* the consumer ended the lane */
    }
    bool spoiled = atomic_load_explicit(&writer->ring->spoiled, memory_order_relaxed) != 0;
    return spoiled || writer->head > LK_TRAJ_POSITION_MAX ? LK_E_CORRUPT : LK_OK;
}

static int enter(lk_traj_writer *writer) {
    int status = lk_guard_enter(&writer->guard);
    if (status == LK_OK) {
        status = check_lane(writer);
        if (status != LK_OK) {
            lk_guard_exit(&writer->guard);
        }
    }
    return status;
}

static int64_t leave(lk_traj_writer *writer, int64_t result) {
    if (lk_segment_damaged(writer->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&writer->guard);
    return result;
}

/* --- waiting for room ------------------------------------------------------------------------- */

/* 1 when there is room for `need` bytes at head now, 0 when not. */
static int has_room(lk_traj_writer *writer, uint64_t need) {
    uint64_t tail = lk_traj_ring_tail(writer->ring);
    if (!lk_traj_writer_plausible(writer, tail)) {
        return LK_E_CORRUPT;
    }
    writer->tail = tail;
    return need <= writer->geometry.ring_size - (writer->head - tail);
}

static int spin_for_room(lk_traj_writer *writer, uint64_t need, uint64_t begun, uint64_t deadline) {
    struct lk_spinning spinning = lk_spin_begin(&writer->spin, begun, deadline);
    int status;
    bool on;
    do {
        for (int i = 0; i < 16; i++) {
            status = has_room(writer, need);
            if (status != 0) {
                break;
            }
            lk_cpu_relax();
        }
        on = lk_spin_on(&spinning);
    } while (status == 0 && on);
    lk_spin_end(&writer->spin, &spinning, status != 0);
    return status;
}

/* A consumer that is gone may be replaced; how long to wait for that, the caller said. */
static int check_consumer(lk_traj_writer *writer, uint64_t now) {
    if (now - writer->consumer_checked_ns < consumer_check_every_ns) {
        return LK_OK;
    }
    writer->consumer_checked_ns = now;
    if (lk_segment_role_holder(writer->segment, LK_ROLE_OWNER) != LK_DEAD) {
        writer->absent_since_ns = 0;
        return LK_OK;
    }
    if (writer->absent_since_ns == 0) {
        writer->absent_since_ns = now;
    }
    return now - writer->absent_since_ns >= writer->absence_ns ? LK_E_PEER_LOST : LK_OK;
}

static int wait_for_room(lk_traj_writer *writer, uint64_t need, uint64_t timeout_ns) {
    uint64_t begun = lk_clock_ns();
    uint64_t deadline = timeout_ns < UINT64_MAX - begun ? begun + timeout_ns : UINT64_MAX;
    int status = timeout_ns > 0 ? spin_for_room(writer, need, begun, deadline) : 0;
    writer->stalls += writer->stalled_at != writer->head || writer->stalls == 0;
    writer->stalled_at = writer->head;
    bool slept = false;
    while (status == 0) {
        uint64_t now = lk_clock_ns();
        status = check_lane(writer);
        if (status == LK_OK) {
            status = check_consumer(writer, now);
        }
        if (status != LK_OK || now >= deadline || lk_segment_damaged(writer->segment)) {
            break;
        }
        uint64_t ring_size = writer->geometry.ring_size;
        uint64_t want = writer->head + need - ring_size;
        bool greedy = !slept && need <= ring_size / SMALL_SHARE;
        uint64_t slice_ns = greedy ? greedy_slice_ns : wait_slice_ns;
        uint64_t slice_end = deadline - now < slice_ns ? deadline : now + slice_ns;
        lk_traj_ring_sleep_for_room(writer->ring, writer->tail,
                                    greedy ? want + ring_size / GREEDY_SHARE : want, slice_end);
        slept = true;
        status = has_room(writer, need);
    }
    if (slept) {
        lk_spin_slept(&writer->spin, begun);
    }
    writer->stalled_ns += lk_clock_ns() - begun;
    atomic_store_explicit(&writer->ring->stalls, writer->stalls, memory_order_relaxed);
    atomic_store_explicit(&writer->ring->stalled_ns, writer->stalled_ns, memory_order_relaxed);
    return status;
}

/* --- putting ---------------------------------------------------------------------------------- */

/* Find room for a record of these rows: 1, 0 at the timeout. */
static int make_room(lk_traj_writer *writer, uint64_t metadata_room, uint64_t timeout_ns) {
    const struct lk_traj_geometry *geometry = &writer->geometry;
    if (writer->reserved) {
        return LK_E_RESERVED;
    }
    int status = lk_traj_lay_out(&writer->schema, writer->rows, metadata_room, &writer->places);
    if (status != LK_OK) {
        return status;
    }
    if (writer->places.size > geometry->record_max) {
        return LK_E_TOO_LARGE;
    }
    uint64_t size = sizeof(struct lk_traj_record_header) + writer->places.size;
    uint64_t rest = geometry->ring_size - writer->head % geometry->ring_size;
    writer->padding = size <= rest ? 0 : rest;
    writer->metadata_room = metadata_room;
    uint64_t need = writer->padding + size;
    /* The tail as last seen is enough more often than not, and its cache line stays where it is. */
    if (need <= geometry->ring_size - (writer->head - writer->tail)) {
        return 1;
    }
    status = has_room(writer, need);
    return status != 0 ? status : wait_for_room(writer, need, timeout_ns);
}

static struct lk_traj_record_header *header_at(const lk_traj_writer *writer, uint64_t position) {
    return (struct lk_traj_record_header *)(void *)(writer->data +
                                                    position % writer->geometry.ring_size);
}

static uint8_t *body(const lk_traj_writer *writer) {
    return (uint8_t *)(header_at(writer, writer->head + writer->padding) + 1);
}

/* Everything but the fields: headers, rows, metadata; then the head. */
static int64_t finish(lk_traj_writer *writer, const void *metadata, uint64_t metadata_size) {
    uint64_t at = writer->head + writer->padding;
    struct lk_traj_record_header *record = header_at(writer, at);
    if (writer->padding > 0) {
        struct lk_traj_record_header *padding = header_at(writer, writer->head);
        padding->kind = LK_TRAJ_PADDING;
        padding->position = writer->head;
    }
    record->kind = LK_TRAJ_RECORD;
    record->producer_pid = (uint32_t)writer->producer;
    record->position = at;
    record->size = writer->places.size;
    record->session = writer->session;
    record->number = ++writer->number;
    record->timestamp_ns = lk_clock_ns();
    record->metadata_size = metadata_size;
    atomic_store_explicit(&record->released, 0, memory_order_relaxed);
    memcpy(body(writer), writer->rows, writer->schema.count * sizeof *writer->rows);
    if (metadata_size > 0) {
        memcpy(body(writer) + writer->places.metadata, metadata, metadata_size);
    }
    writer->records++;
    writer->bytes += writer->places.size;
    atomic_store_explicit(&writer->ring->records, writer->records, memory_order_relaxed);
    atomic_store_explicit(&writer->ring->bytes, writer->bytes, memory_order_relaxed);
    writer->head = at + sizeof *record + writer->places.size;
    atomic_store_explicit(&writer->position, writer->head, memory_order_relaxed);
    lk_traj_ring_publish(writer->header, writer->ring, writer->head);
    return (int64_t)writer->number;
}

/* Nobody reads these bytes before the head says so: which copy is a matter of time only. */
static void copy_field(uint8_t *to, const void *from, size_t size) {
    if (size < LARGE_FIELD) {
        memcpy(to, from, size);
    } else {
        lk_copy_to_shared((_Atomic uint64_t *)(void *)to, from, size);
    }
}

int64_t lk_traj_put(lk_traj_writer *writer, const struct lk_traj_array *arrays,
                    const void *metadata, size_t metadata_size, uint64_t timeout_ns) {
    int64_t result = enter(writer);
    if (result != LK_OK) {
        return result;
    }
    for (uint32_t i = 0; i < writer->schema.count && !writer->reserved; i++) {
        writer->rows[i] = arrays[i].rows;
    }
    result = make_room(writer, metadata_size, timeout_ns);
    if (result == 1) {
        for (uint32_t i = 0; i < writer->schema.count; i++) {
            if (writer->rows[i] != LK_TRAJ_ABSENT && writer->rows[i] > 0) {
                copy_field(body(writer) + writer->places.field[i], arrays[i].data,
                           writer->rows[i] * writer->schema.row_size[i]);
            }
        }
        result = finish(writer, metadata, metadata_size);
    }
    return leave(writer, result);
}

int lk_traj_reserve(lk_traj_writer *writer, const uint64_t *rows, size_t metadata_room,
                    uint64_t timeout_ns, void **data) {
    int status = enter(writer);
    if (status != LK_OK) {
        return status;
    }
    if (!writer->reserved) {
        memcpy(writer->rows, rows, writer->schema.count * sizeof *rows);
    }
    status = make_room(writer, metadata_room, timeout_ns);
    if (status == 1) {
        writer->reserved = true;
        for (uint32_t i = 0; i < writer->schema.count; i++) {
            bool absent = rows[i] == LK_TRAJ_ABSENT;
            data[i] = absent ? NULL : body(writer) + writer->places.field[i];
        }
    }
    return (int)leave(writer, status);
}

int64_t lk_traj_commit(lk_traj_writer *writer, const void *metadata, size_t metadata_size) {
    int64_t result = enter(writer);
    if (result != LK_OK) {
        return result;
    }
    if (!writer->reserved) {
        result = LK_E_NOT_RESERVED;
    } else if (metadata_size > writer->metadata_room) {
        result = LK_E_METADATA_SIZE;
    } else {
        writer->reserved = false;
        lk_streaming_fence(); /* whoever filled it may have written past the caches */
        result = finish(writer, metadata, metadata_size);
    }
    return leave(writer, result);
}

int lk_traj_abandon(lk_traj_writer *writer) {
    int status = lk_guard_enter(&writer->guard);
    if (status != LK_OK) {
        return status;
    }
    status = writer->reserved ? LK_OK : LK_E_NOT_RESERVED;
    writer->reserved = false;
    return (int)leave(writer, status);
}

/* --- asking ----------------------------------------------------------------------------------- */

int lk_traj_writer_config(lk_traj_writer *writer, struct lk_traj_config *out,
                          struct lk_traj_field *fields) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK) {
        *out = lk_traj_config_of(&writer->geometry);
        if (fields != NULL) {
            memcpy(fields, writer->schema.fields, writer->schema.count * sizeof *fields);
        }
        lk_guard_exit_lightly(&writer->guard);
    }
    return status;
}

int lk_traj_writer_view(lk_traj_writer *writer, lk_segment **segment) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK) {
        lk_segment_retain(writer->segment);
        *segment = writer->segment;
        lk_guard_exit_lightly(&writer->guard);
    }
    return status;
}

int lk_traj_writer_ring(lk_traj_writer *writer, struct lk_traj_ring_status *out) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status != LK_OK) {
        return status;
    }
    lk_traj_ring_describe(writer->ring, writer->geometry.ring_size, LK_ALIVE, out);
    status = lk_segment_damaged(writer->segment) ? LK_E_TRUNCATED : LK_OK;
    lk_guard_exit_lightly(&writer->guard);
    return status;
}

int lk_traj_writer_place(lk_traj_writer *writer, struct lk_traj_place *out) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK) {
        *out = (struct lk_traj_place){
            .ring = lk_traj_writer_ring_index(writer),
            .session = writer->session,
            .position = atomic_load_explicit(&writer->position, memory_order_relaxed),
        };
        lk_guard_exit_lightly(&writer->guard);
    }
    return status;
}
