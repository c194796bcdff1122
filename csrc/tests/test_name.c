/* Segment names: readable, distinct, computable elsewhere (SHA-256 test vectors of FIPS 180-4). */
#include "check.h"

static void expect(const char *run_id, const char *name) {
    char out[160];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run_id, strlen(run_id), out, sizeof out));
    if (strcmp(out, name) != 0) {
        fprintf(stderr, "name of \"%s\" is %s, expected %s\n", run_id, out, name);
        abort();
    }
}

/* As sha256sum has it, for so many times "x": around the ends of the hash's blocks, and of its
 * padding. */
static void long_ids_are_hashed_whole(void) {
    const struct {
        size_t size;
        unsigned long long hash;
    } known[] = {
        {55, 0xd5e285683cd4efc0},  {56, 0x04c26261370ee754},  {63, 0x75220b47218278e6},
        {64, 0x7ce100971f64e700},  {65, 0x9537c5fdf120482f},  {119, 0x000b48d4edf0fa7b},
        {120, 0x13f05a0b594787f5}, {127, 0x70156a14adbabf98}, {128, 0x24da1b81d0b16df6},
        {129, 0x0ec9eb33e74510bc}, {199, 0xf18029ae3f973208},
    };
    char id[200], hash[32], name[160];
    memset(id, 'x', sizeof id);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(hash, sizeof hash, "-%016llx", known[i].hash);
        CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_TRAJ, id, known[i].size, name, sizeof name));
        CHECK(strcmp(name + strlen(name) - 17, hash) == 0);
    }
}

static void a_name_needs_room_for_itself_and_its_end(void) {
    const char *name = "lanekit-step-abc-ba7816bf8f01cfea";
    char out[64];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_STEP, "abc", 3, out, strlen(name) + 1));
    CHECK(strcmp(out, name) == 0);
    CHECK_STATUS(LK_E_SIZE, lk_segment_name(LK_KIND_STEP, "abc", 3, out, strlen(name)));
}

static void the_platform_describes_itself(void) {
    struct lk_platform_info info;
    memset(&info, 0x7F, sizeof info);
    CHECK_STATUS(LK_OK, lk_platform_describe(&info));
    CHECK(info.atomics_lock_free == 1 && info.futex_works == 1);
    CHECK(strlen(info.compiler) > 0 && strlen(info.compiler) <= 60);
    CHECK(strlen(info.copy_method) > 0);
}

int main(void) {
    char out[160];
    the_platform_describes_itself();
    long_ids_are_hashed_whole();
    a_name_needs_room_for_itself_and_its_end();
    expect("abc", "lanekit-frame-abc-ba7816bf8f01cfea");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
           "lanekit-frame-abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmno-248d6a61d20638b8");
    expect("///", "lanekit-frame-run-732c4e9711639ed1");
    /* All lengths around the padding boundaries of the hash. */
    char id[200];
    memset(id, 'x', sizeof id);
    char seen[200][160];
    for (size_t size = 1; size < 200; size++) {
        CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, id, size, seen[size], 160));
        CHECK(strlen(seen[size]) < 100);
        for (size_t other = 1; other < size; other++) {
            CHECK(strcmp(seen[size], seen[other]) != 0);
        }
    }
    CHECK_STATUS(LK_E_INVALID, lk_segment_name(LK_KIND_FRAME, "a", 0, out, sizeof out));
    CHECK_STATUS(LK_E_INVALID, lk_segment_name(99, "a", 1, out, sizeof out));
    CHECK_STATUS(LK_E_SIZE, lk_segment_name(LK_KIND_FRAME, "a", 1, out, 10));
    return 0;
}
