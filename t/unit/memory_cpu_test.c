/*
 * memory_cpu_test.c - what the limit of a cgroup leaves.
 */

#include "memory_cpu.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>


static char  group[256];


static void
say(const char *name, const char *text)
{
    char   path[300];
    FILE  *f;

    snprintf(path, sizeof(path), "%s/%s", group, name);

    if (text == NULL) {
        (void) unlink(path);
        return;
    }

    f = fopen(path, "w");

    ok(f != NULL && fputs(text, f) >= 0, "%s is written", name);

    if (f != NULL) {
        fclose(f);
    }
}


int
main(void)
{
    snprintf(group, sizeof(group), "/tmp/memory_cpu_test.XXXXXX");

    if (mkdtemp(group) == NULL) {
        return 1;
    }

    ok(hymt_memory_left(group) == UINT64_MAX, "no group, no limit");

    say("memory.max", "max\n");
    say("memory.current", "5000\n");
    ok(hymt_memory_left(group) == UINT64_MAX, "a group without a limit");

    say("memory.max", "20000\n");
    is_int(hymt_memory_left(group), 15000, "what is left of a limit");

    say("memory.stat", "anon 900\nfile 4000\ninactive_file 3000\n"
        "active_file 1000\nslab 100\n");
    is_int(hymt_memory_left(group), 19000,
           "the page cache goes when memory is wanted");

    say("memory.stat", "inactive_file 30000\nactive_file 30000\n");
    is_int(hymt_memory_left(group), 20000, "more of it than there is");

    say("memory.stat", "inactive_file\nactive_file x\n");
    is_int(hymt_memory_left(group), 15000, "without numbers");

    say("memory.current", "30000\n");
    is_int(hymt_memory_left(group), 0, "more than the limit");

    say("memory.max", NULL);
    say("memory.current", NULL);
    say("memory.stat", NULL);
    (void) rmdir(group);

    ok(hymt_memory_available() > 0, "of this machine some is left");

    return tap_done();
}
