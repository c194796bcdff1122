/*
 * The trajectory lane at its edges: limits of geometry and schema, waits without an end, many
 * records held at once, a spoiled ring beside a good one, what is counted, and closed handles.
 */
#include "lk_layout.h"
#include "lk_segment.h"
#include "traj_check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static struct lk_traj_record records[64];
static struct lk_traj_array arrays[64 * FIELDS];
static uint32_t spoiled;

/* --- limits ----------------------------------------------------------------------------------- */

static struct lk_traj_config good(void) {
    return (struct lk_traj_config){.rings = 3, .fields = 2, .ring_size = 4096};
}

static void the_lane_is_as_large_as_its_parts(void) {
    struct lk_traj_config config = good();
    /* A page of header, 128 bytes for a field, 256 for a ring, rings on pages of their own. */
    CHECK_STATUS(4096 + 4096 + 3 * 4096, lk_traj_segment_size(&config));
    config.rings = 15;
    CHECK_STATUS(4096 + 4096 + 15 * 4096, lk_traj_segment_size(&config));
    config.rings = 16; /* with the fields just beyond a page */
    CHECK_STATUS(4096 + 2 * 4096 + 16 * 4096, lk_traj_segment_size(&config));
}

static void impossible_lanes_are_refused(void) {
    struct lk_traj_config config;
    const uint64_t half = 2048 - sizeof(struct lk_traj_record_header);
#define REFUSED(change)                                                 \
    do {                                                                \
        config = good();                                                \
        config.change;                                                  \
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_traj_segment_size(&config)); \
    } while (0)
#define ACCEPTED(change)                          \
    do {                                          \
        config = good();                          \
        config.change;                            \
        CHECK(lk_traj_segment_size(&config) > 0); \
    } while (0)
    REFUSED(rings = 0);
    ACCEPTED(rings = 1);
    REFUSED(rings = LK_TRAJ_RINGS_MAX + 1);
    ACCEPTED(rings = LK_TRAJ_RINGS_MAX);
    REFUSED(fields = 0);
    ACCEPTED(fields = 1);
    REFUSED(fields = LK_TRAJ_FIELDS_MAX + 1);
    ACCEPTED(fields = LK_TRAJ_FIELDS_MAX);
    REFUSED(ring_size = 1024 - 64);
    ACCEPTED(ring_size = 1024);
    REFUSED(ring_size = 4096 + 32);
    REFUSED(ring_size = (UINT64_C(1) << 38) + 64);
    ACCEPTED(ring_size = UINT64_C(1) << 38);
    REFUSED(record_max = half + 1);
    ACCEPTED(record_max = half);
    config = good();
    config.rings = 64; /* 64 rings of 2^38 are 2^44, and the header comes on top */
    config.ring_size = UINT64_C(1) << 38;
    CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_traj_segment_size(&config));
}

static void impossible_fields_are_refused(void) {
    struct lk_traj_field fields[FIELDS];
    const uint64_t rows[FIELDS] = {1, 1, 1};
    small_schema(fields);
    CHECK(lk_traj_record_size(fields, FIELDS, rows, 0) > 0);
#define BAD(change)                                                               \
    do {                                                                          \
        small_schema(fields);                                                     \
        fields[2].change;                                                         \
        CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, FIELDS, rows, 0)); \
    } while (0)
    BAD(name[0] = '\0');
    BAD(dtype[0] = '\0');
    BAD(item_size = 0);
    BAD(item_size = 3);
    BAD(item_size = 32);
    BAD(dimensions = 6);
    BAD(flags = (LK_TRAJ_RAGGED | LK_TRAJ_OPTIONAL) + 1);
    BAD(shape[0] = 0);
    BAD(shape[0] = UINT64_C(1) << 37); /* times 4 bytes */
    small_schema(fields);
    memset(fields[2].name, 'x', sizeof fields[2].name);
    CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, FIELDS, rows, 0));
    small_schema(fields);
    memset(fields[2].dtype, 'x', sizeof fields[2].dtype);
    CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, FIELDS, rows, 0));
    small_schema(fields);
    memcpy(fields[2].name, fields[0].name, sizeof fields[0].name);
    CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, FIELDS, rows, 0));
    small_schema(fields);
    CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, 0, rows, 0));
    CHECK_STATUS(LK_E_INVALID, lk_traj_record_size(fields, LK_TRAJ_FIELDS_MAX + 1, rows, 0));
}

static void a_record_is_as_large_as_its_parts(void) {
    struct lk_traj_field fields[FIELDS];
    small_schema(fields);
    const uint64_t absent = UINT64_MAX;
    struct {
        uint64_t rows[FIELDS];
        uint64_t metadata;
        int64_t size;
    } const cases[] = {
        {{0, 1, absent}, 0, 64 + 64},
        {{16, 1, absent}, 0, 64 + 64 + 64},
        {{17, 1, absent}, 1, 64 + 128 + 64 + 64},
        {{0, 1, 6}, 64, 64 + 64 + 128 + 64},
        {{0, 2, 0}, 0, LK_E_INVALID},      /* score has one row */
        {{0, absent, 0}, 0, LK_E_INVALID}, /* and is not optional */
        {{UINT64_C(1) << 37, 1, 0}, 0, LK_E_TOO_LARGE},
        {{0, 1, 0}, (UINT64_C(1) << 38) + 1, LK_E_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STATUS(cases[i].size,
                     lk_traj_record_size(fields, FIELDS, cases[i].rows, cases[i].metadata));
    }
}

static void padding_looks_at_every_byte_of_an_item(void) {
    const struct lk_traj_array one = {NULL, UINT64_MAX};
    for (int odd = 0; odd < 4; odd++) {
        uint8_t item[4] = {5, 5, 5, 5};
        uint8_t out[12];
        item[odd] = 6;
        CHECK_STATUS(LK_OK, lk_traj_pad(&one, 1, 1, 4, 3, item, 4, out));
        for (int i = 0; i < 12; i++) {
            CHECK(out[i] == item[i % 4]);
        }
    }
}

/* --- waiting without an end ------------------------------------------------------------------- */

static void *put_later(void *producer) {
    pause_ms(120); /* longer than a slice */
    CHECK(put_numbered(producer, 1, 1, 5, 0) > 0);
    return NULL;
}

static void a_consumer_may_wait_for_ever(void) {
    char run[64];
    pthread_t thread;
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    CHECK(pthread_create(&thread, NULL, put_later, writer) == 0);
    CHECK_STATUS(1, lk_traj_wait(reader, UINT64_MAX));
    pthread_join(thread, NULL);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void *truncate_later(void *run) {
    char path[200] = "/";
    pause_ms(120);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_TRAJ, run, strlen(run), path + 1, 160));
    int fd = shm_open(path, O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    close(fd);
    return NULL;
}

static void a_wait_ends_when_the_lane_is_cut_off(void) {
    char run[64];
    pthread_t thread;
    lk_process_protect();
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    CHECK(pthread_create(&thread, NULL, truncate_later, run) == 0);
    CHECK_STATUS(LK_E_TRUNCATED, lk_traj_wait(reader, UINT64_MAX));
    pthread_join(thread, NULL);
    end_lane(reader);
}

static void *release_later(void *reader) {
    pause_ms(120);
    CHECK_STATUS(1, lk_traj_take(reader, 1, records, arrays, &spoiled));
    CHECK_STATUS(LK_OK, lk_traj_release(reader, records[0].ring, records[0].ticket));
    return NULL;
}

static void a_producer_may_wait_for_ever(void) {
    char run[64];
    pthread_t thread;
    struct lk_traj_ring_status ring;
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    while (put_numbered(writer, 1, 1, 100, 0) > 0) {
    }
    CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
    CHECK(ring.stalls == 1);
    uint64_t stalled_ns = ring.stalled_ns;
    CHECK(pthread_create(&thread, NULL, release_later, reader) == 0);
    CHECK(put_numbered(writer, 1, 1, 100, UINT64_MAX) > 0);
    pthread_join(thread, NULL);
    CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
    CHECK(ring.stalled_ns >= stalled_ns + 50000000 && !ring.waiting);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

/* --- many records ----------------------------------------------------------------------------- */

static void many_records_may_be_held_at_once(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 65536);
    lk_traj_writer *writer = open_producer(run);
    for (uint32_t n = 1; n <= 60; n++) {
        CHECK_STATUS(n, put_numbered(writer, 1, n, n, 0));
    }
    CHECK_STATUS(60, lk_traj_take(reader, 64, records, arrays, &spoiled));
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t n;
        CHECK(check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n) == 1 && n == i + 1);
        CHECK(records[i].producer_pid == (uint32_t)getpid() && records[i].session == 1);
    }
    for (uint32_t i = 60; i-- > 0;) {
        CHECK_STATUS(LK_OK, lk_traj_release(reader, records[i].ring, records[i].ticket));
        CHECK_STATUS(LK_E_INVALID, lk_traj_release(reader, records[i].ring, records[i].ticket));
    }
    CHECK_STATUS(LK_E_INVALID, lk_traj_release(reader, 0, 60));
    CHECK_STATUS(LK_E_INVALID, lk_traj_release(reader, 1, 0));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void large_fields_arrive_whole(void) {
    static struct numbered record;
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 1 << 20);
    lk_traj_writer *writer = open_producer(run);
    uint32_t n;
    for (uint32_t tokens = 1020; tokens <= TOKENS_MAX;
         tokens = tokens < 1028 ? tokens + 1 : 2 * tokens) {
        make_numbered(&record, 2, 3, tokens);
        CHECK(put_numbered(writer, 2, 3, tokens, 0) > 0);
        CHECK_STATUS(1, lk_traj_take(reader, 1, records, arrays, &spoiled));
        CHECK(check_numbered(&records[0], arrays, &n) == 2 && n == 3);
        CHECK(arrays[0].rows == tokens);
        CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, records[0].ticket));
    }
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void a_reservation_hands_out_no_more_than_its_fields(void) {
    char run[64];
    const uint64_t rows[FIELDS] = {3, 1, UINT64_MAX};
    void *data[FIELDS + 1] = {run, run, run, run};
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    CHECK_STATUS(1, lk_traj_reserve(writer, rows, 8, 0, data));
    CHECK(data[0] != NULL && data[1] != NULL && data[2] == NULL && data[3] == run);
    CHECK_STATUS(LK_E_RESERVED, lk_traj_reserve(writer, rows, 8, 0, data));
    CHECK_STATUS(LK_E_RESERVED, put_numbered(writer, 1, 1, 1, 0));
    CHECK_STATUS(LK_E_METADATA_SIZE, lk_traj_commit(writer, "123456789", 9));
    memset(data[0], 0, 12);
    memset(data[1], 0, 8);
    CHECK_STATUS(1, lk_traj_commit(writer, "12345678", 8));
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_traj_commit(writer, NULL, 0));
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_traj_abandon(writer));
    CHECK_STATUS(1, lk_traj_take(reader, 1, records, arrays, &spoiled));
    CHECK(arrays[0].rows == 3 && records[0].metadata_size == 8);
    CHECK(memcmp(records[0].metadata, "12345678", 8) == 0);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

/* --- rings beside each other ------------------------------------------------------------------ */

static struct lk_traj_ring *rings_of(lk_segment *segment) {
    struct lk_traj_header *header = lk_segment_base(segment);
    uint8_t *control = (uint8_t *)header + header->geometry.control_offset;
    return (struct lk_traj_ring *)(void *)control;
}

/* What the good rings have comes first, then the word of the bad one. */
static void a_spoiled_ring_takes_no_records_along(void) {
    char run[64];
    lk_segment *segment;
    struct lk_traj_ring_status status[3];
    lk_traj_reader *reader = open_reader(fresh_run(run), 3, 4096);
    lk_traj_writer *writers[3];
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    for (uint32_t i = 0; i < 3; i++) {
        writers[i] = open_producer(run);
        CHECK_STATUS(1, put_numbered(writers[i], i, 1, 10, 0));
    }
    atomic_store(&rings_of(segment)[1].head, 32);
    CHECK_STATUS(2, lk_traj_take(reader, 10, records, arrays, &spoiled));
    CHECK(records[0].ring == 0 && records[1].ring == 2);
    CHECK_STATUS(1, lk_traj_wait(reader, 0)); /* there is something to learn */
    CHECK_STATUS(LK_E_CORRUPT, lk_traj_take(reader, 10, records, arrays, &spoiled));
    CHECK(spoiled == 1);
    CHECK_STATUS(0, lk_traj_take(reader, 10, records, arrays, &spoiled));
    CHECK_STATUS(0, lk_traj_wait(reader, 0));
    CHECK_STATUS(LK_OK, lk_traj_reader_rings(reader, status));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(status[i].spoiled == (i == 1) && status[i].session == 1);
        CHECK(status[i].producer_pid == (uint32_t)getpid() && status[i].producer == LK_ALIVE);
        lk_traj_writer_free(writers[i]);
    }
    lk_segment_release(segment);
    end_lane(reader);
}

static void what_a_ring_has_carried_is_counted_over_its_producers(void) {
    char run[64];
    struct lk_traj_ring_status before, ring;
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    memset(&before, 0, sizeof before);
    for (uint32_t session = 1; session <= 3; session++) {
        lk_traj_writer *writer = open_producer(run);
        CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
        CHECK(ring.session == session && ring.records == before.records);
        CHECK(ring.bytes == before.bytes && ring.released == before.released);
        CHECK_STATUS(1, put_numbered(writer, 1, 7, 10, 0));
        CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
        CHECK(ring.records == before.records + 1 && ring.bytes > before.bytes);
        CHECK(ring.depth_bytes == ring.bytes - before.bytes + sizeof(struct lk_traj_record_header));
        CHECK_STATUS(1, lk_traj_take(reader, 1, records, arrays, &spoiled));
        CHECK(records[0].size == ring.bytes - before.bytes);
        CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, records[0].ticket));
        CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
        CHECK(ring.released == session && ring.depth_bytes == 0);
        before = ring;
        lk_traj_writer_free(writer);
    }
    CHECK_STATUS(LK_OK, lk_traj_reader_rings(reader, &ring));
    CHECK(ring.producer == LK_DEAD && ring.producer_pid == 0);
    end_lane(reader);
}

/* A ring whose positions cannot be is not taken, and others are. */
static void a_ring_with_impossible_positions_is_not_taken(void) {
    const struct {
        uint64_t head, tail;
    } cases[] = {
        {32, 0},                                              /* not aligned */
        {UINT64_C(1) << 63, UINT64_C(1) << 63},               /* beyond all bounds */
        {(UINT64_C(1) << 62) + 64, (UINT64_C(1) << 62) + 64}, /* just so */
        {4096 + 64, 0},                                       /* more than the ring holds */
        {64, 128},                                            /* tail beyond head */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char run[64];
        lk_segment *segment;
        lk_traj_writer *writer;
        struct lk_traj_place place;
        lk_traj_reader *reader = open_reader(fresh_run(run), 2, 4096);
        CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
        atomic_store(&rings_of(segment)[0].head, cases[i].head);
        atomic_store(&rings_of(segment)[0].tail, cases[i].tail);
        CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, 0, NULL));
        CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
        CHECK(place.ring == 1 && place.session == 1 && place.position == 0);
        lk_traj_writer *other;
        CHECK_STATUS(LK_E_TAKEN, lk_traj_attach(&other, run, strlen(run), NULL, 0, 0, 0, NULL));
        lk_traj_writer_free(writer);
        lk_segment_release(segment);
        end_lane(reader);
    }
}

/* A successor does not trust what it finds, either. */
static void a_successor_leaves_a_ring_with_an_impossible_tail_out(void) {
    char run[64];
    lk_segment *segment;
    lk_traj_reader *reader = open_reader(fresh_run(run), 2, 4096);
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    CHECK_STATUS(LK_OK, lk_traj_reader_leave(reader));
    lk_traj_reader_free(reader);
    const uint64_t tails[2] = {32, (UINT64_C(1) << 62) + 64};
    for (int i = 0; i < 2; i++) { /* with nothing in them, so that the tail alone is wrong */
        atomic_store(&rings_of(segment)[i].tail, tails[i]);
        atomic_store(&rings_of(segment)[i].head, tails[i]);
    }
    reader = open_reader(run, 2, 4096);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_STATUS(LK_E_CORRUPT, lk_traj_take(reader, 1, records, arrays, &spoiled));
        CHECK(spoiled == i);
    }
    CHECK_STATUS(0, lk_traj_take(reader, 1, records, arrays, &spoiled));
    lk_segment_release(segment);
    end_lane(reader);
}

/* The last record of the segment claims to be smaller than the rows of its many fields: they are
 * not read, for they would lie beyond the mapping. */
static void a_record_smaller_than_its_rows_is_not_read(void) {
    char run[64];
    lk_segment *segment;
    struct lk_traj_field fields[LK_TRAJ_FIELDS_MAX] = {0};
    struct lk_traj_array many[LK_TRAJ_FIELDS_MAX];
    struct lk_traj_config config = {
        .rings = 1, .fields = LK_TRAJ_FIELDS_MAX, .ring_size = 16384, .record_max = 0};
    for (int i = 0; i < LK_TRAJ_FIELDS_MAX; i++) {
        snprintf(fields[i].name, sizeof fields[i].name, "field%d", i);
        memcpy(fields[i].dtype, "<f8", 4);
        fields[i].item_size = 8;
        fields[i].flags = LK_TRAJ_OPTIONAL;
    }
    lk_traj_reader *reader;
    fresh_run(run);
    /* Mappings are made one below the other: what comes after the lane's end is not there. */
    void *fence = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(fence != MAP_FAILED);
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &config, fields));
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    uint8_t *base = lk_segment_base(segment);
    uint8_t *data = base + ((struct lk_traj_header *)(void *)base)->geometry.data_offset;
    const uint64_t at = 16384 - 128;
    struct lk_traj_record_header *first = (struct lk_traj_record_header *)(void *)data;
    struct lk_traj_record_header *last = (struct lk_traj_record_header *)(void *)(data + at);
    first->kind = LK_TRAJ_RECORD; /* two large ones up to there */
    first->position = 0;
    first->size = 8064;
    first->session = first->number = 1;
    memset(data + 64, 0xFF, 512); /* rows: none is there */
    struct lk_traj_record_header *second =
        (struct lk_traj_record_header *)(void *)(data + 64 + 8064);
    *second = *first;
    second->position = 64 + 8064;
    second->number = 2;
    second->size = 8064;
    memset(second + 1, 0xFF, 512);
    *last = *first;
    last->position = at;
    last->number = 3;
    last->size = 64;
    atomic_store(&rings_of(segment)->head, 16384);
    CHECK_STATUS(1, lk_traj_take(reader, 1, records, many, &spoiled));
    CHECK_STATUS(1, lk_traj_take(reader, 1, records, many, &spoiled));
    CHECK_STATUS(LK_E_CORRUPT, lk_traj_take(reader, 1, records, many, &spoiled));
    lk_segment_release(segment);
    end_lane(reader);
    munmap(fence, 4096);
}

/* --- closed handles --------------------------------------------------------------------------- */

static void a_closed_handle_answers_so_to_every_call(void) {
    char run[64];
    lk_segment *segment;
    struct lk_traj_config config;
    struct lk_traj_ring_status ring;
    struct lk_traj_place place;
    const uint64_t rows[FIELDS] = {3, 1, 1};
    void *data[FIELDS];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    for (int twice = 0; twice < 2; twice++) {
        CHECK_STATUS(LK_OK, lk_traj_writer_close(writer));
        CHECK_STATUS(LK_OK, lk_traj_reader_close(reader));
    }
    CHECK_STATUS(LK_E_CLOSED, put_numbered(writer, 1, 1, 1, 0));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_reserve(writer, rows, 0, 0, data));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_commit(writer, NULL, 0));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_abandon(writer));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_writer_config(writer, &config, NULL));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_writer_view(writer, &segment));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_writer_ring(writer, &ring));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_writer_place(writer, &place));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_wait(reader, 0));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_take(reader, 1, records, arrays, &spoiled));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_release(reader, 0, 0));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_exhausted(reader));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_reader_config(reader, &config));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_reader_view(reader, &segment));
    CHECK_STATUS(LK_E_CLOSED, lk_traj_reader_rings(reader, &ring));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

int main(void) {
    the_lane_is_as_large_as_its_parts();
    impossible_lanes_are_refused();
    impossible_fields_are_refused();
    a_record_is_as_large_as_its_parts();
    padding_looks_at_every_byte_of_an_item();
    a_consumer_may_wait_for_ever();
    a_wait_ends_when_the_lane_is_cut_off();
    a_producer_may_wait_for_ever();
    many_records_may_be_held_at_once();
    large_fields_arrive_whole();
    a_reservation_hands_out_no_more_than_its_fields();
    a_spoiled_ring_takes_no_records_along();
    what_a_ring_has_carried_is_counted_over_its_producers();
    a_ring_with_impossible_positions_is_not_taken();
    a_successor_leaves_a_ring_with_an_impossible_tail_out();
    a_record_smaller_than_its_rows_is_not_read();
    a_closed_handle_answers_so_to_every_call();
    return 0;
}
