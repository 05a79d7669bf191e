/*
 * hymt.c - the command line program: finds the command and runs it.
 */

#include "hymt.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>


/* One line a command, in the order of the list that --help prints. */
#define HYMT_COMMANDS(command)                                                \
    command(translate)                                                        \
    command(inspect)                                                          \
    command(tokenize)                                                         \
    command(bench)                                                            \
    command(selftest)


#define HYMT_DECLARE(name)  extern const hymt_command_t  hymt_command_##name;
#define HYMT_ENTRY(name)    &hymt_command_##name,


HYMT_COMMANDS(HYMT_DECLARE)


static void hymt_list(FILE *out);
static const hymt_command_t *hymt_find(const char *name);
static bool hymt_asks_help(int argc, char **argv);
static void hymt_complain(const hymt_command_t *command, const char *fmt,
    va_list args);


static const hymt_command_t *const  hymt_commands[] = {
    HYMT_COMMANDS(HYMT_ENTRY)
};


int
main(int argc, char **argv)
{
    bool                   help;
    const char            *name;
    const hymt_command_t  *command;

    static char  full[64];

    if (argc < 2) {
        hymt_list(stderr);
        return HYMT_EXIT_USAGE;
    }

    name = argv[1];

    if (strcmp(name, "--version") == 0) {
        printf("hymt %s\n", HYMT_VERSION);
        return HYMT_EXIT_OK;
    }

    help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0
           || strcmp(name, "-h") == 0;

    if (help && argc == 2) {
        hymt_list(stdout);
        return HYMT_EXIT_OK;
    }

    argv += help ? 2 : 1;
    argc -= help ? 2 : 1;

    command = hymt_find(argv[0]);

    if (command == NULL) {
        fprintf(stderr, "hymt: there is no command \"%s\"; \"hymt --help\""
                " lists them\n", argv[0]);
        return HYMT_EXIT_USAGE;
    }

    if (help || hymt_asks_help(argc, argv)) {
        printf("Usage: hymt %s", command->manual);
        return HYMT_EXIT_OK;
    }

    /* getopt's messages begin with it */

    snprintf(full, sizeof(full), "hymt %s", command->name);
    argv[0] = full;

    return command->run(argc, argv);
}


static void
hymt_list(FILE *out)
{
    size_t  i;

    fprintf(out,
            "Usage: hymt COMMAND [ARGUMENT ...]\n"
            "\n"
            "Works with Hunyuan translation models without NGINX.  MODEL is a"
            " directory as\n"
            "downloaded from Hugging Face: config.json, model.safetensors (or"
            " an index and\n"
            "its shards), tokenizer.json.\n"
            "\n"
            "Commands\n");

    for (i = 0; i < hymt_nelts(hymt_commands); i++) {
        fprintf(out, "  %-10s  %s\n", hymt_commands[i]->name,
                hymt_commands[i]->summary);
    }

    fprintf(out,
            "\n"
            "\"hymt COMMAND --help\" is the command's manual; \"hymt"
            " --version\" the version.\n"
            "\n"
            "Exit status: 0 done, 1 it could not be done, 2 the command line"
            " is wrong.\n"
            "Errors go to stderr.\n");
}


static const hymt_command_t *
hymt_find(const char *name)
{
    size_t  i;

    for (i = 0; i < hymt_nelts(hymt_commands); i++) {
        if (strcmp(hymt_commands[i]->name, name) == 0) {
            return hymt_commands[i];
        }
    }

    return NULL;
}


/* Anywhere before "--", so that it works after a mistake too. */
static bool
hymt_asks_help(int argc, char **argv)
{
    int  i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }

    return false;
}


int
hymt_failed(const hymt_command_t *command, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    hymt_complain(command, fmt, args);
    va_end(args);

    return HYMT_EXIT_FAILED;
}


int
hymt_usage(const hymt_command_t *command, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    hymt_complain(command, fmt, args);
    va_end(args);

    fprintf(stderr, "\"hymt %s --help\" says more\n", command->name);

    return HYMT_EXIT_USAGE;
}


static void
hymt_complain(const hymt_command_t *command, const char *fmt, va_list args)
{
    fflush(stdout);

    fprintf(stderr, "hymt %s: ", command->name);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}


int
hymt_flush(const hymt_command_t *command)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return hymt_failed(command, "can't write the output: %s",
                           strerror(errno));
    }

    return HYMT_EXIT_OK;
}
