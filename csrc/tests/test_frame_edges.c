/*
 * The fast lane at its edges: the largest metadata, an empty lane, slots that no writer finishes, a
 * head that went back, a first sleeper, and handles that are closed.
 */
#include "check.h"
#include "lk_layout.h"
#include "lk_segment.h"

static uint8_t frame[SMALL_SIZE];
static uint8_t got[SMALL_SIZE];
static struct lk_frame_info info;

struct lane {
    char run[64];
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    lk_segment *segment;
    struct lk_frame_header *header;
};

static void open_lane(struct lane *lane, uint32_t capacity) {
    struct lk_frame_config config = small_rgb(capacity);
    void *pixels;
    fresh_run(lane->run);
    size_t size = strlen(lane->run);
    CHECK_STATUS(LK_OK, lk_frame_create(&lane->writer, lane->run, size, &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&lane->reader, lane->run, size, 0, NULL));
    CHECK_STATUS(LK_OK, lk_frame_writer_view(lane->writer, 0, &lane->segment, &pixels));
    lane->header = lk_segment_base(lane->segment);
}

static void end_lane(struct lane *lane) {
    lk_segment_release(lane->segment);
    lk_frame_reader_free(lane->reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(lane->writer));
    lk_frame_writer_free(lane->writer);
}

static int64_t publish(struct lane *lane, uint64_t value) {
    paint(frame, sizeof frame, value);
    return lk_frame_publish(lane->writer, frame, sizeof frame, NULL, 0);
}

static int64_t read_one(struct lane *lane, int choice) {
    return lk_frame_read(lane->reader, choice, got, sizeof got, NULL, 0, &info);
}

static struct lk_frame_slot *slot_of(struct lane *lane, uint64_t seq) {
    const struct lk_frame_geometry *geometry = &lane->header->geometry;
    uint8_t *slots = (uint8_t *)lane->header + geometry->slots_offset;
    size_t index = (size_t)((seq - 1) % geometry->capacity);
    return (struct lk_frame_slot *)(void *)(slots + index * geometry->slot_stride);
}

static void every_limit_is_kept(void) {
    struct lk_frame_config config;
#define REFUSED(change)                                                  \
    do {                                                                 \
        config = small_rgb(3);                                           \
        config.change;                                                   \
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_segment_size(&config)); \
    } while (0)
#define ACCEPTED(change)                           \
    do {                                           \
        config = small_rgb(3);                     \
        config.change;                             \
        CHECK(lk_frame_segment_size(&config) > 0); \
    } while (0)
    REFUSED(width = 0);
    ACCEPTED(width = 65536);
    REFUSED(width = 65537);
    REFUSED(height = 0);
    ACCEPTED(height = 65536);
    REFUSED(height = 65537);
    REFUSED(capacity = 0);
    ACCEPTED(capacity = 1048576);
    REFUSED(capacity = 1048577);
    ACCEPTED(metadata_size = 64u << 20);
    REFUSED(metadata_size = (64u << 20) + 1);
    REFUSED(channels = 4);
    REFUSED(channels = 0);
    REFUSED(pixel_format = 99);
    config = small_rgb(3);
    config.channels = 0; /* as many as an unknown format has */
    config.pixel_format = 99;
    CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_segment_size(&config));
    config = small_rgb(3);
    /* A page of header; for each slot a line of its own, 384 bytes of pixels and 40 of metadata. */
    CHECK_STATUS(4096 + 3 * (64 + 384 + 64), lk_frame_segment_size(&config));
    config.width = config.height = 65536;
    config.capacity = 1048576;
    CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_segment_size(&config));
}

static void whoever_watches_is_counted(void) {
    struct lane lane;
    char name[160];
    struct lk_frame_status status;
    lk_frame_reader *readers[3];
    open_lane(&lane, 2);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, lane.run, strlen(lane.run), name, 160));
    for (uint64_t n = 0; n < 3; n++) {
        CHECK_STATUS(LK_OK, lk_frame_inspect(name, &status));
        CHECK(status.viewers == n && status.head == n && status.config.capacity == 2);
        CHECK_STATUS(LK_OK,
                     lk_frame_attach(&readers[n], lane.run, strlen(lane.run), 1000000000, NULL));
        CHECK_STATUS(n + 1, publish(&lane, n));
    }
    /* Not seen for long, and yet its process lives. */
    for (int i = 0; i < 3; i++) {
        atomic_store(&lane.header->viewers[i].last_seen_ns, 1);
    }
    /* What lies behind the table is no entry, whatever it looks like. */
    memcpy(lane.header->reserved_tail, (const void *)&lane.header->viewers[0],
           sizeof lane.header->viewers[0]);
    CHECK_STATUS(LK_OK, lk_frame_inspect(name, &status));
    CHECK(status.viewers == 3);
    for (int i = 0; i < 3; i++) {
        lk_frame_reader_free(readers[i]);
    }
    CHECK_STATUS(LK_OK, lk_frame_inspect(name, &status));
    CHECK(status.viewers == 0);
    end_lane(&lane);
}

static void a_lane_needs_a_name(void) {
    lk_frame_reader *reader = (lk_frame_reader *)got;
    lk_frame_writer *writer = (lk_frame_writer *)got;
    struct lk_frame_config config = small_rgb(2);
    CHECK_STATUS(LK_E_INVALID, lk_frame_attach(&reader, "", 0, 0, NULL));
    CHECK(reader == NULL);
    CHECK_STATUS(LK_E_INVALID, lk_frame_create(&writer, "", 0, &config));
    CHECK(writer == NULL);
    reader = (lk_frame_reader *)got;
    CHECK_STATUS(LK_E_NOT_FOUND, lk_frame_attach(&reader, "nobody", 6, 0, NULL));
    CHECK(reader == NULL);
    CHECK_STATUS(LK_E_INVALID, lk_frame_attach(&reader, "nobody", 6, UINT64_MAX, NULL));
}

static void metadata_may_be_as_large_as_agreed(void) {
    struct lane lane;
    uint8_t metadata[41], found[40];
    open_lane(&lane, 2);
    for (size_t size = 0; size <= 40; size++) {
        memset(metadata, (int)size + 1, sizeof metadata);
        memset(found, 0xEE, sizeof found);
        uint64_t before = lk_clock_ns();
        int64_t seq = lk_frame_publish(lane.writer, frame, sizeof frame, metadata, size);
        uint64_t after = lk_clock_ns();
        CHECK_STATUS(seq, lk_frame_read(lane.reader, LK_FRAME_NEWEST, got, sizeof got, found,
                                        sizeof found, &info));
        CHECK(info.metadata_size == (int64_t)size && memcmp(found, metadata, size) == 0);
        CHECK(size == 40 || found[size] == 0xEE);
        CHECK(info.timestamp_ns >= before && info.timestamp_ns <= after);
    }
    CHECK_STATUS(LK_E_METADATA_SIZE,
                 lk_frame_publish(lane.writer, frame, sizeof frame, metadata, 41));
    CHECK_STATUS(LK_E_SIZE,
                 lk_frame_read(lane.reader, LK_FRAME_NEWEST, got, sizeof got, found, 39, &info));
    void *pixels;
    CHECK(lk_frame_reserve(lane.writer, &pixels) >= 0);
    CHECK_STATUS(LK_E_METADATA_SIZE, lk_frame_commit_metadata(lane.writer, metadata, 41));
    CHECK_STATUS(42, lk_frame_commit_metadata(lane.writer, metadata, 40));
    end_lane(&lane);
}

static void an_empty_lane_has_nothing_to_look_at(void) {
    struct lane lane;
    const void *pixels = &lane;
    uint32_t slot = 77;
    open_lane(&lane, 2);
    CHECK_STATUS(0, read_one(&lane, LK_FRAME_NEWEST));
    CHECK_STATUS(0, lk_frame_peek(lane.reader, LK_FRAME_NEWEST, &pixels, &slot, NULL, 0, &info));
    CHECK(pixels == &lane && slot == 77);
    CHECK_STATUS(LK_E_INVALID, read_one(&lane, LK_FRAME_NEWEST - 1));
    CHECK_STATUS(LK_E_INVALID, read_one(&lane, LK_FRAME_NEXT + 1));
    end_lane(&lane);
}

/* The newest frame's slot says that it is being written, and nobody writes it. */
static void a_slot_that_no_writer_finishes_is_reported(void) {
    struct lane lane;
    struct lk_frame_stats stats;
    open_lane(&lane, 4);
    for (uint64_t n = 1; n <= 3; n++) {
        CHECK_STATUS(n, publish(&lane, n));
        CHECK_STATUS(n, read_one(&lane, LK_FRAME_NEXT));
        CHECK(is_painted(got, sizeof got, n));
    }
    CHECK_STATUS(4, publish(&lane, 4));
    uint64_t word = atomic_load(&slot_of(&lane, 4)->seq);
    atomic_store(&slot_of(&lane, 4)->seq, word - 1);
    CHECK_STATUS(LK_E_CORRUPT, read_one(&lane, LK_FRAME_NEWEST));
    CHECK_STATUS(LK_E_CORRUPT, read_one(&lane, LK_FRAME_FRESH));
    CHECK_STATUS(LK_E_CORRUPT, read_one(&lane, LK_FRAME_NEXT));
    CHECK(info.seq == 0);
    CHECK_STATUS(LK_OK, lk_frame_reader_stats(lane.reader, &stats));
    CHECK(stats.starved == 3 && stats.frames_read == 3);
    atomic_store(&slot_of(&lane, 4)->seq, word);
    CHECK_STATUS(4, read_one(&lane, LK_FRAME_NEWEST));
    end_lane(&lane);
}

static void the_one_slot_of_a_ring_may_be_out(void) {
    struct lane lane;
    void *pixels;
    open_lane(&lane, 1);
    CHECK_STATUS(1, publish(&lane, 1));
    CHECK(lk_frame_reserve(lane.writer, &pixels) >= 0);
    CHECK_STATUS(0, read_one(&lane, LK_FRAME_NEWEST));
    memset(pixels, 9, sizeof frame);
    CHECK_STATUS(2, lk_frame_commit(lane.writer));
    CHECK_STATUS(2, read_one(&lane, LK_FRAME_NEWEST));
    CHECK(got[0] == 9);
    /* The same word in the slot of a frame that is not the next one is no writer's. */
    atomic_store(&slot_of(&lane, 2)->seq, 2 * UINT64_C(5) - 1);
    CHECK_STATUS(LK_E_CORRUPT, read_one(&lane, LK_FRAME_NEWEST));
    end_lane(&lane);
}

static void a_head_that_went_back_is_followed(void) {
    struct lane lane;
    open_lane(&lane, 8);
    for (uint64_t n = 1; n <= 5; n++) {
        CHECK_STATUS(n, publish(&lane, n));
    }
    CHECK_STATUS(5, read_one(&lane, LK_FRAME_NEWEST));
    CHECK_STATUS(0, lk_frame_wait(lane.reader, 0, LK_WAIT_HYBRID));
    atomic_store(&lane.header->head, 2);
    CHECK_STATUS(1, lk_frame_wait(lane.reader, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(2, read_one(&lane, LK_FRAME_FRESH));
    atomic_store(&lane.header->head, UINT64_C(1) << 63);
    CHECK_STATUS(LK_E_CORRUPT, read_one(&lane, LK_FRAME_NEWEST));
    end_lane(&lane);
}

static void frames_go_on_after_somebody_has_slept(void) {
    struct lane lane;
    open_lane(&lane, 3);
    CHECK_STATUS(1, publish(&lane, 1));
    CHECK_STATUS(1, read_one(&lane, LK_FRAME_NEWEST));
    CHECK_STATUS(0, lk_frame_wait(lane.reader, 1000000, LK_WAIT_BLOCK));
    CHECK(atomic_load(&lane.header->wake_at) == 2 && atomic_load(&lane.header->wakes) == 0);
    for (uint64_t n = 2; n <= 6; n++) {
        CHECK_STATUS(n, publish(&lane, n));
        CHECK(atomic_load(&lane.header->wakes) == 1 && atomic_load(&lane.header->head) == n);
        CHECK_STATUS(1, lk_frame_wait(lane.reader, 0, LK_WAIT_BLOCK));
        CHECK_STATUS(n, read_one(&lane, LK_FRAME_NEXT));
    }
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(lane.reader, 0, LK_WAIT_HYBRID - 1));
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(lane.reader, 0, LK_WAIT_BLOCK + 1));
    end_lane(&lane);
}

static void a_closed_handle_answers_so_to_every_call(void) {
    struct lane lane;
    lk_segment *segment;
    const void *shown;
    void *pixels;
    uint32_t slot;
    struct lk_frame_config config;
    struct lk_frame_metrics metrics;
    struct lk_frame_stats stats;
    open_lane(&lane, 2);
    CHECK_STATUS(1, publish(&lane, 1));
    for (int twice = 0; twice < 2; twice++) {
        CHECK_STATUS(LK_OK, lk_frame_reader_close(lane.reader));
        CHECK_STATUS(LK_OK, lk_frame_writer_close(lane.writer));
    }
    CHECK_STATUS(LK_E_CLOSED, publish(&lane, 2));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_reserve(lane.writer, &pixels));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_commit(lane.writer));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_abandon(lane.writer));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_set_metrics(lane.writer, 1, 2, 3));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_heartbeat(lane.writer));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_watched(lane.writer));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_invalidate(lane.writer));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_writer_view(lane.writer, 0, &segment, &pixels));
    CHECK_STATUS(LK_E_CLOSED, read_one(&lane, LK_FRAME_NEWEST));
    CHECK_STATUS(LK_E_CLOSED,
                 lk_frame_peek(lane.reader, LK_FRAME_NEWEST, &shown, &slot, NULL, 0, &info));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_peek_check(lane.reader, 1));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_wait(lane.reader, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_metrics(lane.reader, &metrics));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_writer_liveness(lane.reader));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_reader_config(lane.reader, &config));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_reader_view(lane.reader, 0, &segment, &shown));
    CHECK_STATUS(LK_E_CLOSED, lk_frame_reader_stats(lane.reader, &stats));
    end_lane(&lane);
}

int main(void) {
    every_limit_is_kept();
    whoever_watches_is_counted();
    a_lane_needs_a_name();
    metadata_may_be_as_large_as_agreed();
    an_empty_lane_has_nothing_to_look_at();
    a_slot_that_no_writer_finishes_is_reported();
    the_one_slot_of_a_ring_may_be_out();
    a_head_that_went_back_is_followed();
    frames_go_on_after_somebody_has_slept();
    a_closed_handle_answers_so_to_every_call();
    return 0;
}
