package Hymt::AddressSpace;

# Memory that an engine does not get: a limit of address space, by prlimit.
#
#   Hymt::AddressSpace::check();              # skips where there can't be one
#   Hymt::AddressSpace::squeeze($server);     # engines to come don't fit
#   Hymt::AddressSpace::limit($pid, 'unlimited');

use strict;
use warnings;

use Hymt::Process;
use Test::More;


sub check {
    plan(skip_all => 'limits of address space are not for sanitizers and cards')
        if $ENV{HYMT_TEST_ASAN} || $ENV{TEST_NGINX_USE_VALGRIND}
           || $ENV{HYMT_TEST_BACKEND};
    plan(skip_all => 'there is no prlimit')
        if system('prlimit > /dev/null 2>&1');
}


# Bytes that a process may have from now on, or 'unlimited'.
sub limit {
    my ($pid, $bytes) = @_;

    return system('prlimit', '--pid', $pid, "--as=$bytes:") == 0;
}


# The master, and so the next engine's process, gets 300 MB less than the present
# one has.
sub squeeze {
    my ($s) = @_;

    my ($kb) = Hymt::Process::slurp('/proc/' . $s->host() . '/status')
               =~ /^VmSize:\s+(\d+)/m;

    ok(limit($s->master(), $kb * 1024 - 300_000_000), 'less address space');
}


1;
