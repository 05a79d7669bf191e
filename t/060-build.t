# build.sh: what install puts where, and wrong arguments and settings by name.

use strict;
use warnings;

use Cwd qw(getcwd);
use File::Find;
use File::Temp qw(tempdir);
use Test::More;


my $dir = tempdir(CLEANUP => 1);


# Runs it with settings put before it; (status, what it said).
sub build {
    my ($settings, @args) = @_;

    my $said = `$settings ./build.sh @args 2>&1`;

    return ($? >> 8, $said);
}


sub files {
    my ($top) = @_;
    my @files;

    find({ no_chdir => 1, wanted => sub {
        push @files, substr($_, length $top) if -f;
    } }, $top);

    return sort @files;
}


sub slurp {
    my ($name) = @_;

    open my $in, '<', $name or die "$name: $!\n";
    local $/;

    return <$in>;
}


# Install

{
    my $dest = "$dir/dest";
    my ($status, $said) = build("DESTDIR=$dest prefix=/opt/hymt", 'install');

    is($status, 0, 'install: status') or diag($said);

    my ($module) = grep { m{/ngx_http_hymt_module\.so$} } files($dest);
    my @model = map { s{.*/}{}r } grep { -f } glob('models/demo/*');

    ok($module, 'install: the module, in ' . ($module // 'no folder'));

    # where there was an nvcc

    my @cuda = -e 'build/hymt_cuda.so' && $module
               ? ($module =~ s{[^/]+$}{hymt_cuda.so}r,
                  '/opt/hymt/lib/hymt/hymt_cuda.so') : ();

    my @want = sort($module // (), '/opt/hymt/bin/hymt', @cuda,
                    '/opt/hymt/share/hymt/nginx.conf.example',
                    (map { s{^conf}{/opt/hymt/share/hymt}r }
                         map { glob "conf/$_/*" }
                         qw(html examples grafana prometheus)),
                    map { "/opt/hymt/share/hymt/models/demo/$_" } @model);

    is_deeply([files($dest)], \@want, 'install: all files, and no others');
    like($said, qr{^\Q$dest\E$_$}m, "install: names $_")
        for $module // 'the module', '/opt/hymt/bin/hymt',
            '/opt/hymt/share/hymt/', @cuda;

    ok(-x "$dest/opt/hymt/bin/hymt", 'install: the program may be run');

    my $shown = `cd / && $dest/opt/hymt/bin/hymt inspect \\
                     $dest/opt/hymt/share/hymt/models/demo 2>&1`;

    is($?, 0, 'install: the model that it finds there is whole')
        or diag($shown);

    # what install has named is all there is to take away

    unlink map { "$dest$_" } $module // (), '/opt/hymt/bin/hymt', @cuda;
    system('rm', '-r', "$dest/opt/hymt/share/hymt");
    is_deeply([files($dest)], [], 'uninstall by hand: nothing is left');
}


# The order of functions in the module

{
    my $sources = join '', map { slurp($_) } glob('{http,engine}/*.c');
    my @names = grep { /^[a-z]/ } split /\n/, slurp('http/layout.txt');
    my @gone = grep { $sources !~ /^\Q$_\E\(/m } @names;

    cmp_ok(@names, '>', 100, 'layout: names of functions');
    is_deeply(\@gone, [], 'layout: each is there');

    my $module = $ENV{HYMT_MODULE} || 'build/ngx_http_hymt_module.so';
    my ($size) = `readelf -SW $module 2>&1`
                 =~ /\.text\.request\s+PROGBITS\s+\S+ \S+ (\S+)/;

    SKIP: {
        skip('a linker without INSERT', 1)
            if !-e 'build/nginx/objs/Makefile'
               || slurp('build/nginx/objs/Makefile')
                  !~ /ngx_http_hymt_module\.ld/;

        cmp_ok(hex($size // 0), '>', 16 * 1024,
               'layout: they lie in a section of their own');
    }
}


# Arguments

for my $case (
    ['install', '--quiet'],
    ['install', "DESTDIR=$dir/never"],
    ['clean', 'all'],
    ['--help', 'install'],
    ['fuzz', 1, 2],
    ['fuzz', 'long'],
    ['fuzz'],
    ['--verbose'],
    ['instal'],
    ["DESTDIR=$dir/never"],
) {
    my ($status, $said) = build('', @$case);

    is($status, 2, "@$case: status");
    like($said, qr{^build\.sh: .*\Q$case->[-1]\E.*; see \./build\.sh --help$},
         "@$case: is named");
}

{
    my ($status, $said) = build('', 'install', "DESTDIR=$dir/never");

    like($said, qr{as in DESTDIR=\S+ \./build\.sh install},
         'DESTDIR behind the command: the cure');
    ok(!-e "$dir/never", 'DESTDIR behind the command: nothing is done');
}


# Settings

for my $case (
    ['NGINX_BINARY=/nope', qr{NGINX_BINARY=/nope: no program there}],
    ['NGINX_BINARY=/bin/true', qr{/bin/true -v says no version.*NGINX_BINARY}],
    ['NGINX_SRC=/nope', qr{NGINX_SRC=/nope: no NGINX sources there}],
    ['TMPDIR=/nope', qr{TMPDIR=/nope: no folder to write to}],
) {
    my ($setting, $want) = @$case;

    for my $command (qw(demo test install)) {
        my ($status, $said) = build($setting, $command);

        is($status, 1, "$setting, $command: status");
        like($said, qr{^build\.sh: $want}, "$setting, $command: is named");
    }
}


# Help, and what is missing

{
    my ($status, $said) = build('', '--help');

    is($status, 0, '--help: status');
    like($said, qr/^  $_ /m, "--help: $_")
        for qw(demo test install NGINX_SRC NGINX_BINARY DESTDIR
               TEST_NGINX_PORT TEST_NGINX_SERVROOT TMPDIR);
    is_deeply([grep { length > 80 } split /\n/, $said], [],
              '--help: fits 80 columns');

    my $help = $said;

    symlink(getcwd() . '/build.sh', "$dir/link") or die "$dir/link: $!\n";
    is(`cd / && $dir/link --help 2>&1`, $help,
       '--help: from another folder, through a link');

    ($status, $said) = build('', 'deps');
    is($status, 0, 'deps: status');
    is($said, "build.sh: nothing is missing\n", 'deps: says so');
}

done_testing();
