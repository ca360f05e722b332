#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    uint8_t good[] = {7, 0, 3, 'a', 'b', 'c'}, long_one[] = {7, 0, 64}, negative[] = {7, 0xff, 0xff, 'x'};
    struct session *s = calloc(1, sizeof *s);

    if (session_set_name(s, good, sizeof good) != 6 || strcmp(s->name, "abc") != 0)
        return TRIGGERED("a wrong name");
    if (session_set_name(s, good, 5) != -1 || session_set_name(s, long_one, 3) != -1)
        return TRIGGERED("a bad message was taken");
    if (IS_RANDOM(argc, argv))
        for (int round = 0; round < 200000; round++) {
            size_t size = random_below(90);
            uint8_t *message = malloc(size ? size : 1);
            long used;

            for (size_t i = 0; i < size; i++)
                message[i] = (uint8_t)random_below(256);
            if (size > 0 && random_below(8))
                message[0] = 7;
            if (size > 1 && random_below(4))
                message[1] = 0;
            if (size > 2 && random_below(2))
                message[2] &= 127;
            used = session_set_name(s, message, size);
            if (used > (long)size || (used >= 0 && s->name_length + 3 != (size_t)used))
                return TRIGGERED("a wrong name");
            free(message);
        }
    if (IS_ATTACK(argc, argv))
        session_set_name(s, negative, sizeof negative);
    free(s);
    return CLEAN();
}
