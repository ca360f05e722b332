// Many short jobs on pools of several sizes: every item is met exactly once, and what a body throws comes out.
// For the thread sanitizer (test_pool.py); prints "equal".
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pool.h"

using whitedwarf::Pool;

namespace {

bool meets_every_item_once(Pool& pool, int64_t items) {
    std::vector<int> met(static_cast<size_t>(items), 0);  // not atomic: one thread per item
    pool.split(items, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) ++met[size_t(i)];
        std::this_thread::yield();  // so that the others get their share
    });
    for (const int times : met)
        if (times != 1) return false;
    return true;
}

bool throws_what_a_body_throws(Pool& pool, int64_t items, int64_t bad) {
    try {
        pool.split(items, [&](int64_t begin, int64_t end, int) {
            std::this_thread::yield();
            if (begin <= bad && bad < end) throw std::runtime_error("bad");
        });
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

int main() {
    for (const int threads : {1, 2, 3, 8}) {
        Pool pool(threads);
        for (int round = 0; round < 1000; ++round) {
            const int64_t items = round % 37;
            if (!meets_every_item_once(pool, items)) return 1;
            if (items && !throws_what_a_body_throws(pool, items, round % items)) return 1;
        }
    }
    std::puts("equal");
}
