/*
 * lk_step_server.c: the engine's end of the step lane.
 *
 * Labels: [W1] [W2] of lk_wait.h for the two sequences, [S1] [S2] of lk_segment.c for the segment's
 * beginning and end. The client's place is a role (lk_lock.h).
 *
 * Who writes: the server everything but the actions, seeds, action_seq and the client's place; the
 * reset flags it only clears. Who reads: one client.
 * If the server dies inside a step, frame_seq still names the exchange before: the client never
 * takes half-written observations for a step. If the client dies while it writes actions,
 * action_seq still names the exchange before: they are never stepped.
 * Lossy: nothing. An exchange that was sent is stepped once, also when its client is gone.
 */
#include "lk_cmd.h"
#include "lk_guard.h"
#include "lk_step.h"

#include <stdlib.h>
#include <string.h>

struct lk_step_server {
    struct lk_guard guard;
    bool serving; /* an exchange is to be committed */
    lk_segment *segment;
    struct lk_step_header *header;
    struct lk_step_regions regions;
    /* frame_seq, from private memory: nobody else may move it for us. relaxed, always: light calls
     * look at it while another thread serves. */
    _Atomic uint64_t completed;
    uint64_t lost; /* the last client whose death was told */
    uint64_t heartbeat_ns;
    struct lk_spin spin;
    struct lk_step_geometry geometry;
    struct lk_segment_id id;
    lk_cmd *commands;
};

/* --- creation --------------------------------------------------------------------------------- */

/* The client that has died in its place, 0 if none has. Nobody there: one may come. */
static uint64_t dead_client(const lk_segment *segment) {
    const struct lk_step_header *header = lk_segment_base(segment);
    /* relaxed: only its death is asked for; what it did is read behind action_seq. One that leaves
     * clears the word before it gives up the role, so a word without a holder is a dead one's. */
    uint64_t client = atomic_load_explicit(&header->client, memory_order_relaxed);
    bool dead = client != 0 && lk_segment_role_holder(segment, LK_ROLE_CLIENT) == LK_DEAD;
    return dead ? client : 0;
}

static int client_gone(void *context) {
    return dead_client(context) != 0;
}

static int fill(lk_step_server *server, const char *info_names, const char *description) {
    const struct lk_step_geometry *geometry = &server->geometry;
    struct lk_step_header *header = lk_segment_base(server->segment);
    uint8_t *base = (uint8_t *)header;
    server->header = header;
    header->geometry = *geometry;
    lk_step_find_regions(base, geometry, &server->regions);
    if (geometry->info_count != 0) {
        memcpy(base + geometry->info_names_offset, info_names,
               (size_t)geometry->info_count * LK_STEP_INFO_NAME);
    }
    if (geometry->description_size != 0) {
        memcpy(base + geometry->description_offset, description, geometry->description_size);
    }
    if (geometry->cmd_ring_size == 0) {
        return LK_OK;
    }
    struct lk_cmd_peer peer = {.gone = client_gone, .context = server->segment};
    return lk_cmd_open(&server->commands, server->segment, geometry->cmd_s2c_offset,
                       geometry->cmd_c2s_offset, geometry->cmd_ring_size, &peer);
}

static int open_segment(lk_step_server *server, const struct lk_segment_request *request,
                        const char *info_names, const char *description) {
    int status = lk_segment_create(&server->segment, request);
    if (status != LK_OK) {
        return status;
    }
    status = fill(server, info_names, description);
    if (status != LK_OK) {
        lk_segment_unlink(lk_segment_identity(server->segment));
        lk_segment_release(server->segment);
        return status;
    }
    lk_segment_make_ready(server->segment);
    return LK_OK;
}

static bool names_end(const struct lk_step_config *config, const char *info_names) {
    for (uint32_t i = 0; i < config->info_count; i++) {
        if (memchr(info_names + (size_t)i * LK_STEP_INFO_NAME, 0, LK_STEP_INFO_NAME) == NULL) {
            return false;
        }
    }
    return true;
}

int lk_step_create(lk_step_server **out, const char *name, size_t name_size,
                   const struct lk_step_config *config, const char *info_names,
                   const char *description) {
    *out = NULL;
    struct lk_segment_request request = {
        .kind = LK_KIND_STEP,
        .magic = LK_MAGIC_STEP,
        .run_id = name,
        .run_id_size = name_size,
    };
    lk_step_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return LK_E_SYSTEM;
    }
    int status = lk_step_plan(config, &server->geometry, &request.total_size);
    if (status == LK_OK && !names_end(config, info_names)) {
        status = LK_E_INVALID;
    }
    if (status == LK_OK) {
        status = open_segment(server, &request, info_names, description);
    }
    if (status != LK_OK) {
        free(server);
        return status;
    }
    server->id = *lk_segment_identity(server->segment);
    server->spin = LK_STEP_SPIN_START;
    lk_guard_init(&server->guard);
    *out = server;
    return LK_OK;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static int enter(lk_step_server *server) {
    int status = lk_guard_enter(&server->guard);
    if (status == LK_OK && lk_segment_invalidated(server->segment)) {
        lk_guard_exit(&server->guard);
        return LK_E_INVALIDATED; /* we left, or another process took us for dead */
    }
    return status;
}

static int leave(lk_step_server *server, int result) {
    if (lk_segment_damaged(server->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&server->guard);
    return result;
}

static int leave_lightly(lk_step_server *server, int result) {
    if (lk_segment_damaged(server->segment)) {
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit_lightly(&server->guard);
    return result;
}

static uint64_t completed_by(const lk_step_server *server) {
    return atomic_load_explicit(&server->completed, memory_order_relaxed);
}

static void beat(lk_step_server *server, uint64_t now) {
    if (now - server->heartbeat_ns >= LK_HEARTBEAT_NS) {
        server->heartbeat_ns = now;
        atomic_store_explicit(&server->header->segment.heartbeat_ns, now, memory_order_relaxed);
    }
}

/* Whether the client that we knew has died since; once for each. */
static bool lost_client(lk_step_server *server) {
    uint64_t client = dead_client(server->segment);
    bool news = client != 0 && client != server->lost;
    server->lost = news ? client : server->lost;
    return news;
}

/* 1 when an exchange is there, 0 when not. */
static int look(lk_step_server *server, uint64_t sent, struct lk_step_exchange *out) {
    uint64_t completed = completed_by(server);
    if (sent == completed) {
        return 0;
    }
    if (sent - completed > server->geometry.halves) {
        return LK_E_CORRUPT;
    }
    *out = lk_step_exchange_of(&server->geometry, completed + 1);
    /* relaxed: action_seq [W1] has handed it over. Once: a client that changes it afterwards
     * changes nothing here. */
    uint32_t request =
        atomic_load_explicit(&server->header->requests[out->half], memory_order_relaxed);
    if (request > LK_STEP_RESET) {
        return LK_E_CORRUPT;
    }
    out->request = request;
    server->serving = true;
    return 1;
}

static int wait_actions(lk_step_server *server, uint64_t deadline_ns, int strategy,
                        struct lk_step_exchange *out) {
    struct lk_step_header *header = server->header;
    bool lost = false;
    for (;;) {
        uint64_t until_ns = lost ? 0 : lk_step_slice(deadline_ns);
        uint64_t sent =
            lk_wait_beyond(&header->action_seq, &header->action_wake_at, completed_by(server),
                           until_ns, &server->spin, (enum lk_wait_strategy)strategy);
        int found = look(server, sent, out);
        if (found != 0) {
            return found;
        }
        if (lost) {
            return LK_E_PEER_LOST;
        }
        uint64_t now = lk_clock_ns();
        beat(server, now);
        if (lk_segment_damaged(server->segment)) {
            return LK_E_TRUNCATED;
        }
        if (lk_segment_invalidated(server->segment)) {
            return LK_E_INVALIDATED;
        }
        lost = lost_client(server); /* one more look: it may have sent just before it died */
        if (!lost && now >= deadline_ns) {
            return 0;
        }
    }
}

int lk_step_wait_actions(lk_step_server *server, uint64_t timeout_ns, int strategy,
                         struct lk_step_exchange *out) {
    if (!lk_wait_strategy_known(strategy)) {
        return LK_E_INVALID;
    }
    int status = enter(server);
    if (status != LK_OK) {
        return status;
    }
    if (server->serving) {
        return leave(server, LK_E_OUT_OF_TURN);
    }
    return leave(server, wait_actions(server, lk_step_deadline(timeout_ns), strategy, out));
}

int lk_step_commit(lk_step_server *server) {
    int status = enter(server);
    if (status != LK_OK) {
        return status;
    }
    if (!server->serving) {
        return leave(server, LK_E_OUT_OF_TURN);
    }
    struct lk_step_header *header = server->header;
    struct lk_step_exchange done = lk_step_exchange_of(&server->geometry, completed_by(server) + 1);
    memset(server->regions.resets + done.first_env, LK_RESET_NO, done.env_count);
    server->serving = false;
    atomic_store_explicit(&server->completed, done.number, memory_order_relaxed);
    beat(server, lk_clock_ns());
    lk_streaming_fence(); /* the engine may have written past the caches */
    lk_announce(&header->frame_seq, &header->frame_wake_at, done.number);
    return leave(server, LK_OK);
}

int lk_step_server_regions(lk_step_server *server, lk_segment **segment,
                           struct lk_step_regions *out) {
    int status = lk_guard_enter(&server->guard);
    if (status == LK_OK) {
        lk_segment_retain(server->segment);
        *segment = server->segment;
        *out = server->regions;
        lk_guard_exit(&server->guard);
    }
    return status;
}

int lk_step_server_state(lk_step_server *server, struct lk_step_state *out) {
    int status = lk_guard_enter_lightly(&server->guard);
    if (status != LK_OK) {
        return status;
    }
    enum lk_liveness client = lk_segment_role_holder(server->segment, LK_ROLE_CLIENT);
    lk_step_tell_state(server->header, client, out);
    out->completed = completed_by(server);
    if (out->sent < out->completed) {
        out->sent = out->completed; /* it was sent meanwhile, and served by another thread */
    }
    return leave_lightly(server, LK_OK);
}

lk_cmd *lk_step_server_commands(lk_step_server *server) {
    return server->commands;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void say_goodbye(lk_step_server *server) {
    lk_segment_invalidate(server->segment);
    lk_futex_wake_all(&server->header->frame_seq);
    lk_futex_wake_all(&server->header->action_seq);
}

int lk_step_fail(lk_step_server *server, const char *reason, size_t reason_size) {
    int status = enter(server);
    if (status != LK_OK) {
        return status;
    }
    size_t kept = reason_size < LK_STEP_FAILURE_MAX ? reason_size : LK_STEP_FAILURE_MAX;
    memcpy(server->header->failure, reason, kept);
    /* relaxed: [S2] hands the reason over */
    atomic_store_explicit(&server->header->failure_size, (uint32_t)kept, memory_order_relaxed);
    say_goodbye(server);
    return leave(server, LK_OK);
}

int lk_step_server_close(lk_step_server *server) {
    if (lk_guard_close(&server->guard)) {
        if (server->commands != NULL) {
            lk_cmd_close(server->commands);
        }
        /* A forked child lets go of its own mapping only: the segment is its parent's. */
        if (!lk_guard_forked(&server->guard)) {
            lk_segment_disown(server->segment);
            say_goodbye(server);
            lk_segment_drop_role(server->segment, LK_ROLE_OWNER); /* views may keep the rest */
        }
        lk_segment_release(server->segment);
        server->segment = NULL;
        server->header = NULL;
    }
    return LK_OK;
}

int lk_step_server_unlink(lk_step_server *server) {
    return lk_guard_forked(&server->guard) ? LK_E_FORKED : lk_segment_unlink(&server->id);
}

void lk_step_server_free(lk_step_server *server) {
    if (server != NULL) {
        lk_step_server_close(server);
        lk_cmd_free(server->commands);
        free(server);
    }
}
