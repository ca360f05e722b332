#include "prelude.h"
#include "listing.c"

static void write_script(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    chmod(path, 0700);
}

/* In a folder of its own, which is the first of PATH. */
int main(int argc, char **argv)
{
    char path[8192];

    write_script("shrink", "#!/bin/sh\nexit 0\n");
    write_script("pwned", "#!/bin/sh\n: > marker\n");
    snprintf(path, sizeof path, "%s:%s", get_current_dir_name(), getenv("PATH"));
    setenv("PATH", path, 1);
    if (thumbnail("in", "cat.png") != 0 || thumbnail("in", "a;pwned") == 0 || thumbnail("in", "../x") == 0)
        return TRIGGERED("a wrong result");
    if (IS_RANDOM(argc, argv))
        for (int round = 0; round < 2000 && access("marker", F_OK) != 0; round++) {
            static const char *const parts[] = {"cat", "'", "\n", "pwned"};
            char name[64] = "";

            for (unsigned n = 1 + random_below(6); n > 0; n--)
                strcat(name, parts[random_below(4)]);
            thumbnail("in", name);
        }
    if (IS_ATTACK(argc, argv))
        thumbnail("in", "cat'\npwned\n'");
    return access("marker", F_OK) == 0 ? TRIGGERED("the visitor's command ran") : CLEAN();
}
