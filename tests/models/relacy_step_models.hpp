// The step lane's models: an engine and a trainer that take turns, and a trainer that takes another
// one's place. Included by relacy_models.hpp.

int lk_step_plan(const struct lk_step_config *, struct lk_step_geometry *, uint64_t *) {
    return LK_OK;
}
int lk_step_check(const struct lk_step_geometry *, uint64_t) {
    return LK_OK;
}
void lk_step_config_of(const struct lk_step_geometry *, struct lk_step_config *) {}
void lk_step_find_regions(void *, const struct lk_step_geometry *, struct lk_step_regions *) {}
void lk_step_tell_state(const struct lk_step_header *, enum lk_liveness, struct lk_step_state *) {}
int lk_cmd_open(lk_cmd **, lk_segment *, uint64_t, uint64_t, uint64_t, const struct lk_cmd_peer *) {
    return LK_OK;
}
int lk_cmd_close(lk_cmd *) {
    return LK_OK;
}
void lk_cmd_free(lk_cmd *) {}

struct step_world {
    world w; // the futex and the pool of segments
    struct lk_step_header header;
    lk_step_server server;
    lk_step_client clients[2];
    uint8_t resets;
    // The regions: an access that is not ordered against the other side's fails the model.
    plain<int> actions;
    plain<int> obs;

    void open() {
        model_base = &header;
        the_mapping = {(const char *)&header, (const char *)(&header + 1), &w.mapped};
        lk_segment *segment = model_map(model_file_size);
        server.segment = segment;
        server.header = &header;
        server.geometry.halves = 1;
        server.geometry.num_envs = 1;
        server.regions.resets = &resets;
        server.spin = LK_STEP_SPIN_START;
        lk_guard_init(&server.guard);
        for (lk_step_client &client : clients) {
            client.segment = segment;
            client.header = &header;
            client.geometry = server.geometry;
            client.regions.resets = &resets;
            client.spin = LK_STEP_SPIN_START;
            lk_guard_init(&client.guard);
        }
    }
    // Resets and steps take turns, so that a request read too early is the wrong one.
    static uint32_t request_of(int n) {
        return n % 2 != 0 ? LK_STEP_RESET : LK_STEP_STEP;
    }
    void serve_one(int n) {
        struct lk_step_exchange exchange;
        RL_ASSERT(lk_step_wait_actions(&server, UINT64_MAX, LK_WAIT_BLOCK, &exchange) == 1);
        RL_ASSERT(exchange.number == (uint64_t)n && actions == n);
        RL_ASSERT(exchange.request == request_of(n));
        obs = n;
        RL_ASSERT(lk_step_commit(&server) == LK_OK);
    }
    void send_one(lk_step_client *client, int n) {
        struct lk_step_exchange exchange;
        actions = n;
        RL_ASSERT(lk_step_send(client, request_of(n), &exchange) == LK_OK);
    }
    void receive_one(lk_step_client *client, int n) {
        struct lk_step_exchange exchange;
        RL_ASSERT(lk_step_receive(client, UINT64_MAX, LK_WAIT_BLOCK, &exchange) == 1);
        RL_ASSERT(exchange.number == (uint64_t)n && obs == n);
    }
};

// --- [W1] [W2] exchanges --------------------------------------------------------------------------

// No deadline ever comes: a side that is not woken is a thread that never ends.
struct step_exchange : rl::test_suite<step_exchange, 2> {
    static const int preemptions = 2;
    step_world s;

    void before() {
        s.open();
    }
    void thread(unsigned index) {
        for (int n = 1; n <= 2; n++) {
            if (index == 0) {
                s.serve_one(n);
            } else {
                s.send_one(&s.clients[0], n);
                s.receive_one(&s.clients[0], n);
            }
        }
    }
};

// --- a trainer's place ----------------------------------------------------------------------------

// What the first one wrote and did not send is overwritten by the second, not mixed with it, and its
// leaving does not erase the mark of the second.
struct step_place : rl::test_suite<step_place, 2> {
    static const int preemptions = -1;
    step_world s;

    void before() {
        s.open();
        RL_ASSERT(take_place(&s.clients[0]) == LK_OK);
    }
    void thread(unsigned index) {
        if (index == 0) {
            s.actions = 1;
            leave_place(&s.clients[0]);
        } else if (take_place(&s.clients[1]) == LK_OK) {
            RL_ASSERT(join(&s.clients[1]) == LK_OK);
            s.actions = 2;
            RL_ASSERT(atomic_load_explicit(&s.header.client, memory_order_relaxed) != 0);
        }
    }
};

// The first one has sent, and left before the results came: the second begins after them.
struct step_succession : rl::test_suite<step_succession, 2> {
    static const int preemptions = 3;
    step_world s;

    void before() {
        s.open();
        s.send_one(&s.clients[0], 1);
    }
    void thread(unsigned index) {
        if (index == 0) {
            s.serve_one(1);
        } else if (join(&s.clients[1]) == LK_OK) {
            s.actions = 2;
            RL_ASSERT(s.obs == 1);
        }
    }
};
