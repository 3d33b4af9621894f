/* Labels handwritten digits with the library that
 *
 *     hybridjit compile examples/digits/digits --shape data=N,1,28,28 --library out
 *
 * writes. Run it with a file of pictures, 28 x 28 floats each: one label a line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { PIXELS = 28 * 28, CLASSES = 10, MOST = 64 };

static int fail(int code)
{
    fprintf(stderr, "digits: %s\n", digits_error_text(code));
    return 1;
}

static int label_of(const float *scores)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

/* Label pictures until the file ends. Returns an error code of the library's. */
static int label_all(digits_context *context, FILE *file)
{
    static float pictures[MOST][PIXELS];
    static float scores[MOST][CLASSES];
    size_t count;
    while ((count = fread(pictures, sizeof pictures[0], MOST, file)) > 0) {
        digits_input input = {pictures, count * DIGITS_INPUT0_BYTES};
        digits_output output = {scores, count * DIGITS_OUTPUT0_BYTES};
        int code = digits_run(context, &input, &output, (int64_t)count, NULL, 0);
        if (code != DIGITS_OK)
            return code;
        for (size_t i = 0; i < count; i++)
            printf("%d\n", label_of(scores[i]));
    }
    return DIGITS_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s PICTURES [WEIGHTS]\n", argv[0]);
        return 2;
    }
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL) {
        perror(argv[1]);
        return 1;
    }
    digits_context *context;
    int code = digits_init(&context, argc == 3 ? argv[2] : NULL, 1);
    if (code == DIGITS_OK)
        code = label_all(context, file);
    digits_free(context);
    fclose(file);
    return code == DIGITS_OK ? 0 : fail(code);
}
