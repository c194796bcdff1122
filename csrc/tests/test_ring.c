/*
 * The byte ring alone, in one thread: every size at every offset, long random sequences against a
 * plain queue, and shared words that no honest peer would write. The ring lies between two pages
 * that can not be touched, so that a step outside of it ends the test.
 */
#include "check.h"
#include "command_segment.h"
#include "lk_ring.h"

#include <sys/mman.h>

#define PAGE ((size_t)4096)

/* A ring whose data ends where the untouchable page begins. */
struct fenced {
    uint8_t *pages;
    size_t pages_size;
    uint8_t *region;
};

static struct fenced fence(uint64_t ring_bytes) {
    struct fenced made;
    size_t region_size = (size_t)lk_ring_region_size(ring_bytes);
    size_t inner = (region_size + PAGE - 1) / PAGE * PAGE;
    made.pages_size = inner + 2 * PAGE;
    made.pages = mmap(NULL, made.pages_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made.pages != MAP_FAILED);
    CHECK(mprotect(made.pages + PAGE, inner, PROT_READ | PROT_WRITE) == 0);
    made.region = made.pages + PAGE + inner - region_size;
    return made;
}

static void unfence(struct fenced *made) {
    CHECK(munmap(made->pages, made->pages_size) == 0);
}

static void open_both(const struct fenced *made, uint64_t ring_bytes, struct lk_ring_end *writer,
                      struct lk_ring_end *reader) {
    CHECK_STATUS(LK_OK, lk_ring_open_writer(writer, made->region, ring_bytes));
    CHECK_STATUS(LK_OK, lk_ring_open_reader(reader, made->region, ring_bytes));
}

static void only_sizes_that_keep_the_alignment_are_possible(void) {
    CHECK_STATUS(LK_OK, lk_ring_check_size(LK_RING_BYTES_MIN));
    CHECK_STATUS(LK_OK, lk_ring_check_size(LK_RING_BYTES_MAX));
    const uint64_t impossible[] = {0, 8, 63, 65, 4096 + 8, LK_RING_BYTES_MAX + 64u, UINT64_MAX};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_ring_check_size(impossible[i]));
    }
}

static void every_size_passes_at_every_offset(void) {
    const uint64_t ring_bytes = 128;
    struct fenced made = fence(ring_bytes);
    uint8_t message[128];
    uint8_t got[128];
    size_t found;
    size_t size;
    for (uint64_t offset = 0; offset < ring_bytes; offset += 8) {
        for (size = 0; size <= lk_ring_limit(ring_bytes); size++) {
            struct lk_ring_end writer;
            struct lk_ring_end reader;
            struct lk_ring_header *header = (struct lk_ring_header *)(void *)made.region;
            uint64_t start = 5 * ring_bytes + offset;
            atomic_store(&header->write_pos, start);
            atomic_store(&header->read_pos, start);
            open_both(&made, ring_bytes, &writer, &reader);
            paint(message, size, size + offset);
            memset(got, 0, sizeof got);
            CHECK_STATUS(0, lk_ring_peek(&reader, &found));
            CHECK_STATUS(1, lk_ring_write(&writer, message, size));
            uint64_t taken = (4 + size + 7) / 8 * 8;
            CHECK(atomic_load(&header->write_pos) == start + taken);
            CHECK_STATUS(1, lk_ring_peek(&reader, &found));
            CHECK(found == size);
            if (size > 0) {
                CHECK_STATUS(LK_E_SIZE, lk_ring_read(&reader, got, size - 1, &found));
                CHECK(found == size); /* the entry stays, and says what it needs */
            }
            CHECK_STATUS(1, lk_ring_read(&reader, got, size, &found));
            CHECK(found == size && is_painted(got, size, size + offset));
            CHECK(atomic_load(&header->read_pos) == start + taken);
            CHECK_STATUS(0, lk_ring_read(&reader, got, sizeof got, &found));
        }
        size = (size_t)lk_ring_limit(ring_bytes) + 1;
        struct lk_ring_end writer;
        CHECK_STATUS(LK_OK, lk_ring_open_writer(&writer, made.region, ring_bytes));
        CHECK_STATUS(LK_E_TOO_LARGE, lk_ring_write(&writer, message, size));
        CHECK_STATUS(LK_E_TOO_LARGE, lk_ring_write(&writer, message, SIZE_MAX));
    }
    unfence(&made);
}

static void the_bytes_are_those_of_the_layout(void) {
    struct fenced made = fence(64);
    struct lk_ring_end writer;
    CHECK_STATUS(LK_OK, lk_ring_open_writer(&writer, made.region, 64));
    memset(made.region + sizeof(struct lk_ring_header), 0xee, 64);
    CHECK_STATUS(1, lk_ring_write(&writer, "hello", 5));
    CHECK_STATUS(1, lk_ring_write(&writer, "", 0));
    const uint8_t expected[] = {5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o', 0, 0, 0,   0,
                                0, 0, 0, 0, 0,   0,   0,   0,   0,   0, 0, 0xee};
    CHECK(memcmp(made.region + 128, expected, sizeof expected) == 0);
    unfence(&made);
}

/* What the ring must be like: a queue of numbers. */
static void long_random_sequences_equal_a_queue(uint64_t ring_bytes, uint64_t seed, int turns) {
    struct fenced made = fence(ring_bytes);
    struct lk_ring_end writer;
    struct lk_ring_end reader;
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t used = 0;
    uint8_t message[MESSAGE_MAX];
    uint8_t got[MESSAGE_MAX];
    size_t most =
        lk_ring_limit(ring_bytes) < MESSAGE_MAX ? (size_t)lk_ring_limit(ring_bytes) : MESSAGE_MAX;
    open_both(&made, ring_bytes, &writer, &reader);
    for (int turn = 0; turn < turns; turn++) {
        uint64_t dice = next_random(&seed) % 16;
        if (dice < 8) {
            size_t size = make_message(message, sent + 1, most);
            uint64_t taken = (4 + size + 7) / 8 * 8;
            int fits = used + taken <= ring_bytes;
            CHECK_STATUS(fits, lk_ring_write(&writer, message, size));
            sent += (uint64_t)fits;
            used += fits ? taken : 0;
        } else if (dice < 15) {
            size_t size;
            int there = received < sent;
            CHECK_STATUS(there, lk_ring_read(&reader, got, sizeof got, &size));
            if (there) {
                CHECK(check_message(got, size, most) == ++received);
                used -= (4 + size + 7) / 8 * 8;
            }
        } else {
            /* Either end may be given to a successor at any time. */
            open_both(&made, ring_bytes, &writer, &reader);
        }
    }
    CHECK(sent > (uint64_t)turns / 8 && received + ring_bytes / 8 >= sent);
    unfence(&made);
}

static void what_a_dead_writer_had_not_announced_does_not_exist(void) {
    struct fenced made = fence(64);
    struct lk_ring_end writer;
    struct lk_ring_end reader;
    uint8_t got[64];
    size_t size;
    open_both(&made, 64, &writer, &reader);
    CHECK_STATUS(1, lk_ring_write(&writer, "first", 5));
    /* It died part way through the second: a length and some bytes. */
    const uint8_t half[] = {200, 0, 0, 0, 'h', 'a', 'l', 'f'};
    memcpy(made.region + 128 + 16, half, sizeof half);
    CHECK_STATUS(1, lk_ring_read(&reader, got, sizeof got, &size));
    CHECK_STATUS(0, lk_ring_read(&reader, got, sizeof got, &size));
    CHECK_STATUS(LK_OK, lk_ring_open_writer(&writer, made.region, 64));
    CHECK_STATUS(1, lk_ring_write(&writer, "second", 6));
    CHECK_STATUS(1, lk_ring_read(&reader, got, sizeof got, &size));
    CHECK(size == 6 && memcmp(got, "second", 6) == 0);
    unfence(&made);
}

static void positions_that_can_not_be_are_refused(void) {
    const uint64_t ring_bytes = 256;
    struct fenced made = fence(ring_bytes);
    struct lk_ring_header *header = (struct lk_ring_header *)(void *)made.region;
    struct lk_ring_end writer;
    struct lk_ring_end reader;
    uint8_t got[256];
    size_t size;
    const uint64_t wrong_for_reader[] = {
        1, 4, ring_bytes + 8, UINT64_MAX, UINT64_MAX - 7, 12, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof wrong_for_reader / sizeof *wrong_for_reader; i++) {
        memset(made.region, 0, 128);
        open_both(&made, ring_bytes, &writer, &reader);
        atomic_store(&header->write_pos, wrong_for_reader[i]);
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_peek(&reader, &size));
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_read(&reader, got, sizeof got, &size));
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_open_reader(&reader, made.region, ring_bytes));
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_open_writer(&writer, made.region, ring_bytes));
    }
    const uint64_t wrong_for_writer[] = {1, 8, ring_bytes, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof wrong_for_writer / sizeof *wrong_for_writer; i++) {
        memset(made.region, 0, 128);
        open_both(&made, ring_bytes, &writer, &reader);
        atomic_store(&header->read_pos, wrong_for_writer[i]); /* ahead of what was written */
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_write(&writer, got, 4));
    }
    const uint64_t beyond = (UINT64_C(1) << 62) + 8; /* sums of such positions could wrap */
    atomic_store(&header->write_pos, beyond);
    atomic_store(&header->read_pos, beyond);
    CHECK_STATUS(LK_E_CORRUPT, lk_ring_open_reader(&reader, made.region, ring_bytes));
    CHECK_STATUS(LK_E_CORRUPT, lk_ring_open_writer(&writer, made.region, ring_bytes));
    memset(made.region, 0, 128);
    open_both(&made, ring_bytes, &writer, &reader);
    CHECK_STATUS(1, lk_ring_write(&writer, got, 4));
    atomic_store(&header->read_pos, 4);
    CHECK_STATUS(LK_E_CORRUPT, lk_ring_write(&writer, got, 4));
    atomic_store(&header->read_pos, 0);
    const uint32_t lengths[] = {5, 244, 4096, UINT32_MAX, UINT32_MAX - 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(made.region + 128, &lengths[i], sizeof lengths[i]);
        CHECK_STATUS(LK_E_CORRUPT, lk_ring_read(&reader, got, sizeof got, &size));
    }
    uint32_t honest = 4;
    memcpy(made.region + 128, &honest, sizeof honest);
    CHECK_STATUS(1, lk_ring_read(&reader, got, sizeof got, &size)); /* nothing was spoilt by it */
    unfence(&made);
}

static void a_mad_peer_moves_no_access_out_of_the_ring(uint64_t seed, int turns) {
    const uint64_t ring_bytes = 192;
    struct fenced made = fence(ring_bytes);
    struct lk_ring_header *header = (struct lk_ring_header *)(void *)made.region;
    struct lk_ring_end writer;
    struct lk_ring_end reader;
    uint8_t got[192] = {0};
    size_t size;
    int passed = 0;
    for (int turn = 0; turn < turns; turn++) {
        if (turn % 64 == 0) {
            memset(made.region, 0, (size_t)lk_ring_region_size(ring_bytes));
            open_both(&made, ring_bytes, &writer, &reader);
        }
        uint64_t value = next_random(&seed);
        uint64_t near = writer.position + value % 512 / 8 * 8 - 256;
        switch (next_random(&seed) % 8) {
        case 0: atomic_store(&header->write_pos, value); break;
        case 1: atomic_store(&header->read_pos, value); break;
        case 2: atomic_store(&header->write_pos, near); break;
        case 3: atomic_store(&header->read_pos, near); break;
        case 4: memcpy(made.region + 128 + value % 24 * 8, &value, 4); break;
        case 5: atomic_store(&header->space_wake_at, value); break;
        case 6: atomic_store(&header->entry_wake_at, value); break;
        default: break;
        }
        int wrote = lk_ring_write(&writer, got, value % 192);
        CHECK(wrote == 0 || wrote == 1 || wrote == LK_E_CORRUPT || wrote == LK_E_TOO_LARGE);
        int read = lk_ring_read(&reader, got, sizeof got, &size);
        CHECK(read == 0 || read == 1 || read == LK_E_CORRUPT);
        CHECK(size <= lk_ring_limit(ring_bytes));
        passed += read == 1;
        int opened = lk_ring_open_reader(&reader, made.region, ring_bytes);
        CHECK(opened == LK_OK || opened == LK_E_CORRUPT);
    }
    CHECK(passed > turns / 100); /* it was no more than half mad */
    unfence(&made);
}

int main(void) {
    only_sizes_that_keep_the_alignment_are_possible();
    every_size_passes_at_every_offset();
    the_bytes_are_those_of_the_layout();
    for (uint64_t ring_bytes = 64; ring_bytes <= 1024; ring_bytes += 64) {
        long_random_sequences_equal_a_queue(ring_bytes, ring_bytes * 7919, 20000);
    }
    what_a_dead_writer_had_not_announced_does_not_exist();
    positions_that_can_not_be_are_refused();
    a_mad_peer_moves_no_access_out_of_the_ring(88172645463325252u, 200000);
    return 0;
}
