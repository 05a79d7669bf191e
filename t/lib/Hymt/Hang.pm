package Hymt::Hang;

# A thread that hangs, as in a driver: held by ptrace, where that is allowed.
#
#   my $hang = Hymt::Hang::hold($pid, 'hymt-engine') or skip ...;
#   $hang->release();     # it goes on
#   $hang->reap();        # or its process has ended: the thread is ours to bury

use strict;
use warnings;

use Config;
use POSIX qw(WNOHANG);

use Hymt::Process;

my ($PTRACE, $ATTACH, $DETACH, $WALL) = (101, 16, 17, 0x40000000);


# By the thread's name; undef, and why in $!, where it can't be done.
sub hold {
    my ($pid, $name) = @_;

    # the number of the system call

    if ($Config{archname} !~ /^x86_64-linux/) {
        $! = POSIX::ENOSYS();
        return;
    }

    my ($tid) = map { m{/task/(\d+)/comm$} ? $1 : () }
                grep { Hymt::Process::slurp($_) =~ /^\Q$name\E$/ }
                glob "/proc/$pid/task/*/comm";

    if (!$tid) {
        $! = POSIX::ESRCH();
        return;
    }

    return if syscall($PTRACE, $ATTACH, $tid + 0, 0, 0) != 0;

    waitpid($tid, $WALL);

    return bless { tid => $tid }, __PACKAGE__;
}


sub release {
    my ($self) = @_;

    syscall($PTRACE, $DETACH, $self->{tid} + 0, 0, 0);
}


# Its process is not gone for its parent before.
sub reap {
    my ($self) = @_;

    return waitpid($self->{tid}, $WALL | WNOHANG) != 0;
}


1;
