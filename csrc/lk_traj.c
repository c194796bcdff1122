/* lk_traj.c: trajectory-lane geometry, schema, inspection and padding. The protocol is in
 * lk_traj_ring.h, of producers in lk_traj_attach.c and lk_traj_writer.c, of the consumer in
 * lk_traj_create.c and lk_traj_reader.c. */
#include "lk_traj.h"

#include "lk_lock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define RING_MIN 1024u
#define RING_MAX (UINT64_C(1) << 38)
#define ROW_MAX (UINT64_C(1) << 38)
#define TOTAL_MAX (UINT64_C(1) << 44)

/* --- geometry --------------------------------------------------------------------------------- */

static uint64_t round_up_to_page(uint64_t size) {
    return (size + PAGE - 1) / PAGE * PAGE;
}

int lk_traj_plan(const struct lk_traj_config *config, struct lk_traj_geometry *out,
                 uint64_t *total_size) {
    if (config->rings == 0 || config->rings > LK_TRAJ_RINGS_MAX || config->fields == 0 ||
        config->fields > LK_TRAJ_FIELDS_MAX || config->ring_size < RING_MIN ||
        config->ring_size > RING_MAX || config->ring_size % LK_CACHE_LINE != 0) {
        return LK_E_BAD_GEOMETRY;
    }
    /* Half a ring: a record that does not fit before the end of the ring needs the rest of it as
     * padding besides its own room, and must find both once the ring is empty. */
    uint64_t half = config->ring_size / 2 / LK_CACHE_LINE * LK_CACHE_LINE;
    uint64_t most = half - sizeof(struct lk_traj_record_header);
    if (config->record_max > most) {
        return LK_E_BAD_GEOMETRY;
    }
    memset(out, 0, sizeof *out);
    out->rings = config->rings;
    out->fields = config->fields;
    out->schema_version = config->schema_version;
    out->ring_size = config->ring_size;
    out->record_max = config->record_max != 0 ? config->record_max : most;
    out->schema_offset = LK_HEADER_SIZE;
    out->control_offset = out->schema_offset + config->fields * sizeof(struct lk_traj_field);
    out->data_offset =
        round_up_to_page(out->control_offset + config->rings * sizeof(struct lk_traj_ring));
    /* At most 2^10 rings of 2^38 bytes: no overflow. */
    *total_size = out->data_offset + config->rings * config->ring_size;
    return *total_size <= TOTAL_MAX ? LK_OK : LK_E_BAD_GEOMETRY;
}

struct lk_traj_config lk_traj_config_of(const struct lk_traj_geometry *geometry) {
    return (struct lk_traj_config){
        .rings = geometry->rings,
        .fields = geometry->fields,
        .schema_version = geometry->schema_version,
        .ring_size = geometry->ring_size,
        .record_max = geometry->record_max,
    };
}

int lk_traj_check(const struct lk_traj_geometry *found, uint64_t total_size) {
    struct lk_traj_config config = lk_traj_config_of(found);
    struct lk_traj_geometry planned;
    uint64_t planned_size;
    int status = lk_traj_plan(&config, &planned, &planned_size);
    if (status != LK_OK) {
        return status;
    }
    bool same = found->record_max == planned.record_max &&
                found->schema_offset == planned.schema_offset &&
                found->control_offset == planned.control_offset &&
                found->data_offset == planned.data_offset && planned_size == total_size;
    return same ? LK_OK : LK_E_BAD_GEOMETRY;
}

int64_t lk_traj_segment_size(const struct lk_traj_config *config) {
    struct lk_traj_geometry geometry;
    uint64_t total_size;
    int status = lk_traj_plan(config, &geometry, &total_size);
    return status == LK_OK ? (int64_t)total_size : status;
}

/* --- schema ----------------------------------------------------------------------------------- */

/* Bytes of one row, 0 when the field is none. */
static uint64_t row_size_of(const struct lk_traj_field *field) {
    uint32_t item = field->item_size;
    if (item == 0 || item > 16 || (item & (item - 1)) != 0 || field->dimensions > 5 ||
        field->flags > (LK_TRAJ_RAGGED | LK_TRAJ_OPTIONAL) || field->name[0] == '\0' ||
        field->name[sizeof field->name - 1] != '\0' || field->dtype[0] == '\0' ||
        field->dtype[sizeof field->dtype - 1] != '\0') {
        return 0;
    }
    uint64_t size = item;
    for (uint32_t i = 0; i < field->dimensions; i++) {
        if (field->shape[i] == 0 || field->shape[i] > ROW_MAX / size) {
            return 0;
        }
        size *= field->shape[i];
    }
    return size;
}

int lk_traj_schema_set(struct lk_traj_schema *out, const struct lk_traj_field *fields,
                       uint32_t count, uint32_t version) {
    if (count == 0 || count > LK_TRAJ_FIELDS_MAX) {
        return LK_E_INVALID;
    }
    memset(out, 0, sizeof *out);
    memcpy(out->fields, fields, count * sizeof *fields);
    lk_copied_once(out); /* from a segment, they are another process's */
    out->count = count;
    out->version = version;
    for (uint32_t i = 0; i < count; i++) {
        out->row_size[i] = row_size_of(&out->fields[i]);
        if (out->row_size[i] == 0) {
            return LK_E_INVALID;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out->fields[i].name, out->fields[j].name) == 0) {
                return LK_E_INVALID;
            }
        }
    }
    return LK_OK;
}

bool lk_traj_schema_same(const struct lk_traj_schema *a, const struct lk_traj_schema *b) {
    return a->count == b->count && a->version == b->version &&
           memcmp(a->fields, b->fields, a->count * sizeof *a->fields) == 0;
}

int lk_traj_lay_out(const struct lk_traj_schema *schema, const uint64_t *rows,
                    uint64_t metadata_size, struct lk_traj_places *out) {
    uint64_t at = lk_traj_round_up(schema->count * sizeof(uint64_t));
    for (uint32_t i = 0; i < schema->count; i++) {
        uint32_t flags = schema->fields[i].flags;
        out->field[i] = at;
        if (rows[i] == LK_TRAJ_ABSENT) {
            if ((flags & LK_TRAJ_OPTIONAL) == 0) {
                return LK_E_INVALID;
            }
            continue;
        }
        if ((flags & LK_TRAJ_RAGGED) == 0 && rows[i] != 1) {
            return LK_E_INVALID;
        }
        /* at stays below 2^45: sixty-four fields of at most half a ring each, checked here. */
        if (rows[i] > RING_MAX / schema->row_size[i]) {
            return LK_E_TOO_LARGE;
        }
        at += lk_traj_round_up(rows[i] * schema->row_size[i]);
    }
    if (metadata_size > RING_MAX) {
        return LK_E_TOO_LARGE;
    }
    out->metadata = at;
    out->size = at + lk_traj_round_up(metadata_size);
    return LK_OK;
}

int64_t lk_traj_record_size(const struct lk_traj_field *fields, uint32_t count,
                            const uint64_t *rows, uint64_t metadata_size) {
    struct lk_traj_schema schema;
    struct lk_traj_places places;
    int status = lk_traj_schema_set(&schema, fields, count, 0);
    if (status == LK_OK) {
        status = lk_traj_lay_out(&schema, rows, metadata_size, &places);
    }
    return status == LK_OK ? (int64_t)places.size : status;
}

int lk_traj_adopt_geometry(const lk_segment *segment, uint64_t total_size,
                           struct lk_traj_geometry *geometry, struct lk_traj_schema *schema) {
    const struct lk_traj_header *header = lk_segment_base(segment);
    memcpy(geometry, &header->geometry, sizeof *geometry);
    lk_copied_once(geometry);
    int status = lk_traj_check(geometry, total_size);
    if (status == LK_OK) {
        const void *fields = (const uint8_t *)header + geometry->schema_offset;
        status = lk_traj_schema_set(schema, fields, geometry->fields, geometry->schema_version);
        status = status == LK_OK ? LK_OK : LK_E_BAD_GEOMETRY;
    }
    return status == LK_OK && lk_segment_damaged(segment) ? LK_E_TRUNCATED : status;
}

/* --- inspection ------------------------------------------------------------------------------- */

void lk_traj_ring_describe(const struct lk_traj_ring *ring, uint64_t ring_size,
                           enum lk_liveness producer, struct lk_traj_ring_status *out) {
    uint64_t word = atomic_load_explicit(&ring->producer, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t depth = atomic_load_explicit(&ring->head, memory_order_relaxed) - tail;
    out->producer_pid = (uint32_t)word; /* without LK_TRAJ_KEPT */
    out->producer = (uint32_t)producer;
    out->waiting = atomic_load_explicit(&ring->wake_at, memory_order_relaxed) != 0;
    out->spoiled = atomic_load_explicit(&ring->spoiled, memory_order_relaxed) != 0;
    out->session = atomic_load_explicit(&ring->session, memory_order_relaxed);
    out->records = atomic_load_explicit(&ring->records, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&ring->bytes, memory_order_relaxed);
    out->released = atomic_load_explicit(&ring->released, memory_order_relaxed);
    out->depth_bytes = depth <= ring_size ? depth : 0;
    out->stalls = atomic_load_explicit(&ring->stalls, memory_order_relaxed);
    out->stalled_ns = atomic_load_explicit(&ring->stalled_ns, memory_order_relaxed);
}

/* The fields of a private copy of the segment, if they are fields. */
static int copy_fields(const void *base, const struct lk_traj_geometry *geometry,
                       struct lk_traj_field *out) {
    struct lk_traj_schema *schema = calloc(1, sizeof *schema);
    if (schema == NULL) {
        return LK_E_SYSTEM;
    }
    const void *found = (const uint8_t *)base + geometry->schema_offset;
    int status = lk_traj_schema_set(schema, found, geometry->fields, geometry->schema_version);
    if (status == LK_OK) {
        memcpy(out, schema->fields, schema->count * sizeof *out);
    }
    free(schema);
    return status == LK_OK ? LK_OK : LK_E_BAD_GEOMETRY;
}

/* Fields and rings of the file whose geometry was checked. */
static int inspect_rings(int fd, const struct lk_traj_geometry *geometry,
                         struct lk_traj_field *fields, struct lk_traj_ring_status *rings) {
    /* All that comes before the rings' data; aligned for the words in it. */
    uint64_t size = geometry->data_offset;
    void *copy = aligned_alloc(LK_CACHE_LINE, size);
    if (copy == NULL) {
        return LK_E_SYSTEM;
    }
    int status = pread(fd, copy, size, 0) == (ssize_t)size ? LK_OK : LK_E_TRUNCATED;
    if (status == LK_OK && fields != NULL) {
        status = copy_fields(copy, geometry, fields);
    }
    for (uint32_t i = 0; status == LK_OK && rings != NULL && i < geometry->rings; i++) {
        lk_traj_ring_describe(lk_traj_ring_at(copy, geometry, i), geometry->ring_size,
                              lk_lock_holder(fd, LK_ROLE_PRODUCER + i), &rings[i]);
    }
    free(copy);
    return status;
}

int lk_traj_inspect(const char *name, struct lk_traj_status *out, struct lk_traj_field *fields,
                    struct lk_traj_ring_status *rings) {
    struct lk_traj_header header;
    memset(out, 0, sizeof *out);
    int fd;
    int status = lk_segment_peek(name, &header, sizeof header, &fd);
    if (status == LK_OK && header.segment.magic != LK_MAGIC_TRAJ) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK) {
        status = lk_traj_check(&header.geometry, header.segment.total_size);
    }
    if (status == LK_OK) {
        out->config = lk_traj_config_of(&header.geometry);
        out->consumer_pid = (uint32_t)atomic_load_explicit(&header.consumer, memory_order_relaxed);
        out->consumer = (uint32_t)lk_lock_holder(fd, LK_ROLE_OWNER);
        out->takeovers = atomic_load_explicit(&header.takeovers, memory_order_relaxed);
    }
    if (status == LK_OK && (fields != NULL || rings != NULL)) {
        status = inspect_rings(fd, &header.geometry, fields, rings);
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

/* --- padding ---------------------------------------------------------------------------------- */

static void fill(uint8_t *out, uint64_t size, const uint8_t *item, uint32_t item_size) {
    bool even = true;
    for (uint32_t i = 1; i < item_size; i++) {
        even = even && item[i] == item[0];
    }
    if (even) {
        memset(out, item[0], size);
        return;
    }
    /* One item, then two, then four: each copy doubles what is there. */
    uint64_t done = item_size < size ? item_size : size;
    memcpy(out, item, done);
    while (done < size) {
        uint64_t more = done < size - done ? done : size - done;
        memcpy(out + done, out, more);
        done += more;
    }
}

int lk_traj_pad(const struct lk_traj_array *arrays, uint32_t count, uint32_t step,
                uint64_t row_size, uint64_t length, const void *item, uint32_t item_size,
                void *out) {
    if (row_size == 0 || item_size == 0 || row_size % item_size != 0 ||
        (length != 0 && row_size > UINT64_MAX / length)) {
        return LK_E_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t rows = arrays[(size_t)i * step].rows;
        if (rows != LK_TRAJ_ABSENT && rows > length) {
            return LK_E_SIZE;
        }
    }
    uint8_t *to = out;
    for (uint32_t i = 0; i < count; i++, to += length * row_size) {
        const struct lk_traj_array *array = &arrays[(size_t)i * step];
        uint64_t taken = array->rows == LK_TRAJ_ABSENT ? 0 : array->rows * row_size;
        if (taken > 0) {
            memcpy(to, array->data, taken);
        }
        if (taken < length * row_size) {
            fill(to + taken, length * row_size - taken, item, item_size);
        }
    }
    return LK_OK;
}
