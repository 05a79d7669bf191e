# Greedy translations out of NGINX are those of transformers: all sentences of
# the demo model's golden file, alone and in arrays.  And one request has the
# same bytes alone, among 31 others, with one thread and two, after a restart.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use List::Util qw(shuffle);
use Test::More;

my $GOLDEN = 'models/demo/golden/greedy.tsv';
my $AT_ONCE = 32;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo {
        path %%MODEL%%; threads @THREADS@; max_batch 32; context 512;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; @SPLIT@ }
        location = /status { hymt_status; }
    }
}
END

my $seed = $ENV{HYMT_SEED} || time();

srand($seed);
diag("HYMT_SEED=$seed repeats this order");


# Lines as hashes by column, texts as characters.
sub golden {
    open my $in, '<:encoding(UTF-8)', $GOLDEN or die "$GOLDEN: $!\n";

    my ($names, @lines) = map { chomp; [split /\t/, $_, -1] } <$in>;

    return map {
        my %row;
        @row{@$names} = @$_;
        \%row;
    } @lines;
}


my @rows = golden();

is(scalar(@rows), 300, 'sentences');


# Texts are sent whole, whatever the module does to long ones.
sub server {
    my ($threads) = @_;

    my $conf = $CONF =~ s/\@THREADS\@/$threads/r;
    my $s = Hymt::Server->new(timeout => 90, conf => $conf =~ s/\@SPLIT\@//r);
    my $whole = $conf =~ s/\@SPLIT\@/hymt_split none;/r;

    if (($s->test_conf($whole))[0] == 0) {
        $s->write_conf($whole);
    }

    $s->start();
    ok($s->wait_ready('/status', 60), "threads $threads: ready");

    return $s;
}


# A request for rows of one direction, [row] alone or [[row, ...]] as an array,
# and what is to come.
sub request {
    my ($s, $what) = @_;

    my $array = ref $what->[0] eq 'ARRAY';
    my @of = $array ? @{$what->[0]} : @$what;
    my @sources = map { $_->{source} } @of;
    my @outputs = map { $_->{output} } @of;

    return {
        raw => $s->http_json('/translate', {
            text     => $array ? \@sources : $sources[0],
            src_lang => $of[0]{src_lang},
            tgt_lang => $of[0]{tgt_lang},
        }),
        sources => \@sources,
        outputs => \@outputs,
        array   => $array,
    };
}


# Sends all, so many at once; counts the right and shows the wrong translations.
sub right {
    my ($s, @requests) = @_;

    my $right = 0;

    while (my @now = splice @requests, 0, $AT_ONCE) {

        my @responses = $s->send_many([map { $_->{raw} } @now]);

        for my $i (0 .. $#now) {
            my ($q, $r) = ($now[$i], $responses[$i]);
            my $got = $r->{json}{translation};

            if (!defined $got || $q->{array} != (ref $got eq 'ARRAY')) {
                diag("status " . ($r->{status} // $r->{error}) . ", "
                     . ($r->{body} // ''));
                next;
            }

            my @got = $q->{array} ? @$got : ($got);

            for my $j (0 .. $#{$q->{outputs}}) {
                if (($got[$j] // '') eq $q->{outputs}[$j]) {
                    $right++;
                    next;
                }

                my $text = "$q->{sources}[$j]\ngot  " . ($got[$j] // 'nothing')
                           . "\nwant $q->{outputs}[$j]";

                utf8::encode($text);
                diag($text);
            }
        }
    }

    return $right;
}


# Rows in random order, one direction at a time, cut into arrays of 2 to 20.
sub arrays {
    my (%by_direction, @arrays);

    push @{$by_direction{"$_->{src_lang}-$_->{tgt_lang}"}}, $_
        for shuffle @rows;

    for my $of (values %by_direction) {
        while (my @part = splice @$of, 0, 2 + int rand 19) {
            push @arrays, [\@part];
        }
    }

    return @arrays;
}


# The one with the longest output.
my ($one) = sort { length $b->{output_ids} <=> length $a->{output_ids} } @rows;


# The bytes that come for it: greedy, and drawn with a seed.
sub bytes {
    my ($s, @others) = @_;

    my $bytes = '';

    for my $sampling ({}, { temperature => 0.9, top_p => 0.9, seed => 11 }) {

        my $raw = $s->http_json('/translate', {
            text     => $one->{source},
            src_lang => $one->{src_lang},
            tgt_lang => $one->{tgt_lang},
            %$sampling,
        });

        my ($r) = $s->send_many([$raw, map { $_->{raw} } @others]);

        # times differ

        $bytes .= ($r->{body} // '') =~ s/,\s*"timing":\s*\{[^}]*\}//r;
    }

    return $bytes;
}


my $want;

for my $threads (2, 1) {
    my $s = server($threads);

    if ($threads == 2) {
        my @singles = map { request($s, [$_]) } @rows;
        my @arrays = map { request($s, $_) } arrays();

        is(right($s, shuffle @singles, @arrays), 600,
           'all translations, one by one and in ' . @arrays . ' arrays');
    }

    for my $start ('', ', after a restart') {
        my @others = map { request($s, [$_]) } (shuffle @rows)[0 .. 30];
        my $alone = bytes($s);

        $want //= $alone;
        like($alone, qr/\A\{.*"translation".*\n\{.*"translation"/,
             "threads $threads$start: answers");
        is($alone, $want, "threads $threads$start: the same bytes alone");
        is(bytes($s, @others), $want,
           "threads $threads$start: and among 31 others");

        if ($start eq '') {
            ok(defined $s->stop(), "threads $threads: stops");
            $s->start();
            ok($s->wait_ready('/status', 60), "threads $threads: starts anew");
        }
    }

    $s->finish();
}

my @texts = $want =~ /"translation":\s*"([^"]*)"/g;
my $greedy = $one->{output};

utf8::encode($greedy);

is($texts[0], $greedy, 'the greedy one is that of the golden file');
isnt($texts[1], $texts[0], 'the drawn one is another');

done_testing();
