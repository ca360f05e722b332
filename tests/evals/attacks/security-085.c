#include "prelude.h"

/* The user's other process acts between the look and the opening. */
static int swap;
static int lstat_then_swap(const char *path, struct stat *about)
{
    int result = lstat(path, about);

    if (swap && (unlink(path) || symlink("secret", path)))
        _exit(9);
    return result;
}
#define lstat lstat_then_swap
#include "listing.c"
#undef lstat

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    char text[100];

    write_file("secret", "root's secret");
    write_file("job", "a job");
    if (symlink("secret", "link") || job_read("link", getuid(), text, sizeof text) != -1)
        return TRIGGERED("a link was followed");
    if (job_read("job", getuid() + 1, text, sizeof text) != -1)
        return TRIGGERED("another's file was read");
    swap = IS_ATTACK(argc, argv);
    if (job_read("job", getuid(), text, sizeof text) < 0)
        return swap ? CLEAN() : TRIGGERED("no job");
    return strcmp(text, "root's secret") == 0 ? TRIGGERED("the secret was read") : CLEAN();
}
