package Hymt::Client;

# A client from PyPI in a Python environment of its own, which goes when the test
# ends.
#
#   my $client = Hymt::Client->new('openai==3.57.0');
#   my $out = $client->run('t/clients/openai_client.py', $url);
#
# Where no environment can be made, or no registry is reachable, new() skips the
# whole test and says why.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More ();


# Options: limit, seconds for the installation (120).
sub new {
    my ($class, $package, %o) = @_;

    my $self = bless { venv => tempdir(CLEANUP => 1) }, $class;
    my $log = "$self->{venv}/log";
    my ($name) = $package =~ /^([\w-]+)/;
    my $limit = $o{limit} || 120;

    if (system("python3 -m venv $self->{venv} >$log 2>&1") != 0) {
        Test::More::plan(skip_all => 'python3 -m venv does not work here');
    }

    my $pip = "$self->{venv}/bin/pip install --disable-pip-version-check"
              . " --retries 0 --timeout 10 '$package'";

    if (system("timeout $limit $pip >$log 2>&1") != 0) {
        Test::More::plan(skip_all => "pip could not install $name: no"
                                     . ' registry?');
    }

    return $self;
}


# What a script of the client's says, to both outputs; $? is its exit status.
sub run {
    my ($self, @args) = @_;

    my $command = join ' ', map { "'$_'" } @args;

    return `timeout 120 $self->{venv}/bin/python $command 2>&1`;
}


1;
