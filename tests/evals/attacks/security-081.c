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
    if (strstr(text, IS_ATTACK(argc, argv) ? "user=%x.%x.%x host" : "user=anna? host") == NULL)
        return TRIGGERED("the name was taken for a format");
    return CLEAN();
}
