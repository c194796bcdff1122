// What the core's source is compiled against when Relacy runs it: Relacy's atomics behind the C11
// names, race-checked plain fields, and an operating system made of a few words.
// relacy.py puts the transformed source of csrc after this file, and relacy_models.hpp after that.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <relacy/relacy.hpp>

// Relacy replaces these for C++ programs under test; the core's own calls are replaced below.
#undef new
#undef delete
#undef malloc
#undef calloc
#undef free
#undef errno
#define errno model_errno

static int model_errno;
static int model_segments; // entries in the pool

// --- mutants --------------------------------------------------------------------------------------

static const int LK_SITES_MAX = 512;
static int mutant_site = -1;
static rl::memory_order mutant_order = rl::mo_relaxed;
static int mutant_swap = -1;
static bool site_used[LK_SITES_MAX];
static bool swap_used[LK_SITES_MAX];

static inline rl::memory_order model_order(int site, rl::memory_order order) {
    site_used[site] = true;
    return site == mutant_site ? mutant_order : order;
}

static inline bool model_swapped(int swap) {
    swap_used[swap] = true;
    return swap == mutant_swap;
}

#define LK_ORDER(site, order) model_order(site, order)
#define LK_SWAPPED(swap) model_swapped(swap)

#define memory_order_relaxed rl::mo_relaxed
#define memory_order_acquire rl::mo_acquire
#define memory_order_release rl::mo_release
#define memory_order_acq_rel rl::mo_acq_rel
#define memory_order_seq_cst rl::mo_seq_cst

// --- memory ---------------------------------------------------------------------------------------

// A plain field: an access that is not ordered against another thread's write fails the model.
template <typename T> class plain {
  public:
    plain() : value_(T()) {}
    plain(T value) : value_(value) {}
    plain(const plain &other) : value_(T(other)) {}
    plain &operator=(const plain &other) {
        value_($) = T(other);
        return *this;
    }
    plain &operator=(T value) {
        value_($) = value;
        return *this;
    }
    operator T() const { return value_($); }

  private:
    rl::var<T> value_;
};

// The bytes of the one shared file. `mapped` stands for the mapping itself: each atomic access to
// it reads the field, munmap writes it, so an access that may come after the unmapping is a race.
struct mapping {
    const char *begin;
    const char *end;
    plain<int> *mapped;
};

static mapping the_mapping;

static inline void touch(const void *address) {
    const char *at = static_cast<const char *>(address);
    if (the_mapping.mapped != nullptr && at >= the_mapping.begin && at < the_mapping.end) {
        int mapped = *the_mapping.mapped;
        RL_ASSERT(mapped == 1);
    }
}

template <typename T> class lk_atomic {
  public:
    lk_atomic() : value_(T()) {}
    // Structs with atomic fields are copied in private memory only, where order means nothing.
    lk_atomic &operator=(const lk_atomic &other) {
        value_.store(other.load(rl::mo_relaxed), rl::mo_relaxed, $);
        return *this;
    }
    T load(rl::memory_order order) const {
        touch(this);
        return const_cast<lk_atomic *>(this)->value_.load(order, $);
    }
    void store(T value, rl::memory_order order) {
        touch(this);
        value_.store(value, order, $);
    }
    template <bool weak> bool compare_exchange(T &expected, T desired, rl::memory_order success) {
        touch(this);
        // Relacy wants the failure order no stronger than the success order; the core's is relaxed.
        return value_.compare_exchange(rl::bool_t<weak>(), expected, desired, success,
                                       rl::mo_relaxed, $);
    }
    template <bool weak>
    bool compare_exchange(T &expected, T desired, rl::memory_order success,
                          rl::memory_order failure) {
        touch(this);
        if (failure == rl::mo_acquire && success == rl::mo_relaxed) {
            // Legal C11, unknown to Relacy: the fence gives the failed exchange its order.
            bool exchanged = compare_exchange<weak>(expected, desired, rl::mo_relaxed);
            if (!exchanged) {
                rl::atomic_thread_fence(rl::mo_acquire, $);
            }
            return exchanged;
        }
        return value_.compare_exchange(rl::bool_t<weak>(), expected, desired, success, failure, $);
    }
    T fetch_add(T by, rl::memory_order order) {
        touch(this);
        return value_.fetch_add(by, order, $);
    }
    T fetch_sub(T by, rl::memory_order order) {
        touch(this);
        return value_.fetch_sub(by, order, $);
    }
    T fetch_or(T bits, rl::memory_order order) {
        touch(this);
        return value_.fetch_or(bits, order, $);
    }
    rl::atomic<T> &raw() const { return const_cast<lk_atomic *>(this)->value_; }

  private:
    rl::atomic<T> value_;
};

#define atomic_init(object, value) ((object)->store((value), rl::mo_relaxed))
#define atomic_load_explicit(object, order) ((object)->load(order))
#define atomic_store_explicit(object, value, order) ((object)->store((value), (order)))
#define atomic_fetch_add_explicit(object, value, order) ((object)->fetch_add((value), (order)))
#define atomic_fetch_sub_explicit(object, value, order) ((object)->fetch_sub((value), (order)))
#define atomic_fetch_or_explicit(object, value, order) ((object)->fetch_or((value), (order)))
#define atomic_compare_exchange_strong_explicit(object, expected, desired, success, failure)       \
    ((object)->template compare_exchange<false>(*(expected), (desired), (success), (failure)))
#define atomic_compare_exchange_weak_explicit(object, expected, desired, success, failure)         \
    ((object)->template compare_exchange<true>(*(expected), (desired), (success), (failure)))

static inline void model_fence(rl::memory_order order) {
    if (order != rl::mo_relaxed) {
        rl::atomic_thread_fence(order, $);
    }
}
#define atomic_thread_fence(order) model_fence(order)

// --- the operating system -------------------------------------------------------------------------

#define MODEL_PID 7
#define MODEL_INODE 11

static void *model_mmap();
static void model_munmap();
static uint64_t model_file_size;
static void model_yield() {
    rl::yield(1, $);
}

static int model_stat(struct stat *info) {
    memset(info, 0, sizeof *info);
    info->st_mode = S_IFREG;
    info->st_size = (off_t)model_file_size;
    info->st_ino = MODEL_INODE;
    return 0;
}

// Between them, MAP_FIXED: the fault handler putting a page in place, which is no new mapping.
#define mmap(address, size, protection, flags, fd, offset)                                         \
    (((flags) & MAP_FIXED) != 0 ? (void *)(address) : model_mmap())
#define munmap(address, size) ((void)(address), (void)(size), model_munmap())
#define shm_open(name, flags, mode) ((void)(name), (flags), 3)
#define shm_unlink(name) ((void)(name), 0)
#define close(fd) ((void)(fd), 0)
#define unlink(path) ((void)(path), 0)
#define fstat(fd, info) ((void)(fd), model_stat(info))
#define lstat(path, info) ((void)(path), model_stat(info))
#define geteuid() 0
#define posix_fallocate(fd, offset, size) ((void)(fd), (offset), (size), 0)
#define pread(fd, out, size, offset) ((void)(fd), (out), (size), (offset), (ssize_t)-1)
#define nanosleep(pause, left) ((void)(pause), model_yield())
#define clock_gettime(clock, now) ((now)->tv_sec = 0, (now)->tv_nsec = 0)
#define getpid() MODEL_PID
#define sysconf(what) 4096
#define sched_yield() model_yield()
#define calloc(count, size) (nullptr)
#define free(pointer) ((void)(pointer))

// --- copies ---------------------------------------------------------------------------------------

// memcpy of a struct with plain fields is made of race-checked accesses, of bytes it is itself.
// The shared header's atomic fields are left out: nobody uses them from a copy.
template <typename T> static inline void model_copy(T *to, const T *from, size_t) {
    to->copy_plain_fields(*from);
}
static inline void model_copy(void *to, const void *from, size_t size) {
    (memcpy)(to, from, size);
}
static inline void model_copy(char *to, const char *from, size_t size) {
    (memcpy)(to, from, size);
}
static inline void model_copy(uint8_t *to, const uint8_t *from, size_t size) {
    (memcpy)(to, from, size);
}

// The bytes of a ring, which two threads copy to and from: in words of four, each race-checked.
class model_bytes {
  public:
    model_bytes() : words_(nullptr) {}
    model_bytes &operator=(uint8_t *at) {
        words_ = (plain<uint32_t> *)at;
        return *this;
    }
    model_bytes operator+(size_t offset) const {
        model_bytes moved;
        moved.words_ = words_ + offset / 4;
        return moved;
    }
    plain<uint32_t> *words() const { return words_; }

  private:
    plain<uint32_t> *words_;
};
static inline void model_copy(model_bytes to, const void *from, size_t size) {
    for (size_t i = 0; i < size / 4; i++) {
        to.words()[i] = ((const uint32_t *)from)[i];
    }
}
static inline void model_copy(void *to, model_bytes from, size_t size) {
    for (size_t i = 0; i < size / 4; i++) {
        ((uint32_t *)to)[i] = from.words()[i];
    }
}
#define memcpy(to, from, size) model_copy((to), (from), (size))
