# The command line program: its manual, exit statuses, inspect and tokenize.

use strict;
use warnings;
use utf8;

use Test::More;
use File::Temp qw(tempdir);

use Hymt::Program qw($hymt hymt);


my $model = $ENV{HYMT_MODEL} || 'models/demo';
my $dir = tempdir(CLEANUP => 1);


# Manuals and usage

{
    my ($status, $out, $err) = hymt('', '--help');

    is($status, 0, '--help: status');
    like($out, qr/^Usage: hymt COMMAND/, '--help: usage on stdout');
    like($out, qr/^  inspect /m, '--help: lists the commands');
    is($err, '', '--help: nothing on stderr');

    ($status, $out, $err) = hymt('');
    is($status, 2, 'no command: status');
    is($out, '', 'no command: nothing on stdout');
    like($err, qr/^Usage: /, 'no command: usage on stderr');

    for my $command ($err =~ /^  ([a-z-]+)  /mg) {
        ($status, $out) = hymt('', $command, '--help');
        is($status, 0, "$command --help: status");
        like($out, qr/^Usage: hymt $command /, "$command --help: usage");
        is((hymt('', 'help', $command))[1], $out, "help $command: the same");
    }

    ($status, $out, $err) = hymt('', 'frobnicate');
    is($status, 2, 'an unknown command: status');
    like($err, qr/no command "frobnicate"/, 'an unknown command: message');

    ($status, $out, $err) = hymt('', 'inspect', '--frobnicate');
    is($status, 2, 'an unknown option: status');
    like($err, qr/^hymt inspect: .*--frobnicate/, 'an unknown option: message');

    for (['inspect'], ['inspect', 'a', 'b'], ['tokenize'],
         ['tokenize', '--prompt', $model], ['tokenize', '--to', 'zh', $model],
         ['tokenize', '--decode', '--prompt', '--to', 'zh', $model])
    {
        ($status, $out, $err) = hymt('', @$_);
        is($status, 2, "@$_: status");
        like($err, qr/^hymt $_->[0]: .*--help/s, "@$_: message");
    }
}


# inspect

{
    my ($status, $out, $err) = hymt('', 'inspect', $model);

    is($status, 0, 'inspect: status') or diag($err);
    like($out, qr/^parameters   9,705,728 in 90 tensors$/m,
         'inspect: parameters');
    like($out, qr/^bytes        19,411,456, in BF16$/m, 'inspect: bytes');
    like($out, qr/^family       mt1\.5$/m, 'inspect: family');
    like($out, qr/^languages    .*\bzh \(Chinese\)/m, 'inspect: languages');
    like($out, qr/^end tokens   \d+ <｜/m, 'inspect: end tokens');
    unlike($out, qr/embed_tokens/, 'inspect: no table of tensors');

    ($status, $out) = hymt('', 'inspect', '--tensors', $model);
    is($status, 0, 'inspect --tensors: status');
    is(scalar(() = $out =~ /^(?:model|lm_head)\.\S+ +BF16 +\[/mg), 90,
       'inspect --tensors: a line each');

    ($status, $out, $err) = hymt('', 'inspect', "$dir/none");
    is($status, 1, 'inspect, no model: status');
    like($err, qr{^hymt inspect: \Q$dir\E/none/config\.json: no such file},
         'inspect, no model: message');
}


# tokenize

{
    my $lines = "The weather is fine today.\n\n今天天气很好。\n"
                . "<｜hy_User｜> is text\nno newline";
    my ($status, $ids, $err) = hymt($lines, 'tokenize', $model);

    is($status, 0, 'tokenize: status') or diag($err);
    is(scalar(() = $ids =~ /\n/g), 5, 'tokenize: a line for a line');
    like($ids, qr/\A\d+(?: \d+)+\n\n\d/, 'tokenize: ids');

    my ($back, $text) = hymt($ids, 'tokenize', '--decode', $model);

    is($back, 0, '--decode: status');
    is($text, "$lines\n", '--decode: the text comes back');

    my ($all) = (hymt($lines, 'tokenize', '--prompt', '--to', 'zh', $model))[1];

    is(scalar(() = $all =~ /\n/g), 5, '--prompt: a line for a line');
    isnt($all, $ids, '--prompt: more than the text');

    ($status, $ids, $err) = hymt("\xff\nok\n", 'tokenize', $model);
    is($status, 1, 'invalid UTF-8: status');
    like($err, qr/line 1: .*UTF-8/, 'invalid UTF-8: message');
    like($ids, qr/\A\n\d/, 'invalid UTF-8: the next line is done');

    ($status, $ids, $err) = hymt("1 99999999 2\n", 'tokenize', '--decode',
                                 $model);
    is($status, 1, 'an id too high: status');
    like($err, qr/line 1: "99999999" is not an id below \d+/,
         'an id too high: message');

    ($status, $ids, $err) = hymt("a\n", 'tokenize', '--prompt', '--to',
                                 'klingon', $model);
    is($status, 2, 'an unknown language: status');
    like($err, qr/no language "klingon"; it has .*zh \(Chinese\)/,
         'an unknown language: message');

    SKIP: {
        skip 'no /dev/full', 1 unless -c '/dev/full';

        system("echo a | $hymt tokenize '$model' >/dev/full 2>$dir/err");
        is($? >> 8, 1, 'a full disk: status');
    }
}

done_testing();
