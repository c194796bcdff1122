/*
 * lk_cmd.h: how a step handle makes and ends its command channel.
 *
 * The channel's calls for users are in lanekit_api.h. The step handle owns it: it lends the pointer
 * to its users, closes the channel when it closes itself, and frees it when it is freed.
 */
#ifndef LK_CMD_H
#define LK_CMD_H

#include "lk_ring.h"
#include "lk_segment.h"

/*
 * How the channel learns that nobody is at the other end any more. `gone` answers 1 when the peer
 * died or left, 0 while it lives or has not come yet, or a negative status that ends the wait.
 * It is asked only when a call has nothing to do, seldom (every 100 ms, and when a wait was cut
 * short), from whatever thread sends or receives, from both at once if there are two. It must not
 * call into the channel.
 */
struct lk_cmd_peer {
    int (*gone)(void *context);
    void *context;
};

/*
 * Open one end: this end writes the ring at out_offset and reads the one at in_offset, each
 * lk_ring_region_size(ring_bytes) long and 64-byte aligned. The channel holds a reference of its
 * own to the segment. LK_E_BAD_GEOMETRY when a ring does not fit into the segment, LK_E_CORRUPT
 * when a ring's positions can not be.
 *
 * Whoever opens an end must be the only one there: the creator, or a process that has claimed the
 * place of one that went. It goes on where that one stopped: entries that were sent to its
 * predecessor and not taken are still there, and belong to it now.
 */
int lk_cmd_open(lk_cmd **out, lk_segment *segment, uint64_t out_offset, uint64_t in_offset,
                uint64_t ring_bytes, const struct lk_cmd_peer *peer);

/* Let calls under way in other threads end, refuse later ones, let the peer look up. */
int lk_cmd_close(lk_cmd *cmd);
void lk_cmd_free(lk_cmd *cmd);

#endif
