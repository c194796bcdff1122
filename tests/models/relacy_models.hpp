// The models: threads that call the core's functions, and what must hold whatever happens.
// Nothing of the protocols is written down here; only who calls what, and what they may rely on.

static uint64_t model_clock;
static uint64_t model_clock_step;

uint64_t lk_clock_ns(void) {
    model_clock += model_clock_step;
    return model_clock;
}
void lk_fork_watch(void) {}
uint32_t lk_fork_generation(void) {
    return 0;
}
int lk_process_self(struct lk_process *out) {
    memset(out, 0, sizeof *out);
    out->pid = MODEL_PID;
    return LK_OK;
}
enum lk_liveness lk_process_liveness(const struct lk_process *) {
    return LK_ALIVE;
}
enum lk_liveness lk_process_word_liveness(uint64_t) {
    return LK_ALIVE;
}
uint64_t lk_process_word(const struct lk_process *) {
    return MODEL_PID;
}
int lk_segment_name(uint32_t, const char *, size_t, char *out, size_t) {
    strcpy(out, "n");
    return LK_OK;
}
int lk_frame_plan(const struct lk_frame_config *, struct lk_frame_geometry *, uint64_t *) {
    return LK_OK;
}

// The geometry that the creator writes; a reader that attaches must find all of it.
int lk_frame_check(const struct lk_frame_geometry *found, uint64_t total_size) {
    RL_ASSERT(total_size == model_file_size);
    RL_ASSERT(found->width == 1 && found->capacity == 1 && found->payload_size == 8);
    return LK_OK;
}

// --- one process with one file --------------------------------------------------------------------

struct world {
    struct lk_frame_header header;
    struct lk_frame_slot slot;
    plain<int> mapped;
    lk_segment entries[2];
    lk_atomic<uint32_t> futex_lock;
    char writer_bytes[sizeof(lk_frame_writer)] __attribute__((aligned(16)));
    char reader_bytes[sizeof(lk_frame_reader) + 16] __attribute__((aligned(16)));
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    struct lk_frame_geometry geometry;

    world();
    ~world();
    lk_segment *open();
};

static world *current;
static void *model_base; // where the next mapping lands

// Mapping, unmapping: see `mapping`.
static void *model_mmap() {
    if (the_mapping.mapped != nullptr) {
        *the_mapping.mapped = 1;
    }
    return model_base;
}
static void model_munmap() {
    if (the_mapping.mapped != nullptr) {
        *the_mapping.mapped = 0;
    }
}

world::world() {
    current = this;
    model_clock = 0;
    model_clock_step = 0;
    model_file_size = LK_HEADER_SIZE;
    pool = entries;
    model_segments = 1;
    model_base = &header;
    the_mapping = {(const char *)&header, (const char *)(&slot + 1), nullptr};
    writer = new (writer_bytes) lk_frame_writer();
    reader = new (reader_bytes) lk_frame_reader();
    geometry.width = 1;
    geometry.capacity = 1;
    geometry.payload_size = 8;
    geometry.metadata_size = 8;
    geometry.slots_offset = (uint64_t)((char *)&slot - (char *)&header);
    geometry.slot_stride = sizeof slot;
    geometry.metadata_offset = offsetof(struct lk_frame_slot, pixels[1]);
    writer->geometry = geometry;
    reader->geometry = geometry;
    writer->copy_pixels = lk_copy_to_shared;
    lk_guard_init(&writer->guard);
    lk_guard_init(&reader->guard);
}

world::~world() {
    the_mapping.mapped = nullptr;
    reader->~lk_frame_reader();
    writer->~lk_frame_writer();
}

// A mapping of the file with one reference, given to the writer and to the reader.
lk_segment *world::open() {
    struct lk_segment_id id;
    lk_segment *segment = nullptr;
    id.inode = MODEL_INODE;
    the_mapping.mapped = &mapped;
    RL_ASSERT(map_file(&segment, 3, &id, model_file_size, 0) == LK_OK);
    writer->segment = reader->segment = segment;
    writer->header = reader->header = (struct lk_frame_header *)lk_segment_base(segment);
    return segment;
}

// The kernel's promise and no more: compare and sleep are one step towards other futex calls on
// the same word. The lock is that step; a wake that comes after a sleep finds the sleeper.
void lk_futex_wait(const lk_atomic<uint64_t> *word, uint64_t expected, uint64_t) {
    rl::ctx().sched();
    rl::ctx().disable_preemption();
    current->futex_lock.fetch_add(1, rl::mo_acq_rel);
    if (word->load(rl::mo_relaxed) == expected) {
        word->raw().wait(rl::ctx(), false, false, $);
    }
    rl::ctx().enable_preemption();
}
void lk_futex_wake_all(const lk_atomic<uint64_t> *word) {
    rl::ctx().sched();
    rl::ctx().disable_preemption();
    current->futex_lock.fetch_add(1, rl::mo_acq_rel);
    word->raw().wake(rl::ctx(), 99, $);
    rl::ctx().enable_preemption();
}

// --- [Q1] [Q2] the four steps alone ---------------------------------------------------------------

struct seqlock : rl::test_suite<seqlock, 2> {
    static const int preemptions = -1; // all of them
    lk_atomic<uint64_t> seq, payload[2];

    void thread(unsigned index) {
        if (index == 0) {
            lk_seqlock_begin_write(&seq, 1);
            atomic_store_explicit(&payload[0], 1, memory_order_relaxed);
            atomic_store_explicit(&payload[1], 1, memory_order_relaxed);
            lk_seqlock_end_write(&seq, 2);
            return;
        }
        uint64_t begun = lk_seqlock_begin_read(&seq);
        uint64_t first = atomic_load_explicit(&payload[0], memory_order_relaxed);
        uint64_t second = atomic_load_explicit(&payload[1], memory_order_relaxed);
        if (begun % 2 == 0 && lk_seqlock_unchanged(&seq, begun)) {
            RL_ASSERT(first == begun / 2 && second == begun / 2);
        }
    }
};

// --- [Q1] [Q2] [W1] a frame and its head ----------------------------------------------------------

// Every word of frame n is n (or n as a double), in a ring of one slot: the hardest case. Only the
// second frame has metadata.
template <typename derived> struct publishing : rl::test_suite<derived, 2> {
    static const int preemptions = 3;
    world w;

    void publish_one(uint64_t n) {
        struct lk_frame_metrics metrics = {(double)n, (double)n, (double)n};
        const void *metadata = n > 1 ? &n : NULL;
        model_clock = n;
        w.writer->metrics = metrics;
        RL_ASSERT(publish(w.writer, &n, sizeof n, metadata, sizeof n, NULL) == (int64_t)n);
    }
    // Copy frame n if the slot has it, and return the slot's word.
    uint64_t read_one(uint64_t n) {
        uint64_t pixels = 0;
        uint64_t metadata = 0;
        uint64_t word = 0;
        struct lk_frame_info info;
        struct destination to = {&pixels, &metadata, &info};
        enum attempt got = copy_frame(w.reader, n, &word, &to);
        RL_ASSERT(got != ATTEMPT_CORRUPT);
        if (got == ATTEMPT_GOT) {
            RL_ASSERT(pixels == n && info.timestamp_ns == n);
            RL_ASSERT(n == 1 ? info.metadata_size == -1
                             : info.metadata_size == 8 && metadata == n);
            RL_ASSERT(info.metrics.last_reward == n && info.metrics.rolling_return == n &&
                      info.metrics.step_rate_hz == n);
        }
        return word;
    }
    void before() {
        w.open();
        publish_one(1);
    }
};

struct frame : publishing<frame> {
    void thread(unsigned index) {
        if (index == 0) {
            publish_one(2);
            return;
        }
        uint64_t head = load_head(w.reader);
        // Who has seen the head may trust it: the slot holds that frame, or a later one.
        RL_ASSERT(read_one(head) >= lk_frame_word_complete(head));
    }
};

// The slot's word is enough by itself, for a reader that guesses the frame instead of asking head.
struct slot : publishing<slot> {
    void thread(unsigned index) {
        if (index == 0) {
            publish_one(2);
        } else {
            read_one(2);
        }
    }
};

// --- [Q1] [Q2] the header metrics -----------------------------------------------------------------

struct metrics : rl::test_suite<metrics, 2> {
    static const int preemptions = 3;
    world w;

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_frame_metrics all = {1, 1, 1};
            store_metrics(w.writer, &all);
            return;
        }
        struct lk_frame_metrics got = {-1, -1, -1};
        if (lk_frame_metrics(w.reader, &got) == 1) {
            RL_ASSERT(got.last_reward == got.rolling_return);
            RL_ASSERT(got.last_reward == got.step_rate_hz && got.last_reward >= 0);
        }
    }
};

// --- [W1] [W2] announcing and waiting -------------------------------------------------------------

// No deadline ever comes: a wake that is lost is a thread that never ends, which Relacy reports.
template <typename derived, int strategy> struct waiting : rl::test_suite<derived, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work;

    void before() {
        model_clock_step = 1000000000;
    }
    void thread(unsigned index) {
        if (index == 0) {
            work = 1;
            lk_announce(&w.header.head, &w.header.wake_at, 1);
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        while (lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, UINT64_MAX, &spin,
                              (enum lk_wait_strategy)strategy) == 0) {
            model_yield();
        }
        RL_ASSERT(work == 1);
    }
};
struct wait_block : waiting<wait_block, LK_WAIT_BLOCK> {};
struct wait_hybrid : waiting<wait_hybrid, LK_WAIT_HYBRID> {};

// Spinning ends by its deadline; here after one look, and the caller may come again.
struct wait_spin : rl::test_suite<wait_spin, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work;

    void before() {
        model_clock_step = 1;
    }
    void thread(unsigned index) {
        if (index == 0) {
            work = 1;
            lk_announce(&w.header.head, &w.header.wake_at, 1);
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        if (lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, 1, &spin, LK_WAIT_SPIN) != 0) {
            RL_ASSERT(work == 1);
        }
    }
};

// Two sleepers for different announcements share the one word wake_at.
struct wait_two : rl::test_suite<wait_two, 3> {
    static const int preemptions = 2;
    world w;
    plain<int> work[3];

    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 1; n <= 2; n++) {
                work[n] = 1;
                lk_announce(&w.header.head, &w.header.wake_at, n);
            }
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        for (uint64_t seen = 0; seen < index;) {
            seen = lk_wait_beyond(&w.header.head, &w.header.wake_at, seen, UINT64_MAX, &spin,
                                  LK_WAIT_BLOCK);
            for (uint64_t n = 1; n <= seen; n++) {
                RL_ASSERT(work[n] == 1);
            }
        }
    }
};

// --- [W2] the first sleeper -----------------------------------------------------------------------

// Sleeps for long only once the writer looks for sleepers; before that it is back by itself.
struct wait_first : rl::test_suite<wait_first, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work[3];

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 1; n <= 2; n++) {
                work[n] = 1;
                writer_announce(w.writer, n);
            }
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        uint64_t seen = 0;
        while (seen == 0) {
            if (will_be_woken(w.reader)) {
                seen = lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, UINT64_MAX, &spin,
                                      LK_WAIT_BLOCK);
            } else {
                raise_wake_at(&w.header.wake_at, 1);
                model_yield();
                seen = load_head(w.reader);
            }
        }
        for (uint64_t n = 1; n <= seen; n++) {
            RL_ASSERT(work[n] == 1);
        }
    }
};

// --- [R1] [R2] [W2] a ring -------------------------------------------------------------------------

// Two entries through a ring that holds one: each end has to wait for the other. Sleeps have no
// deadline, so that a lost wake is a thread that never ends; the ring's bytes are race-checked.
template <typename derived, int strategy> struct passing : rl::test_suite<derived, 2> {
    static const int preemptions = 3;
    static const uint64_t ring_bytes = 8;
    world w;
    struct {
        struct lk_ring_header header;
        plain<uint32_t> words[2];
    } region;
    struct lk_ring_end writer, reader;

    void before() {
        RL_ASSERT(lk_ring_open_writer(&writer, &region, ring_bytes) == LK_OK);
        RL_ASSERT(lk_ring_open_reader(&reader, &region, ring_bytes) == LK_OK);
    }
    void thread(unsigned index) {
        for (uint32_t n = 1; n <= 2; n++) {
            int done = 0;
            while (done == 0) {
                uint32_t got = 0;
                size_t size = 0;
                done = index == 0 ? lk_ring_write(&writer, &n, sizeof n)
                                  : lk_ring_read(&reader, &got, sizeof got, &size);
                RL_ASSERT(done == 0 || done == 1);
                RL_ASSERT(done == 0 || index == 0 || (size == sizeof got && got == n));
                if (done == 0 && strategy == LK_WAIT_SPIN) {
                    model_yield(); // no help from the orders of lk_wait_beyond
                } else if (done == 0 && index == 0) {
                    lk_ring_wait_for_space(&writer, UINT64_MAX, (enum lk_wait_strategy)strategy);
                } else if (done == 0) {
                    lk_ring_wait_for_entry(&reader, UINT64_MAX, (enum lk_wait_strategy)strategy);
                }
            }
        }
    }
};
struct ring_block : passing<ring_block, LK_WAIT_BLOCK> {};
struct ring_spin : passing<ring_spin, LK_WAIT_SPIN> {};

// --- [G1] one handle, several threads -------------------------------------------------------------

struct guard : rl::test_suite<guard, 3> {
    static const int preemptions = 3;
    struct lk_guard handle_guard;
    plain<int> handle;
    plain<int> open;

    void before() {
        lk_guard_init(&handle_guard);
        open = 1;
    }
    void thread(unsigned index) {
        if (index == 2) {
            RL_ASSERT(lk_guard_close(&handle_guard));
            open = 0;
            return;
        }
        int status = index == 0 ? lk_guard_enter(&handle_guard)
                                : lk_guard_enter_lightly(&handle_guard);
        RL_ASSERT(status == LK_OK || status == LK_E_CLOSED); // light calls disturb nobody
        if (status == LK_OK) {
            RL_ASSERT(open == 1);
            handle = handle + 1;
            lk_guard_exit(&handle_guard);
        }
    }
};

// --- [S3] references and the pool -----------------------------------------------------------------

// Two holders let go; a third thread wants the pool entry for a mapping of its own.
struct references : rl::test_suite<references, 3> {
    static const int preemptions = 3;
    world w;

    void before() {
        lk_segment *segment = w.open();
        lk_segment_retain(segment);
    }
    void thread(unsigned index) {
        if (index < 2) {
            lk_segment *segment = w.entries;
            struct lk_segment_header *header = header_of(segment);
            RL_ASSERT(atomic_load_explicit(&header->flags, memory_order_relaxed) == 0);
            RL_ASSERT(lk_segment_identity(segment)->inode == MODEL_INODE);
            lk_segment_release(segment);
            return;
        }
        struct lk_segment_id id;
        id.inode = MODEL_INODE + 1;
        lk_segment *segment = nullptr;
        if (map_file(&segment, 3, &id, model_file_size, 0) == LK_OK) {
            RL_ASSERT(segment->lock_fd == -1);
        }
    }
};

// --- [S1] creating and attaching ------------------------------------------------------------------

struct ready : rl::test_suite<ready, 2> {
    static const int preemptions = 3;
    world w;
    struct lk_segment_header private_header;
    struct lk_frame_geometry private_geometry;

    void before() {
        model_segments = 2; // the two sides are processes with a pool each; here, an entry each
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_request request = {LK_KIND_FRAME, LK_MAGIC_FRAME, "r", 1,
                                                 model_file_size};
            RL_ASSERT(writer_open_segment(w.writer, &request) == LK_OK);
            return;
        }
        lk_segment *segment = nullptr;
        w.reader->run_id_size = 1;
        w.reader->run_id[0] = 'r';
        int status = reader_open_segment(w.reader, &segment, &private_header, &private_geometry);
        RL_ASSERT(status == LK_OK || status == LK_E_NOT_READY || status == LK_E_TOO_MANY);
        if (status == LK_OK) {
            RL_ASSERT(private_header.owner_pid == MODEL_PID);
        }
    }
};

// --- [S2] the end of a segment --------------------------------------------------------------------

// A reader that learns of the end can get all that was written before it: the last frame, and what
// a lane may keep beside its frames.
struct goodbye : rl::test_suite<goodbye, 2> {
    static const int preemptions = 3;
    world w;
    plain<int> beside;

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            uint64_t pixels = 1;
            RL_ASSERT(publish(w.writer, &pixels, sizeof pixels, NULL, 0, NULL) == 1);
            beside = 1;
            writer_say_goodbye(w.writer);
        } else if (lk_segment_invalidated(w.reader->segment)) {
            RL_ASSERT(load_head(w.reader) == 1 && beside == 1);
        }
    }
};

// --- [S4] the fault handler and the pool ----------------------------------------------------------

// A fault just behind a small new mapping is not its fault, although the pool entry belonged to a
// large one before.
struct fault : rl::test_suite<fault, 2> {
    static const int preemptions = -1;
    world w;

    void before() {
        model_file_size = 1000;
        lk_segment_release(w.open());
        the_mapping.mapped = nullptr;
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_id id;
            lk_segment *segment = nullptr;
            RL_ASSERT(map_file(&segment, 3, &id, 10, 0) == LK_OK);
        } else {
            RL_ASSERT(!lk_segment_absorb_fault((char *)&w.header + 500));
        }
    }
};

// The entry of a mapping that ends is taken at once by another, larger one at another address. Its
// size must not be added to the address that was there before.
struct fault_reuse : rl::test_suite<fault_reuse, 2> {
    static const int preemptions = -1;
    world w;
    char *fault_at;

    void before() {
        model_file_size = 10;
        fault_at = (char *)lk_segment_base(w.open()) + 500;
        the_mapping.mapped = nullptr;
        model_base = fault_at - 100000;
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_id id;
            lk_segment *segment = w.entries;
            lk_segment_release(segment);
            RL_ASSERT(map_file(&segment, 3, &id, 1000, 0) == LK_OK);
        } else {
            RL_ASSERT(!lk_segment_absorb_fault(fault_at));
        }
    }
};

// --- [S4] the termination handler and the owner ---------------------------------------------------

// The handler runs in another thread than the one that creates the segment and lets go of it.
struct abandon : rl::test_suite<abandon, 2> {
    static const int preemptions = 3;
    world w;

    void before() {
        the_mapping.mapped = &w.mapped;
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_request request = {LK_KIND_FRAME, LK_MAGIC_FRAME, "r", 1,
                                                 model_file_size};
            lk_segment *segment = nullptr;
            RL_ASSERT(build(&segment, 3, "n", &request) == LK_OK);
            lk_segment_release(segment);
            // The entry's next user.
            struct lk_segment_id id;
            RL_ASSERT(map_file(&segment, 3, &id, model_file_size, 0) == LK_OK);
        } else {
            lk_segment_abandon_owned();
        }
    }
};

#include "relacy_step_models.hpp"

// --- [J1] [J2] [J3] [J4] a ring of one cell -------------------------------------------------------

// Two records through room for one: each side has to wait for the other. No deadline ever comes, so
// that a lost wake-up is a thread that never ends. The cell is plain memory.
struct ring_pass : rl::test_suite<ring_pass, 2> {
    static const int preemptions = 3;
    world w;
    struct lk_traj_header header;
    struct lk_traj_ring ring;
    plain<uint64_t> cell;
    uint64_t read = 0; // the consumer's own

    static bool more(const void *self) {
        const ring_pass *suite = (const ring_pass *)self;
        return lk_traj_ring_head(&suite->ring) != suite->read;
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 0; n < 2; n++) {
                uint64_t tail;
                while (n - (tail = lk_traj_ring_tail(&ring)) >= 1) {
                    lk_traj_ring_sleep_for_room(&ring, tail, n, UINT64_MAX);
                }
                cell = n + 1;
                lk_traj_ring_publish(&header, &ring, n + 1);
            }
            return;
        }
        while (read < 2) {
            if (lk_traj_ring_head(&ring) == read) {
                lk_traj_ring_sleep_for_record(&header, more, this, UINT64_MAX);
                continue;
            }
            read++;
            RL_ASSERT(cell == read);
            lk_traj_ring_free(&ring, read);
        }
    }
};

// --- [J1] [J3] two producers, one bell ------------------------------------------------------------

struct ring_bell : rl::test_suite<ring_bell, 3> {
    static const int preemptions = 3;
    world w;
    struct lk_traj_header header;
    struct lk_traj_ring rings[2];
    plain<int> cells[2];
    uint64_t read[2] = {0, 0};

    static bool more(const void *self) {
        const ring_bell *suite = (const ring_bell *)self;
        return lk_traj_ring_head(&suite->rings[0]) != suite->read[0] ||
               lk_traj_ring_head(&suite->rings[1]) != suite->read[1];
    }
    void thread(unsigned index) {
        if (index < 2) {
            cells[index] = 1;
            lk_traj_ring_publish(&header, &rings[index], 1);
            return;
        }
        while (read[0] + read[1] < 2) {
            bool found = false;
            for (int i = 0; i < 2; i++) {
                if (read[i] == 0 && lk_traj_ring_head(&rings[i]) == 1) {
                    RL_ASSERT(cells[i] == 1);
                    read[i] = 1;
                    found = true;
                }
            }
            if (!found) {
                lk_traj_ring_sleep_for_record(&header, more, this, UINT64_MAX);
            }
        }
    }
};

// --- [J5] a ring changes hands --------------------------------------------------------------------

struct ring_claim : rl::test_suite<ring_claim, 2> {
    static const int preemptions = -1;
    world w;
    struct lk_traj_ring ring;
    plain<int> left_behind;

    void before() {
        atomic_store_explicit(&ring.identity, 1, memory_order_relaxed);
    }
    void thread(unsigned index) {
        if (index == 0) {
            atomic_store_explicit(&ring.head, 1, memory_order_relaxed);
            left_behind = 1;
            lk_traj_ring_leave(&ring, 1);
        } else if (lk_traj_ring_claim(&ring, 0, 2)) {
            RL_ASSERT(atomic_load_explicit(&ring.head, memory_order_relaxed) == 1);
            RL_ASSERT(left_behind == 1);
        }
    }
};

// --- running --------------------------------------------------------------------------------------

static int more_preemptions; // than a model asks for, where it does not search all schedules

// LANEKIT_MODEL_HISTORY=1 shows each step of the execution that broke the model.
template <typename suite> static void search() {
    using full = rl::full_search_scheduler<suite::params::thread_count>;
    using bound = rl::context_bound_scheduler<suite::params::thread_count>;
    using scheduler = std::conditional_t<(suite::preemptions < 0), full, bound>;
    rl::test_params params;
    std::ostream nowhere(nullptr);
    rl::ostringstream state;
    params.output_stream = &std::cerr;
    params.progress_stream = &nowhere;
    params.search_type = suite::preemptions < 0 ? rl::sched_full : rl::sched_bound;
    params.context_bound = (unsigned)(suite::preemptions + more_preemptions);
    params.iteration_count = 100000000;
    rl::run_test<suite, scheduler>(params, state, false);
    if (params.test_result != rl::test_result_success && getenv("LANEKIT_MODEL_HISTORY") != nullptr) {
        rl::ostringstream again;
        params.initial_state = state.str();
        params.collect_history = true;
        rl::run_test<suite, scheduler>(params, again, true);
    }
    printf("result|%s|%lld|%d|%d|", rl::test_result_str(params.test_result),
           (long long)params.stop_iteration, params.stop_iteration < params.iteration_count,
           suite::preemptions < 0 ? -1 : suite::preemptions + more_preemptions);
    for (int i = 0; i < LK_SITES_MAX; i++) {
        if (site_used[i]) {
            printf("%d ", i);
        }
    }
    printf("|");
    for (int i = 0; i < LK_SITES_MAX; i++) {
        if (swap_used[i]) {
            printf("%d ", i);
        }
    }
    printf("\n");
}

static const struct {
    const char *name;
    void (*search)();
} all_models[] = {
    {"seqlock", search<seqlock>},         {"frame", search<frame>},
    {"slot", search<slot>},               {"metrics", search<metrics>},         {"wait_block", search<wait_block>},
    {"wait_hybrid", search<wait_hybrid>}, {"wait_spin", search<wait_spin>},
    {"wait_two", search<wait_two>},       {"wait_first", search<wait_first>},
    {"ring_block", search<ring_block>},   {"ring_spin", search<ring_spin>},
    {"guard", search<guard>},
    {"references", search<references>},   {"ready", search<ready>},
    {"goodbye", search<goodbye>},         {"fault", search<fault>},
    {"fault_reuse", search<fault_reuse>}, {"abandon", search<abandon>},
    {"step_exchange", search<step_exchange>}, {"step_place", search<step_place>},
    {"step_succession", search<step_succession>},
    {"ring_pass", search<ring_pass>},     {"ring_bell", search<ring_bell>},
    {"ring_claim", search<ring_claim>},
};

// usage: relacy_models                             list the models
//        relacy_models MODEL SITE ORDER SWAP MORE  search one; -1 for SITE and SWAP: as it is
int main(int count, char **arguments) {
    for (const auto &model : all_models) {
        if (count < 6) {
            printf("%s\n", model.name);
        } else if (strcmp(model.name, arguments[1]) == 0) {
            const char *order = arguments[3];
            mutant_site = atoi(arguments[2]);
            mutant_order = strcmp(order, "acquire") == 0   ? rl::mo_acquire
                           : strcmp(order, "release") == 0 ? rl::mo_release
                           : strcmp(order, "acq_rel") == 0 ? rl::mo_acq_rel
                                                           : rl::mo_relaxed;
            mutant_swap = atoi(arguments[4]);
            more_preemptions = atoi(arguments[5]);
            model.search();
        }
    }
    return 0;
}
