#include "prelude.h"
#include <malloc.h>

/* Toy functions: keys are runs of one byte, tags too. */
int derive(const char *phrase, const uint8_t *salt, size_t salt_size, uint8_t *key, size_t key_size)
{
    (void)salt, (void)salt_size;
    memset(key, 'K', key_size);
    return *phrase == '\0' ? -1 : 0;
}
void authenticate(const uint8_t *key, const uint8_t *data, size_t size, uint8_t *tag)
{
    (void)key, (void)data, (void)size;
    memset(tag, 'T', 16);
}
void unseal(const uint8_t *key, const uint8_t *sealed, uint8_t *opened, size_t size)
{
    (void)key, (void)sealed;
    memset(opened, 'O', size);
}

static int leaking_line;
static void free_at(void *memory, int line)
{
    if (memory != NULL && (memchr(memory, 'K', malloc_usable_size(memory)) || memchr(memory, 'O', malloc_usable_size(memory))))
        leaking_line = line;
    free(memory);
}
#define free(memory) free_at(memory, __LINE__)
#include "listing.c"

int main(int argc, char **argv)
{
    uint8_t blob[SALT_SIZE + KEY_SIZE + TAG_SIZE], key[KEY_SIZE];
    char line[16];

    memset(blob, 'T', sizeof blob);
    if (key_unwrap(blob, sizeof blob, "phrase", key) != 0 || key[31] != 'O')
        return TRIGGERED("a good key was refused");
    if (key_unwrap(blob, sizeof blob, "", key) != -1 || key_unwrap(blob, 3, "phrase", key) != -1)
        return TRIGGERED("bad data was taken");
    if (IS_RANDOM(argc, argv))
        for (int round = 0; round < 50000; round++) {
            size_t size = random_below(3) ? sizeof blob : random_below(100);
            uint8_t *exact = malloc(size ? size : 1);

            memset(exact, 'T', size);
            for (unsigned n = random_below(3); n > 0 && size > 0; n--)
                exact[random_below((unsigned)size)] = (uint8_t)random_below(256);
            key_unwrap(exact, size, random_below(4) ? "phrase" : "", key);
            memset(exact, 0, size);
            free(exact);
        }
    if (IS_ATTACK(argc, argv)) {
        blob[sizeof blob - 1] = 'x';
        if (key_unwrap(blob, sizeof blob, "phrase", key) != -1)
            return TRIGGERED("a wrong tag was taken");
    }
    snprintf(line, sizeof line, "line %d", leaking_line);
    return leaking_line ? TRIGGERED(line) : CLEAN();
}
