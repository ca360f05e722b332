#include "prelude.h"
#include "listing.c"

static int load(int width, int height, size_t pixels)
{
    unsigned char *data = calloc(1, 8 << 20); /* more than is said, so that only the writing is outside */
    struct image img = {0, 0, NULL};
    int result;

    memcpy(data, "RAWI", 4);
    data[4] = (unsigned char)(width >> 8), data[5] = (unsigned char)width;
    data[6] = (unsigned char)(height >> 8), data[7] = (unsigned char)height;
    result = image_load(data, 8 + pixels, &img);
    free(img.pixels);
    free(data);
    return result;
}

int main(int argc, char **argv)
{
    if (IS_RANDOM(argc, argv)) {
        for (int round = 0; round < 300; round++) {
            int width = (int)random_below(9), height = (int)random_below(9), huge = (int)random_below(65536);
            size_t pixels = random_below(200), needed = (size_t)width * (size_t)height * 3;

            if (load(width, height, pixels) != (needed > 0 && needed <= pixels ? 0 : -1) || load(huge, 65535 - width, pixels) == 0)
                return TRIGGERED("a wrong result");
        }
        return CLEAN();
    }
    if (load(4, 5, 60) != 0 || load(4, 5, 59) == 0 || load(0, 5, 60) == 0)
        return TRIGGERED("a wrong result");
    if (!IS_ATTACK(argc, argv))
        return CLEAN();
    for (int width = 65535; width > 40000; width--)
        for (int height = 65535; height > 22000; height--) {
            uint32_t wrapped = (uint32_t)width * (uint32_t)height * 3u;
            if (wrapped > 0 && wrapped < 1000)
                return load(width, height, wrapped) == -1 ? CLEAN() : TRIGGERED("no report");
        }
    return TRIGGERED("no such size");
}
