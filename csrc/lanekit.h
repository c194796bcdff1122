/*
 * lanekit.h: the C interface of lanekit, for C11 and C++.
 *
 * The declarations live in lanekit_api.h, which cffi reads as well; this file adds what a compiler
 * needs around them. The bytes in shared memory are described in lk_layout.h and docs/layout.md.
 */
#ifndef LANEKIT_H
#define LANEKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lanekit_api.h"

#ifdef __cplusplus
}
#endif

#endif
