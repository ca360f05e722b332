#include "prelude.h"
#include "listing.c"

int main(int argc, char **argv)
{
    const char *user = IS_ATTACK(argc, argv) ? "%x.%x.%x" : "anna\n";
    char text[1024] = "";
    FILE *log = fmemopen(text, sizeof text, "w");

    if (log_login(log, user, "example.org", 0) != 0)
        return TRIGGERED("a failure");
    fclose(log);
    if (IS_RANDOM(argc, argv)) {
        for (int round = 0; round < 20000; round++) {
            char names[2][151];

            for (int k = 0; k < 2; k++) {
                size_t length = random_below(151);
                for (size_t i = 0; i < length; i++)
                    names[k][i] = (char)(1 + random_below(255));
                names[k][length] = '\0';
            }
            memset(text, 0, sizeof text);
            log = fmemopen(text, sizeof text, "w");
            if (log_login(log, names[0], names[1], round % 2) != 0 || fclose(log) != 0)
                return TRIGGERED("a failure");
            if (strchr(text, '\n') != text + strlen(text) - 1)
                return TRIGGERED("another number of lines than one");
        }
        return CLEAN();
    }
    if (strstr(text, IS_ATTACK(argc, argv) ? "user=%x.%x.%x host" : "user=anna? host") == NULL)
        return TRIGGERED("the name was taken for a format");
    return CLEAN();
}
