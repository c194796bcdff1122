/*
 * lk_traj_writer.c: a producer of the trajectory lane.
 *
 * Labels: [J1] to [J5] of lk_traj_ring.h, [S1] [S2] of lk_segment.c.
 *
 * Who writes: the producer alone, its ring's data beyond head, the first and the third line of its
 * ring's control block, and, when the consumer sleeps, the bell. Who reads: the consumer.
 * If a producer dies: head still names the end of its last finished record, so the unfinished one
 * was never there. Whoever finds the process dead may take the ring and go on behind that head;
 * nobody has to repair or drain anything first, and no consumer has to be there.
 * If the consumer dies: the ring fills up, and the producer waits for a successor.
 * Nothing is lossy: a full ring makes put wait.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_guard.h"
#include "lk_traj.h"
#include "lk_traj_ring.h"
#include "lk_wait.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t wait_slice_ns = 50000000;
/* A producer of small records sleeps until there is room for many: a wake for each would cost more
 * than the record. But not for longer than this, once there is room for one: the consumer may keep
 * what it has taken. */
static const uint64_t greedy_slice_ns = 1000000;
enum { GREEDY_SHARE = 8, SMALL_SHARE = 16 };
static const uint64_t consumer_check_every_ns = 200000000;

struct lk_traj_writer {
    struct lk_guard guard;
    bool reserved;
    bool judges; /* of the consumer's pid namespace, so that its pid means something here */
    lk_segment *segment;
    struct lk_traj_header *header;
    struct lk_traj_ring *ring;
    uint8_t *data;
    uint64_t head; /* from private memory: nobody else may move it for us */
    uint64_t tail; /* as last seen */
    uint64_t number;
    uint64_t session;
    uint64_t identity;
    uint64_t records, bytes, stalls, stalled_ns;
    uint64_t stalled_at; /* the head at the last stall: waiting in pieces counts as one */
    uint64_t absence_ns;
    uint64_t absent_since_ns; /* 0: there is a consumer, as far as we know */
    uint64_t consumer_checked_ns;
    struct lk_spin spin;
    uint64_t padding; /* before the record that is being written */
    uint64_t metadata_room;
    struct lk_traj_places places;
    uint64_t rows[LK_TRAJ_FIELDS_MAX];
    struct lk_traj_geometry geometry;
    struct lk_traj_schema schema;
};

/* --- attaching -------------------------------------------------------------------------------- */

/* Whether a tail can be that of a ring whose head is ours. */
static bool plausible(const lk_traj_writer *writer, uint64_t tail) {
    return tail % LK_CACHE_LINE == 0 && tail <= writer->head &&
           writer->head - tail <= writer->geometry.ring_size;
}

/* Begin where the ring's last producer ended. False: what it left can not be. */
static bool move_in(lk_traj_writer *writer, uint32_t index) {
    struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, index);
    /* relaxed, here and below: lk_traj_ring_claim ordered it; we are the only one that writes these
     */
    writer->head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    writer->tail = lk_traj_ring_tail(ring);
    if (writer->head % LK_CACHE_LINE != 0 || writer->head > LK_TRAJ_POSITION_MAX ||
        !plausible(writer, writer->tail)) {
        return false;
    }
    writer->ring = ring;
    writer->data = lk_traj_data_at(writer->header, &writer->geometry, index);
    writer->session = atomic_load_explicit(&ring->session, memory_order_relaxed) + 1;
    writer->records = atomic_load_explicit(&ring->records, memory_order_relaxed);
    writer->bytes = atomic_load_explicit(&ring->bytes, memory_order_relaxed);
    writer->stalls = atomic_load_explicit(&ring->stalls, memory_order_relaxed);
    writer->stalled_ns = atomic_load_explicit(&ring->stalled_ns, memory_order_relaxed);
    atomic_store_explicit(&ring->session, writer->session, memory_order_relaxed);
    atomic_store_explicit(&ring->wake_at, 0, memory_order_relaxed);
    return true;
}

static int claim_ring(lk_traj_writer *writer) {
    for (int take_dead = 0; take_dead <= 1; take_dead++) {
        for (uint32_t i = 0; i < writer->geometry.rings; i++) {
            struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, i);
            uint64_t found = atomic_load_explicit(&ring->identity, memory_order_relaxed);
            bool free_ring = found == 0;
            if (!free_ring && take_dead) {
                /* Across pid namespaces nobody can be judged; such a ring is not taken. */
                free_ring = writer->judges && (found & LK_TRAJ_FOREIGN) == 0 &&
                            lk_process_word_liveness(found) == LK_DEAD;
            }
            if (!free_ring || atomic_load_explicit(&ring->spoiled, memory_order_relaxed) != 0 ||
                !lk_traj_ring_claim(ring, found, writer->identity)) {
                continue;
            }
            if (move_in(writer, i)) {
                return LK_OK;
            }
            lk_traj_ring_leave(ring, writer->identity);
        }
    }
    return LK_E_TAKEN;
}

/* Take the ring that a kept producer left when it died. Nobody else takes such a ring, so whoever
 * is found there is one of those whose place this is. */
static int succeed(lk_traj_writer *writer, uint32_t index) {
    if (index >= writer->geometry.rings) {
        return LK_E_INVALID;
    }
    struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, index);
    uint64_t found = atomic_load_explicit(&ring->identity, memory_order_relaxed);
    if (!writer->judges || (found & LK_TRAJ_FOREIGN) == 0 ||
        lk_process_word_liveness(found & ~LK_TRAJ_FOREIGN) != LK_DEAD ||
        !lk_traj_ring_claim(ring, found, writer->identity)) {
        return LK_E_TAKEN;
    }
    if (!move_in(writer, index)) {
        lk_traj_ring_leave(ring, writer->identity);
        return LK_E_CORRUPT;
    }
    return LK_OK;
}

/* Have the ring's pages at hand before the first record; where the kernel can not, they come one
 * by one. */
static void warm_up(const lk_traj_writer *writer) {
#if defined(MADV_POPULATE_WRITE)
    uintptr_t begin = (uintptr_t)writer->data & ~(uintptr_t)4095;
    uintptr_t end = (uintptr_t)writer->data + writer->geometry.ring_size;
    madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
    (void)writer;
#endif
}

static int join(lk_traj_writer *writer, const struct lk_segment_header *header,
                const struct lk_traj_schema *wanted, const uint32_t *kept) {
    struct lk_process self;
    int status = lk_traj_adopt_geometry(writer->segment, header->total_size, &writer->geometry,
                                        &writer->schema);
    if (status != LK_OK) {
        return status;
    }
    if (wanted != NULL && !lk_traj_schema_same(wanted, &writer->schema)) {
        return LK_E_SCHEMA;
    }
    if (lk_segment_invalidated(writer->segment)) {
        return LK_E_NOT_FOUND; /* its consumer is just ending it */
    }
    status = lk_process_self(&self);
    if (status != LK_OK) {
        return status;
    }
    writer->judges = self.pid_namespace != 0 && self.pid_namespace == header->owner_pid_namespace;
    /* Of a foreign producer nobody says that it is dead: its ring stays its own. */
    bool foreign = !writer->judges || kept != NULL;
    writer->identity = lk_process_word(&self) | (foreign ? LK_TRAJ_FOREIGN : 0);
    return kept != NULL && *kept != LK_TRAJ_ANY_RING ? succeed(writer, *kept) : claim_ring(writer);
}

/* kept: NULL for a producer like all others. */
static int attach(lk_traj_writer **out, const char *run_id, size_t run_id_size,
                  const struct lk_traj_field *fields, uint32_t count, uint32_t schema_version,
                  uint64_t absence_ns, const uint32_t *kept) {
    *out = NULL;
    struct lk_segment_request request = {
        .kind = LK_KIND_TRAJ,
        .magic = LK_MAGIC_TRAJ,
        .run_id = run_id,
        .run_id_size = run_id_size,
    };
    struct lk_segment_header header;
    struct lk_traj_schema *wanted = NULL;
    lk_traj_writer *writer = calloc(1, sizeof *writer);
    int status = writer != NULL ? LK_OK : LK_E_SYSTEM;
    if (status == LK_OK && fields != NULL) {
        wanted = calloc(1, sizeof *wanted);
        status = wanted == NULL ? LK_E_SYSTEM
                                : lk_traj_schema_set(wanted, fields, count, schema_version);
    }
    if (status == LK_OK) {
        status = lk_segment_attach(&writer->segment, &request, &header);
    }
    if (status == LK_OK) {
        writer->header = lk_segment_base(writer->segment);
        status = join(writer, &header, wanted, kept);
        if (status != LK_OK) {
            lk_segment_release(writer->segment);
        }
    }
    free(wanted);
    if (status != LK_OK) {
        free(writer);
        return status;
    }
    writer->absence_ns = absence_ns;
    writer->spin = LK_SPIN_START;
    warm_up(writer);
    lk_guard_init(&writer->guard);
    *out = writer;
    return LK_OK;
}

int lk_traj_attach(lk_traj_writer **out, const char *run_id, size_t run_id_size,
                   const struct lk_traj_field *fields, uint32_t count, uint32_t schema_version,
                   uint64_t absence_ns) {
    return attach(out, run_id, run_id_size, fields, count, schema_version, absence_ns, NULL);
}

int lk_traj_attach_kept(lk_traj_writer **out, const char *run_id, size_t run_id_size, uint32_t ring,
                        uint64_t absence_ns) {
    return attach(out, run_id, run_id_size, NULL, 0, 0, absence_ns, &ring);
}

/* --- waiting for room ------------------------------------------------------------------------- */

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

/* 1 when there is room for `need` bytes at head now, 0 when not. */
static int has_room(lk_traj_writer *writer, uint64_t need) {
    uint64_t tail = lk_traj_ring_tail(writer->ring);
    if (!plausible(writer, tail)) {
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
    uint64_t consumer = atomic_load_explicit(&writer->header->consumer, memory_order_relaxed);
    bool gone = consumer == 0 || (writer->judges && (consumer & LK_TRAJ_FOREIGN) == 0 &&
                                  lk_process_word_liveness(consumer) == LK_DEAD);
    if (!gone) {
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
    record->producer_pid = (uint32_t)((writer->identity & ~LK_TRAJ_FOREIGN) >> 32);
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
    lk_traj_ring_publish(writer->header, writer->ring, writer->head);
    return (int64_t)writer->number;
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
                memcpy(body(writer) + writer->places.field[i], arrays[i].data,
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
        lk_guard_exit(&writer->guard);
    }
    return status;
}

int lk_traj_writer_view(lk_traj_writer *writer, lk_segment **segment) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK) {
        lk_segment_retain(writer->segment);
        *segment = writer->segment;
        lk_guard_exit(&writer->guard);
    }
    return status;
}

int lk_traj_writer_ring(lk_traj_writer *writer, struct lk_traj_ring_status *out) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status != LK_OK) {
        return status;
    }
    lk_traj_ring_describe(writer->ring, writer->geometry.ring_size, out);
    return (int)leave(writer, LK_OK);
}

int lk_traj_writer_place(lk_traj_writer *writer, struct lk_traj_place *out) {
    int status = lk_guard_enter_lightly(&writer->guard);
    if (status == LK_OK) {
        const struct lk_traj_ring *first = lk_traj_ring_at(writer->header, &writer->geometry, 0);
        *out = (struct lk_traj_place){
            .ring = (uint32_t)(writer->ring - first),
            .session = writer->session,
            .position = writer->head,
        };
        lk_guard_exit(&writer->guard);
    }
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

int lk_traj_writer_close(lk_traj_writer *writer) {
    if (lk_guard_close(&writer->guard)) {
        if (!lk_guard_forked(&writer->guard)) {
            lk_traj_ring_leave(writer->ring, writer->identity);
        }
        lk_segment_release(writer->segment);
        writer->segment = NULL;
        writer->header = NULL;
    }
    return LK_OK;
}

void lk_traj_writer_free(lk_traj_writer *writer) {
    if (writer != NULL) {
        lk_traj_writer_close(writer);
        free(writer);
    }
}
