/* lk_cpu.c: asking the processor; see lk_cpu.h. */
#include "lk_cpu.h"

struct lk_cpu lk_cpu;

#if defined(__x86_64__)

#include <cpuid.h>

static bool saves_vectors(void) {
    enum { XMM_AND_YMM = 6 };
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & XMM_AND_YMM) == XMM_AND_YMM;
}

__attribute__((constructor)) static void ask(void) {
    unsigned a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d) != 0) {
        lk_cpu.amd = b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
    }
    if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
        lk_cpu.ssse3 = (c & bit_SSSE3) != 0;
        lk_cpu.avx = (c & bit_OSXSAVE) != 0 && (c & bit_AVX) != 0 && saves_vectors();
    }
}

#endif
