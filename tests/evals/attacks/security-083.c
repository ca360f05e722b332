#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    struct setting s = {NULL, NULL};

    if (setting_parse(&s, "colour  =  red") != 0 || strcmp(s.name, "colour") != 0 || strcmp(s.value, "red") != 0)
        return TRIGGERED("a wrong setting");
    if (setting_parse(&s, "colour = blue") != 0 || setting_parse(&s, "nothing") == 0 || setting_parse(&s, " = x") == 0)
        return TRIGGERED("a wrong result");
    if (IS_RANDOM(argc, argv))
        for (int round = 0; round < 200000; round++) {
            char line[16];
            size_t length = random_below(16);

            for (size_t i = 0; i < length; i++)
                line[i] = "a= \n\r"[random_below(5)];
            line[length] = '\0';
            char *exact = strdup(line);
            if (setting_parse(&s, exact) == 0 && (s.name[0] == '\0' || strpbrk(s.value, "\r\n")))
                return TRIGGERED("a wrong setting");
            free(exact);
        }
    if (IS_ATTACK(argc, argv))
        setting_parse(&s, "colour = red\n");
    free(s.name);
    free(s.value);
    return CLEAN();
}
