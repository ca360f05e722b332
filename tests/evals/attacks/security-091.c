#include "prelude.h"
#include "listing.c"

int main(void)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 16, SIZE_MAX / 16 + 1, SIZE_MAX / 16 - 5000,
                                  SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX / 32};
    unsigned seed = 1;
    struct queue q = {NULL, 0, 0};
    uint64_t next = 0;

    for (int round = 0; round < 300; round++) {
        size_t n = (seed = seed * 1103515245u + 12345u) >> 16 & 63;
        struct item *items = calloc(n ? n : 1, sizeof *items);

        for (size_t i = 0; i < n; i++)
            items[i].id = next++;
        if (queue_append(&q, items, n) != 0 || q.used != next || q.used > q.cap)
            return TRIGGERED("a wrong queue");
        for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
            struct queue before = q;
            if (queue_append(&q, items, huge[i]) != -1 || memcmp(&before, &q, sizeof q) != 0)
                return TRIGGERED("a huge number was taken");
        }
        free(items);
    }
    for (uint64_t i = 0; i < next; i++)
        if (q.items[i].id != i)
            return TRIGGERED("an item was lost");
    free(q.items);
    return CLEAN();
}
