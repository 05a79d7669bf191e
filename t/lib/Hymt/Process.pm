package Hymt::Process;

# One NGINX under a prefix of its own, started and stopped by a test.
#
#   my $p = Hymt::Process->new(prefix => $dir, conf => "$dir/nginx.conf");
#   $p->start() or die $p->output();
#   $p->stop();
#
# The configuration puts its pid into `pid` and its errors into `error_log`
# (defaults: PREFIX/logs/nginx.pid and PREFIX/logs/error.log).  What was not
# stopped is stopped when the object goes, or at the test's end, be it by a
# signal.

use strict;
use warnings;

use POSIX qw(WNOHANG);
use Scalar::Util qw(weaken);
use Time::HiRes qw(clock_gettime sleep time CLOCK_PROCESS_CPUTIME_ID);

my %running;

$SIG{TERM} = $SIG{INT} = sub { exit 130 };


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        binary    => $ENV{TEST_NGINX_BINARY} || 'nginx',
        pid       => "$o{prefix}/logs/nginx.pid",
        error_log => "$o{prefix}/logs/error.log",
        output    => '',
        owner     => $$,
        %o,
    }, $class;

    return $self;
}


# The command that starts it; `valgrind` [its arguments] goes before.
sub command {
    my ($self) = @_;

    return (@{$self->{valgrind} || []}, $self->{binary},
            '-p', "$self->{prefix}/", '-c', $self->{conf},
            '-e', $self->{error_log}, @{$self->{args} || []});
}


# What goes before it to run it under valgrind; what that finds, one file a
# process, goes to valgrind.PID in the folder.
sub valgrind_command {
    my ($folder) = @_;

    my @command = ('valgrind', '-q', '--tool=memcheck', '--leak-check=full',
                   '--errors-for-leak-kinds=definite',
                   '--show-leak-kinds=definite', '--num-callers=40',
                   '--gen-suppressions=all', '--error-exitcode=99',
                   "--log-file=$folder/valgrind.%p");

    push @command, '--suppressions=t/valgrind.suppress'
        if -e 't/valgrind.suppress';

    return @command;
}


# What valgrind has found by now, each process's text.
sub valgrind_faults {
    my ($folder) = @_;

    return grep { /\S/ } map { slurp($_) } sort glob "$folder/valgrind.*";
}


# Starts it and waits until its pid file is there.  False: it did not start;
# see output() and exit_code().
sub start {
    my ($self) = @_;

    unlink $self->{pid};
    weaken($running{$self} = $self);

    return $self->{foreground} ? $self->start_child() : $self->start_daemon();
}


sub start_daemon {
    my ($self) = @_;

    my $end = time() + 30;

    # a port may still be held by what was stopped a moment ago

    for (;;) {
        $self->run($self->command());

        last if $self->{exit_code} == 0;
        last if $self->{output} !~ /Address already in use/ || $self->{once};
        last if time() > $end;

        sleep(0.2);
    }

    return 0 if $self->{exit_code} != 0;

    return $self->wait_pid(10);
}


# For "daemon off", under valgrind.
sub start_child {
    my ($self) = @_;

    my $pid = fork();
    die "fork: $!\n" if !defined $pid;

    if ($pid == 0) {
        open STDOUT, '>', "$self->{prefix}/logs/output";
        open STDERR, '>&', \*STDOUT;
        exec($self->command()) or POSIX::_exit(127);
    }

    $self->{child} = $pid;

    return $self->wait_pid(120);
}


sub wait_pid {
    my ($self, $limit) = @_;

    my $end = time() + $limit;

    while (time() < $end) {

        if ($self->master()) {
            $self->{started} = time();
            return 1;
        }

        if ($self->{child} && waitpid($self->{child}, WNOHANG)) {
            $self->{exit_code} = $? >> 8;
            delete $self->{child};
            return 0;
        }

        sleep(0.01);
    }

    return 0;
}


# Runs a command to its end, or kills it after a minute; exit_code() and
# output() then tell.
sub run {
    my ($self, @command) = @_;

    my $file = "$self->{prefix}/logs/output";
    my $pid = fork();

    die "fork: $!\n" if !defined $pid;

    if ($pid == 0) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $file;
        open STDERR, '>&', \*STDOUT;
        exec(@command) or POSIX::_exit(127);
    }

    my $end = time() + ($self->{limit} || 60);

    while (waitpid($pid, WNOHANG) == 0) {

        if (time() > $end) {
            kill 'KILL', $pid;
            waitpid($pid, 0);
            last;
        }

        sleep(0.005);
    }

    $self->{exit_code} = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    $self->{output} = slurp($file);

    return $self->{exit_code};
}


sub exit_code { return $_[0]->{exit_code} }
sub output    { return $_[0]->{output} }


# The pid of the master (or of the only process); 0 where there is none.
sub master {
    my ($self) = @_;

    my $pid = slurp($self->{pid});

    return $pid =~ /^(\d+)\n/ && alive($1) ? $1 : 0;
}


sub alive {
    my ($pid) = @_;

    return 0 if !kill(0, $pid);

    # one whose parent has not yet asked for it is gone all the same

    return slurp("/proc/$pid/stat") !~ /\) Z /;
}


# Ends it and waits: QUIT (or the signal given), TERM after `limit` (10) seconds,
# KILL after 5 more.  Returns the seconds the first signal took, or undef where
# it needed more.
sub stop {
    my ($self, $signal, $limit) = @_;

    my $pid = $self->{child} || $self->master();
    my $began = time();
    my $took;

    delete $running{$self};

    return 0 if !$pid;

    # a signal that comes before NGINX first waits for events is seen only at
    # the next one

    my $early = ($self->{started} || 0) + 0.2 - time();
    sleep($early) if $early > 0;

    for my $try ([$signal || 'QUIT', $limit || 10], ['TERM', 5], ['KILL', 5]) {
        kill $try->[0], $pid;

        if ($self->wait_gone($pid, $try->[1])) {
            $took = time() - $began if $try->[0] eq ($signal || 'QUIT');
            last;
        }
    }

    delete $self->{child};

    return $took;
}


sub wait_gone {
    my ($self, $pid, $limit) = @_;

    my $end = time() + $limit;

    while (time() < $end) {
        waitpid($pid, WNOHANG) if $self->{child};
        return 1 if !alive($pid);
        sleep(0.005);
    }

    return 0;
}


sub slurp {
    my ($file) = @_;

    open my $in, '<:raw', $file or return '';
    local $/;
    my $text = <$in>;

    return defined $text ? $text : '';
}


# How much longer than alone a process takes now that others want the processors
# too: 1 on a machine at rest, at most 10.  What must happen within a time of its
# own may take so many times as long.
sub slowness {
    my $began = time();
    my $cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    my $spent;

    do {
        $spent = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $cpu;
    } while ($spent < 0.04);

    my $slow = (time() - $began) / $spent;

    return $slow < 1 ? 1 : $slow > 10 ? 10 : $slow;
}


# Lines of a log that no test may leave: what NGINX calls alert or emergency,
# what a sanitizer found.
sub bad_lines {
    my ($text) = @_;

    return grep {
        /\[(?:alert|emerg)\]/
        || /Sanitizer|runtime error:/
        || /Assertion .*failed/
    } split /\n/, $text;
}


sub DESTROY {
    my ($self) = @_;

    return if $self->{owner} != $$;

    local ($?, $@, $!);
    $self->stop('TERM', 3) if exists $running{$self};
}


END {
    local $?;

    for my $self (values %running) {
        $self->stop('TERM', 3) if $self && $self->{owner} == $$;
    }
}


1;
