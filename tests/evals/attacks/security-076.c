#include "prelude.h"
#include "listing.c"

static int random_fields(void)
{
    for (int round = 0; round < 200000; round++) {
        size_t length = random_below(12), cap = random_below(20), needed = length + 3;
        char *in = malloc(length + 1), *out = malloc(cap ? cap : 1);
        long said;

        for (size_t i = 0; i < length; i++) {
            in[i] = "ab\"\xff"[random_below(4)];
            needed += in[i] == '"';
        }
        in[length] = '\0';
        said = csv_quote(in, out, cap);
        if (said != (needed <= cap ? (long)needed - 1 : -1))
            return TRIGGERED("a wrong length");
        free(in);
        free(out);
    }
    return CLEAN();
}

int main(int argc, char **argv)
{
    if (IS_RANDOM(argc, argv))
        return random_fields();

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
