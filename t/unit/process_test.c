/*
 * process_test.c - words for processes: see process.h.
 */

#include "process.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>


/* A process that waits, with a name; it is ready. */
static pid_t
begin(const char *name)
{
    int    fds[2];
    char   c;
    pid_t  pid;

    if (pipe(fds) == -1) {
        return -1;
    }

    pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        c = write(fds[1], "", 1) == 1 ? 0 : 1;

        for ( ;; ) {
            pause();
        }
    }

    if (read(fds[0], &c, 1) != 1) {
        pid = -1;
    }

    close(fds[0]);
    close(fds[1]);

    return pid;
}


static void
end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}


/* What the kernel says, read in another way: the name is this program's. */
static uint32_t
start_of_self(void)
{
    FILE                *f;
    char                 state;
    unsigned long long   start;

    f = fopen("/proc/self/stat", "r");

    if (f == NULL
        || fscanf(f, "%*d (process_test) %c %*d %*d %*d %*d %*d %*u %*u %*u"
                  " %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &start) != 2)
    {
        start = 0;
    }

    if (f != NULL) {
        fclose(f);
    }

    return (uint32_t) start;
}


static void
test_self(void)
{
    uint64_t  self;

    prctl(PR_SET_NAME, "process_test");
    self = hymt_process(getpid());

    ok(start_of_self() != 0, "when this process started is known");
    is_int((uint32_t) self, start_of_self(), "and in its word");
    is_int(hymt_process_pid(self), getpid(), "beside its pid");
    ok(hymt_process_alive(self), "it is there");
    ok(!hymt_process_alive(self + 1), "another one that had its pid is not");
    ok(!hymt_process_alive(self - 1), "be it older");
    ok(hymt_process_alive((uint64_t) getpid() << 32),
       "where the start is not known the pid counts");
}


static void
test_names(void)
{
    pid_t     pid;
    size_t    i;
    uint64_t  self, word;

    static const char *const  names[] = {
        "plain", "two words", "a) R 1 1", "((", "))) S 2", "a\nb) S 3", "",
    };

    self = hymt_process(getpid());

    for (i = 0; i < hymt_nelts(names); i++) {
        pid = begin(names[i]);
        word = hymt_process(pid);

        is_int(hymt_process_pid(word), pid, "name %zu: the pid", i);
        ok((uint32_t) word >= (uint32_t) self
           && (uint32_t) word - (uint32_t) self < 100 * 600,
           "it started after this one: %u, %u", (uint32_t) word,
           (uint32_t) self);
        ok(hymt_process_alive(word), "it is there");
        ok(!hymt_process_alive(word - 1), "one before it is not");

        end(pid);

        ok(!hymt_process_alive(word), "nor is it when it has ended");
    }
}


/* What memory that lies may say. */
static void
test_none(void)
{
    size_t  i;

    static const uint64_t  none[] = {
        0, 1, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX,
        (uint64_t) INT32_MAX << 32 | 7,
    };

    for (i = 0; i < hymt_nelts(none); i++) {
        ok(!hymt_process_alive(none[i]), "%016llx is no process",
           (unsigned long long) none[i]);
    }
}


/* Of another user, whom signals can't be sent. */
static void
test_other_user(void)
{
    int       status;
    pid_t     pid, other;
    uint64_t  word;

    if (getuid() != 0) {
        printf("# not root: processes of other users are not tried\n");
        return;
    }

    other = begin("root's");
    word = hymt_process(other);
    pid = fork();

    if (pid == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(9);
        }

        if (kill(other, 0) != -1 || errno != EPERM) {
            _exit(8);
        }

        _exit(hymt_process_alive(word) + 2 * hymt_process_alive(word - 1));
    }

    waitpid(pid, &status, 0);
    is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 1,
           "another user's is there, one before it is not");

    end(other);
}


int
main(void)
{
    test_self();
    test_names();
    test_none();
    test_other_user();

    return tap_done();
}
