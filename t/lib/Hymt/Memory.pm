package Hymt::Memory;

# Memory that NGINX's processes share, read and written from outside, through
# /proc/PID/mem.
#
#   my $mem = Hymt::Memory->new($pid) or plan skip_all => $!;
#   my ($largest) = $mem->shared();
#   $mem->poke($largest->{at} + 8, $mem->word($largest->{at}) + 1);

use strict;
use warnings;
no warnings 'portable';

use Fcntl qw(SEEK_SET);

use Hymt::Process;


# Of a process that has it mapped; undef, and why in $!, where that is refused.
sub new {
    my ($class, $pid) = @_;

    open my $file, '+<:raw', "/proc/$pid/mem" or return;

    return bless { pid => $pid, file => $file }, $class;
}


# Anonymous shared mappings: { at, size }, the largest first.
sub shared {
    my ($self) = @_;

    return sort { $b->{size} <=> $a->{size} }
           map { /^([0-9a-f]+)-([0-9a-f]+) rw-s .*\/dev\/zero/
                 ? { at => hex $1, size => hex($2) - hex $1 } : () }
           split /\n/, Hymt::Process::slurp("/proc/$self->{pid}/maps");
}


# The mapping that says who the workers are: it begins with a word for each, the
# pid above the time of its start, that of the engines first.
sub roster {
    my ($self, $engine) = @_;

    my ($roster) = grep {
        ($self->pids($_, 1))[0] == $engine
    } $self->shared();

    return $roster;
}


# The pids of the first so many workers there.
sub pids {
    my ($self, $roster, $n) = @_;

    return map { $self->word($roster->{at} + 8 * $_ + 4) } 0 .. $n - 1;
}


# Bytes there; none where there is nothing.
sub peek {
    my ($self, $at, $len) = @_;

    sysseek($self->{file}, $at, SEEK_SET);
    sysread($self->{file}, my $data, $len);

    return $data // '';
}


# A word of 32 bits there, another one there.
sub word {
    my ($self, $at) = @_;

    return unpack('L', $self->peek($at, 4)) // 0;
}

sub poke {
    my ($self, $at, $word) = @_;

    sysseek($self->{file}, $at, SEEK_SET);
    syswrite($self->{file}, pack('L', $word));
}


1;
