/* lk_stress.h: lk_stress_api.h for the compiler. */
#ifndef LK_STRESS_H
#define LK_STRESS_H

#include <stddef.h>
#include <stdint.h>

#include "lk_stress_api.h"

#endif
