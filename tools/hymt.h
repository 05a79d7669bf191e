/*
 * hymt.h - what the commands of the hymt program share.
 *
 * A command is one file, tools/hymt_NAME.c, that defines hymt_command_NAME, and
 * one line in the table of hymt.c.
 */

#ifndef HYMT_TOOL_H
#define HYMT_TOOL_H

#include "base.h"


/* Exit statuses. */
#define HYMT_EXIT_OK      0
#define HYMT_EXIT_FAILED  1   /* it could not be done; stderr says why */
#define HYMT_EXIT_USAGE   2   /* the command line is wrong */


typedef struct {
    const char  *name;
    const char  *summary;     /* a line for the list of commands */
    const char  *manual;      /* what --help prints, after "Usage: hymt " */

    /*
     * argv[0] is "hymt NAME", the rest the command's arguments, and getopt is
     * fresh; --help has been dealt with.  Returns the exit status.
     */
    int        (*run)(int argc, char **argv);
} hymt_command_t;


/* "hymt NAME: message" on stderr; returns HYMT_EXIT_FAILED. */
int hymt_failed(const hymt_command_t *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, with a pointer to --help; returns HYMT_EXIT_USAGE. */
int hymt_usage(const hymt_command_t *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Flushes stdout: a full disk or a closed pipe must not pass for success.
 * Returns HYMT_EXIT_OK or HYMT_EXIT_FAILED.
 */
int hymt_flush(const hymt_command_t *command);


#endif /* HYMT_TOOL_H */
