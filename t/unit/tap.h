/*
 * tap.h - the few assertions the unit tests need, in TAP.
 *
 * Each prints one line; a failing one prints both values side by side.  A test
 * ends with "return tap_done();".
 */

#ifndef HYMT_TAP_H
#define HYMT_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


/* sanitizers make everything slow: a test may do less with them */

#if defined(__SANITIZE_ADDRESS__)
#define TAP_SANITIZED  true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAP_SANITIZED  true
#endif
#endif

#ifndef TAP_SANITIZED
#define TAP_SANITIZED  false
#endif


static int  tap_n;
static int  tap_failed;


__attribute__((format(printf, 2, 3), unused))
static bool
tap_ok(bool pass, const char *fmt, ...)
{
    va_list  args;

    tap_n++;
    tap_failed += !pass;

    printf("%sok %d - ", pass ? "" : "not ", tap_n);

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);

    printf("\n");
    fflush(stdout);

    return pass;
}


#define ok(cond, ...)                                                         \
    (tap_ok((cond), __VA_ARGS__)                                              \
     || (printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond), false))

#define is_int(got, want, ...)                                                \
    do {                                                                      \
        int64_t  tap_g = (int64_t) (got), tap_w = (int64_t) (want);           \
        if (!tap_ok(tap_g == tap_w, __VA_ARGS__)) {                           \
            printf("# %s:%d: got %" PRId64 ", want %" PRId64 "\n",            \
                   __FILE__, __LINE__, tap_g, tap_w);                         \
        }                                                                     \
    } while (0)

#define is_str(got, want, ...)                                                \
    do {                                                                      \
        const char  *tap_g = (got), *tap_w = (want);                          \
        if (!tap_ok(strcmp(tap_g, tap_w) == 0, __VA_ARGS__)) {                \
            printf("# %s:%d: got  \"%s\"\n# %s:%d: want \"%s\"\n",            \
                   __FILE__, __LINE__, tap_g, __FILE__, __LINE__, tap_w);     \
        }                                                                     \
    } while (0)

/* got holds part: for error messages */
#define has_str(got, part, ...)                                               \
    do {                                                                      \
        const char  *tap_g = (got), *tap_w = (part);                          \
        if (!tap_ok(strstr(tap_g, tap_w) != NULL, __VA_ARGS__)) {             \
            printf("# %s:%d: got  \"%s\"\n# %s:%d: want it to hold \"%s\"\n", \
                   __FILE__, __LINE__, tap_g, __FILE__, __LINE__, tap_w);     \
        }                                                                     \
    } while (0)

#define is_near(got, want, tol, ...)                                          \
    do {                                                                      \
        double  tap_g = (got), tap_w = (want), tap_t = (tol);                 \
        if (!tap_ok(fabs(tap_g - tap_w) <= tap_t, __VA_ARGS__)) {             \
            printf("# %s:%d: got %.9g, want %.9g within %.3g\n",              \
                   __FILE__, __LINE__, tap_g, tap_w, tap_t);                  \
        }                                                                     \
    } while (0)


/*
 * Processor time of the calling thread, in ns: what one thread computes is
 * measured by it, since others may want the processors at the same time.
 */
__attribute__((unused))
static uint64_t
tap_cpu_ns(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


/*
 * Random runs, each with a seed of its own, until one is not good, which then
 * has said why: its seed as the only argument repeats it.
 */
__attribute__((unused))
static bool
tap_runs(int argc, char **argv, uint32_t n, bool (*run)(uint64_t seed))
{
    uint64_t  seed, first;

    if (argc > 1) {
        first = strtoull(argv[1], NULL, 10);

    } else {
        first = (uint64_t) time(NULL) * 1000003 + tap_cpu_ns();
    }

    printf("# seeds from %" PRIu64 "\n", first);

    for (seed = first; seed < first + n; seed++) {
        if (!run(seed)) {
            return false;
        }
    }

    return true;
}


__attribute__((unused))
static int
tap_done(void)
{
    printf("1..%d\n", tap_n);

    return tap_failed ? 1 : 0;
}


#endif /* HYMT_TAP_H */
