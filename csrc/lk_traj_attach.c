/*
 * lk_traj_attach.c: a producer's place in the trajectory lane: taking a ring, and leaving it.
 *
 * Labels: [J2] of lk_traj_ring.h, [S1] [S2] of lk_segment.c.
 *
 * Who writes: the producer that has a ring's role (LK_ROLE_PRODUCER), and nobody else, what belongs
 * to producers in that ring's control block.
 * If a producer dies: head still names the end of its last finished record. Whoever gets the role
 * goes on behind that head; nobody has to repair or drain anything first, and no consumer has to be
 * there. What the last producer wrote is seen by the next: the role hands it over (lk_lock.h).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_traj_ring.h"
#include "lk_traj_writer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- taking a ring ---------------------------------------------------------------------------- */

/* Begin where the ring's last producer ended. False: what it left can not be. */
static bool move_in(lk_traj_writer *writer, uint32_t index) {
    struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, index);
    /* relaxed, here and below: the role ordered it, and nobody else writes these */
    writer->head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    writer->tail = lk_traj_ring_tail(ring);
    if (writer->head % LK_CACHE_LINE != 0 || writer->head > LK_TRAJ_POSITION_MAX ||
        !lk_traj_writer_plausible(writer, writer->tail)) {
        return false;
    }
    writer->ring = ring;
    writer->data = lk_traj_data_at(writer->header, &writer->geometry, index);
    atomic_store_explicit(&writer->position, writer->head, memory_order_relaxed);
    writer->session = atomic_load_explicit(&ring->session, memory_order_relaxed) + 1;
    writer->records = atomic_load_explicit(&ring->records, memory_order_relaxed);
    writer->bytes = atomic_load_explicit(&ring->bytes, memory_order_relaxed);
    writer->stalls = atomic_load_explicit(&ring->stalls, memory_order_relaxed);
    writer->stalled_ns = atomic_load_explicit(&ring->stalled_ns, memory_order_relaxed);
    atomic_store_explicit(&ring->session, writer->session, memory_order_relaxed);
    atomic_store_explicit(&ring->producer, writer->producer, memory_order_relaxed);
    atomic_store_explicit(&ring->wake_at, 0, memory_order_relaxed);
    return true;
}

static void leave_ring(lk_traj_writer *writer, uint32_t index) {
    struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, index);
    /* relaxed: as in move_in */
    atomic_store_explicit(&ring->producer, 0, memory_order_relaxed);
    lk_segment_drop_role(writer->segment, LK_ROLE_PRODUCER + index);
}

/* Take one ring: LK_E_TAKEN when it is not to be had. kept: it must be one that a kept producer
 * left by dying; otherwise it must not be. */
static int take_ring(lk_traj_writer *writer, uint32_t index, bool kept) {
    struct lk_traj_ring *ring = lk_traj_ring_at(writer->header, &writer->geometry, index);
    int status = lk_segment_take_role(writer->segment, LK_ROLE_PRODUCER + index);
    if (status != LK_OK) {
        return status;
    }
    uint64_t last = atomic_load_explicit(&ring->producer, memory_order_relaxed);
    bool spoiled = atomic_load_explicit(&ring->spoiled, memory_order_relaxed) != 0;
    if (((last & LK_TRAJ_KEPT) != 0) != kept || (spoiled && !kept)) {
        lk_segment_drop_role(writer->segment, LK_ROLE_PRODUCER + index);
        return LK_E_TAKEN;
    }
    if (!move_in(writer, index)) {
        leave_ring(writer, index);
        return LK_E_CORRUPT;
    }
    return LK_OK;
}

static int take_any_ring(lk_traj_writer *writer) {
    for (uint32_t i = 0; i < writer->geometry.rings; i++) {
        int status = take_ring(writer, i, false);
        if (status == LK_OK || status == LK_E_SYSTEM) {
            return status;
        }
    }
    return LK_E_TAKEN;
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

/* --- attaching -------------------------------------------------------------------------------- */

static int join(lk_traj_writer *writer, const struct lk_segment_header *header,
                const struct lk_traj_schema *wanted, const uint32_t *kept) {
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
    writer->producer = lk_process_self().pid | (kept != NULL ? LK_TRAJ_KEPT : 0);
    if (kept == NULL || *kept == LK_TRAJ_ANY_RING) {
        return take_any_ring(writer);
    }
    return *kept < writer->geometry.rings ? take_ring(writer, *kept, true) : LK_E_INVALID;
}

/* kept: NULL for a producer like all others. */
static int attach(lk_traj_writer **out, const char *run_id, size_t run_id_size,
                  const struct lk_traj_field *fields, uint32_t count, uint32_t schema_version,
                  uint64_t absence_ns, const uint32_t *allow_uid, const uint32_t *kept) {
    *out = NULL;
    struct lk_segment_request request = {
        .kind = LK_KIND_TRAJ,
        .magic = LK_MAGIC_TRAJ,
        .run_id = run_id,
        .run_id_size = run_id_size,
        .allow_uid = allow_uid,
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
                   uint64_t absence_ns, const uint32_t *allow_uid) {
    return attach(out, run_id, run_id_size, fields, count, schema_version, absence_ns, allow_uid,
                  NULL);
}

int lk_traj_attach_kept(lk_traj_writer **out, const char *run_id, size_t run_id_size, uint32_t ring,
                        uint64_t absence_ns, const uint32_t *allow_uid) {
    return attach(out, run_id, run_id_size, NULL, 0, 0, absence_ns, allow_uid, &ring);
}

/* --- the end ---------------------------------------------------------------------------------- */

int lk_traj_writer_close(lk_traj_writer *writer) {
    if (lk_guard_close(&writer->guard)) {
        if (!lk_guard_forked(&writer->guard)) {
            leave_ring(writer, lk_traj_writer_ring_index(writer));
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
