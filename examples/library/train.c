/* Trains the network of handwritten digits with the library that
 *
 *     hybridjit compile examples/digits/digits --shape data=20,1,28,28 --shape label=20 \
 *         --train softmax_cross_entropy --optimizer sgd,momentum=0.9 --name trainer --library out
 *
 * writes. Run it with a file of pictures, 28 x 28 floats each, a file of labels, a float each, and
 * how often to go over them: the mean loss of each epoch, one a line. With a fourth file, what was
 * learned is read from it before, if it is there, and written to it afterwards.
 */
#include <stdio.h>
#include <stdlib.h>

#include "trainer.h"

enum { PIXELS = 28 * 28, BATCH = TRAINER_INPUT1_BYTES / sizeof(float) };
static const double LEARNING_RATE = 0.01;

static int fail(int code)
{
    fprintf(stderr, "trainer: %s\n", trainer_error_text(code));
    return 1;
}

/* Read what is learned from a file, or write it there. Returns whether all of it was. */
static int move_states(trainer_context *context, FILE *file, int is_read)
{
    for (size_t i = 0; i < TRAINER_STATES; i++) {
        size_t bytes = trainer_state_bytes(i);
        void *data = malloc(bytes);
        int done = data != NULL;
        if (done && is_read)
            done = fread(data, 1, bytes, file) == bytes
                && trainer_set(context, trainer_state_name(i), data, bytes) == TRAINER_OK;
        else if (done)
            done = trainer_get(context, trainer_state_name(i), data, bytes) == TRAINER_OK
                && fwrite(data, 1, bytes, file) == bytes;
        free(data);
        if (!done)
            return 0;
    }
    return 1;
}

static int with_file(trainer_context *context, const char *path, int is_read)
{
    FILE *file = fopen(path, is_read ? "rb" : "wb");
    if (file == NULL)
        return is_read; /* nothing was learned before */
    int done = move_states(context, file, is_read);
    return fclose(file) == 0 && done;
}

/* Go over the files once. Returns an error code of the library's. */
static int train(trainer_context *context, FILE *pictures, FILE *labels)
{
    static float data[BATCH][PIXELS], label[BATCH], loss[BATCH];
    double sum = 0;
    long count = 0;
    rewind(pictures);
    rewind(labels);
    while (fread(data, sizeof data, 1, pictures) == 1 && fread(label, sizeof label, 1, labels) == 1) {
        trainer_input inputs[] = {{data, sizeof data}, {label, sizeof label}};
        trainer_output output = {loss, sizeof loss};
        int code = trainer_step(context, inputs, &output, LEARNING_RATE, NULL, 0);
        if (code != TRAINER_OK)
            return code;
        for (int i = 0; i < BATCH; i++)
            sum += loss[i];
        count += BATCH;
    }
    printf("%.6f\n", count ? sum / (double)count : 0.0);
    return TRAINER_OK;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: %s PICTURES LABELS EPOCHS [LEARNED]\n", argv[0]);
        return 2;
    }
    FILE *pictures = fopen(argv[1], "rb"), *labels = fopen(argv[2], "rb");
    if (pictures == NULL || labels == NULL) {
        perror("trainer");
        return 1;
    }
    trainer_context *context;
    int code = trainer_init(&context, NULL, 1), is_kept = 1;
    if (code == TRAINER_OK && argc == 5)
        is_kept = with_file(context, argv[4], 1);
    for (int epoch = atoi(argv[3]); epoch > 0 && code == TRAINER_OK && is_kept; epoch--)
        code = train(context, pictures, labels);
    if (code == TRAINER_OK && argc == 5)
        is_kept = is_kept && with_file(context, argv[4], 0);
    trainer_free(context);
    fclose(pictures);
    fclose(labels);
    if (!is_kept)
        fprintf(stderr, "trainer: %s does not hold what this library learns\n", argv[4]);
    return code != TRAINER_OK ? fail(code) : !is_kept;
}
