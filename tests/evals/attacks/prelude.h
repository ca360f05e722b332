/* What the listings of security.toml take for granted: system headers and the functions that a question describes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __cplusplus
#include <mutex>
#ifndef OWN_MUTEX
using Mutex = std::mutex;
#endif
#else
int derive(const char *phrase, const uint8_t *salt, size_t salt_size, uint8_t *key, size_t key_size);
void authenticate(const uint8_t *key, const uint8_t *data, size_t size, uint8_t *tag);
void unseal(const uint8_t *key, const uint8_t *sealed, uint8_t *opened, size_t size);
#endif

/* A harness is run with "benign" or "attack", or, for a repaired listing, with "random" where it takes that. It ends
   with one of these lines; a sanitizer's report counts as well. */
#define CLEAN() (puts("CLEAN"), 0)
#define TRIGGERED(what) (printf("TRIGGERED %s\n", what), 3)
#define IS_ATTACK(argc, argv) ((argc) > 1 && strcmp((argv)[1], "attack") == 0)
#define IS_RANDOM(argc, argv) ((argc) > 1 && strcmp((argv)[1], "random") == 0)

/* The same numbers in every run, below the limit. */
static inline unsigned random_below(unsigned limit)
{
    static unsigned long long state = 12345;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % limit;
}
