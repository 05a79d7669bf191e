package Hymt::Device;

# A device of the test's own: in the place of the CUDA backend comes a shared
# object, the engine's code for the CPU with some functions of the test's C.
#
#   Hymt::Device::check();      # skips where there can't be one
#   my $s = Hymt::Server->new(conf => Hymt::Device::conf(2, demo => ''));
#   my $dir = Hymt::Device::build($s, $code);
#
# It is %%DIR%%/device.so, for HYMT_CUDA_LIBRARY.  The code has device.h and DIR,
# that folder ("place" in the server's), which any worker may write to.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Test::More;

my $build = dirname(abs_path($ENV{HYMT_MODULE}
                             || 'build/ngx_http_hymt_module.so'));


sub check {
    plan(skip_all => 'the module was built by itself')
        if !-e "$build/libhymt.a";
    plan(skip_all => 'the stand-in is not built with sanitizers')
        if $ENV{HYMT_TEST_ASAN};
    plan(skip_all => 'as another user nothing can be put there') if $> != 0;
}


# So many workers, and models: NAME => what its block says besides path and
# threads.  Each is at /NAME, their state at /status.
sub conf {
    my ($workers, %models) = @_;
    my ($blocks, $locations) = ('', '');

    for my $name (sort keys %models) {
        $blocks .= "    hymt_model $name { path %%MODEL%%; threads 1;"
                   . " $models{$name} }\n";
        $locations .= "        location = /$name { hymt_translate $name; }\n";
    }

    return <<"END";
%%GLOBALS%%
worker_processes $workers;
env HYMT_CUDA_LIBRARY=%%DIR%%/device.so;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    client_body_timeout 60s;
$blocks
    server {
        listen 127.0.0.1:%%PORT%%;
$locations
        location = /status { hymt_status; }
    }
}
END
}


sub build {
    my ($s, $code) = @_;

    my $dir = $s->dir();
    my $place = "$dir/place";
    my $cc = $ENV{CC} || 'cc';

    # workers are another user's

    chmod 0755, $dir;
    mkdir $place or die "mkdir $place: $!\n";
    chmod 0777, $place;

    $s->write_file('device.c', $code);
    $s->write_file('map', '{ global: hymt_backend_cuda_ops; local: *; };');

    is(system("$cc -std=c11 -D_GNU_SOURCE -Wall -Werror -shared -fPIC"
              . " -Iengine -It/lib/Hymt"
              . " -DDIR='\"$place\"' -o $dir/device.so $dir/device.c"
              . " $build/libhymt.a -Wl,--version-script=$dir/map"
              . ' -Wl,--as-needed -ljansson -lm -lpthread'),
       0, 'the shared object is built');

    return $place;
}


1;
