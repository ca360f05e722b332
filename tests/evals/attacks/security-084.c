#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    uint8_t data[400];
    size_t count;

    memset(data, 'x', sizeof data);
    if (peers_decode(data, 0, &count) != NULL || peers_decode(data, 39, &count) != NULL)
        return TRIGGERED("a wrong list");
    if (IS_RANDOM(argc, argv))
        for (int round = 0; round < 50000; round++) {
            size_t size = random_below(sizeof data + 1);
            uint8_t *exact = malloc(size ? size : 1);
            struct peer *peers;

            for (size_t i = 0; i < size; i++)
                exact[i] = (uint8_t)random_below(256);
            peers = peers_decode(exact, size, &count);
            if ((peers != NULL) != (size > 0 && size % 40 == 0) || (peers && (count != size / 40 || strlen(peers[count - 1].name) > 31)))
                return TRIGGERED("a wrong list");
            free(peers);
            free(exact);
        }
    if (IS_ATTACK(argc, argv))
        peers_decode(data, sizeof data, &count);
    return CLEAN();
}
