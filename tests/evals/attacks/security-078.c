#include "prelude.h"

/* The kernel refuses to change the user, as it does with EAGAIN at a limit of processes. */
static int refuse;
static int setgroups_stub(size_t n, const gid_t *groups) { (void)n, (void)groups; return 0; }
static int setgid_stub(gid_t group) { (void)group; return 0; }
static int setuid_stub(uid_t user) { (void)user; errno = EAGAIN; return refuse ? -1 : 0; }
static int execve_stub(const char *path, char *const argv[], char *const envp[])
{
    (void)path, (void)argv, (void)envp;
    _exit(refuse ? 77 : 7); /* 77: the hook runs although the user is still the daemon's */
}
#define setgroups setgroups_stub
#define setgid setgid_stub
#define setuid setuid_stub
#define execve execve_stub
#include "listing.c"

int main(int argc, char **argv)
{
    int status;

    refuse = IS_ATTACK(argc, argv);
    status = run_hook("/hook", 1000, 1000);
    if (status == 77)
        return TRIGGERED("the hook runs with the daemon's rights");
    return status == (refuse ? 126 : 7) ? CLEAN() : TRIGGERED("another status");
}
