/* The copies move exactly the bytes asked for, at every size and alignment. */
#include "check.h"
#include "lk_platform.h"

static _Atomic uint64_t shared[1024];
static uint8_t source[8192];
static uint8_t target[8192];

typedef void (*copy_in)(_Atomic uint64_t *shared, const void *private_bytes, size_t size);

static void try_size(copy_in copy, size_t size, size_t misalignment) {
    memset((void *)shared, 0xEE, sizeof shared);
    copy(shared, source + misalignment, size);
    CHECK(memcmp((const void *)shared, source + misalignment, size) == 0);
    const uint8_t *bytes = (const uint8_t *)shared;
    CHECK(bytes[size] == 0xEE);
    memset(target, 0xDD, sizeof target);
    lk_copy_from_shared(target + misalignment, shared, size);
    CHECK(memcmp(target + misalignment, source + misalignment, size) == 0);
    CHECK(target[misalignment + size] == 0xDD);
    CHECK(misalignment == 0 || target[misalignment - 1] == 0xDD);
}

static void try_every_copy(size_t size) {
    for (size_t misalignment = 0; misalignment <= LK_CACHE_LINE; misalignment++) {
        try_size(lk_copy_to_shared, size, misalignment);
        try_size(lk_copy_to_shared_streaming, size, misalignment);
    }
}

int main(void) {
    for (size_t i = 0; i < sizeof source; i++) {
        source[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    for (size_t size = 0; size < 400; size++) {
        try_every_copy(size);
    }
    for (size_t size = 2000; size < 2500; size++) { /* around where looking ahead begins */
        try_every_copy(size);
    }
    try_every_copy(8000);
#if defined(LK_COPY_VECTORS) && defined(LK_COPY_X86)
    const char *expected = LK_COPY_VECTORS ? "vectors" : "rep movsb";
    CHECK(strcmp(lk_copy_method(), expected) == 0 || !__builtin_cpu_supports("avx"));
#endif
    CHECK(lk_streaming_threshold() >= 4u << 20);
    CHECK(lk_streaming_threshold() <= 32u << 20);
    return 0;
}
