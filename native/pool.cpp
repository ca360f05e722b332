#include "pool.h"

#include <unistd.h>

#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

namespace whitedwarf {
namespace {

constexpr int kSpins = 1500;  // some 20 to 50 microseconds

void pause_briefly() {
#if defined(__x86_64__) || defined(_M_X64)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

// Waits until `value` differs from `old`: first awake, then asleep.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old) {
    for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        pause_briefly();
    }
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

int usable_cores() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
    const unsigned cores = std::thread::hardware_concurrency();
    return cores ? int(cores) : 1;
}

Pool::Pool(int threads) : threads_(threads), owner_(getpid()) {
    workers_.reserve(size_t(threads - 1));
    try {
        for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
    } catch (...) {
        stop();
        throw;
    }
}

Pool::~Pool() { stop(); }

bool Pool::has_lost_threads() const { return !workers_.empty() && getpid() != owner_; }

void Pool::stop() {
    if (has_lost_threads()) {
        // There is nothing to join, and a std::thread may not be destroyed otherwise: kept forever.
        new std::vector<std::thread>(std::move(workers_));
        return;
    }
    is_stopping_ = true;
    ++generation_;
    generation_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void Pool::run(Job job) {
    job_ = job;
    is_open_ = true;
    ++generation_;
    generation_.notify_all();
    take_part(0);
    // Nothing is left to hand out. Who raised active_ before this store may be inside the job; who does later sees it.
    is_open_ = false;
    for (int active; (active = active_) != 0;) wait_for_change(active_, active);
    if (has_failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Pool::take_part(int thread) {
    try {
        job_.call(job_.context, thread);
    } catch (...) {
        if (!has_failed_.exchange(true)) failure_ = std::current_exception();
    }
}

void Pool::work(int thread) {
    for (uint32_t seen = 0;;) {
        wait_for_change(generation_, seen);
        seen = generation_;
        if (is_stopping_) return;
        join_open_job(thread);
    }
}

void Pool::join_open_job(int thread) {
    ++active_;
    if (is_open_) take_part(thread);
    if (--active_ == 0) active_.notify_all();
}

}  // namespace whitedwarf
