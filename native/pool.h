// A fork-join thread pool: the caller is worker 0, the others sleep between calls.
//
// Items are handed out in contiguous runs to whoever comes next, so a core that is slow or busy elsewhere holds nobody
// up; a worker that wakes too late finds nothing left and is not waited for. Workers spin for some tens of microseconds
// after a job (the next call of a decode step usually comes within that time), then sleep in the kernel.
// Which thread does what is not fixed: results must not depend on it. Not re-entrant, and one caller at a time
// (Kernels holds the lock). Threads do not survive a fork: a child may destroy its copy of a pool, not use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace whitedwarf {

class Pool {
public:
    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return threads_; }

    // True in a process that was forked off the one that made the pool.
    bool has_lost_threads() const;

    // Calls body(begin, end, thread) for runs that together make [0, items); returns when all are done. If bodies
    // throw, the first exception comes out here, once no thread is at it any more; some items are then left undone.
    template <typename Body>
    void split(int64_t items, const Body& body) {
        if (threads_ == 1 || items <= 1) {
            if (items > 0) body(int64_t(0), items, 0);
            return;
        }
        const int64_t wanted = items / (threads_ * kRunsPerThread), run_items = wanted > 0 ? wanted : 1;
        std::atomic<int64_t> next{0};
        const auto share = [&](int thread) {
            for (int64_t begin; (begin = next.fetch_add(run_items, std::memory_order_relaxed)) < items;)
                body(begin, begin + run_items < items ? begin + run_items : items, thread);
        };
        run(Job{[](const void* context, int thread) { (*static_cast<decltype(&share)>(context))(thread); }, &share});
    }

private:
    static constexpr int kRunsPerThread = 6;

    struct Job {
        void (*call)(const void* context, int thread);
        const void* context;
    };

    void run(Job job);
    void take_part(int thread);
    void work(int thread);
    void join_open_job(int thread);
    void stop();

    int threads_;
    Job job_{};                            // written only while no job is open and no worker active
    std::atomic<bool> is_open_{false};     // there is a job to join
    std::atomic<int> active_{0};           // workers that may be looking at the job
    std::atomic<uint32_t> generation_{0};  // counts jobs; sleepers wait for it to move
    std::atomic<bool> is_stopping_{false};
    std::atomic<bool> has_failed_{false};
    std::exception_ptr failure_;  // written by whoever raised has_failed_, read when no worker is active
    int64_t owner_;               // the process that has the threads
    std::vector<std::thread> workers_;
};

// Cores this process may run on.
int usable_cores();

}  // namespace whitedwarf
