#include "prelude.h"
#include "listing.c"

static int calls;
static void fire(void *arg) { calls += *(int *)arg; }

static int random_timers(void)
{
    static int one = 1;
    struct timers all = {0};
    uint64_t now = 0;

    for (int round = 0; round < 100000; round++) {
        size_t before = all.count, left = 0;

        for (unsigned n = random_below(4); n > 0; n--, before++) {
            struct timer *t = malloc(sizeof *t);
            *t = (struct timer){now + random_below(30), fire, &one, all.head};
            all.head = t;
            all.count++;
        }
        now += random_below(10);
        if (timers_run(&all, now) != before - all.count)
            return TRIGGERED("a wrong number");
        for (struct timer *t = all.head; t != NULL; t = t->next, left++)
            if (t->due <= now)
                return TRIGGERED("a timer was passed over");
        if (left != all.count)
            return TRIGGERED("a wrong count");
    }
    return CLEAN();
}

int main(int argc, char **argv)
{
    static int one = 1;
    struct timers all = {0};
    /* Benign: nothing is due. Attack: two are. */
    uint64_t now = IS_ATTACK(argc, argv) ? 20 : 5;

    if (IS_RANDOM(argc, argv))
        return random_timers();
    for (int i = 0; i < 3; i++) {
        struct timer *t = malloc(sizeof *t);
        *t = (struct timer){(uint64_t)(30 - 10 * i), fire, &one, all.head};
        all.head = t;
        all.count++;
    }
    timers_run(&all, now);
    if (now == 20)
        return calls == 2 && all.count == 1 && all.latest == 20 ? CLEAN() : TRIGGERED("a wrong list");
    return calls == 0 && all.count == 3 ? CLEAN() : TRIGGERED("a wrong list");
}
