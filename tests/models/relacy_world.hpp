// What stands around the core in a model: the functions that it calls but that are not modelled, one
// process with one file, and the kernel's futex. Included by relacy_models.hpp.

static uint64_t model_clock;
static uint64_t model_clock_step;

uint64_t lk_clock_ns(void) {
    model_clock += model_clock_step;
    return model_clock;
}
uint64_t lk_clock_coarse_ns(void) {
    return lk_clock_ns();
}
void lk_fork_watch(void) {}
uint32_t lk_fork_generation(void) {
    return 0;
}
struct lk_process lk_process_self(void) {
    return {MODEL_PID, 0};
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
    lk_atomic<uint32_t> roles[LK_ROLE_CLIENT + 1];
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

// A pool entry with a mapping of so many bytes.
static lk_segment *model_map(uint64_t size) {
    lk_segment *segment = nullptr;
    RL_ASSERT(lk_segment_open(&segment, "n", O_RDWR, NULL) == LK_OK);
    RL_ASSERT(lk_segment_map(segment, size, 0) == LK_OK);
    return segment;
}
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
    the_mapping.mapped = &mapped;
    lk_segment *segment = model_map(model_file_size);
    writer->segment = reader->segment = segment;
    writer->header = reader->header = (struct lk_frame_header *)lk_segment_base(segment);
    return segment;
}

// The kernel's locks on the file's bytes: one holder, and whoever gets a lock sees what the last one
// did before it let go.
int lk_lock_open(struct lk_lock *lock, const char *, int) {
    lock->fd = 3;
    return 0;
}
void lk_lock_close(struct lk_lock *lock) {
    lock->fd = -1;
}
int lk_lock_take(struct lk_lock *, uint32_t role) {
    uint32_t free_role = 0;
    return current->roles[role].compare_exchange<false>(free_role, 1, rl::mo_acquire) ? LK_OK
                                                                                      : LK_E_TAKEN;
}
int lk_lock_take_within(struct lk_lock *lock, uint32_t role, int) {
    return lk_lock_take(lock, role);
}
void lk_lock_drop(struct lk_lock *, uint32_t role) {
    current->roles[role].store(0, rl::mo_release);
}
enum lk_liveness lk_lock_holder(int, uint32_t role) {
    return current->roles[role].load(rl::mo_relaxed) != 0 ? LK_ALIVE : LK_DEAD;
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
