/*
 * lk_traj_attach.c: a producer's place in the trajectory lane: taking a ring, and leaving it.
 *
 * Labels: [J2] [J5] of lk_traj_ring.h, [S1] [S2] of lk_segment.c.
 *
 * Who writes: the producer that has claimed a ring's identity, and nobody else, what belongs to
 * producers in that ring's control block.
 * If a producer dies: head still names the end of its last finished record. Whoever finds the
 * process dead may take the ring and go on behind that head; nobody has to repair or drain anything
 * first, and no consumer has to be there.
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
    /* relaxed, here and below: lk_traj_ring_claim ordered it; we are the only one that writes these
     */
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

/* --- attaching -------------------------------------------------------------------------------- */

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
