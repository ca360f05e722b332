#include "prelude.h"
#include "listing.c"

/* In a folder of its own: pictures/cat.png, and things that must not be reached from there. */
int main(void)
{
    static const char *const bad[] = {
        "", ".", "..", "../secret", "/etc/passwd", "link", "folder", "pipe", ".hidden", "folder/x", "a/../../secret",
        "cat.png/", "./cat.png", "cat.png\n", "caf\xc3\xa9", "folder/../cat.png",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    int root, fd;

    if (mkdir("pictures", 0700) || mkdir("pictures/folder", 0700) || symlink("../secret", "pictures/link"))
        return TRIGGERED("no folder");
    if (mkfifo("pictures/pipe", 0600))
        return TRIGGERED("no pipe");
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"secret", "pictures/cat.png", "pictures/.hidden", "pictures/folder/x"};
        if (close(open(names[i], O_CREAT | O_WRONLY, 0600)))
            return TRIGGERED("no file");
    }
    root = open("pictures", O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *exact = strdup(bad[i]); /* so that reading past the end is reported */
        if (open_picture(root, exact) >= 0)
            return TRIGGERED(bad[i]);
        free(exact);
    }
    fd = open_picture(root, "cat.png");
    return fd >= 0 && close(fd) == 0 ? CLEAN() : TRIGGERED("the picture was refused");
}
