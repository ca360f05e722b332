#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    /* Six bytes and their quotes and NUL: nine. */
    size_t cap = IS_ATTACK(argc, argv) ? 8 : 9;
    char *out = malloc(cap);
    long length = csv_quote("abcdef", out, cap);

    if (cap == 8)
        return length == -1 ? CLEAN() : TRIGGERED("no report");
    if (length != 8 || strcmp(out, "\"abcdef\"") != 0)
        return TRIGGERED("a wrong field");
    if (csv_quote("a\"b", out, 8) != 6 || strcmp(out, "\"a\"\"b\"") != 0)
        return TRIGGERED("a wrong field");
    return CLEAN();
}
