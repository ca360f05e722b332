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
    if (IS_ATTACK(argc, argv))
        session_set_name(s, negative, sizeof negative);
    free(s);
    return CLEAN();
}
