# ./build.sh gpu-test where there are only products from another machine, and no
# nvcc: every program is run and has a line in a table, what was not run, too.
# The programs are the test's own.

use strict;
use warnings;

use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

delete @ENV{grep { /^HYMT_GPU_/ } keys %ENV};

my $dir = tempdir(CLEANUP => 1);

system("cp build.sh $dir/ && mkdir $dir/tools && cp -r tools/build $dir/tools/")
    == 0 or die "no copy of build.sh\n";


sub gpu_test {
    my ($settings) = @_;

    my $said = `env CUDA=0 $settings $dir/build.sh gpu-test 2>&1`;

    return ($? >> 8, $said);
}


sub program {
    my ($name, $code) = @_;

    make_path("$dir/build/gpu");
    open(my $f, '>', "$dir/build/gpu/$name") or die "$name: $!\n";
    print $f "#!/bin/sh\n$code\n";
    close($f) or die "$name: $!\n";
    chmod 0755, "$dir/build/gpu/$name";
}


{
    my ($status, $said) = gpu_test('');

    is($status, 1, 'nothing to run: status');
    like($said, qr{^build\.sh: no nvcc, and no programs in build/gpu: bring}m,
         'nothing to run: is said');
}


program('gemm_test', 'echo ok 1; echo "# more"; echo ok 2; echo 1..2');
program('greedy_test', 'echo "ok 1 - with $*"; echo 1..1');
program('logits_test', 'echo "ok 1 - of $1 by $2"; echo 1..1');
program('rope_test', 'echo "1..0 # SKIP there is no device"');
program('cuda_step', 'echo "steps of $1"');
program('cuda_gemm', 'echo "products, $# arguments"');
program('cuda_profile.so', 'echo never');

{
    my ($status, $said) = gpu_test('');

    is($status, 0, 'all pass: status') or diag($said);
    like($said, qr/^passed     2  gemm_test$/m, 'how many tests');
    like($said, qr/^passed     1  greedy_test$/m, 'without what it can have');
    like($said, qr/^not run       logits_test: HYMT_GPU_LOGITS is not set$/m,
         'what it lacks is named');
    like($said, qr/^not run       rope_test: there is no device$/m,
         'so is why a program did not run');
    like($said, qr/^not run       faults through NGINX: no module, or no/m,
         'the faults, too');
    unlike($said, qr/steps of|products|never/, 'no model: no benches');
}

{
    my ($status, $said) = gpu_test('HYMT_GPU_LOGITS="one.bin /m/7B=two.bin"'
                                   . ' HYMT_GPU_GREEDY=texts'
                                   . ' HYMT_GPU_MODEL=/m/1.8B');

    is($status, 0, 'with files: status') or diag($said);
    like($said, qr{^passed     1  logits_test models/demo one\.bin$}m,
         'logits of the built-in model');
    like($said, qr{^passed     1  logits_test /m/7B two\.bin$}m,
         'and of another');
    like($said, qr/^passed     1  greedy_test texts$/m, 'greedy tokens');
    like($said, qr{^steps of /m/1\.8B$}m, 'a bench of steps has the model');
    like($said, qr/^products, 0 arguments$/m, 'one of kernels needs none');
    unlike($said, qr/never/, 'a library is no bench');
}

program('gemm_test', 'echo ok 1; echo "not ok 2 - bits"; exit 1');
program('rope_test', 'kill -SEGV $$');
program('sampler_test', 'exit 0');

{
    my ($status, $said) = gpu_test('');

    is($status, 1, 'some fail: status');
    like($said, qr{^FAILED        gemm_test: see build/gpu/gemm_test\.log$}m,
         'one that fails');
    like($said, qr/^not ok 2 - bits$/m, 'and what it said');
    like($said, qr/^FAILED        rope_test: see/m, 'one that crashes');
    like($said, qr/^FAILED        sampler_test: has tested nothing/m,
         'one that says nothing');
    like($said, qr/^passed     1  greedy_test$/m, 'the others go on');
}

program('logits_test', 'case $1 in *7B) echo "not ok 1 - far"; exit 1;; esac;'
                       . ' echo ok 1');

{
    my ($status, $said) = gpu_test('HYMT_GPU_LOGITS="/m/7B=a b"');

    is($status, 1, 'one of two models fails: status');
    like($said, qr{^FAILED        logits_test /m/7B a: see build/gpu/\S+log$}m,
         'one of two models fails: which');
    like($said, qr{^passed     1  logits_test models/demo b$}m,
         'one of two models fails: the other one does not');
}

done_testing();
