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

int main(void) {
    char out[160];
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
