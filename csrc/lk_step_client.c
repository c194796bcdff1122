/*
 * lk_step_client.c: the trainer's end of the step lane.
 *
 * Labels: [W1] [W2] of lk_wait.h for the two sequences, [S2] of lk_segment.c for the segment's end.
 * The client's place is a role (lk_lock.h).
 *
 * Who writes: actions, seeds, reset flags and action_seq; what happens if either side dies is told
 * in lk_step_server.c. A client that dies leaves its place marked; the next one can take the
 * role, which the kernel has freed, and begins once the exchanges that the dead one had sent are
 * completed.
 */
#include "lk_cmd.h"
#include "lk_guard.h"
#include "lk_step.h"

#include <stdlib.h>
#include <string.h>

struct lk_step_client {
    struct lk_guard guard;
    lk_segment *segment;
    struct lk_step_header *header;
    struct lk_step_regions regions;
    /* Light calls look at these two while another thread exchanges: relaxed, always. */
    _Atomic uint64_t sent;                 /* action_seq, from private memory */
    _Atomic uint64_t received;             /* exchanges whose results the caller has */
    uint32_t requests[LK_STEP_HALVES_MAX]; /* what was sent for each half */
    struct lk_spin spin;
    struct lk_step_geometry geometry;
    lk_cmd *commands;
};

/* --- attaching -------------------------------------------------------------------------------- */

static int open_segment(lk_step_client *client, const char *name, size_t name_size,
                        const uint32_t *allow_uid) {
    struct lk_segment_request request = {
        .kind = LK_KIND_STEP,
        .magic = LK_MAGIC_STEP,
        .run_id = name,
        .run_id_size = name_size,
        .allow_uid = allow_uid,
    };
    struct lk_segment_header header;
    int status = lk_segment_attach(&client->segment, &request, &header);
    if (status != LK_OK) {
        return status;
    }
    client->header = lk_segment_base(client->segment);
    memcpy(&client->geometry, &client->header->geometry, sizeof client->geometry);
    lk_copied_once(&client->geometry);
    status = lk_step_check(&client->geometry, header.total_size);
    if (status == LK_OK && lk_segment_damaged(client->segment)) {
        status = LK_E_TRUNCATED;
    }
    return status;
}

/* The role hands over what the client before us did (lk_lock.h): what it wrote without sending it
 * is older than what we write. */
static int take_place(lk_step_client *client) {
    struct lk_step_header *header = client->header;
    int status = lk_segment_take_role(client->segment, LK_ROLE_CLIENT);
    if (status == LK_OK) {
        /* relaxed, all three: only whoever has the role writes them. The count makes the word of
         * each client another one, whatever numbers pid namespaces give them. */
        uint64_t count = atomic_load_explicit(&header->clients, memory_order_relaxed) + 1;
        uint64_t word = (uint64_t)lk_process_self().pid << 32 | (count & UINT32_MAX);
        atomic_store_explicit(&header->clients, count, memory_order_relaxed);
        atomic_store_explicit(&header->client, word, memory_order_relaxed);
    }
    return status;
}

static void leave_place(lk_step_client *client) {
    /* relaxed: see take_place */
    atomic_store_explicit(&client->header->client, 0, memory_order_relaxed);
    lk_segment_drop_role(client->segment, LK_ROLE_CLIENT);
}

/* Begin where the client before us stopped. */
static int join(lk_step_client *client) {
    struct lk_step_header *header = client->header;
    /* [W1] acquire: pairs with the release in lk_announce of the server; what it wrote for its last
     * exchange is visible, and we may write where it has read. */
    uint64_t completed = atomic_load_explicit(&header->frame_seq, memory_order_acquire);
    /* relaxed: the role has shown us what the client before us did, and nobody else raises it */
    uint64_t sent = atomic_load_explicit(&header->action_seq, memory_order_relaxed);
    if (sent != completed) {
        return sent - completed <= client->geometry.halves ? LK_E_NOT_READY : LK_E_CORRUPT;
    }
    atomic_store_explicit(&client->sent, sent, memory_order_relaxed);
    atomic_store_explicit(&client->received, sent, memory_order_relaxed);
    memset(client->regions.resets, LK_RESET_NO, client->geometry.num_envs);
    return LK_OK;
}

static int server_gone(void *context) {
    const lk_step_client *client = context;
    return lk_segment_invalidated(client->segment) ||
           lk_segment_role_holder(client->segment, LK_ROLE_OWNER) == LK_DEAD;
}

static int open_commands(lk_step_client *client) {
    const struct lk_step_geometry *geometry = &client->geometry;
    if (geometry->cmd_ring_size == 0) {
        return LK_OK;
    }
    struct lk_cmd_peer peer = {.gone = server_gone, .context = client};
    return lk_cmd_open(&client->commands, client->segment, geometry->cmd_c2s_offset,
                       geometry->cmd_s2c_offset, geometry->cmd_ring_size, &peer);
}

static int settle(lk_step_client *client) {
    lk_step_find_regions(client->header, &client->geometry, &client->regions);
    int status = server_gone(client) ? LK_E_PEER_LOST : take_place(client);
    if (status != LK_OK) {
        return status;
    }
    status = join(client);
    if (status == LK_OK) {
        status = open_commands(client);
    }
    if (status != LK_OK) {
        leave_place(client);
    }
    return status;
}

int lk_step_attach(lk_step_client **out, const char *name, size_t name_size,
                   const uint32_t *allow_uid) {
    *out = NULL;
    if (name_size == 0) {
        return LK_E_INVALID;
    }
    lk_step_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return LK_E_SYSTEM;
    }
    client->spin = LK_STEP_SPIN_START;
    int status = open_segment(client, name, name_size, allow_uid);
    if (status == LK_OK) {
        status = settle(client);
    }
    if (status != LK_OK) {
        if (client->segment != NULL) {
            lk_segment_release(client->segment);
        }
        free(client);
        return status;
    }
    lk_guard_init(&client->guard);
    *out = client;
    return LK_OK;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static int leave(lk_step_client *client, int result) {
    if (lk_segment_damaged(client->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&client->guard);
    return result;
}

static int leave_lightly(lk_step_client *client, int result) {
    if (lk_segment_damaged(client->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit_lightly(&client->guard);
    return result;
}

static uint64_t sent_by(const lk_step_client *client) {
    return atomic_load_explicit(&client->sent, memory_order_relaxed);
}

static uint64_t received_by(const lk_step_client *client) {
    return atomic_load_explicit(&client->received, memory_order_relaxed);
}

static int send(lk_step_client *client, uint32_t request, struct lk_step_exchange *out) {
    struct lk_step_header *header = client->header;
    if (request > LK_STEP_RESET) {
        return LK_E_INVALID;
    }
    uint64_t sent = sent_by(client);
    if (sent - received_by(client) >= client->geometry.halves) {
        return LK_E_OUT_OF_TURN;
    }
    if (lk_segment_invalidated(client->segment)) {
        return LK_E_PEER_LOST;
    }
    *out = lk_step_exchange_of(&client->geometry, sent + 1);
    out->request = request;
    client->requests[out->half] = request;
    /* relaxed: action_seq [W1] hands it over */
    atomic_store_explicit(&header->requests[out->half], request, memory_order_relaxed);
    atomic_store_explicit(&client->sent, out->number, memory_order_relaxed);
    lk_streaming_fence(); /* the caller may have written past the caches */
    lk_announce(&header->action_seq, &header->action_wake_at, out->number);
    return LK_OK;
}

/* 1 when the oldest exchange under way is completed, 0 when not. */
static int look(lk_step_client *client, uint64_t completed, struct lk_step_exchange *out) {
    uint64_t received = received_by(client);
    if (completed == received) {
        return 0;
    }
    if (completed - received > sent_by(client) - received) {
        return LK_E_CORRUPT;
    }
    atomic_store_explicit(&client->received, received + 1, memory_order_relaxed);
    *out = lk_step_exchange_of(&client->geometry, received + 1);
    out->request = client->requests[out->half];
    return 1;
}

static int receive(lk_step_client *client, uint64_t deadline_ns, int strategy,
                   struct lk_step_exchange *out) {
    struct lk_step_header *header = client->header;
    uint64_t received = received_by(client);
    if (sent_by(client) == received) {
        return LK_E_OUT_OF_TURN;
    }
    bool gone = false;
    for (;;) {
        uint64_t until_ns = gone ? 0 : lk_step_slice(deadline_ns);
        uint64_t completed =
            lk_wait_beyond(&header->frame_seq, &header->frame_wake_at, received, until_ns,
                           &client->spin, (enum lk_wait_strategy)strategy);
        int found = look(client, completed, out);
        if (found != 0) {
            return found;
        }
        if (gone) {
            return LK_E_PEER_LOST;
        }
        if (lk_segment_damaged(client->segment)) {
            return LK_E_TRUNCATED;
        }
        gone = server_gone(client); /* one more look: it may have committed just before it went */
        if (!gone && lk_clock_ns() >= deadline_ns) {
            return 0;
        }
    }
}

int lk_step_send(lk_step_client *client, uint32_t request, struct lk_step_exchange *out) {
    int status = lk_guard_enter(&client->guard);
    return status == LK_OK ? leave(client, send(client, request, out)) : status;
}

int lk_step_receive(lk_step_client *client, uint64_t timeout_ns, int strategy,
                    struct lk_step_exchange *out) {
    if (!lk_wait_strategy_known(strategy)) {
        return LK_E_INVALID;
    }
    int status = lk_guard_enter(&client->guard);
    if (status != LK_OK) {
        return status;
    }
    return leave(client, receive(client, lk_step_deadline(timeout_ns), strategy, out));
}

int lk_step_step(lk_step_client *client, uint64_t timeout_ns, int strategy) {
    struct lk_step_exchange exchange;
    if (!lk_wait_strategy_known(strategy)) {
        return LK_E_INVALID;
    }
    int status = lk_guard_enter(&client->guard);
    if (status != LK_OK) {
        return status;
    }
    status =
        client->geometry.halves == 1 ? send(client, LK_STEP_STEP, &exchange) : LK_E_OUT_OF_TURN;
    if (status == LK_OK) {
        status = receive(client, lk_step_deadline(timeout_ns), strategy, &exchange);
    }
    return leave(client, status);
}

/* --- looking ---------------------------------------------------------------------------------- */

int lk_step_client_config(lk_step_client *client, struct lk_step_config *out) {
    int status = lk_guard_enter_lightly(&client->guard);
    if (status == LK_OK) {
        lk_step_config_of(&client->geometry, out);
        lk_guard_exit_lightly(&client->guard);
    }
    return status;
}

int lk_step_client_regions(lk_step_client *client, lk_segment **segment,
                           struct lk_step_regions *out) {
    int status = lk_guard_enter(&client->guard);
    if (status == LK_OK) {
        lk_segment_retain(client->segment);
        *segment = client->segment;
        *out = client->regions;
        lk_guard_exit(&client->guard);
    }
    return status;
}

int lk_step_client_state(lk_step_client *client, struct lk_step_state *out) {
    int status = lk_guard_enter_lightly(&client->guard);
    if (status != LK_OK) {
        return status;
    }
    lk_step_tell_state(client->header, LK_ALIVE, out); /* that is us */
    out->sent = sent_by(client);
    if (out->completed > out->sent) {
        out->completed = out->sent; /* it was sent meanwhile, by another thread */
    }
    return leave_lightly(client, LK_OK);
}

int lk_step_under_way(lk_step_client *client) {
    int status = lk_guard_enter_lightly(&client->guard);
    if (status != LK_OK) {
        return status;
    }
    /* Two looks: between them another thread may have sent or received. */
    uint64_t under_way = sent_by(client) - received_by(client);
    uint64_t most = client->geometry.halves;
    return leave_lightly(client, (int)(under_way < most ? under_way : most));
}

int lk_step_failure(lk_step_client *client, char *out, size_t out_size) {
    int status = lk_guard_enter_lightly(&client->guard);
    if (status != LK_OK) {
        return status;
    }
    size_t size = 0;
    if (lk_segment_invalidated(client->segment)) { /* [S2]: the reason was written before */
        size = atomic_load_explicit(&client->header->failure_size, memory_order_relaxed);
        size = size < LK_STEP_FAILURE_MAX ? size : LK_STEP_FAILURE_MAX;
        size = size < out_size ? size : out_size;
        memcpy(out, client->header->failure, size);
    }
    return leave_lightly(client, (int)size);
}

lk_cmd *lk_step_client_commands(lk_step_client *client) {
    return client->commands;
}

/* --- the end ---------------------------------------------------------------------------------- */

int lk_step_client_close(lk_step_client *client) {
    if (lk_guard_close(&client->guard)) {
        if (client->commands != NULL) {
            lk_cmd_close(client->commands);
        }
        if (!lk_guard_forked(&client->guard)) {
            leave_place(client);
        }
        lk_segment_release(client->segment);
        client->segment = NULL;
        client->header = NULL;
    }
    return LK_OK;
}

void lk_step_client_free(lk_step_client *client) {
    if (client != NULL) {
        lk_step_client_close(client);
        lk_cmd_free(client->commands);
        free(client);
    }
}
