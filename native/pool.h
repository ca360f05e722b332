// A fork-join thread pool: the caller is worker 0, the others sleep between calls.
//
// Promise: work is split the same way every time, in contiguous fair shares. Workers spin for some tens of microseconds
// after a job (the next call of a decode step usually comes within that time), then sleep in the kernel.
// Not re-entrant, and one caller at a time: Kernels holds the lock.
#pragma once

#include <atomic>
#include <cstdint>
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

    // Calls body(begin, end, thread) for each thread's share of [0, items); returns when all are done.
    template <typename Body>
    void split(int64_t items, const Body& body) {
        const auto share = [&](int thread) {
            const int64_t begin = items * thread / threads_, end = items * (thread + 1) / threads_;
            if (begin < end) body(begin, end, thread);
        };
        run(Job{[](const void* context, int thread) { (*static_cast<decltype(&share)>(context))(thread); }, &share});
    }

private:
    struct Job {
        void (*call)(const void* context, int thread);
        const void* context;
    };

    void run(Job job);
    void work(int thread);

    int threads_;
    Job job_{};
    std::atomic<uint32_t> generation_{0};  // counts jobs; workers wait for it to move
    std::atomic<int> pending_{0};          // workers that have not finished the current job
    std::atomic<bool> stopping_{false};
    std::vector<std::thread> workers_;
};

// Cores this process may run on.
int usable_cores();

}  // namespace whitedwarf
