#include "prelude.h"
#include "listing.c"

/* Packed bytes of every kind into buffers of exact size: an access outside is a report. */
int main(void)
{
    unsigned seed = 12345;
    long done = 0;

    for (int round = 0; round < 200000; round++) {
        size_t in_size = (seed = seed * 1103515245u + 12345u) >> 16 & 31;
        size_t cap = (seed = seed * 1103515245u + 12345u) >> 16 & 255;
        uint8_t *in = malloc(in_size ? in_size : 1), *out = malloc(cap ? cap : 1);
        long length;

        for (size_t i = 0; i < in_size; i++) {
            in[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
            if (seed >> 30 == 0)
                in[i] = (uint8_t)(in[i] & 0x83);
        }
        if (in_size == 0)
            *in = 0;
        length = unpack(in, in_size, out, cap);
        if (length > (long)cap)
            return TRIGGERED("more than fits");
        done += length >= 0;
        free(in);
        free(out);
    }
    return done > 1000 ? CLEAN() : TRIGGERED("hardly any input was good");
}
