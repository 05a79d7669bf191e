/*
 * cuda-profile.c - which kernels a step is made of, and what each adds to it: a
 * library for the CUDA driver to load into a program of bench/ or into hymt.
 *
 *     CUDA_INJECTION64_PATH=build/gpu/cuda_profile.so \
 *         build/gpu/cuda_mixed MODEL 48 80 2 60
 *
 * At the program's end it prints a line for each kernel of the last steps
 * (HYMT_PROFILE_STEPS, 20), told apart by name and grid; kernels inside of CUDA
 * graphs are seen, too.  A kernel's time is from its start, which may be long
 * before the one in front of it ends; what it adds is by how much the step's
 * end moves with it, and these sum up to the step.  A step is a few per cent
 * slower while it is watched.
 *
 * By CUPTI, which is looked for when it starts.  A step begins with k_embed.
 */

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define PROFILE_BUFFER  (8 << 20)
#define PROFILE_LINES   64
#define PROFILE_NAME    72


typedef struct {
    uint64_t     start;          /* ns */
    uint64_t     end;
    const char  *name;           /* CUPTI's, for good */
    int32_t      grid[3];
} kernel_t;


typedef struct {
    char      name[PROFILE_NAME];
    int32_t   grid[3];
    uint32_t  n;
    uint64_t  took;
    uint64_t  added;
    uint64_t  idle;              /* of what was added */
} line_t;


int InitializeInjection(void);

static void profile_end(void);
static void CUPTIAPI profile_give(uint8_t **buffer, size_t *size, size_t *max);
static void CUPTIAPI profile_take(CUcontext context, uint32_t stream,
    uint8_t *buffer, size_t size, size_t valid);
static void profile_keep(const CUpti_ActivityKernel9 *k);
static int profile_compare(const void *one, const void *two);
static size_t profile_begin(size_t steps);
static line_t *profile_line(const kernel_t *k);
static void profile_name(char *to, const char *name);


static struct {
    CUptiResult  (*callbacks)(CUpti_BuffersCallbackRequestFunc,
                              CUpti_BuffersCallbackCompleteFunc);
    CUptiResult  (*enable)(CUpti_ActivityKind);
    CUptiResult  (*next)(uint8_t *, size_t, CUpti_Activity **);
    CUptiResult  (*flush)(uint32_t);
} cupti;

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
static kernel_t        *kernels;
static size_t           n_kernels, max_kernels;

static line_t           lines[PROFILE_LINES];
static uint32_t         n_lines;


/* The driver calls this when it has loaded the library. */
__attribute__((visibility("default")))
int
InitializeInjection(void)
{
    size_t  i;
    void   *library;

    static const char *const  names[] = {
        "libcupti.so.13", "libcupti.so.12", "libcupti.so",
    };

    library = NULL;

    for (i = 0; library == NULL && i < sizeof(names) / sizeof(*names); i++) {
        library = dlopen(names[i], RTLD_NOW);
    }

    if (library == NULL) {
        fprintf(stderr, "cuda_profile: %s\n", dlerror());
        return 0;
    }

    *(void **) &cupti.callbacks = dlsym(library,
                                        "cuptiActivityRegisterCallbacks");
    *(void **) &cupti.enable = dlsym(library, "cuptiActivityEnable");
    *(void **) &cupti.next = dlsym(library, "cuptiActivityGetNextRecord");
    *(void **) &cupti.flush = dlsym(library, "cuptiActivityFlushAll");

    if (cupti.callbacks == NULL || cupti.enable == NULL || cupti.next == NULL
        || cupti.flush == NULL
        || cupti.callbacks(profile_give, profile_take) != CUPTI_SUCCESS
        || cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
           != CUPTI_SUCCESS)
    {
        fprintf(stderr, "cuda_profile: CUPTI can't watch kernels here\n");
        return 0;
    }

    return atexit(profile_end) == 0;
}


static void CUPTIAPI
profile_give(uint8_t **buffer, size_t *size, size_t *max)
{
    *buffer = aligned_alloc(8, PROFILE_BUFFER);
    *size = *buffer != NULL ? PROFILE_BUFFER : 0;
    *max = 0;
}


static void CUPTIAPI
profile_take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
    size_t valid)
{
    CUpti_Activity  *record;

    (void) context;
    (void) stream;
    (void) size;

    record = NULL;
    pthread_mutex_lock(&lock);

    while (cupti.next(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            profile_keep((const CUpti_ActivityKernel9 *) record);
        }
    }

    pthread_mutex_unlock(&lock);
    free(buffer);
}


static void
profile_keep(const CUpti_ActivityKernel9 *k)
{
    kernel_t  *to;

    if (n_kernels == max_kernels) {
        max_kernels = max_kernels == 0 ? 1 << 16 : max_kernels * 2;
        to = realloc(kernels, max_kernels * sizeof(kernel_t));

        if (to == NULL) {
            fprintf(stderr, "cuda_profile: no memory\n");
            exit(1);
        }

        kernels = to;
    }

    to = &kernels[n_kernels++];
    to->start = k->start;
    to->end = k->end;
    to->name = k->name != NULL ? k->name : "?";
    to->grid[0] = k->gridX;
    to->grid[1] = k->gridY;
    to->grid[2] = k->gridZ;
}


static void
profile_end(void)
{
    size_t       i, steps;
    line_t      *line;
    uint64_t     last, total;
    const char  *value;

    value = getenv("HYMT_PROFILE_STEPS");
    steps = value != NULL ? (size_t) atoi(value) : 20;

    if (cupti.flush(1) != CUPTI_SUCCESS || n_kernels == 0 || steps == 0) {
        return;
    }

    qsort(kernels, n_kernels, sizeof(kernel_t), profile_compare);

    last = 0;
    total = 0;

    for (i = profile_begin(steps); i < n_kernels; i++) {

        /* between steps nothing is counted */

        if (strstr(kernels[i].name, "k_embed") != NULL) {
            last = kernels[i].start;
        }

        line = profile_line(&kernels[i]);

        if (line == NULL) {
            break;
        }

        line->n++;
        line->took += kernels[i].end - kernels[i].start;

        if (kernels[i].start > last) {
            line->idle += kernels[i].start - last;
        }

        if (kernels[i].end > last) {
            line->added += kernels[i].end - last;
            total += kernels[i].end - last;
            last = kernels[i].end;
        }
    }

    printf("profile: %.1f us a step, of %zu\n"
           "a step  us each  adds  of it idle  us a step\n",
           (double) total / 1e3 / (double) steps, steps);

    for (i = 0; i < n_lines; i++) {
        line = &lines[i];

        printf("%6.1f %8.2f %6.2f %10.2f %10.1f  %s %dx%dx%d\n",
               (double) line->n / (double) steps,
               (double) line->took / 1e3 / line->n,
               (double) line->added / 1e3 / line->n,
               (double) line->idle / 1e3 / line->n,
               (double) line->added / 1e3 / (double) steps, line->name,
               line->grid[0], line->grid[1], line->grid[2]);
    }
}


static int
profile_compare(const void *one, const void *two)
{
    const kernel_t  *a = one, *b = two;

    return a->start < b->start ? -1 : a->start > b->start;
}


/* The first kernel of the last steps. */
static size_t
profile_begin(size_t steps)
{
    size_t  i;

    for (i = n_kernels; i > 0 && steps > 0; i--) {
        steps -= strstr(kernels[i - 1].name, "k_embed") != NULL;
    }

    return i;
}


static line_t *
profile_line(const kernel_t *k)
{
    char      name[PROFILE_NAME];
    uint32_t  i;

    profile_name(name, k->name);

    for (i = 0; i < n_lines; i++) {
        if (strcmp(lines[i].name, name) == 0
            && memcmp(lines[i].grid, k->grid, sizeof(k->grid)) == 0)
        {
            return &lines[i];
        }
    }

    if (n_lines == PROFILE_LINES) {
        return NULL;
    }

    memcpy(lines[i].name, name, sizeof(name));
    memcpy(lines[i].grid, k->grid, sizeof(k->grid));

    return &lines[n_lines++];
}


/* _Z8k_kernelILi4ELb1EEv... -> k_kernel<4,1>; what is not mangled stays. */
static void
profile_name(char *to, const char *name)
{
    int          n, used;
    const char  *at;

    if (sscanf(name, "_Z%d%n", &n, &used) != 1 || n <= 0
        || (size_t) n > strlen(name + used))
    {
        snprintf(to, PROFILE_NAME, "%s", name);
        return;
    }

    at = name + used + n;
    n = snprintf(to, PROFILE_NAME, "%.*s", n, name + used);

    if (at[0] != 'I' || at[1] != 'L') {
        return;
    }

    for (at++; *at == 'L' && n < PROFILE_NAME - 12; at++) {
        n += snprintf(to + n, PROFILE_NAME - (size_t) n, "%c%ld",
                      at[-1] == 'I' ? '<' : ',', strtol(at + 2, NULL, 10));
        at += strcspn(at, "E");
    }

    snprintf(to + n, PROFILE_NAME - (size_t) n, ">");
}
