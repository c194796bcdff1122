/* The fast lane in one thread: what each call promises, for rings of every awkward size. */
#include "check.h"

static uint8_t frame[SMALL_SIZE];
static uint8_t got[SMALL_SIZE];
static uint8_t metadata[40];

static lk_frame_writer *open_writer(const char *run, uint32_t capacity) {
    lk_frame_writer *writer;
    struct lk_frame_config config = small_rgb(capacity);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    return writer;
}

static lk_frame_reader *open_reader(const char *run) {
    lk_frame_reader *reader;
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 900000000, NULL));
    return reader;
}

static void end(lk_frame_writer *writer, lk_frame_reader *reader) {
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_close(writer));
    CHECK_STATUS(LK_OK, lk_frame_writer_close(writer));
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

static void publish(lk_frame_writer *writer, uint64_t seq) {
    paint(frame, sizeof frame, seq);
    CHECK_STATUS(seq, lk_frame_publish(writer, frame, sizeof frame, &seq, sizeof seq));
}

static void frames_come_back_whole(uint32_t capacity) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, capacity);
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    CHECK_STATUS(0, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, metadata,
                                  sizeof metadata, &info));
    for (uint64_t seq = 1; seq <= 3 * capacity + 2; seq++) {
        publish(writer, seq);
        CHECK_STATUS(1, lk_frame_wait(reader, 0, LK_WAIT_HYBRID));
        CHECK_STATUS(seq, lk_frame_read(reader, LK_FRAME_FRESH, got, sizeof got, metadata,
                                        sizeof metadata, &info));
        CHECK(is_painted(got, sizeof got, seq));
        CHECK(info.seq == seq && info.skipped == 0 && info.metadata_size == sizeof seq);
        CHECK(memcmp(metadata, &seq, sizeof seq) == 0);
        CHECK_STATUS(0, lk_frame_read(reader, LK_FRAME_FRESH, got, sizeof got, metadata,
                                      sizeof metadata, &info));
        CHECK_STATUS(seq, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
        CHECK_STATUS(0, lk_frame_wait(reader, 0, LK_WAIT_BLOCK));
    }
    end(writer, reader);
}

static void in_order_reading_counts_what_it_missed(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, 4);
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    for (uint64_t seq = 1; seq <= 10; seq++) {
        publish(writer, seq);
    }
    /* Frames 7 to 10 are left. */
    for (uint64_t seq = 7; seq <= 10; seq++) {
        CHECK_STATUS(seq, lk_frame_read(reader, LK_FRAME_NEXT, got, sizeof got, metadata,
                                        sizeof metadata, &info));
        CHECK(is_painted(got, sizeof got, seq));
        CHECK(info.skipped == (seq == 7 ? 6 : 0));
    }
    CHECK_STATUS(
        0, lk_frame_read(reader, LK_FRAME_NEXT, got, sizeof got, metadata, sizeof metadata, &info));
    struct lk_frame_stats stats;
    CHECK_STATUS(LK_OK, lk_frame_reader_stats(reader, &stats));
    CHECK(stats.frames_read == 4 && stats.skipped == 6);
    end(writer, reader);
}

static void a_reserved_slot_is_published_or_given_back(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, 2);
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    void *pixels;
    publish(writer, 1);
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_frame_commit(writer));
    CHECK_STATUS(LK_E_NOT_RESERVED, lk_frame_abandon(writer));
    CHECK(lk_frame_reserve(writer, &pixels) >= 0);
    CHECK_STATUS(LK_E_RESERVED, lk_frame_reserve(writer, &pixels));
    CHECK_STATUS(LK_E_RESERVED, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    memset(pixels, 0xAB, SMALL_SIZE);
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
    CHECK_STATUS(LK_OK, lk_frame_abandon(writer));
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
    CHECK(is_painted(got, sizeof got, 1));
    CHECK(lk_frame_reserve(writer, &pixels) >= 0);
    paint(pixels, SMALL_SIZE, 2);
    CHECK_STATUS(LK_E_METADATA_SIZE, lk_frame_commit_metadata(writer, frame, 41));
    CHECK_STATUS(2, lk_frame_commit_metadata(writer, "hi", 2));
    CHECK_STATUS(2, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, metadata,
                                  sizeof metadata, &info));
    CHECK(is_painted(got, sizeof got, 2) && info.metadata_size == 2);
    end(writer, reader);
}

static void a_peek_knows_when_it_was_overwritten(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, 2);
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    const void *pixels;
    uint32_t slot;
    CHECK_STATUS(0, lk_frame_peek(reader, LK_FRAME_NEWEST, &pixels, &slot, NULL, 0, &info));
    publish(writer, 1);
    CHECK_STATUS(1, lk_frame_peek(reader, LK_FRAME_NEWEST, &pixels, &slot, NULL, 0, &info));
    CHECK(is_painted(pixels, SMALL_SIZE, 1));
    publish(writer, 2);
    CHECK_STATUS(LK_OK, lk_frame_peek_check(reader, 1));
    publish(writer, 3);
    CHECK_STATUS(LK_E_OVERWRITTEN, lk_frame_peek_check(reader, 1));
    CHECK_STATUS(LK_E_INVALID, lk_frame_peek_check(reader, 0));
    end(writer, reader);
}

static void metrics_belong_to_their_frame(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, 3);
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    struct lk_frame_metrics metrics;
    CHECK_STATUS(1, lk_frame_publish_metrics(writer, frame, sizeof frame, NULL, 0, 1.5, -2.0, 60));
    CHECK_STATUS(LK_OK, lk_frame_set_metrics(writer, 9, 8, 7));
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
    CHECK(info.metrics.last_reward == 1.5 && info.metrics.rolling_return == -2.0);
    CHECK(info.metadata_size == -1);
    CHECK_STATUS(1, lk_frame_metrics(reader, &metrics));
    CHECK(metrics.last_reward == 9 && metrics.rolling_return == 8 && metrics.step_rate_hz == 7);
    CHECK_STATUS(2, lk_frame_publish(writer, frame, sizeof frame, "", 0));
    CHECK_STATUS(2, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
    CHECK(info.metrics.last_reward == 9 && info.metadata_size == 0);
    end(writer, reader);
}

static void somebody_watches_only_while_a_reader_is_there(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run, 3);
    CHECK_STATUS(0, lk_frame_watched(writer));
    lk_frame_reader *unseen;
    CHECK_STATUS(LK_OK, lk_frame_attach(&unseen, run, strlen(run), 0, NULL));
    CHECK_STATUS(0, lk_frame_watched(writer));
    lk_frame_reader *first = open_reader(run);
    lk_frame_reader *second = open_reader(run);
    CHECK_STATUS(1, lk_frame_watched(writer));
    lk_frame_reader_free(first);
    CHECK_STATUS(1, lk_frame_watched(writer));
    lk_frame_reader_free(second);
    CHECK_STATUS(0, lk_frame_watched(writer));
    /* A lease ends by itself. */
    lk_frame_reader *brief;
    CHECK_STATUS(LK_OK, lk_frame_attach(&brief, run, strlen(run), 20000000, NULL));
    CHECK_STATUS(1, lk_frame_watched(writer));
    pause_ms(40);
    CHECK_STATUS(0, lk_frame_watched(writer));
    lk_frame_reader_free(brief);
    end(writer, unseen);
}

static void impossible_requests_are_refused(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    struct lk_frame_config good = small_rgb(3);
    struct lk_frame_config bad[] = {good, good, good, good, good, good, good};
    bad[0].width = 0;
    bad[1].height = 70000;
    bad[2].channels = 4;
    bad[3].pixel_format = 17;
    bad[4].capacity = 0;
    bad[5].metadata_size = UINT32_MAX;
    bad[6] = (struct lk_frame_config){65536, 65536, 4, LK_PIXEL_RGBA, 1048576, 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_create(&writer, run, strlen(run), &bad[i]));
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_segment_size(&bad[i]));
    }
    CHECK_STATUS(4096 + 3 * (64 + 384 + 64), lk_frame_segment_size(&good));
    CHECK_STATUS(LK_E_INVALID, lk_frame_create(&writer, run, 0, &good));
    CHECK_STATUS(LK_E_NOT_FOUND, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &good));
    CHECK_STATUS(LK_E_SIZE, lk_frame_publish(writer, frame, sizeof frame - 1, NULL, 0));
    CHECK_STATUS(LK_E_METADATA_SIZE, lk_frame_publish(writer, frame, sizeof frame, frame, 41));
    reader = open_reader(run);
    struct lk_frame_info info;
    CHECK_STATUS(LK_E_SIZE, lk_frame_read(reader, LK_FRAME_NEWEST, got, 3, NULL, 0, &info));
    CHECK_STATUS(LK_E_INVALID, lk_frame_read(reader, 7, got, sizeof got, NULL, 0, &info));
    CHECK_STATUS(LK_E_SIZE, lk_frame_read(reader, 0, got, sizeof got, metadata, 39, &info));
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(reader, 0, 9));
    CHECK_STATUS(LK_OK, lk_frame_invalidate(writer));
    CHECK_STATUS(LK_E_INVALIDATED, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    CHECK_STATUS(LK_DEAD, lk_frame_writer_liveness(reader));
    lk_frame_reader_close(reader);
    CHECK_STATUS(LK_E_CLOSED, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
    end(writer, reader);
    CHECK(strcmp(lk_status_name(LK_E_MOVED), "LK_E_MOVED") == 0);
    CHECK(strcmp(lk_status_name(-99), "LK_E_UNNAMED") == 0);
}

static void large_rings_are_written_past_the_cache_with_the_same_result(void) {
    char run[64];
    fresh_run(run);
    struct lk_frame_config config = {1001, 997, 4, LK_PIXEL_BGRX, 12, 0}; /* 48 MB, odd sizes */
    size_t size = (size_t)config.width * config.height * config.channels;
    uint8_t *large = malloc(size);
    uint8_t *copy = malloc(size);
    lk_frame_writer *writer;
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    lk_frame_reader *reader = open_reader(run);
    struct lk_frame_info info;
    for (uint64_t seq = 1; seq <= 14; seq++) {
        paint(large, size, seq);
        CHECK_STATUS(seq, lk_frame_publish(writer, large, size, NULL, 0));
        CHECK_STATUS(seq, lk_frame_read(reader, LK_FRAME_NEXT, copy, size, NULL, 0, &info));
        CHECK(is_painted(copy, size, seq));
    }
    free(large);
    free(copy);
    end(writer, reader);
}

int main(void) {
    const uint32_t capacities[] = {1, 2, 3, 5, 8, 127};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        frames_come_back_whole(capacities[i]);
    }
    in_order_reading_counts_what_it_missed();
    a_reserved_slot_is_published_or_given_back();
    a_peek_knows_when_it_was_overwritten();
    metrics_belong_to_their_frame();
    somebody_watches_only_while_a_reader_is_there();
    impossible_requests_are_refused();
    large_rings_are_written_past_the_cache_with_the_same_result();
    return 0;
}
