// Two ways of spreading rows over the pool. Neither changes a result: a row is computed alone, wherever it runs.
#pragma once

#include <atomic>

#include "pool.h"

namespace whitedwarf {

constexpr int64_t kWorthThreads = 30000;  // nanoseconds (roughly) below which waking the pool costs more than it gives

// body(begin, end) over fair shares of [0, rows), or over everything at once where it is little work.
template <typename Body>
void spread(Pool& pool, int64_t rows, int64_t row_ns, const Body& body) {
    if (rows == 1 || rows * row_ns < kWorthThreads)
        body(int64_t(0), rows);
    else
        pool.split(rows, [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

// Hands out 0, 1, ... items - 1 to whichever thread comes next.
class Tickets {
public:
    explicit Tickets(int64_t items) : items_(items) {}

    // False when there is nothing left.
    bool take(int64_t& item) {
        item = next_.fetch_add(1, std::memory_order_relaxed);
        return item < items_;
    }

private:
    int64_t items_;
    std::atomic<int64_t> next_{0};
};

// body(tickets) on every thread, for items of uneven size: each makes its scratch, then draws until none is left.
template <typename Body>
void share(Pool& pool, int64_t items, const Body& body) {
    Tickets tickets(items);
    pool.split(pool.threads(), [&](int64_t, int64_t, int) { body(tickets); });
}

// body(begin, end, thread) for runs that together make [0, items), handed out in order to whichever thread comes next:
// `runs` of them for each thread. The more, the better they end together; the fewer, the longer each reads in order.
template <typename Body>
void deal(Pool& pool, int64_t items, int runs, const Body& body) {
    const int64_t wanted = items / (int64_t(pool.threads()) * runs), each = wanted > 0 ? wanted : 1;
    if (pool.threads() == 1 || items <= each) {
        if (items > 0) body(int64_t(0), items, 0);
        return;
    }
    std::atomic<int64_t> next{0};
    pool.split(pool.threads(), [&](int64_t, int64_t, int thread) {
        for (int64_t begin; (begin = next.fetch_add(each, std::memory_order_relaxed)) < items;)
            body(begin, begin + each < items ? begin + each : items, thread);
    });
}

}  // namespace whitedwarf
