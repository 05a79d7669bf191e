# The CUDA backend where there is no GPU: nothing but its own shared object needs
# CUDA, nobody but the engine thread opens it, and whatever is missing or does
# not fit is said, by the engine that is asked for it ("cuda") or by the one that
# does without ("auto").

use strict;
use warnings;

use lib 't/lib';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Hymt::Program qw($hymt hymt put);
use Hymt::Server;
use Test::More;

my $module = $ENV{HYMT_MODULE} || 'build/ngx_http_hymt_module.so';
my $model = $ENV{HYMT_MODEL} || 'models/demo';
my $cuda = dirname(abs_path($module)) . '/hymt_cuda.so';
my $dir = tempdir(CLEANUP => 1);
my $cc = $ENV{CC} || 'cc';

chmod 0755, $dir;


# A shared object with a table of its own making; its path.
sub library {
    my ($name, $code) = @_;

    put("$dir/$name.c", $code);
    system("$cc -shared -fPIC -o $dir/$name.so $dir/$name.c") == 0
        or die "$name.c does not compile\n";

    return "$dir/$name.so";
}


# The first line of what "hymt translate" says with this library and backend.
sub translate {
    my ($library, @args) = @_;

    local $ENV{HYMT_CUDA_LIBRARY} = $library if defined $library;

    return hymt("Hello.\n", 'translate', $model, '--to', 'de', '--verbose',
                @args);
}


# What needs what

for my $file ($module, $hymt) {
    my $needs = `LC_ALL=C readelf -d $file`;

    like($needs, qr/\(NEEDED\).*libc\.so/, "$file: is read");
    unlike($needs, qr/\(NEEDED\).*(?:cuda|cublas|nvidia)/i,
           "$file needs no library of CUDA");
    is(scalar(grep { / U (?:cu|cublas)[A-Z]/ } `nm -D $file`), 0,
       "$file: nor a symbol of one");
}

SKIP: {
    skip 'built without nvcc', 4 if !-e $cuda;

    my @exports = `nm -D --defined-only $cuda`;
    my $needs = `LC_ALL=C readelf -d $cuda`;

    is(scalar @exports, 1, 'hymt_cuda.so has one symbol') or diag(@exports);
    like($exports[0], qr/ T hymt_backend_cuda_ops$/, 'the table');
    unlike($needs, qr/\(NEEDED\).*(?:cuda|cublas|nvidia|stdc)/i,
           'and opens by itself');

    skip 'there is a driver', 1 if -e '/dev/nvidiactl';

    my ($status, $out, $err) = translate($cuda, '--backend', 'cuda');

    like($err, qr/there is no NVIDIA driver: libcuda\.so\.1 was not found/,
         'no driver: said');
}


# How it is built

# What make would do, and make's words about "all".
sub make {
    my ($settings, $target) = @_;

    return scalar `env $settings make -pn BUILD=$dir/build $target 2>&1`;
}

sub archs {
    my ($flags) = @_;

    return [sort $flags =~ /-gencode arch=\w+,code=(\w+)/g];
}

# The devices that a library has code for: what lies in its section of CUDA are
# fat binaries, each a head, and parts with their kind, size and device.
sub code {
    my ($library) = @_;
    my $all = Hymt::Process::slurp($library);
    my %seen;

    while ($all =~ /\x50\xed\x55\xba\x01\x00/g) {
        my ($head, $size) = unpack('x6 v Q<', substr($all, $-[0], 16));
        my $at = $-[0] + $head;
        my $end = $at + $size;

        while ($at + 32 <= $end && $end <= length $all) {
            my ($kind, $own, $rest, $arch) = unpack('v x2 V Q< x12 V',
                                                    substr($all, $at, 32));

            $seen{($kind == 1 ? 'compute_' : 'sm_') . $arch} = 1;
            $at += $own + $rest;
        }
    }

    return [sort keys %seen];
}

unlike(make('CUDA=0', 'all'), qr/^all:.*\bcuda\b/m, 'CUDA=0: it is left out');

for my $case (['/nope', qr{^build\.sh: CUDA=/nope: no nvcc there; install}],
              ['yes', qr{^build\.sh: CUDA=yes: 0, 1, or the path of}])
{
    my $said = `CUDA=$case->[0] ./build.sh 2>&1`;

    is($? >> 8, 1, "CUDA=$case->[0]: status");
    like($said, $case->[1], "CUDA=$case->[0]: is named");
}

SKIP: {
    my $make = make('CUDA=1 CUDA_ARCHS="80 86 89 90a"', 'cuda');

    skip 'there is no nvcc', 3 if $make =~ /there is no nvcc/;

    like($make, qr/^all:.*\bcuda\b/m, 'CUDA=1: it is a part of all');
    is_deeply(archs($make =~ /^(\S*nvcc .*-c .*)/m),
              [qw(compute_80 sm_80 sm_86 sm_89 sm_90a)],
              'for all devices, with PTX for later ones');
    is_deeply(archs(make('-u CUDA -u CUDA_ARCHS', 'cuda')
                    =~ /^(\S*nvcc .*-c .*)/m),
              archs($make =~ /^(\S*nvcc .*-c .*)/m),
              'as where nothing is said');
}

SKIP: {
    skip 'built without nvcc', 1 if !-e $cuda;

    is_deeply(code($cuda), archs(Hymt::Process::slurp(dirname($cuda)
                                                      . '/cuda/flags')
                                 =~ s/(sm_\d+)a\b/$1/gr),
              'the library has code for what it was built for');
}


# Libraries that are none

my %none = (
    "$dir/none.so" => qr{there is no \Q$dir\E/none\.so},
    library('other', 'int other;') => qr{has no hymt_backend_cuda_ops\(\)},
    library('old', <<'END') => qr{of another version: its ABI is 1, \d+ is},
static const struct { unsigned abi; const char *id; } ops = { 1, "x" };
const void *hymt_backend_cuda_ops(void) { return &ops; }
END
);

put("$dir/text.so", "no library\n");
$none{"$dir/text.so"} = qr{text\.so can't be opened: };

my ($abi) = `cat engine/backend.h` =~ /define HYMT_BACKEND_ABI +(\d+)/;

$none{library('strange', <<"END")} = qr{of another build: its id is strange,};
static const struct { unsigned abi; const char *id; } ops = { $abi, "strange" };
const void *hymt_backend_cuda_ops(void) { return &ops; }
END

for my $library (sort keys %none) {
    my ($name) = $library =~ m{([a-z]+)\.so$};
    my ($status, $out, $err) = translate($library, '--backend', 'cuda');

    is($status, 1, "$name, cuda: status");
    like($err, $none{$library}, "$name, cuda: the reason");

    ($status, $out, $err) = translate($library, '--backend', 'auto');

    is($status, 0, "$name, auto: status") or diag($err);
    like($out, qr/^Hallo/, "$name, auto: translates");
    like($err, qr/backend cpu \(auto: no CUDA: .*$none{$library}/,
         "$name, auto: the reason");
}


# In NGINX

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
env HYMT_CUDA_LIBRARY=@LIBRARY@;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo {
        path %%MODEL%%; backend @BACKEND@; device 3; threads 1; max_batch 8;
        context 512;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

sub conf {
    my ($library, $backend) = @_;

    return $CONF =~ s/\@LIBRARY\@/$library/r =~ s/\@BACKEND\@/$backend/r;
}

# The thread that opens this one is written down; it is as old as the other.

my $opened = "$dir/opened";

library('trace', <<"END");
#include <stdio.h>
#include <sys/prctl.h>

static const struct { unsigned abi; const char *id; } ops = { 1, "x" };
const void *hymt_backend_cuda_ops(void) { return &ops; }

__attribute__((constructor)) static void
opened(void)
{
    char   name[16];
    FILE  *f = fopen("$opened", "a");

    if (f != NULL) {
        prctl(PR_GET_NAME, name);
        fprintf(f, "%s\\n", name);
        fclose(f);
    }
}
END

put($opened, '');
chmod 0666, $opened;

{
    # the master has it, too, so that it could

    local $ENV{HYMT_CUDA_LIBRARY} = "$dir/trace.so";

    my $s = Hymt::Server->new(conf => conf("$dir/trace.so", 'cuda'));
    my ($status, $said) = $s->test_conf(conf("$dir/trace.so", 'cuda'));

    is($status, 0, 'nginx -t: status') or diag($said);
    is(Hymt::Process::slurp($opened), '', 'nginx -t opens nothing');

    $s->start();

    my ($res, $tries);

    for $tries (1 .. 50) {
        $res = $s->json('/translate', { text => 'Hello.', tgt_lang => 'de' });
        last if $res->{status} == 503 && $res->{body} !~ /loading/;
        select(undef, undef, undef, 0.1);
    }

    is($res->{status}, 503, 'backend cuda: 503');
    like($res->{head}, qr/^Retry-After: \d+/mi, 'to be asked again');
    like($s->send($s->http('GET', '/status'))->{body},
         qr/another version: its ABI is 1/, 'the status has the reason');
    like($s->log(), qr/another version: its ABI is 1/, 'so has the log');
    is(Hymt::Process::slurp($opened), "hymt-engine\n",
       'one thread has opened it, the engine\'s');

    $s->finish();
}

{
    my $s = Hymt::Server->new(conf => conf("$dir/old.so", 'auto'))->start();
    my $res = $s->json('/translate', { text => 'Hello.', tgt_lang => 'de' });
    my $engine = 0;

    is($res->{status}, 200, 'backend auto: 200') or diag($res->{body});
    like($s->log(), qr/backend cpu \(auto: no CUDA: .*its ABI is 1/,
         'the log has the reason');

    for my $process ({ pid => $s->master(), title => 'master' },
                     $s->children())
    {
        my $maps = Hymt::Process::slurp("/proc/$process->{pid}/maps");

        $engine++ if $maps =~ m{/old\.so$}m;
        unlike($maps, qr{/old\.so$}m, 'the master has not opened it')
            if $process->{title} eq 'master';
    }

    is($engine, 1, 'one worker has');

    $s->finish();
}

done_testing();
