# The commands that run a model: translate, bench and self-test.

use strict;
use warnings;
use utf8;

use File::Temp qw(tempdir);
use IPC::Open2;
use Test::More;

use Hymt::Program qw($hymt hymt put);


my $model = $ENV{HYMT_MODEL} || 'models/demo';
my $dir = tempdir(CLEANUP => 1);
my @few = ('--batch', 4, '--context-size', 512, '--threads', 1);


sub translate {
    my ($input, @args) = @_;

    return hymt($input, 'translate', @few, @args, $model);
}


# translate: lines

my $zh;

{
    my ($status, $out, $err) = translate("The weather is nice today.\n",
                                         '--to', 'zh');

    is($status, 0, 'a line: status') or diag($err);
    like($out, qr/\A\p{Han}[^\n]*\n\z/, 'a line: Chinese');
    is($err, '', 'a line: nothing on stderr');
    $zh = $out;

    my @lines = map { "This is sentence number $_." } 1 .. 30;
    my $input = "The weather is nice today.\n\n  \n"
                . join("\n", @lines) . "\nThe weather is nice today.";

    ($status, $out) = translate($input, '--to', 'Chinese', '--from', 'EN');
    is($status, 0, 'many lines: status');

    my @out = split /\n/, $out, -1;

    is(scalar(@out), 35, 'many lines: one each');
    is("$out[0]\n", "$out[33]\n", 'many lines: in order, the same for the'
       . ' same');
    is($out[1], '', 'a blank line stays');
    is($out[2], '  ', 'with its spaces');

    my ($alone) = (translate("$lines[16]\n", '--to', 'zh', '--from', 'en'))[1];

    is("$out[19]\n", $alone, 'a line among many is the same alone');

    ($status, $out) = translate("Good morning.\r\n\r\n", '--to', 'fr');
    like($out, qr/\A[^\r\n]+\r\n\r\n\z/, 'CR LF stays');

    put("$dir/file", "The weather is nice today.\n");
    ($status, $out) = hymt('', 'translate', $model, '--to', 'zh', @few,
                           "$dir/file");
    is($out, $zh, 'a file');

    ($status, $out) = hymt("The weather is nice today.\n", 'translate',
                           $model, '--to', 'zh', @few, '-');
    is($out, $zh, '"-" is stdin');

    is((translate('', '--to', 'zh'))[1], '', 'no input, no output');
}

# translate: with context and terms, on the family's prompts

{
    my ($status, $out, $err) =
        translate("Good morning.\n", '--to', 'fr', '--family', 'mt2',
                  '--context', 'A letter.', '--term', 'morning=matin',
                  '--term', 'good=bon', '--style', 'formal',
                  '--max-tokens', 5);

    like($out, qr/\A.*\n\z/, 'context, terms and style: a line for a line');
    unlike($err, qr/bad input/, 'context, terms and style: accepted');
}


# translate: what is wrong

{
    my $long = 'word ' x 600;
    my ($status, $out, $err) = translate("One.\n\xff\xfe\n$long\nTwo.\n",
                                         '--to', 'de');

    is($status, 1, 'bad lines: status');
    like($out, qr/\A[^\n]+\n\n\n[^\n]+\n\z/, 'bad lines: empty, the others'
         . ' are there');
    like($err, qr/^hymt translate: line 2: bad input: .*UTF-8 at byte 0$/m,
         'bad lines: not UTF-8');
    like($err, qr/^hymt translate: line 3: too long: the text is \d+ tokens;/m,
         'bad lines: too long');

    ($status, $out, $err) = translate('x' x 9000, '--to', 'de');
    is($status, 1, 'bytes: status');
    like($err, qr/line 1: too long: the text has 9000 bytes/, 'bytes: message');

    ($status, $out, $err) = translate('', '--to', 'klingon');
    is($status, 2, 'an unknown language: status');
    like($err, qr/no language "klingon"; it has .*zh \(Chinese\)/,
         'an unknown language: message');

    ($status, $out, $err) = translate('x', '--to', 'de', '--style', 'formal');
    is($status, 2, 'a style where the family has none: status');
    like($err, qr/family mt1\.5 have no prompt for --style/,
         'a style where the family has none: message');

    ($status, $out, $err) = translate('x', '--to', 'de', '--term', "a\x01=b");
    is($status, 1, 'a control character in a term: status');
    like($err, qr/line 1: bad input: term 1 has a control character, U\+0001/,
         'a control character in a term: message');

    for (['translate', $model], ['translate', '--to', 'zh'],
         ['translate', '--to', 'zh', $model, 'a', 'b'],
         ['translate', '--to', 'zh', '--temperature', 'hot', $model],
         ['translate', '--to', 'zh', '--top-p', '0', $model],
         ['translate', '--to', 'zh', '--top-p', 'nan', $model],
         ['translate', '--to', 'zh', '--batch', '0', $model],
         ['translate', '--to', 'zh', '--seed', '-1', $model],
         ['translate', '--to', 'zh', '--term', 'bank', $model],
         ['translate', '--to', 'zh', '--term', '=Ufer', $model],
         ['translate', '--to', 'zh', '--term', 'bank=', $model],
         ['translate', '--to', 'zh', '--family', 'mt9', $model],
         ['bench', '--at-once', '4,', $model],
         ['bench', '--at-once', '0', $model],
         ['bench'], ['self-test'], ['self-test', 'a', 'b'])
    {
        ($status, $out, $err) = hymt('', @$_);
        is($status, 2, "@$_: status");
        like($err, qr/^hymt $_->[0]: .*--help/s, "@$_: message");
    }

    ($status, $out, $err) = hymt('', 'translate', '--to', 'zh', "$dir/none");
    is($status, 1, 'no model: status');
    like($err, qr{^hymt translate: \Q$dir\E/none/config\.json}, 'no model');

    ($status, $out, $err) = hymt('', 'translate', '--to', 'zh', $model,
                                 "$dir/none");
    is($status, 1, 'no file: status');
    like($err, qr{^hymt translate: \Q$dir\E/none: No such file}, 'no file');

    ($status, $out, $err) = hymt('', 'translate', '--to', 'zh', '--backend',
                                 'abacus', $model);
    is($status, 1, 'no such backend: status');
    like($err, qr/^hymt translate: .*abacus/, 'no such backend: message');

    SKIP: {
        skip 'no /dev/full', 1 unless -c '/dev/full';

        system("echo Hello. | $hymt translate --to zh '$model' >/dev/full"
               . " 2>$dir/err");
        is($? >> 8, 1, 'a full disk: status');
    }
}


# translate: sampling

{
    my $text = "The old man walked slowly along the river.\n" x 4;
    my @hot = ('--to', 'fr', '--temperature', '1.5', '--top-k', '0',
               '--top-p', '1');
    my ($out) = (translate($text, @hot, '--seed', '7'))[1];
    my @lines = split /\n/, $out;

    is((translate($text, @hot, '--seed', '7'))[1], $out, 'a seed repeats');
    isnt((translate($text, @hot, '--seed', '8'))[1], $out, 'another does not');
    isnt($lines[0], $lines[1], 'each line draws for itself');

    my ($status, $cut, $err) = translate($text, '--to', 'fr',
                                         '--max-tokens', '2');

    like($cut, qr/\A[^\n]{1,20}\n/, '--max-tokens');
    is($status, 1, '--max-tokens: status');
    like($err, qr/^hymt translate: line 1: the output was cut at 2 tokens$/m,
         '--max-tokens: message');
}


# translate: a whole text, and one who waits between lines

{
    my ($status, $out, $err) = translate("The weather is nice today.\n",
                                         '--to', 'zh', '--whole');

    is($status, 0, '--whole: status') or diag($err);
    is($out, $zh, '--whole: as the line');

    ($status, $out, $err) = translate("The weather is nice today.\n", '--to',
                                      'zh', '--whole', '--max-tokens', '2');
    is($status, 1, '--whole, cut: status');
    like($err, qr/cut at 2 tokens/, '--whole, cut: message');

    ($status, $out, $err) = translate('', '--to', 'zh', '--whole');
    is($status, 1, '--whole, empty: status');
    like($err, qr/bad input: the text is empty/, '--whole, empty: message');

    my $pid = open2(my $from, my $to,
                    "$hymt translate --to zh @few '$model'");
    my $line;

    eval {
        local $SIG{ALRM} = sub { die "late\n" };

        alarm(30);
        syswrite($to, "The weather is nice today.\n");
        $line = <$from>;
        alarm(0);
    };

    utf8::decode($line //= '');
    is($line, $zh, 'a line is answered before the next one is there');

    close($to);
    waitpid($pid, 0);
    is($? >> 8, 0, 'and the end of input ends it');
}


# bench

{
    my ($status, $out, $err) = hymt('', 'bench', $model, '--seconds', '0',
                                    '--at-once', '1,3', @few);

    is($status, 0, 'bench: status') or diag($err);
    like($out, qr/^ready in [\d.]+ s; en to zh$/m, 'bench: what it does');
    like($out, qr/^prefill: \d+ tokens a second/m, 'bench: prefill');
    like($out, qr/^prefix cache: prompts of \d+ tokens: /m,
         'bench: a prompt that fits a small context is known again');
    like($out, qr/^ +1( +[\d.]+){7}\n +3( +[\d.]+){7}\n\z/m,
         'bench: a line for each');
}


# self-test

{
    my ($status, $out, $err) = hymt('', 'self-test', $model, @few);

    is($status, 0, 'self-test: status') or diag($err, $out);
    like($out, qr/^ok - ready in /, 'self-test: ready');
    like($out, qr/^ok - 16 of 16 .*, greedy\nok - 16 of 16 .* seed$/m,
         'self-test: alone and together');
    like($out, qr/^ok - en to zh and back: "\p{Han}/m, 'self-test: a trip');
    unlike($out, qr/^not ok/m, 'self-test: nothing fails');

    (my $good = $zh) =~ s/\n//;

    my $names = "note\toutput\ttgt_lang\tsource\tsrc_lang\n";

    put("$dir/golden", "# made by hand\n$names"
        . "x\t $good\tzh\tThe weather is nice today.\ten\n");
    ($status, $out) = hymt('', 'self-test', $model, @few, '--golden',
                           "$dir/golden");
    is($status, 0, 'golden: status');
    like($out, qr/^ok - 1 of 1 translations are those of /m, 'golden: equal');

    put("$dir/golden", $names
        . "x\tno\tzh\tThe weather is nice today.\ten\n");
    ($status, $out, $err) = hymt('', 'self-test', $model, @few, '--golden',
                                 "$dir/golden");
    is($status, 1, 'golden, another: status');
    like($out, qr/^#   got  \Q$good\E\n#   want no\nnot ok - 0 of 1 /m,
         'golden, another: both are shown');
    like($err, qr/^hymt self-test: 1 checks failed$/, 'golden, another: said');

    for (["en-zh\tGood.\t$good\n", qr/names no column "src_lang"/],
         ["src_lang\ttgt_lang\tsource\n", qr/names no column "output"/],
         ["${names}x\tno\tzh\tGood.\n",
          qr/line 2: no src_lang: there are 4 columns, it is the 5\./],
         ["$names# klingon\nx\tno\ttlh\tGood.\ten\n",
          qr/line 3: .*no language "tlh"/])
    {
        put("$dir/golden", $_->[0]);
        ($status, $out, $err) = hymt('', 'self-test', $model, @few, '--golden',
                                     "$dir/golden");
        is($status, 1, 'golden, broken: status');
        like($err, qr{^hymt self-test: \Q$dir\E/golden: .*$_->[1]},
             'golden, broken: message');
    }

    my $greedy = 'models/demo/golden/greedy.tsv';

    ($status, $out, $err) = hymt('', 'self-test', 'models/demo', '--golden',
                                 $greedy, '--batch', 16, '--context', 512);
    is($status, 0, 'golden, of the demo model: status')
        or diag($err, $out);
    like($out, qr/^ok - 300 of 300 translations are those of \Q$greedy\E$/m,
         'golden, of the demo model: transformers gives the same');
}

done_testing();
