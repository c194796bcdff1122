/*
 * lk_traj_reader.c: how the one consumer of the trajectory lane takes records and releases them.
 *
 * Labels: [J1] to [J4] of lk_traj_ring.h, [S2] of lk_segment.c.
 *
 * Who writes: the consumer alone, the second line of each ring's control block, the word asleep,
 * and the release mark in the headers of records that it holds.
 * If the consumer dies: the release is what counts as delivered. A record is delivered again to the
 * successor (lk_traj_create.c) if, and only if, it was not released. Releases out of order leave a
 * mark in the record, which the successor honours.
 * If a producer dies: see lk_traj_writer.c; here nothing happens.
 * Trust: head, sizes and rows come from producers. Each is copied once, checked against private
 * state, and a ring that fails is left out while the others go on.
 */
#include "lk_traj_reader.h"

#include "lk_traj_ring.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t wait_slice_ns = 50000000;

static int enter(lk_traj_reader *reader) {
    int status = lk_guard_enter(&reader->guard);
    if (status == LK_OK && lk_segment_invalidated(reader->segment)) {
        lk_guard_exit(&reader->guard);
        return LK_E_INVALIDATED; /* another process took us for dead */
    }
    return status;
}

static int leave(lk_traj_reader *reader, int result) {
    if (lk_segment_damaged(reader->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&reader->guard);
    return result;
}

static void beat(lk_traj_reader *reader, uint64_t now) {
    if (now - reader->heartbeat_ns >= LK_HEARTBEAT_NS) {
        reader->heartbeat_ns = now;
        atomic_store_explicit(&reader->header->segment.heartbeat_ns, now, memory_order_relaxed);
    }
}

/* --- finding records -------------------------------------------------------------------------- */

static const struct lk_traj_record_header *header_at(const lk_traj_reader *reader,
                                                     const struct lk_traj_ring_state *state,
                                                     uint64_t position) {
    return (const struct lk_traj_record_header *)(const void *)(state->data +
                                                                position %
                                                                    reader->geometry.ring_size);
}

/* What is known of a record, all of it in private memory. */
struct finding {
    uint64_t start;
    struct lk_traj_record_header header;
    uint64_t rows[LK_TRAJ_FIELDS_MAX];
    struct lk_traj_places places;
};

static void copy_header(const lk_traj_reader *reader, const struct lk_traj_ring_state *state,
                        struct finding *out) {
    memcpy(&out->header, header_at(reader, state, out->start), sizeof out->header);
    lk_copied_once(&out->header);
}

/* Whether a record's number follows the last one's: one more, or the first of a later producer. */
static bool follows(const struct lk_traj_ring_state *state,
                    const struct lk_traj_record_header *header) {
    if (state->session == 0) {
        return header->session > 0 && header->number > 0;
    }
    return header->session == state->session
               ? header->number == state->number + 1
               : header->session > state->session && header->number == 1;
}

static bool sound(const lk_traj_reader *reader, const struct lk_traj_ring_state *state,
                  const struct finding *found, uint64_t head) {
    const struct lk_traj_record_header *header = &found->header;
    uint64_t room = reader->geometry.ring_size - found->start % reader->geometry.ring_size;
    uint64_t size = header->size;
    return header->kind == LK_TRAJ_RECORD && header->position == found->start &&
           size % LK_CACHE_LINE == 0 && size <= reader->geometry.record_max &&
           size >= lk_traj_round_up(reader->schema.count * sizeof(uint64_t)) &&
           sizeof *header + size <= room && sizeof *header + size <= head - found->start &&
           follows(state, header);
}

/* The next record of a ring: 1, 0 for none, LK_E_CORRUPT. */
static int locate(const lk_traj_reader *reader, const struct lk_traj_ring_state *state,
                  struct finding *out) {
    uint64_t head = lk_traj_ring_head(state->ring);
    if (head == state->read) {
        return 0;
    }
    if (head < state->read || head - state->tail > reader->geometry.ring_size ||
        head % LK_CACHE_LINE != 0) {
        return LK_E_CORRUPT;
    }
    out->start = state->read;
    out->places.size = UINT64_MAX; /* until it is known */
    copy_header(reader, state, out);
    if (out->header.kind == LK_TRAJ_PADDING) {
        uint64_t rest = reader->geometry.ring_size - out->start % reader->geometry.ring_size;
        if (out->header.position != out->start || rest >= head - out->start) {
            return LK_E_CORRUPT;
        }
        out->start += rest;
        copy_header(reader, state, out);
    }
    if (!sound(reader, state, out, head)) {
        return LK_E_CORRUPT;
    }
    memcpy(out->rows, header_at(reader, state, out->start) + 1,
           reader->schema.count * sizeof *out->rows);
    lk_copied_once(out->rows);
    int status =
        lk_traj_lay_out(&reader->schema, out->rows, out->header.metadata_size, &out->places);
    return status == LK_OK && out->places.size <= out->header.size ? 1 : LK_E_CORRUPT;
}

/* --- records in the caller's hands ------------------------------------------------------------ */

static struct lk_traj_held *held_at(const struct lk_traj_ring_state *state, uint64_t ticket) {
    return &state->held[ticket & (state->capacity - 1)];
}

static int hold(struct lk_traj_ring_state *state, uint64_t start, uint64_t end, bool released) {
    if (state->next - state->first == state->capacity) {
        uint64_t capacity = state->capacity > 0 ? 2 * state->capacity : 16;
        struct lk_traj_held *larger = calloc(capacity, sizeof *larger);
        if (larger == NULL) {
            return LK_E_SYSTEM;
        }
        for (uint64_t ticket = state->first; ticket < state->next; ticket++) {
            larger[ticket & (capacity - 1)] = *held_at(state, ticket);
        }
        free(state->held);
        state->held = larger;
        state->capacity = capacity;
    }
    *held_at(state, state->next) = (struct lk_traj_held){start, end, released};
    state->next++;
    return LK_OK;
}

/* Give back the room of the oldest records, as far as they are released. */
static void advance(struct lk_traj_ring_state *state) {
    uint64_t tail = state->tail;
    while (state->first < state->next && held_at(state, state->first)->released) {
        tail = held_at(state, state->first)->end;
        state->first++;
    }
    if (tail != state->tail) {
        state->tail = tail;
        lk_traj_ring_free(state->ring, tail);
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

static bool ready(const void *context) {
    const lk_traj_reader *reader = context;
    for (uint32_t i = 0; i < reader->geometry.rings; i++) {
        const struct lk_traj_ring_state *state = &reader->rings[i];
        if (state->trust == LK_TRAJ_SPOILED_UNTOLD ||
            (state->trust == LK_TRAJ_TRUSTED && lk_traj_ring_head(state->ring) != state->read)) {
            return true;
        }
    }
    return false;
}

static bool spin_for_record(lk_traj_reader *reader, uint64_t begun, uint64_t deadline) {
    struct lk_spinning spinning = lk_spin_begin(&reader->spin, begun, deadline);
    bool found, on;
    do {
        found = ready(reader);
        for (int i = 0; i < 15 && !found; i++) {
            lk_cpu_relax();
            found = ready(reader);
        }
        on = lk_spin_on(&spinning);
    } while (!found && on);
    lk_spin_end(&reader->spin, &spinning, found);
    return found;
}

int lk_traj_wait(lk_traj_reader *reader, uint64_t timeout_ns) {
    int status = enter(reader);
    if (status != LK_OK) {
        return status;
    }
    bool found = ready(reader);
    if (!found && timeout_ns > 0) {
        uint64_t now = lk_clock_ns();
        uint64_t begun = now;
        uint64_t deadline = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
        found = spin_for_record(reader, begun, deadline);
        bool slept = !found;
        for (now = lk_clock_ns(); !found && now < deadline; now = lk_clock_ns()) {
            beat(reader, now);
            uint64_t slice_end = deadline - now < wait_slice_ns ? deadline : now + wait_slice_ns;
            lk_traj_ring_sleep_for_record(reader->header, ready, reader, slice_end);
            found = ready(reader);
            if (lk_segment_invalidated(reader->segment) || lk_segment_damaged(reader->segment)) {
                break;
            }
        }
        if (slept) {
            lk_spin_slept(&reader->spin, begun);
        }
    }
    return leave(reader, found);
}

/* --- taking and releasing --------------------------------------------------------------------- */

static void pass_on(const lk_traj_reader *reader, const struct lk_traj_ring_state *state,
                    const struct finding *found, struct lk_traj_record *record,
                    struct lk_traj_array *arrays) {
    const uint8_t *body = (const uint8_t *)(header_at(reader, state, found->start) + 1);
    for (uint32_t i = 0; i < reader->schema.count; i++) {
        bool absent = found->rows[i] == LK_TRAJ_ABSENT;
        arrays[i].data = absent ? NULL : body + found->places.field[i];
        arrays[i].rows = found->rows[i];
    }
    *record = (struct lk_traj_record){
        .metadata = body + found->places.metadata,
        .metadata_size = found->header.metadata_size,
        .ticket = state->next - 1,
        .ring = (uint32_t)(state - reader->rings),
        .producer_pid = found->header.producer_pid,
        .session = found->header.session,
        .number = found->header.number,
        .timestamp_ns = found->header.timestamp_ns,
        .size = found->header.size,
    };
}

/* Take one ring's next record: 1, 0 for none. */
static int take_one(lk_traj_reader *reader, struct lk_traj_ring_state *state,
                    struct lk_traj_record *record, struct lk_traj_array *arrays) {
    struct finding found;
    for (;;) {
        int status = locate(reader, state, &found);
        if (status != 1) {
            return status;
        }
        /* A mark on a record that was not delivered yet is a dead predecessor's. */
        bool released = atomic_load_explicit(&found.header.released, memory_order_relaxed) != 0;
        uint64_t end = found.start + sizeof found.header + found.header.size;
        status = hold(state, found.start, end, released);
        if (status != LK_OK) {
            return status;
        }
        state->read = end;
        state->session = found.header.session;
        state->number = found.header.number;
        if (!released) {
            pass_on(reader, state, &found, record, arrays);
            return 1;
        }
        advance(state);
    }
}

int lk_traj_take(lk_traj_reader *reader, uint32_t most, struct lk_traj_record *records,
                 struct lk_traj_array *arrays, uint32_t *spoiled) {
    int status = enter(reader);
    if (status != LK_OK) {
        return status;
    }
    uint32_t taken = 0;
    uint32_t idle = 0; /* rings in a row that had nothing */
    while (taken < most && idle < reader->geometry.rings) {
        struct lk_traj_ring_state *state = &reader->rings[reader->turn];
        if (state->trust == LK_TRAJ_TRUSTED) {
            status = take_one(reader, state, &records[taken],
                              &arrays[(size_t)taken * reader->schema.count]);
            if (status == LK_E_CORRUPT) {
                state->trust = LK_TRAJ_SPOILED_UNTOLD;
            }
            if (status == LK_E_SYSTEM) {
                break;
            }
        }
        if (state->trust == LK_TRAJ_SPOILED_UNTOLD && taken == 0) {
            state->trust = LK_TRAJ_SPOILED_TOLD;
            atomic_store_explicit(&state->ring->spoiled, 1, memory_order_relaxed);
            *spoiled = reader->turn;
            return leave(reader, LK_E_CORRUPT);
        }
        bool got = state->trust == LK_TRAJ_TRUSTED && status == 1;
        taken += got;
        idle = got ? 0 : idle + 1;
        reader->turn = reader->turn + 1 < reader->geometry.rings ? reader->turn + 1 : 0;
    }
    beat(reader, lk_clock_ns());
    return leave(reader, taken == 0 && status == LK_E_SYSTEM ? LK_E_SYSTEM : (int)taken);
}

static int release(lk_traj_reader *reader, struct lk_traj_ring_state *state, uint64_t ticket) {
    if (ticket < state->first || ticket >= state->next) {
        return LK_E_INVALID;
    }
    struct lk_traj_held *held = held_at(state, ticket);
    if (held->released) {
        return LK_E_INVALID;
    }
    held->released = true;
    state->released++;
    atomic_store_explicit(&state->ring->released, state->released, memory_order_relaxed);
    if (ticket > state->first) {
        uint8_t *record = state->data + held->start % reader->geometry.ring_size;
        /* relaxed: it is for a successor, which comes after our death. The room is not free yet. */
        atomic_store_explicit(&((struct lk_traj_record_header *)(void *)record)->released, 1,
                              memory_order_relaxed);
    } else {
        advance(state);
    }
    return LK_OK;
}

int lk_traj_release(lk_traj_reader *reader, uint32_t ring, uint64_t ticket) {
    int status = enter(reader);
    if (status != LK_OK) {
        return status;
    }
    bool known = ring < reader->geometry.rings;
    return leave(reader, known ? release(reader, &reader->rings[ring], ticket) : LK_E_INVALID);
}

int lk_traj_exhausted(lk_traj_reader *reader) {
    int status = enter(reader);
    if (status != LK_OK) {
        return status;
    }
    bool waits = false;
    for (uint32_t i = 0; i < reader->geometry.rings; i++) {
        const struct lk_traj_ring_state *state = &reader->rings[i];
        bool held = state->first < state->next;
        waits = waits ||
                (held && atomic_load_explicit(&state->ring->wake_at, memory_order_relaxed) != 0 &&
                 lk_segment_role_holder(reader->segment, LK_ROLE_PRODUCER + i) != LK_DEAD);
    }
    return leave(reader, waits && !ready(reader));
}

/* --- asking ----------------------------------------------------------------------------------- */

int lk_traj_reader_config(lk_traj_reader *reader, struct lk_traj_config *out) {
    int status = lk_guard_enter_lightly(&reader->guard);
    if (status == LK_OK) {
        *out = lk_traj_config_of(&reader->geometry);
        lk_guard_exit_lightly(&reader->guard);
    }
    return status;
}

int lk_traj_reader_view(lk_traj_reader *reader, lk_segment **segment) {
    int status = lk_guard_enter_lightly(&reader->guard);
    if (status == LK_OK) {
        lk_segment_retain(reader->segment);
        *segment = reader->segment;
        lk_guard_exit_lightly(&reader->guard);
    }
    return status;
}

int lk_traj_reader_rings(lk_traj_reader *reader, struct lk_traj_ring_status *rings) {
    int status = enter(reader);
    if (status != LK_OK) {
        return status;
    }
    for (uint32_t i = 0; i < reader->geometry.rings; i++) {
        lk_traj_ring_describe(reader->rings[i].ring, reader->geometry.ring_size,
                              lk_segment_role_holder(reader->segment, LK_ROLE_PRODUCER + i),
                              &rings[i]);
    }
    return leave(reader, LK_OK);
}
