/* The trajectory lane beside a peer that scribbles; see scribble.h. */
#include "scribble.h"

#include "lk_segment.h"

enum { RINGS = 3, FIELDS = 4, RING = 8192, MOST = 8, WRITERS = 2, HELD = 64, NOTE = 100 };

static const struct lk_traj_field fields[FIELDS] = {
    {.name = "tokens", .dtype = "<i4", .item_size = 4, .flags = LK_TRAJ_RAGGED},
    {.name = "score", .dtype = "<f4", .item_size = 4},
    {.name = "image",
     .dtype = "|u1",
     .item_size = 1,
     .flags = LK_TRAJ_RAGGED | LK_TRAJ_OPTIONAL,
     .dimensions = 2,
     .shape = {4, 3}},
    {.name = "value", .dtype = "<f8", .item_size = 8, .flags = LK_TRAJ_OPTIONAL},
};
static const uint64_t row_sizes[FIELDS] = {4, 4, 12, 8};
static const struct lk_traj_config config = {
    .rings = RINGS, .fields = FIELDS, .schema_version = 1, .ring_size = RING};

static char run[64];
static char name[160];
static lk_traj_reader *reader;
static lk_traj_writer *writers[WRITERS];
static struct lk_traj_record held[HELD];
static uint32_t held_count;
static bool ended;

static void make_reader(void) {
    while (answer(lk_traj_create(&reader, run, strlen(run), &config, fields)) < 0) {
        remove_segment(name);
    }
    held_count = 0;
    ended = false;
}

static void make_writer(uint32_t i) {
    bool kept = below(8) == 0;
    uint64_t absence = below(2) == 0 ? 0 : 1000000000;
    uint32_t ring = below(2) == 0 ? LK_TRAJ_ANY_RING : (uint32_t)below(RINGS + 1);
    if (kept) {
        answer(lk_traj_attach_kept(&writers[i], run, strlen(run), ring, absence, NULL));
    } else if (below(2) == 0) {
        answer(lk_traj_attach(&writers[i], run, strlen(run), NULL, 0, 0, absence, NULL));
    } else {
        answer(lk_traj_attach(&writers[i], run, strlen(run), fields, FIELDS, 1, absence, NULL));
    }
    ended = writers[i] == NULL && below(8) == 0; /* a lane that nobody can join */
}

static void drop_writer(uint32_t i) {
    lk_traj_writer_free(writers[i]);
    writers[i] = NULL;
}

static void drop_reader(void) {
    if (below(2) == 0) {
        answer(lk_traj_reader_leave(reader)); /* the next one takes over what is there */
    } else {
        answer(lk_traj_reader_unlink(reader));
    }
    lk_traj_reader_free(reader);
    reader = NULL;
}

static void begin(struct scribble_plan *plan) {
    static struct scribble_range ranges[] = {
        {0, 512, 8, 8},                                               /* the common header */
        {512, 576, 8, 8},                                             /* geometry */
        {576, 656, 8, 8},                                             /* consumer, bell */
        {4096, 4096 + FIELDS * sizeof(struct lk_traj_field), 8, 8},   /* schema */
        {4608, 4608 + RINGS * sizeof(struct lk_traj_ring), 256, 144}, /* control blocks */
        {4608, 4608 + RINGS * sizeof(struct lk_traj_ring), 64, 16},   /* heads, tails, places */
        {8192, 8192 + RINGS * RING, 64, 64},                          /* records */
        {8192, 8192 + RINGS * RING, RING, 192}, /* the first record's header and rows */
    };
    CHECK(sizeof fields == 512);
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_TRAJ, run, strlen(run), name, sizeof name));
    memcpy(plan->name, name, sizeof name);
    plan->ranges = ranges;
    plan->count = sizeof ranges / sizeof ranges[0];
    make_reader();
    for (uint32_t i = 0; i < WRITERS; i++) {
        make_writer(i);
    }
}

static void end(void) {
    for (uint32_t i = 0; i < WRITERS; i++) {
        drop_writer(i);
    }
    drop_reader();
}

static void put(lk_traj_writer *writer) {
    static const uint8_t content[400];
    struct lk_traj_array arrays[FIELDS] = {
        {content, below(100)},
        {content, 1},
        {content, below(3) == 0 ? UINT64_MAX : below(30)},
        {content, below(2) == 0 ? UINT64_MAX : 1},
    };
    uint64_t timeout = below(8) == 0 ? below(100000) : 0;
    size_t noted = below(NOTE);
    if (below(4) != 0) {
        answer(lk_traj_put(writer, arrays, content, noted, timeout));
        return;
    }
    uint64_t rows[FIELDS];
    void *data[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        rows[i] = arrays[i].rows;
    }
    if (answer(lk_traj_reserve(writer, rows, noted, timeout, data)) == 1) {
        for (int i = 0; i < FIELDS; i++) {
            if (data[i] != NULL) {
                memset(data[i], 1, rows[i] * row_sizes[i]);
            }
        }
        answer(below(2) == 0 ? lk_traj_commit(writer, content, noted) : lk_traj_abandon(writer));
    }
}

static void ask_writer(lk_traj_writer *writer) {
    struct lk_traj_ring_status ring;
    struct lk_traj_place place;
    struct lk_traj_config found;
    struct lk_traj_field described[LK_TRAJ_FIELDS_MAX];
    lk_segment *segment;
    switch (below(4)) {
    case 0: answer(lk_traj_writer_ring(writer, &ring)); break;
    case 1:
        if (answer(lk_traj_writer_place(writer, &place)) == LK_OK) {
            CHECK(place.ring < RINGS);
        }
        break;
    case 2:
        if (answer(lk_traj_writer_config(writer, &found, described)) == LK_OK) {
            CHECK(found.fields >= 1 && found.fields <= LK_TRAJ_FIELDS_MAX);
        }
        break;
    default:
        if (answer(lk_traj_writer_view(writer, &segment)) == LK_OK) {
            lk_segment_release(segment);
        }
        break;
    }
}

/* What a record lends lies in its ring, all of it. */
static void check_lent(const uint8_t *base, uint32_t ring, const void *lent, uint64_t size) {
    const uint8_t *data = base + 8192 + (uint64_t)ring * RING;
    const uint8_t *at = lent;
    CHECK(at >= data && size <= RING && at + size <= data + RING);
    touch(lent, size);
}

static void take(void) {
    lk_segment *segment;
    uint32_t most = 1 + (uint32_t)below(MOST);
    uint32_t spoiled = 0;
    if (answer(lk_traj_reader_view(reader, &segment)) != LK_OK) {
        return;
    }
    struct lk_traj_record *records = calloc(most, sizeof *records);
    struct lk_traj_array *arrays = calloc((size_t)most * FIELDS, sizeof *arrays);
    CHECK(records != NULL && arrays != NULL);
    int64_t count = answer(lk_traj_take(reader, most, records, arrays, &spoiled));
    CHECK(count <= (int64_t)most && spoiled < RINGS);
    for (uint32_t i = 0; (int64_t)i < count; i++) {
        const struct lk_traj_record *record = &records[i];
        CHECK(record->ring < RINGS);
        for (int j = 0; j < FIELDS; j++) {
            const struct lk_traj_array *array = &arrays[(size_t)i * FIELDS + (size_t)j];
            if (array->rows != UINT64_MAX) {
                check_lent(lk_segment_base(segment), record->ring, array->data,
                           array->rows * row_sizes[j]);
            }
        }
        check_lent(lk_segment_base(segment), record->ring, record->metadata, record->metadata_size);
        if (held_count < HELD) {
            held[held_count++] = *record;
        } else {
            answer(lk_traj_release(reader, record->ring, record->ticket));
        }
    }
    free(arrays);
    free(records);
    lk_segment_release(segment);
}

static void give_back(void) {
    if (held_count > 0) {
        uint32_t which = (uint32_t)below(held_count);
        answer(lk_traj_release(reader, held[which].ring, held[which].ticket));
        held[which] = held[--held_count];
    }
}

static void ask_reader(void) {
    struct lk_traj_ring_status *rings = exactly(RINGS * sizeof *rings);
    struct lk_traj_config found;
    switch (below(4)) {
    case 0: answer(lk_traj_wait(reader, below(200000))); break;
    case 1: answer(lk_traj_exhausted(reader)); break;
    case 2: answer(lk_traj_reader_rings(reader, rings)); break;
    default: answer(lk_traj_reader_config(reader, &found)); break;
    }
    free(rings);
}

static void inspect(void) {
    struct lk_traj_status status;
    struct lk_traj_field *described = exactly(LK_TRAJ_FIELDS_MAX * sizeof *described);
    struct lk_traj_ring_status *rings = exactly(LK_TRAJ_RINGS_MAX * sizeof *rings);
    if (answer(lk_traj_inspect(name, &status, described, rings)) == LK_OK) {
        CHECK(status.config.fields <= LK_TRAJ_FIELDS_MAX);
        for (uint32_t i = 0; i < status.config.fields; i++) {
            CHECK(memchr(described[i].name, 0, sizeof described[i].name) != NULL);
            CHECK(memchr(described[i].dtype, 0, sizeof described[i].dtype) != NULL);
            CHECK(described[i].dimensions <= 5);
        }
    }
    free(rings);
    free(described);
}

static void use(void) {
    uint32_t i = (uint32_t)below(WRITERS);
    if (ended || below(1000) == 0) {
        drop_reader();
        make_reader();
    }
    if (writers[i] == NULL || below(200) == 0) {
        drop_writer(i);
        make_writer(i);
    }
    switch (below(8)) {
    case 0: ask_reader(); break;
    case 1: take(); break;
    case 2:
    case 3: give_back(); break;
    case 4:
        if (below(20) == 0) {
            inspect();
        }
        break;
    case 5:
        if (writers[i] != NULL) {
            ask_writer(writers[i]);
        }
        break;
    default:
        if (writers[i] != NULL) {
            put(writers[i]);
        }
        break;
    }
}

int main(int count, char **arguments) {
    const struct scribble_user user = {.begin = begin, .use = use, .end = end};
    return scribble_main(count, arguments, &user);
}
