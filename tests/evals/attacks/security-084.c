#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    uint8_t data[400];
    size_t count;

    memset(data, 'x', sizeof data);
    if (peers_decode(data, 0, &count) != NULL || peers_decode(data, 39, &count) != NULL)
        return TRIGGERED("a wrong list");
    if (IS_ATTACK(argc, argv))
        peers_decode(data, sizeof data, &count);
    return CLEAN();
}
