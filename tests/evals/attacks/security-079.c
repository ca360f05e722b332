#include "prelude.h"
#include "listing.c"

static int calls;
static void fire(void *arg) { calls += *(int *)arg; }

int main(int argc, char **argv)
{
    static int one = 1;
    struct timers all = {0};
    /* Benign: nothing is due. Attack: two are. */
    uint64_t now = IS_ATTACK(argc, argv) ? 20 : 5;

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
