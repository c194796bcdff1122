/*
 * lk_traj_create.c: the consumer's end of the trajectory lane: creating it, taking it over from a
 * dead consumer, ending it.
 *
 * Labels: [S1] [S2] of lk_segment.c.
 *
 * Who writes: the consumer alone, the words consumer, takeovers and asleep, and geometry and schema
 * before the segment is ready.
 * If the consumer dies: the segment stays, with every record that was not released. A successor
 * becomes the owner of the same segment and begins at each ring's tail.
 */
#include "lk_traj_reader.h"

#include <stdlib.h>
#include <string.h>

/* --- creating and taking over ----------------------------------------------------------------- */

static int open_new(lk_traj_reader *reader, const struct lk_segment_request *request) {
    int status = lk_segment_create(&reader->segment, request);
    if (status == LK_OK) {
        reader->header = lk_segment_base(reader->segment);
        reader->header->geometry = reader->geometry;
        memcpy((uint8_t *)reader->header + reader->geometry.schema_offset, reader->schema.fields,
               reader->schema.count * sizeof *reader->schema.fields);
        lk_segment_make_ready(reader->segment);
    }
    return status;
}

/* Become the owner of what a dead consumer left. */
static int open_left(lk_traj_reader *reader, const struct lk_segment_request *request) {
    struct lk_segment_header header;
    struct lk_traj_geometry geometry;
    struct lk_traj_schema *found = calloc(1, sizeof *found);
    if (found == NULL) {
        return LK_E_SYSTEM;
    }
    int status = lk_segment_adopt(&reader->segment, request, &header);
    if (status == LK_OK) {
        status = lk_traj_adopt_geometry(reader->segment, header.total_size, &geometry, found);
        if (status == LK_E_BAD_GEOMETRY || status == LK_E_TRUNCATED) {
            status = LK_E_NOT_FOUND; /* nothing in it can be delivered any more */
        } else if (status == LK_OK && !lk_traj_schema_same(&reader->schema, found)) {
            status = LK_E_SCHEMA;
        }
        if (status == LK_OK) {
            lk_segment_adopt_finish(reader->segment);
            reader->header = lk_segment_base(reader->segment);
            reader->geometry = geometry;
            atomic_fetch_add_explicit(&reader->header->takeovers, 1, memory_order_relaxed);
        } else {
            lk_segment_release(reader->segment);
        }
    }
    free(found);
    return status;
}

/* Begin each ring where it was last released. */
static int settle(lk_traj_reader *reader) {
    reader->rings = calloc(reader->geometry.rings, sizeof *reader->rings);
    if (reader->rings == NULL) {
        return LK_E_SYSTEM;
    }
    for (uint32_t i = 0; i < reader->geometry.rings; i++) {
        struct lk_traj_ring_state *state = &reader->rings[i];
        state->ring = lk_traj_ring_at(reader->header, &reader->geometry, i);
        state->data = lk_traj_data_at(reader->header, &reader->geometry, i);
        /* relaxed: only consumers write these, and the one before us is dead or has left */
        state->tail = atomic_load_explicit(&state->ring->tail, memory_order_relaxed);
        state->released = atomic_load_explicit(&state->ring->released, memory_order_relaxed);
        state->read = state->tail;
        if (state->tail % LK_CACHE_LINE != 0 || state->tail > LK_TRAJ_POSITION_MAX) {
            state->trust = LK_TRAJ_SPOILED_UNTOLD;
        }
        if (atomic_load_explicit(&state->ring->spoiled, memory_order_relaxed) != 0) {
            state->trust = LK_TRAJ_SPOILED_TOLD;
        }
    }
    atomic_store_explicit(&reader->header->asleep, 0, memory_order_relaxed);
    atomic_store_explicit(&reader->header->consumer, lk_process_self().pid, memory_order_relaxed);
    return LK_OK;
}

int lk_traj_create(lk_traj_reader **out, const char *run_id, size_t run_id_size,
                   const struct lk_traj_config *config, const struct lk_traj_field *fields) {
    *out = NULL;
    struct lk_segment_request request = {
        .kind = LK_KIND_TRAJ,
        .magic = LK_MAGIC_TRAJ,
        .run_id = run_id,
        .run_id_size = run_id_size,
    };
    lk_traj_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return LK_E_SYSTEM;
    }
    int status = lk_traj_plan(config, &reader->geometry, &request.total_size);
    if (status == LK_OK) {
        status =
            lk_traj_schema_set(&reader->schema, fields, config->fields, config->schema_version);
    }
    bool taken_over = false;
    if (status == LK_OK) {
        status = open_left(reader, &request);
        taken_over = status == LK_OK;
        if (status == LK_E_NOT_FOUND) {
            status = open_new(reader, &request);
        }
    }
    if (status != LK_OK) {
        free(reader);
        return status;
    }
    reader->id = *lk_segment_identity(reader->segment);
    reader->spin = LK_SPIN_START;
    lk_guard_init(&reader->guard);
    status = settle(reader);
    if (status != LK_OK) {
        lk_segment_leave(reader->segment); /* as it is, for whoever has more memory */
        lk_segment_release(reader->segment);
        free(reader->rings);
        free(reader);
        return status;
    }
    *out = reader;
    return taken_over ? 1 : LK_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void let_go(lk_traj_reader *reader) {
    lk_segment_release(reader->segment);
    for (uint32_t i = 0; i < reader->geometry.rings; i++) {
        free(reader->rings[i].held);
    }
    free(reader->rings);
    reader->rings = NULL;
    reader->segment = NULL;
    reader->header = NULL;
}

int lk_traj_reader_leave(lk_traj_reader *reader) {
    if (lk_guard_close(&reader->guard)) {
        if (!lk_guard_forked(&reader->guard)) {
            atomic_store_explicit(&reader->header->consumer, 0, memory_order_relaxed);
            lk_segment_leave(reader->segment);
        }
        let_go(reader);
    }
    return LK_OK;
}

int lk_traj_reader_close(lk_traj_reader *reader) {
    if (lk_guard_close(&reader->guard)) {
        /* A forked child lets go of its own mapping only: the lane is its parent's. */
        if (!lk_guard_forked(&reader->guard)) {
            lk_segment_disown(reader->segment);
            lk_segment_invalidate(reader->segment);
            for (uint32_t i = 0; i < reader->geometry.rings; i++) {
                lk_futex_wake_all(&reader->rings[i].ring->tail);
            }
            lk_segment_drop_role(reader->segment, LK_ROLE_OWNER); /* views may keep the rest */
        }
        let_go(reader);
    }
    return LK_OK;
}

int lk_traj_reader_unlink(lk_traj_reader *reader) {
    return lk_guard_forked(&reader->guard) ? LK_E_FORKED : lk_segment_unlink(&reader->id);
}

void lk_traj_reader_free(lk_traj_reader *reader) {
    if (reader != NULL) {
        lk_traj_reader_close(reader);
        free(reader);
    }
}
