# An engine that fails for good while it works, because of broken weights: one
# row of the embedding is not a number.  Whoever's text needs it is tried twice
# and gets 500; all others are answered by the engines that follow.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

# the first of the two tokens of its Cyrillic letter
my $POISON = "Open the \x{0449} file.";
my $TOKEN = 141;

my $CONF = <<'END';
%%GLOBALS%%
@PROCESSES@
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo {
        path %%DIR%%/broken-mt2;
        family mt2;
        threads 1;
        max_batch 8;
        context 512;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

# The demo model with its output weights apart from its embedding, so that a row
# of that is no other token's business.
sub break_model {
    my ($s, $token) = @_;

    my ($from, $to) = ($s->{model}, $s->dir() . '/broken-mt2');

    mkdir $to or die "$to: $!\n";
    chmod 0755, $to;

    for my $file (grep { -f } glob "$from/*.json $from/*.jinja") {
        my ($name) = $file =~ m{([^/]+)\z};
        my $text = Hymt::Process::slurp($file);

        $text =~ s/("tie_word_embeddings": )true/$1false/
            if $name eq 'config.json';
        $s->write_file("broken-mt2/$name", $text);
    }

    my $data = Hymt::Process::slurp("$from/model.safetensors");
    my $n = unpack 'Q<', substr($data, 0, 8);
    my $head = JSON::PP->new->canonical->decode(substr($data, 8, $n));
    my $all = substr($data, 8 + $n);
    my $embed = $head->{'model.embed_tokens.weight'};
    my ($begin, $end) = @{$embed->{data_offsets}};

    $head->{'lm_head.weight'} = {
        %$embed, data_offsets => [length $all, length($all) + $end - $begin],
    };
    $all .= substr($all, $begin, $end - $begin);

    substr($all, $begin + $token * 2 * $embed->{shape}[1], 2) = "\xc0\x7f";

    $head = JSON::PP->new->canonical->encode($head);
    $s->write_file('broken-mt2/model.safetensors',
                   pack('Q<', length $head) . $head . $all);
}

sub server {
    my ($processes) = @_;

    my $s = Hymt::Server->new(conf => $CONF =~ s/\@PROCESSES\@/$processes/r,
                              timeout => 60);

    break_model($s, $TOKEN);
    $s->start();
    ok($s->wait_ready('/status'), "$processes ready");

    return $s;
}

sub request {
    my ($s, $text) = @_;

    return $s->http_json('/translate', { text => $text, tgt_lang => 'de' });
}

# one that only translates, one that hosts the engine

{
    my $s = server('worker_processes 2;');
    my @requests = map { request($s, "Open the file number $_ for me.") }
                       1 .. 60;
    my @want = map { $_->{json}{translation} } $s->send_many(\@requests);

    is(scalar(grep { defined } @want), 60, 'all are answered');

    splice @requests, 30, 0, request($s, $POISON);
    splice @want, 30, 0, '';

    my $pid = $s->host();
    my @responses = $s->send_many(\@requests);
    my $bad = $responses[30];

    is($bad->{status}, 500, 'the text that the engine fails of gets 500');
    like($bad->{body}, qr/the engine failed twice with this request/,
         'and is told why');

    is(scalar(grep { ($_->{status} || 0) == 200 } @responses), 60,
       'all others are answered');
    is(scalar(grep { $_ != 30
                     && ($responses[$_]{json}{translation} // '')
                        ne $want[$_] } 0 .. 60), 0, 'as without it');

    ok($s->wait_ready('/status'), 'an engine is ready');

    my $j = $s->get('/status')->{json};

    isnt($j->{engine_worker}{pid}, $pid, 'in another process');
    is($j->{engine_worker}{ended_in_a_row}, 2, 'after two failures');
    is($j->{counters}{failed}, 1, 'one request failed');
    is($j->{models}[0]{queue}{in_flight}, 0, 'nothing is in flight');
    is_deeply($j->{buffers}{used}, [0, 0], 'nor in the buffers');

    my @left = $s->grep_log(qr/the engine has failed: this worker leaves/);

    is(scalar(@left), 2, 'the log says so twice');
    like($s->log(), qr/logits (?:of token \d+ at position \d+ )?are not finite/,
         'and why');
    like($s->log(), qr/worker process $pid exited with code 0/,
         'the worker left of its own');

    is(scalar($s->workers()), 2, 'there are two workers');

    $s->finish();
}

# one for both: what it has goes with it, then it serves again

{
    my $s = server('worker_processes 1;');
    my $pid = $s->host();

    is($s->send(request($s, $POISON))->{status}, 503, 'shared: 503');

    ok($s->wait_until(30, sub {
        my $j = $s->get('/status')->{json};
        return $j && $j->{engine_worker}{pid} != $pid
               && $j->{models}[0]{state} eq 'ready';
    }), 'shared: another worker takes its place');

    is($s->send(request($s, 'Open the file.'))->{status}, 200,
       'shared: and translates');

    $s->finish();
}

# nobody would start another one

{
    my $s = server('worker_processes 1; master_process off;');

    is($s->send(request($s, $POISON))->{status}, 503, 'no master: 503');

    my $j = $s->get('/status')->{json};

    is($j->{models}[0]{state}, 'failed', 'no master: failed');
    like($j->{models}[0]{reason}, qr/are not finite/, 'no master: says why');

    is($s->send(request($s, 'Open the file.'))->{status}, 503,
       'no master: stays so');

    $s->finish();
}

done_testing();
