#include "prelude.h"
#include "listing.c"

/* Compiled with -ftrivial-auto-var-init=pattern: what nobody sets is 0xfe. */
int main(int argc, char **argv)
{
    struct node node = {1000, "node-1", {1, 2, 3, 4}};
    struct status_reply reply;
    uint32_t flags = IS_ATTACK(argc, argv) ? WANT_HOST : WANT_HOST | WANT_COUNTERS;
    int ends[2];

    for (unsigned n = 0; IS_RANDOM(argc, argv) && n < 1000; n++) {
        flags = random_below(8);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || status_send(ends[0], &node, flags, 1500) != 0)
            return TRIGGERED("nothing sent");
        if (read(ends[1], &reply, sizeof reply) != (ssize_t)sizeof reply || memchr(&reply, 0xfe, sizeof reply))
            return TRIGGERED("old memory was sent");
        close(ends[0]);
        close(ends[1]);
    }

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || status_send(ends[0], &node, flags, 1500) != 0)
        return TRIGGERED("nothing sent");
    if (read(ends[1], &reply, sizeof reply) != (ssize_t)sizeof reply || reply.uptime != 500)
        return TRIGGERED("another reply");
    return memchr(&reply, 0xfe, sizeof reply) ? TRIGGERED("old memory was sent") : CLEAN();
}
