/*
 * The trajectory lane within one process: records of all sizes over every wrap of a small ring,
 * release in any order, a full ring, limits, schemas, claims, and rings whose content is
 * impossible.
 */
#include "lk_layout.h"
#include "traj_check.h"

#include <fcntl.h>
#include <sys/mman.h>

static struct lk_traj_record record;
static struct lk_traj_array arrays[FIELDS];
static uint32_t spoiled;

static uint32_t take_one(lk_traj_reader *reader) {
    uint32_t n;
    CHECK_STATUS(1, lk_traj_take(reader, 1, &record, arrays, &spoiled));
    check_numbered(&record, arrays, &n);
    return n;
}

static void records_of_all_sizes_pass_every_wrap(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    uint32_t random = 7;
    uint32_t put = 0;
    uint32_t got = 0;
    struct lk_traj_record held[64];
    uint32_t holding = 0;
    while (got < 20000) {
        while (put < got + holding + 64 && next_random(&random) % 4 != 0 &&
               put_numbered(writer, 3, put + 1, next_random(&random) % 400, 0) > 0) {
            put++;
        }
        while (holding < 64 && lk_traj_take(reader, 1, &record, arrays, &spoiled) == 1) {
            uint32_t n;
            CHECK(check_numbered(&record, arrays, &n) == 3);
            CHECK(n == got + holding + 1 && record.number == n && record.session == 1);
            held[holding++] = record;
        }
        /* Give some back, in any order. */
        for (uint32_t turns = next_random(&random) % 8; turns > 0 && holding > 0; turns--) {
            uint32_t which = next_random(&random) % holding;
            CHECK_STATUS(LK_OK, lk_traj_release(reader, held[which].ring, held[which].ticket));
            CHECK_STATUS(LK_E_INVALID,
                         lk_traj_release(reader, held[which].ring, held[which].ticket));
            held[which] = held[--holding];
            got++;
        }
    }
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void every_start_and_size_fits_or_waits(void) {
    /* Every offset that a record can start at, and every size that it can have there. */
    const uint64_t ring_size = 2048;
    for (uint64_t start = 0; start < ring_size; start += 128) {
        for (uint32_t tokens = 0; tokens <= 160; tokens += 16) {
            char run[64];
            lk_traj_reader *reader = open_reader(fresh_run(run), 1, ring_size);
            lk_traj_writer *writer = open_producer(run);
            /* An empty record of three fields takes 256 bytes; with 16 tokens 64 more. */
            uint32_t n = 7;
            for (uint64_t at = 0; at + 256 <= start; at += 256, n += 7) {
                CHECK(put_numbered(writer, 1, n, 0, 0) > 0);
                CHECK(take_one(reader) == n);
                CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
            }
            for (int i = 0; i < 40; i++, n++) {
                CHECK(put_numbered(writer, 1, n, tokens, 0) > 0);
                CHECK(take_one(reader) == n);
                CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
            }
            lk_traj_writer_free(writer);
            end_lane(reader);
        }
    }
}

static void a_full_ring_makes_put_wait_and_releasing_makes_room(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 2, 4096);
    lk_traj_writer *writer = open_producer(run);
    lk_traj_writer *other = open_producer(run);
    uint32_t n = 0;
    while (put_numbered(writer, 1, n + 1, 100, 0) > 0) {
        n++;
    }
    CHECK(n >= 5);
    CHECK_STATUS(0, put_numbered(writer, 1, n + 1, 100, 2000000));
    CHECK(put_numbered(other, 2, 1, 100, 0) > 0); /* a neighbour has its own room */
    CHECK_STATUS(0, lk_traj_exhausted(reader));
    struct lk_traj_record first = {.ring = 99};
    for (uint32_t i = 0; i <= n; i++) {
        CHECK_STATUS(1, lk_traj_take(reader, 1, &record, arrays, &spoiled));
        first = record.session == 1 && record.ring == 0 && first.ring == 99 ? record : first;
    }
    CHECK_STATUS(0, lk_traj_take(reader, 1, &record, arrays, &spoiled));
    CHECK_STATUS(0, put_numbered(writer, 1, n + 1, 100, 0)); /* taken is not released */
    CHECK_STATUS(LK_OK, lk_traj_release(reader, first.ring, first.ticket));
    CHECK(put_numbered(writer, 1, n + 1, 100, 0) > 0);
    struct lk_traj_ring_status rings[2];
    CHECK_STATUS(LK_OK, lk_traj_reader_rings(reader, rings));
    CHECK(rings[0].records == n + 1 && rings[0].released == 1 && rings[0].stalls == 1);
    CHECK(rings[0].producer == LK_ALIVE && rings[0].producer_pid == (uint32_t)getpid());
    CHECK(rings[1].records == 1 && rings[1].stalls == 0);
    lk_traj_writer_free(other);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void what_does_not_fit_is_refused_and_harms_nothing(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    static int32_t many[TOKENS_MAX];
    double score = 1;
    struct lk_traj_array values[FIELDS] = {{many, 1024}, {&score, 1}, {NULL, UINT64_MAX}};
    CHECK_STATUS(LK_E_TOO_LARGE, lk_traj_put(writer, values, NULL, 0, 0));
    values[0].rows = UINT64_MAX - 1;
    CHECK_STATUS(LK_E_TOO_LARGE, lk_traj_put(writer, values, NULL, 0, 0));
    values[0].rows = 1;
    CHECK_STATUS(LK_E_TOO_LARGE, lk_traj_put(writer, values, many, 3000, 0));
    values[1].rows = 2;
    CHECK_STATUS(LK_E_INVALID, lk_traj_put(writer, values, NULL, 0, 0));
    values[1].rows = UINT64_MAX;
    CHECK_STATUS(LK_E_INVALID, lk_traj_put(writer, values, NULL, 0, 0));
    values[1].rows = 1;
    CHECK_STATUS(1, lk_traj_put(writer, values, NULL, 0, 0));

    uint64_t rows[FIELDS] = {2, 1, UINT64_MAX};
    void *places[FIELDS];
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_traj_commit(writer, NULL, 0));
    CHECK_STATUS(1, lk_traj_reserve(writer, rows, 8, 0, places));
    CHECK(places[2] == NULL);
    memcpy(places[0], (int32_t[]){5, 6}, 8);
    memcpy(places[1], &score, 8);
    CHECK_STATUS(LK_E_RESERVED, lk_traj_put(writer, values, NULL, 0, 0));
    CHECK_STATUS(LK_E_RESERVED, lk_traj_reserve(writer, rows, 8, 0, places));
    CHECK_STATUS(LK_E_METADATA_SIZE, lk_traj_commit(writer, many, 9));
    CHECK_STATUS(2, lk_traj_commit(writer, "ab", 2));
    CHECK_STATUS(1, lk_traj_reserve(writer, rows, 8, 0, places));
    CHECK_STATUS(LK_OK, lk_traj_abandon(writer));
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_traj_abandon(writer));
    CHECK_STATUS(3, lk_traj_put(writer, values, NULL, 0, 0));

    struct lk_traj_record records[4];
    struct lk_traj_array all[4 * FIELDS];
    CHECK_STATUS(3, lk_traj_take(reader, 4, records, all, &spoiled));
    CHECK(all[FIELDS].rows == 2 && ((const int32_t *)all[FIELDS].data)[1] == 6);
    CHECK(records[1].metadata_size == 2 && memcmp(records[1].metadata, "ab", 2) == 0);
    CHECK(records[2].number == 3);
    CHECK_STATUS(LK_E_INVALID, lk_traj_release(reader, 7, 0));
    CHECK_STATUS(LK_E_INVALID, lk_traj_release(reader, 0, 3));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void another_schema_is_refused(void) {
    char run[64];
    struct lk_traj_field fields[FIELDS];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer;
    small_schema(fields);
    CHECK_STATUS(LK_E_SCHEMA,
                 lk_traj_attach(&writer, run, strlen(run), fields, FIELDS, 1, 0, NULL));
    CHECK_STATUS(LK_E_SCHEMA, lk_traj_attach(&writer, run, strlen(run), fields, 2, 0, 0, NULL));
    fields[2].shape[0] = 4;
    CHECK_STATUS(LK_E_SCHEMA,
                 lk_traj_attach(&writer, run, strlen(run), fields, FIELDS, 0, 0, NULL));
    fields[2].shape[0] = 0;
    CHECK_STATUS(LK_E_INVALID,
                 lk_traj_attach(&writer, run, strlen(run), fields, FIELDS, 0, 0, NULL));
    small_schema(fields);
    strcpy(fields[1].name, "tokens");
    CHECK_STATUS(LK_E_INVALID,
                 lk_traj_attach(&writer, run, strlen(run), fields, FIELDS, 0, 0, NULL));
    small_schema(fields);
    CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), fields, FIELDS, 0, 0, NULL));
    struct lk_traj_config config;
    struct lk_traj_field found[LK_TRAJ_FIELDS_MAX];
    CHECK_STATUS(LK_OK, lk_traj_writer_config(writer, &config, found));
    CHECK(config.fields == FIELDS && memcmp(found, fields, sizeof fields) == 0);
    lk_traj_reader *second;
    CHECK_STATUS(LK_E_EXISTS, lk_traj_create(&second, run, strlen(run), &config, fields));
    config.record_max = 4096;
    CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_traj_create(&second, run, strlen(run), &config, fields));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void producers_come_and_go(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 2, 4096);
    lk_traj_writer *first = open_producer(run);
    lk_traj_writer *second = open_producer(run);
    lk_traj_writer *third;
    CHECK_STATUS(LK_E_TAKEN, lk_traj_attach(&third, run, strlen(run), NULL, 0, 0, 0, NULL));
    CHECK_STATUS(1, put_numbered(first, 1, 1, 10, 0));
    lk_traj_writer_free(first);
    third = open_producer(run); /* in the ring of the first, behind what it left */
    CHECK_STATUS(1, put_numbered(third, 3, 2, 10, 0));
    CHECK(take_one(reader) == 1 && record.session == 1 && record.number == 1);
    CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
    CHECK(take_one(reader) == 2 && record.session == 2 && record.number == 1);
    CHECK_STATUS(LK_OK, lk_traj_reader_close(reader));
    CHECK_STATUS(LK_E_PEER_LOST, put_numbered(third, 3, 3, 10, 0));
    lk_traj_writer_free(second);
    lk_traj_writer_free(third);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_traj_attach(&third, run, strlen(run), NULL, 0, 0, 0, NULL));
}

static void a_consumer_that_leaves_is_followed_without_loss(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 8192);
    lk_traj_writer *writer = open_producer(run);
    struct lk_traj_record held[6];
    for (uint32_t n = 1; n <= 6; n++) {
        CHECK(put_numbered(writer, 1, n, 20, 0) > 0);
        CHECK(take_one(reader) == n);
        held[n - 1] = record;
    }
    CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, held[0].ticket));
    CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, held[2].ticket)); /* before the second */
    CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, held[5].ticket));
    CHECK_STATUS(LK_OK, lk_traj_reader_leave(reader));
    lk_traj_reader_free(reader);
    CHECK(put_numbered(writer, 1, 7, 20, 0) > 0); /* nobody is there, and the lane goes on */
    reader = open_reader(run, 5, 1024);
    struct lk_traj_config config;
    CHECK_STATUS(LK_OK, lk_traj_reader_config(reader, &config));
    CHECK(config.rings == 1 && config.ring_size == 8192); /* the lane as it is */
    const uint32_t left[] = {2, 4, 5, 7};
    for (int i = 0; i < 4; i++) {
        CHECK(take_one(reader) == left[i]);
        CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
    }
    CHECK_STATUS(0, lk_traj_take(reader, 1, &record, arrays, &spoiled));
    struct lk_traj_ring_status ring;
    CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
    CHECK(ring.depth_bytes == 0 && ring.released == 7);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void a_successor_with_other_records_is_refused(void) {
    char run[64];
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 8192);
    struct lk_traj_field fields[FIELDS];
    struct lk_traj_config config;
    lk_traj_reader *other;
    small_schema(fields);
    CHECK_STATUS(LK_OK, lk_traj_reader_config(reader, &config));
    lk_traj_reader_leave(reader);
    lk_traj_reader_free(reader);
    strcpy(fields[1].dtype, "<i8");
    CHECK_STATUS(LK_E_SCHEMA, lk_traj_create(&other, run, strlen(run), &config, fields));
    char name[160];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_TRAJ, run, strlen(run), name, sizeof name));
    CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 0));
    CHECK_STATUS(LK_OK, lk_traj_create(&other, run, strlen(run), &config, fields));
    end_lane(other);
}

/* --- impossible content ------------------------------------------------------------------------
 */

static uint8_t *map_lane(const char *run, size_t *size) {
    char path[200] = "/";
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_TRAJ, run, strlen(run), path + 1, 160));
    int fd = shm_open(path, O_RDWR, 0600);
    CHECK(fd >= 0);
    *size = (size_t)lseek(fd, 0, SEEK_END);
    uint8_t *base = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(base != MAP_FAILED);
    close(fd);
    return base;
}

/* Change one word behind the back of a correct producer: its ring is refused once, and the other
 * ring goes on. */
static void one_spoiled_ring(size_t in_control, size_t in_record, int size, uint64_t value) {
    char run[64];
    size_t mapped;
    lk_traj_reader *reader = open_reader(fresh_run(run), 2, 4096);
    lk_traj_writer *bad = open_producer(run);
    lk_traj_writer *good = open_producer(run);
    uint8_t *base = map_lane(run, &mapped);
    const struct lk_traj_geometry *geometry = &((struct lk_traj_header *)base)->geometry;
    CHECK_STATUS(1, put_numbered(bad, 1, 1, 10, 0));
    CHECK_STATUS(1, put_numbered(good, 2, 1, 10, 0));
    uint8_t *at = in_control != SIZE_MAX ? base + geometry->control_offset + in_control
                                         : base + geometry->data_offset + in_record;
    memcpy(at, &value, (size_t)size);
    int refused = 0;
    int delivered = 0;
    for (int i = 0; i < 4; i++) {
        int status = lk_traj_take(reader, 1, &record, arrays, &spoiled);
        CHECK(status >= 0 || (status == LK_E_CORRUPT && spoiled == 0));
        refused += status == LK_E_CORRUPT;
        delivered += status == 1;
    }
    CHECK(refused == 1 && delivered == 1);
    CHECK_STATUS(LK_E_CORRUPT, put_numbered(bad, 1, 2, 10, 0));
    CHECK_STATUS(2, put_numbered(good, 2, 2, 10, 0));
    CHECK(take_one(reader) == 2);
    lk_traj_writer_free(bad);
    lk_traj_writer *next;
    CHECK_STATUS(LK_E_TAKEN, lk_traj_attach(&next, run, strlen(run), NULL, 0, 0, 0, NULL));
    lk_traj_writer_free(good);
    munmap(base, mapped);
    end_lane(reader);
}

static void impossible_content_costs_that_ring_only(void) {
    const size_t no = SIZE_MAX;
    one_spoiled_ring(0, 0, 8, 64);                  /* head: half a record */
    one_spoiled_ring(0, 0, 8, UINT64_MAX - 63);     /* head: beyond all bounds */
    one_spoiled_ring(0, 0, 8, 8192);                /* head: more than the ring */
    one_spoiled_ring(0, 0, 8, 321);                 /* head: not aligned */
    one_spoiled_ring(no, 0, 4, 0);                  /* kind */
    one_spoiled_ring(no, 0, 4, LK_TRAJ_PADDING);    /* padding and nothing behind it */
    one_spoiled_ring(no, 8, 8, 4096);               /* position: of another round */
    one_spoiled_ring(no, 16, 8, UINT64_MAX - 127);  /* size */
    one_spoiled_ring(no, 16, 8, 64);                /* size: less than its fields need */
    one_spoiled_ring(no, 16, 8, 2048);              /* size: beyond head */
    one_spoiled_ring(no, 16, 8, 100);               /* size: not aligned */
    one_spoiled_ring(no, 24, 8, 0);                 /* session */
    one_spoiled_ring(no, 32, 8, 0);                 /* number */
    one_spoiled_ring(no, 48, 8, UINT64_MAX);        /* metadata_size */
    one_spoiled_ring(no, 64, 8, UINT64_C(1) << 61); /* rows of tokens */
    one_spoiled_ring(no, 72, 8, 2);                 /* rows of score */
    one_spoiled_ring(no, 72, 8, UINT64_MAX);        /* score missing */
}

static void an_impossible_tail_stops_its_producer_only(void) {
    char run[64];
    size_t mapped;
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    uint8_t *base = map_lane(run, &mapped);
    struct lk_traj_header *header = (struct lk_traj_header *)base;
    struct lk_traj_ring *ring = (struct lk_traj_ring *)(base + header->geometry.control_offset);
    while (put_numbered(writer, 1, 1, 100, 0) > 0) {
    }
    atomic_store(&ring->tail, UINT64_C(1) << 40);
    CHECK_STATUS(LK_E_CORRUPT, put_numbered(writer, 1, 1, 100, 0));
    munmap(base, mapped);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

/* --- padding ------------------------------------------------------------------------------------
 */

static void padding_fills_what_is_missing(void) {
    const int32_t a[] = {1, 2, 3};
    const int32_t b[] = {4};
    const struct lk_traj_array rows[] = {{a, 3}, {NULL, 9}, {b, 1}, {NULL, 9}, {NULL, UINT64_MAX}};
    const int32_t item = -7;
    int32_t out[3][4];
    CHECK_STATUS(LK_OK, lk_traj_pad(rows, 3, 2, 4, 4, &item, 4, out));
    const int32_t expected[3][4] = {{1, 2, 3, -7}, {4, -7, -7, -7}, {-7, -7, -7, -7}};
    CHECK(memcmp(out, expected, sizeof out) == 0);
    CHECK_STATUS(LK_E_SIZE, lk_traj_pad(rows, 3, 2, 4, 2, &item, 4, out));
    CHECK(memcmp(out, expected, sizeof out) == 0); /* judged before anything is written */
    CHECK_STATUS(LK_E_INVALID, lk_traj_pad(rows, 3, 2, 0, 4, &item, 4, out));
    CHECK_STATUS(LK_E_INVALID, lk_traj_pad(rows, 3, 2, 6, 4, &item, 4, out));
    CHECK_STATUS(LK_OK, lk_traj_pad(rows, 0, 2, 4, 0, &item, 4, out));
}

int main(void) {
    records_of_all_sizes_pass_every_wrap();
    every_start_and_size_fits_or_waits();
    a_full_ring_makes_put_wait_and_releasing_makes_room();
    what_does_not_fit_is_refused_and_harms_nothing();
    another_schema_is_refused();
    producers_come_and_go();
    a_consumer_that_leaves_is_followed_without_loss();
    a_successor_with_other_records_is_refused();
    impossible_content_costs_that_ring_only();
    an_impossible_tail_stops_its_producer_only();
    padding_fills_what_is_missing();
    return 0;
}
