#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    struct setting s = {NULL, NULL};

    if (setting_parse(&s, "colour  =  red") != 0 || strcmp(s.name, "colour") != 0 || strcmp(s.value, "red") != 0)
        return TRIGGERED("a wrong setting");
    if (setting_parse(&s, "colour = blue") != 0 || setting_parse(&s, "nothing") == 0 || setting_parse(&s, " = x") == 0)
        return TRIGGERED("a wrong result");
    if (IS_ATTACK(argc, argv))
        setting_parse(&s, "colour = red\n");
    free(s.name);
    free(s.value);
    return CLEAN();
}
