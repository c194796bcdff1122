/*
 * lk_cpu.h: what this x86 processor can do.
 *
 * Asked once, when the library is loaded and no thread could look yet: in a virtual machine the
 * question takes its time. Not by __builtin_cpu_supports(), which needs a table of the compiler's
 * run-time library that not every linker can put into a shared object.
 */
#ifndef LK_CPU_H
#define LK_CPU_H

#include <stdbool.h>

struct lk_cpu {
    bool amd;
    bool ssse3;
    bool avx; /* and the system saves its registers */
};

extern struct lk_cpu lk_cpu;

#endif
