/* The fast lane beside a peer that scribbles; see scribble.h. */
#include "scribble.h"

enum { WIDTH = 16, HEIGHT = 8, CAPACITY = 4 };
#define FRAME_SIZE ((size_t)WIDTH * HEIGHT * 3)
#define ROOM 64u

static char run[64];
static char name[160];
static lk_frame_writer *writer;
static lk_frame_reader *reader;
static struct lk_frame_config writing;
static struct lk_frame_config reading;
static struct lk_frame_info info;
static uint8_t *pixels;   /* exactly one frame */
static uint8_t *metadata; /* exactly what a frame may carry */
static size_t frame_size;
static bool ended; /* somebody marked the segment as left, and it looks to its writer like that */

static const uint64_t stride = sizeof(struct lk_frame_slot) + FRAME_SIZE + ROOM;

static void make_writer(void) {
    writing = (struct lk_frame_config){
        .width = WIDTH,
        .height = HEIGHT,
        .channels = 3,
        .pixel_format = LK_PIXEL_RGB,
        .capacity = 1 + (uint32_t)below(CAPACITY),
        .metadata_size = below(2) == 0 ? ROOM : (uint32_t)below(UINT64_C(2) * ROOM),
    };
    while (answer(lk_frame_create(&writer, run, strlen(run), &writing)) != LK_OK) {
        remove_segment(name); /* what lies there was spoilt too far to be replaced */
    }
    ended = false;
}

static void drop_writer(void) {
    if (writer != NULL) {
        answer(lk_frame_writer_unlink(writer));
        lk_frame_writer_free(writer);
        writer = NULL;
    }
}

/* Buffers of exactly the size that the reader's geometry asks for. */
static void fit_buffers(void) {
    if (answer(lk_frame_reader_config(reader, &reading)) != LK_OK) {
        return;
    }
    free(pixels);
    free(metadata);
    frame_size = (size_t)reading.width * reading.height * reading.channels;
    pixels = exactly(frame_size);
    metadata = exactly(reading.metadata_size);
    info = (struct lk_frame_info){.seq = 0};
}

static void make_reader(void) {
    uint64_t lease = below(2) == 0 ? 0 : 900000000;
    if (answer(lk_frame_attach(&reader, run, strlen(run), lease, NULL)) == LK_OK) {
        fit_buffers();
    } else {
        ended = below(8) == 0; /* of a lane that nobody can join there is little to see */
    }
}

static void drop_reader(void) {
    lk_frame_reader_free(reader);
    reader = NULL;
}

static void begin(struct scribble_plan *plan) {
    static const struct scribble_range ranges[] = {
        {0, 512, 8, 8},                                               /* the common header */
        {512, 576, 8, 8},                                             /* geometry */
        {576, 768, 8, 8},                                             /* head, wakes, metrics */
        {1024, 1024 + LK_FRAME_VIEWERS * 64ull, 64, 24},              /* viewers */
        {4096, 4096 + CAPACITY * (4096 + 64 + 384 + 64), 64, 64},     /* slots */
        {4096, 4096 + CAPACITY * (64 + 384 + 64), 64 + 384 + 64, 48}, /* their first words */
        {4136, 4136 + CAPACITY * (64 + 384 + 64), 64 + 384 + 64, 8},  /* metadata sizes */
    };
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    memcpy(plan->name, name, sizeof name);
    plan->ranges = ranges;
    plan->count = sizeof ranges / sizeof ranges[0];
    CHECK(stride == ranges[5].step);
    make_writer();
    make_reader();
}

static void end(void) {
    drop_reader();
    drop_writer();
}

static void publish(void) {
    static const uint8_t frame[FRAME_SIZE];
    static const uint8_t note[(size_t)2 * ROOM];
    size_t noted = below(writing.metadata_size + 1);
    void *lent;
    switch (below(8)) {
    case 0: ended = answer(lk_frame_publish(writer, frame, sizeof frame, NULL, 0)) < 0; break;
    case 1: answer(lk_frame_set_metrics(writer, 1, 2, 3)); break;
    case 2: answer(lk_frame_watched(writer)); break;
    case 3: answer(lk_frame_heartbeat(writer)); break;
    case 4:
        if (answer(lk_frame_reserve(writer, &lent)) >= 0) {
            memset(lent, 1, sizeof frame);
            answer(below(2) == 0 ? lk_frame_commit_metadata(writer, note, noted)
                                 : lk_frame_abandon(writer));
        }
        break;
    default:
        answer(lk_frame_publish_metrics(writer, frame, sizeof frame, note, noted, 1, 2, 3));
        break;
    }
}

/* What a caller does with the information about the frame it had last. */
static void look_at_last_info(void) {
    if (info.seq != 0 && info.metadata_size > 0) {
        touch(metadata, (size_t)info.metadata_size);
    }
    CHECK(info.metadata_size >= -1 && info.metadata_size <= (int64_t)reading.metadata_size);
}

static int64_t after_moving(int64_t status) {
    if (status == LK_E_MOVED) {
        fit_buffers();
    }
    return status;
}

static void read_one(void) {
    int64_t seq = answer(lk_frame_read(reader, (int)below(3), pixels, frame_size, metadata,
                                       reading.metadata_size, &info));
    if (after_moving(seq) > 0) {
        CHECK(info.seq == (uint64_t)seq);
    }
    look_at_last_info();
}

static void peek_one(void) {
    const void *lent = NULL;
    uint32_t slot = 0;
    int64_t seq = answer(
        lk_frame_peek(reader, (int)below(3), &lent, &slot, metadata, reading.metadata_size, &info));
    if (after_moving(seq) > 0) {
        lk_segment *segment;
        const void *same;
        touch(lent, frame_size);
        look_at_last_info();
        if (answer(lk_frame_reader_view(reader, slot, &segment, &same)) == LK_OK) {
            CHECK(same == lent);
            touch(same, frame_size);
            lk_segment_release(segment);
        }
        answer(lk_frame_peek_check(reader, (uint64_t)seq));
        answer(lk_frame_peek_check(reader, chance()));
    }
    look_at_last_info();
}

static void ask(void) {
    struct lk_frame_metrics metrics;
    struct lk_frame_stats stats;
    switch (below(4)) {
    case 0: after_moving(answer(lk_frame_metrics(reader, &metrics))); break;
    case 1: answer(lk_frame_reader_stats(reader, &stats)); break;
    case 2: after_moving(answer(lk_frame_writer_liveness(reader))); break;
    default: after_moving(answer(lk_frame_wait(reader, below(300000), (int)below(3)))); break;
    }
}

/* Without joining, as `lanekit ls` and `lanekit top` look. */
static void inspect(void) {
    struct lk_frame_status status;
    struct lk_segment_info segment;
    answer(lk_frame_inspect(name, &status));
    answer(lk_segment_inspect(name, &segment));
    CHECK(segment.run_id_size <= sizeof segment.run_id);
    touch(segment.run_id, segment.run_id_size);
    answer(lk_segment_judge(name));
}

static void use(void) {
    if (ended || below(3000) == 0) {
        drop_writer(); /* and the reader follows */
        make_writer();
    }
    if (reader == NULL || below(300) == 0) {
        drop_reader();
        make_reader();
    }
    switch (below(reader == NULL ? 4 : 16)) {
    case 0:
    case 1:
    case 2: publish(); break;
    case 3:
        if (below(20) == 0) {
            inspect();
        }
        break;
    case 4:
    case 5: peek_one(); break;
    case 6: ask(); break;
    default: read_one(); break;
    }
}

int main(int count, char **arguments) {
    const struct scribble_user user = {.begin = begin, .use = use, .end = end};
    return scribble_main(count, arguments, &user);
}
