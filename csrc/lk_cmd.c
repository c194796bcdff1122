/*
 * lk_cmd.c: the command channel, two byte rings and a way to notice that the peer has gone.
 *
 * Labels: [R1] [R2] of lk_ring.c for the rings, [W1] [W2] of lk_wait.h for who sleeps, [G1] of
 * lk_guard.h, once for the sending and once for the receiving side.
 *
 * Who writes: each end one ring, and its read position in the other.
 * If an end dies, the rings stay as lk_ring.c says; the survivor takes what is left in its ring,
 * then learns that the peer has gone, and can go on when a successor is there.
 */
#include "lk_cmd.h"

#include "lk_guard.h"

#include <stdlib.h>

static const uint64_t wait_slice_ns = 50000000;
static const uint64_t peer_check_every_ns = 100000000;

/* One direction's private state; its guard makes it one thread's at a time. */
struct side {
    struct lk_guard guard;
    struct lk_ring_end ring;
    uint64_t peer_checked_ns;
};

struct lk_cmd {
    struct side sending;
    struct side receiving;
    lk_segment *segment;
    struct lk_cmd_peer peer;
    uint64_t limit;
};

static bool fits(const lk_segment *segment, uint64_t offset, uint64_t region_size) {
    uint64_t size = lk_segment_size(segment);
    return offset % LK_CACHE_LINE == 0 && offset >= LK_HEADER_SIZE && offset <= size &&
           region_size <= size - offset;
}

int lk_cmd_open(lk_cmd **out, lk_segment *segment, uint64_t out_offset, uint64_t in_offset,
                uint64_t ring_bytes, const struct lk_cmd_peer *peer) {
    *out = NULL;
    int status = lk_ring_check_size(ring_bytes);
    if (status != LK_OK) {
        return status;
    }
    uint64_t region_size = lk_ring_region_size(ring_bytes);
    uint64_t apart = out_offset > in_offset ? out_offset - in_offset : in_offset - out_offset;
    if (!fits(segment, out_offset, region_size) || !fits(segment, in_offset, region_size) ||
        apart < region_size) {
        return LK_E_BAD_GEOMETRY;
    }
    lk_cmd *cmd = calloc(1, sizeof *cmd);
    if (cmd == NULL) {
        return LK_E_SYSTEM;
    }
    uint8_t *base = lk_segment_base(segment);
    status = lk_ring_open_writer(&cmd->sending.ring, base + out_offset, ring_bytes);
    if (status == LK_OK) {
        status = lk_ring_open_reader(&cmd->receiving.ring, base + in_offset, ring_bytes);
    }
    if (lk_segment_damaged(segment)) {
        status = LK_E_TRUNCATED;
    }
    if (status != LK_OK) {
        free(cmd);
        return status;
    }
    lk_guard_init(&cmd->sending.guard);
    lk_guard_init(&cmd->receiving.guard);
    lk_segment_retain(segment);
    cmd->segment = segment;
    cmd->peer = *peer;
    cmd->limit = lk_ring_limit(ring_bytes);
    *out = cmd;
    return LK_OK;
}

int64_t lk_cmd_limit(const lk_cmd *cmd) {
    return (int64_t)cmd->limit;
}

/* --- calls ------------------------------------------------------------------------------------ */

static int leave(lk_cmd *cmd, struct side *side, int result) {
    if (lk_segment_damaged(cmd->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&side->guard);
    return result;
}

static uint64_t deadline_after(uint64_t timeout_ns) {
    uint64_t now = lk_clock_ns();
    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

/* Asking costs system calls: seldom, or when something woke us that was not an entry. */
static int peer_gone(lk_cmd *cmd, struct side *side, uint64_t now, bool woken) {
    if (!woken && now - side->peer_checked_ns < peer_check_every_ns) {
        return 0;
    }
    side->peer_checked_ns = now;
    return cmd->peer.gone(cmd->peer.context);
}

/* What one attempt of a call does; 0: nothing yet. */
struct attempt {
    int (*act)(struct side *side, const struct attempt *attempt);
    void (*wait)(struct lk_ring_end *end, uint64_t deadline_ns, enum lk_wait_strategy strategy);
    const void *payload; /* to send */
    void *buffer;        /* to receive into */
    size_t payload_size; /* or room in the buffer */
    size_t *size;        /* of what was received */
};

/* Attempt until something comes of it, the peer has gone, or the deadline has passed: then 0. */
static int repeat(lk_cmd *cmd, struct side *side, const struct attempt *attempt,
                  uint64_t timeout_ns, int strategy) {
    if (!lk_wait_strategy_known(strategy)) {
        return LK_E_INVALID;
    }
    uint64_t deadline = deadline_after(timeout_ns);
    bool woken = false;
    for (;;) {
        /* Anew for each slice, so that another thread can close the channel meanwhile. */
        int status = lk_guard_enter(&side->guard);
        if (status != LK_OK) {
            return status;
        }
        status = attempt->act(side, attempt);
        uint64_t now = lk_clock_ns();
        if (status == 0) {
            int gone = peer_gone(cmd, side, now, woken);
            if (gone != 0) {
                /* Its last act may have been to do what we wait for. */
                status = attempt->act(side, attempt);
                status = status != 0 ? status : gone < 0 ? gone : LK_E_PEER_LOST;
            }
        }
        if (status != 0 || now >= deadline) {
            return leave(cmd, side, status);
        }
        uint64_t slice_end = deadline - now < wait_slice_ns ? deadline : now + wait_slice_ns;
        attempt->wait(&side->ring, slice_end, (enum lk_wait_strategy)strategy);
        woken = lk_clock_ns() < slice_end;
        status = leave(cmd, side, LK_OK);
        if (status != LK_OK) {
            return status;
        }
    }
}

static int try_send(struct side *side, const struct attempt *attempt) {
    return lk_ring_write(&side->ring, attempt->payload, attempt->payload_size);
}

int lk_cmd_send(lk_cmd *cmd, const void *payload, size_t size, uint64_t timeout_ns, int strategy) {
    const struct attempt attempt = {
        .act = try_send,
        .wait = lk_ring_wait_for_space,
        .payload = payload,
        .payload_size = size,
    };
    return repeat(cmd, &cmd->sending, &attempt, timeout_ns, strategy);
}

static int try_receive(struct side *side, const struct attempt *attempt) {
    return lk_ring_read(&side->ring, attempt->buffer, attempt->payload_size, attempt->size);
}

int lk_cmd_receive(lk_cmd *cmd, void *buffer, size_t room, size_t *size, uint64_t timeout_ns,
                   int strategy) {
    const struct attempt attempt = {
        .act = try_receive,
        .wait = lk_ring_wait_for_entry,
        .buffer = buffer,
        .payload_size = room,
        .size = size,
    };
    *size = 0;
    return repeat(cmd, &cmd->receiving, &attempt, timeout_ns, strategy);
}

static int try_peek(struct side *side, const struct attempt *attempt) {
    return lk_ring_peek(&side->ring, attempt->size);
}

int lk_cmd_peek(lk_cmd *cmd, size_t *size, uint64_t timeout_ns, int strategy) {
    const struct attempt attempt = {
        .act = try_peek,
        .wait = lk_ring_wait_for_entry,
        .size = size,
    };
    *size = 0;
    return repeat(cmd, &cmd->receiving, &attempt, timeout_ns, strategy);
}

/* --- the end ---------------------------------------------------------------------------------- */

int lk_cmd_close(lk_cmd *cmd) {
    if (cmd == NULL) {
        return LK_OK; /* of a lane without rings */
    }
    if (lk_guard_close(&cmd->sending.guard)) {
        lk_guard_close(&cmd->receiving.guard);
        if (!lk_guard_forked(&cmd->sending.guard)) {
            lk_ring_wake_peers(&cmd->sending.ring);
            lk_ring_wake_peers(&cmd->receiving.ring);
        }
        lk_segment_release(cmd->segment);
        cmd->segment = NULL;
    }
    return LK_OK;
}

void lk_cmd_free(lk_cmd *cmd) {
    if (cmd != NULL) {
        lk_cmd_close(cmd);
        free(cmd);
    }
}
