#include "prelude.h"

void authenticate(const uint8_t *key, const uint8_t *data, size_t size, uint8_t *tag)
{
    for (size_t i = 0; i < 32; i++)
        tag[i] = (uint8_t)(key[i] ^ (size ? data[i % size] : 0) ^ i * 37);
}
#include "listing.c"

int main(void)
{
    uint8_t key[32], tag[32];
    char good[65], *given;

    memset(key, 0x5a, sizeof key);
    authenticate(key, (const uint8_t *)"message", 7, tag);
    for (int i = 0; i < 32; i++)
        snprintf(good + 2 * i, 3, "%02x", tag[i]);
    if (!tag_accepts(key, (const uint8_t *)"message", 7, good) || tag_accepts(key, (const uint8_t *)"massage", 7, good))
        return TRIGGERED("a wrong verdict");
    for (int at = 0; at < 64; at++)
        for (int c = 1; c < 256; c++) {
            given = strdup(good);
            given[at] = (char)c;
            if (tag_accepts(key, (const uint8_t *)"message", 7, given) != (given[at] == good[at]))
                return TRIGGERED("a changed digit was taken");
            free(given);
        }
    for (int length = 0; length < 64; length++) { /* cut, and doubled */
        given = strndup(good, (size_t)length);
        if (tag_accepts(key, (const uint8_t *)"message", 7, given))
            return TRIGGERED("a cut tag was taken");
        free(given);
    }
    given = malloc(129);
    snprintf(given, 129, "%s%s", good, good);
    if (tag_accepts(key, (const uint8_t *)"message", 7, given))
        return TRIGGERED("a doubled tag was taken");
    free(given);
    return CLEAN();
}
