/*
 * lk_ring.c: a byte ring between two processes.
 *
 * Labels
 *   [R1] write_pos: release store by the writer / acquire load by the reader
 *   [R2] read_pos: release store by the reader / acquire load by the writer
 *   and [W1] [W2] of lk_wait.h for whoever sleeps.
 *
 * Who writes: the writer, write_pos and the bytes between write_pos and read_pos + ring_bytes; the
 * reader, read_pos alone. So the two never touch the same bytes, and copies are plain.
 * If the writer dies: what it had not announced with write_pos does not exist, and its successor
 * writes over it. If the reader dies: what it had not passed with read_pos is there for its
 * successor. Nothing else is ever half done. A sleeper whose waker died between moving its
 * position and the wake finds out when its slice of waiting ends.
 * Lossy: nothing. A full ring makes the writer wait.
 */
#include "lk_ring.h"

#include <stdbool.h>
#include <string.h>

/* Positions are multiples of this, so that a length never goes around the ring's end. */
#define ENTRY_ALIGNMENT 8u

/* At 10 GB/s a ring gets there in 14 years; above it, sums of positions could wrap. */
#define POSITION_MAX (UINT64_C(1) << 62)

int lk_ring_check_size(uint64_t ring_bytes) {
    bool possible = ring_bytes >= LK_RING_BYTES_MIN && ring_bytes <= LK_RING_BYTES_MAX &&
                    ring_bytes % LK_CACHE_LINE == 0;
    return possible ? LK_OK : LK_E_BAD_GEOMETRY;
}

/* Bytes that an entry takes in the ring. */
static uint64_t entry_size(uint64_t payload_size) {
    uint64_t bare = sizeof(uint32_t) + payload_size;
    return (bare + ENTRY_ALIGNMENT - 1) & ~(uint64_t)(ENTRY_ALIGNMENT - 1);
}

/* Whether a reader at read_pos and a writer at write_pos can belong to one ring. */
static bool consistent(uint64_t write_pos, uint64_t read_pos, uint64_t ring_bytes) {
    return write_pos <= POSITION_MAX && write_pos % ENTRY_ALIGNMENT == 0 &&
           read_pos % ENTRY_ALIGNMENT == 0 && read_pos <= write_pos &&
           write_pos - read_pos <= ring_bytes;
}

static void open_end(struct lk_ring_end *end, void *region, uint64_t ring_bytes) {
    end->header = region;
    end->data = (uint8_t *)region + sizeof(struct lk_ring_header);
    end->ring_bytes = ring_bytes;
    end->spin = LK_SPIN_START;
}

/* --- copies around the ring's end ------------------------------------------------------------- */

static void copy_in(struct lk_ring_end *writer, uint64_t position, const void *from, size_t size) {
    size_t at = (size_t)(position % writer->ring_bytes);
    size_t until_end = (size_t)writer->ring_bytes - at;
    size_t first = size < until_end ? size : until_end;
    if (first != 0) {
        memcpy(writer->data + at, from, first);
    }
    if (size != first) {
        memcpy(writer->data, (const uint8_t *)from + first, size - first);
    }
}

static void copy_out(const struct lk_ring_end *reader, uint64_t position, void *to, size_t size) {
    size_t at = (size_t)(position % reader->ring_bytes);
    size_t until_end = (size_t)reader->ring_bytes - at;
    size_t first = size < until_end ? size : until_end;
    if (first != 0) {
        memcpy(to, reader->data + at, first);
    }
    if (size != first) {
        memcpy((uint8_t *)to + first, reader->data, size - first);
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

void lk_ring_wait_for_space(struct lk_ring_end *writer, uint64_t deadline_ns,
                            enum lk_wait_strategy strategy) {
    lk_wait_beyond(&writer->header->read_pos, &writer->header->space_wake_at, writer->others,
                   deadline_ns, &writer->spin, strategy);
}

void lk_ring_wait_for_entry(struct lk_ring_end *reader, uint64_t deadline_ns,
                            enum lk_wait_strategy strategy) {
    lk_wait_beyond(&reader->header->write_pos, &reader->header->entry_wake_at, reader->others,
                   deadline_ns, &reader->spin, strategy);
}

void lk_ring_wake_peers(const struct lk_ring_end *end) {
    lk_futex_wake_all(&end->header->write_pos);
    lk_futex_wake_all(&end->header->read_pos);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Look where the reader is. */
static bool find_reader(struct lk_ring_end *writer) {
    /* [R2] acquire: pairs with the release in lk_ring_read; the reader has done copying what we
     * may overwrite now. */
    writer->others = atomic_load_explicit(&writer->header->read_pos, memory_order_acquire);
    return consistent(writer->position, writer->others, writer->ring_bytes);
}

int lk_ring_open_writer(struct lk_ring_end *writer, void *region, uint64_t ring_bytes) {
    open_end(writer, region, ring_bytes);
    /* relaxed: whoever wrote here before us has gone, and the caller knows it */
    writer->position = atomic_load_explicit(&writer->header->write_pos, memory_order_relaxed);
    return find_reader(writer) ? LK_OK : LK_E_CORRUPT;
}

int lk_ring_write(struct lk_ring_end *writer, const void *payload, size_t size) {
    if (size > lk_ring_limit(writer->ring_bytes)) {
        return LK_E_TOO_LARGE;
    }
    if (!find_reader(writer)) {
        return LK_E_CORRUPT;
    }
    uint64_t before = writer->position;
    uint64_t needed = entry_size(size);
    if (needed > writer->ring_bytes - (before - writer->others)) {
        return 0;
    }
    static const uint8_t zeros[ENTRY_ALIGNMENT] = {0};
    uint32_t length = (uint32_t)size;
    uint64_t end = before + sizeof length + size;
    copy_in(writer, before, &length, sizeof length);
    copy_in(writer, before + sizeof length, payload, size);
    copy_in(writer, end, zeros, (size_t)(before + needed - end));
    writer->position = before + needed;
    /* [R1] release: pairs with the acquire in find_writer; the entry is complete for whoever sees
     * that it exists. */
    atomic_store_explicit(&writer->header->write_pos, writer->position, memory_order_release);
    lk_wake_beyond(&writer->header->write_pos, &writer->header->entry_wake_at, before);
    return 1;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Look where the writer is. */
static bool find_writer(struct lk_ring_end *reader) {
    /* [R1] acquire: pairs with the release in lk_ring_write; the entries before it are complete. */
    reader->others = atomic_load_explicit(&reader->header->write_pos, memory_order_acquire);
    return consistent(reader->others, reader->position, reader->ring_bytes);
}

int lk_ring_open_reader(struct lk_ring_end *reader, void *region, uint64_t ring_bytes) {
    open_end(reader, region, ring_bytes);
    /* relaxed: whoever read here before us has gone, and the caller knows it */
    reader->position = atomic_load_explicit(&reader->header->read_pos, memory_order_relaxed);
    return find_writer(reader) ? LK_OK : LK_E_CORRUPT;
}

int lk_ring_peek(struct lk_ring_end *reader, size_t *size) {
    *size = 0;
    if (!find_writer(reader)) {
        return LK_E_CORRUPT;
    }
    uint64_t written = reader->others - reader->position;
    if (written == 0) {
        return 0;
    }
    /* Copied once, judged as copied: a writer that changes it afterwards changes nothing here. */
    uint32_t length;
    copy_out(reader, reader->position, &length, sizeof length);
    lk_copied_once(&length);
    if (entry_size(length) > written) {
        return LK_E_CORRUPT;
    }
    *size = length;
    return 1;
}

int lk_ring_read(struct lk_ring_end *reader, void *payload, size_t room, size_t *size) {
    int status = lk_ring_peek(reader, size);
    if (status != 1) {
        return status;
    }
    if (*size > room) {
        return LK_E_SIZE;
    }
    uint64_t before = reader->position;
    copy_out(reader, before + sizeof(uint32_t), payload, *size);
    reader->position = before + entry_size(*size);
    /* [R2] release: pairs with the acquire in find_reader; the writer overwrites the entry only
     * after we have copied it. */
    atomic_store_explicit(&reader->header->read_pos, reader->position, memory_order_release);
    lk_wake_beyond(&reader->header->read_pos, &reader->header->space_wake_at, before);
    return 1;
}
