/*
 * lk_step.h: what the step lane's server and client share: geometry and the arithmetic of
 * exchanges.
 *
 * Labels: the two sequences use [W1] and [W2] of lk_wait.h, the end of the segment [S2] of
 * lk_segment.c.
 *
 * Why that suffices: the two sides never touch a region at the same time. What the client writes,
 * it writes while no exchange of that half is under way, and action_seq [W1] hands it over; what
 * the server writes, it writes between seeing action_seq and raising frame_seq, which [W1] hands it
 * back. So regions are plain memory.
 */
#ifndef LK_STEP_H
#define LK_STEP_H

#include "lk_layout.h"
#include "lk_segment.h"
#include "lk_wait.h"

/* An engine's step takes longer than a frame's copy: spinning pays up to here. */
#define LK_STEP_SPIN_START \
    ((struct lk_spin){.budget_ns = 100000, .most_ns = 400000, .retry_after = LK_SPIN_RETRY})

/* How often a waiting side looks whether the other one still lives. */
#define LK_STEP_CHECK_NS UINT64_C(100000000)

/* Fill the geometry of a configuration, overflow-safe. LK_E_BAD_GEOMETRY when impossible. */
int lk_step_plan(const struct lk_step_config *config, struct lk_step_geometry *out,
                 uint64_t *total_size);

/* Judge a geometry found in a segment of that size: it must be exactly what lk_step_plan says. */
int lk_step_check(const struct lk_step_geometry *found, uint64_t total_size);

void lk_step_config_of(const struct lk_step_geometry *geometry, struct lk_step_config *out);

/* The addresses of the regions in a mapping. */
void lk_step_find_regions(void *base, const struct lk_step_geometry *geometry,
                          struct lk_step_regions *out);

/* What an exchange of this number concerns; the request is left to the caller. */
static inline struct lk_step_exchange lk_step_exchange_of(const struct lk_step_geometry *geometry,
                                                          uint64_t number) {
    struct lk_step_exchange exchange = {.number = number, .env_count = geometry->num_envs};
    if (geometry->halves == 2) {
        uint32_t first_half = geometry->num_envs / 2 + geometry->num_envs % 2;
        exchange.half = (uint32_t)((number - 1) % 2);
        exchange.first_env = exchange.half == 0 ? 0 : first_half;
        exchange.env_count = exchange.half == 0 ? first_half : geometry->num_envs - first_half;
    }
    return exchange;
}

static inline uint64_t lk_step_deadline(uint64_t timeout_ns) {
    uint64_t now = lk_clock_ns();
    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

/* Until when to wait before looking at the other side again. */
static inline uint64_t lk_step_slice(uint64_t deadline_ns) {
    uint64_t end = lk_clock_ns() + LK_STEP_CHECK_NS;
    return end < deadline_ns ? end : deadline_ns;
}

/* Fill in what both ends can say about the lane, and what they know of the client. */
void lk_step_tell_state(const struct lk_step_header *header, enum lk_liveness client,
                        struct lk_step_state *out);

#endif
