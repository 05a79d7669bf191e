# Streams of events: whole code points, what was sent is what comes without
# them, slow readers, filters and proxies on the way, pings, failures told in
# the middle, clients that leave.

use strict;
use warnings;
use utf8;

use lib 't/lib';

use Compress::Raw::Zlib;
use File::Temp qw(tempdir);
use Hymt::Http qw(header);
use Hymt::Server;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(sleep time);

binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


my $s = Hymt::Server->new(timeout => 60, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 2048; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 2048; }
    hymt_model one { path %%MODEL%%; threads 1; max_batch 1; context 2048; }
    add_header X-Pid $pid always;
    hymt_unit 4k;
    server {
        listen 127.0.0.1:%%PORT%% sndbuf=4k;
        location /translate { hymt_translate demo; }
        location /v1/ { hymt_translate demo api=openai; }
        location = /hurry { hymt_translate demo; hymt_timeout 2s; }
        location = /gzip {
            hymt_translate demo;
            gzip on;
            gzip_types text/event-stream;
        }
        location = /limited { hymt_translate demo; limit_rate 50k; }
        location = /postponed { hymt_translate demo; postpone_output 64k; }
        location = /impatient { hymt_translate demo; send_timeout 500ms; }
        location = /one { hymt_translate one; hymt_ping 100ms; }
        location = /quiet { hymt_translate one; hymt_ping 0; }
        location = /proxy { proxy_pass http://127.0.0.1:%%PORT%%/translate; }
        location = /proxy11 {
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:%%PORT%%/translate;
        }
        location = /status { hymt_status; }
    }
    server {
        listen 127.0.0.1:%%PORT_2%% http2;
        location /translate { hymt_translate demo; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');


my $json = JSON::PP->new->utf8;

my @sentences = (
    'Open the file and save your changes.',
    'Please enter your password to continue.',
    'The window could not be closed.',
    'It looks like you have slept through your internal alarm.',
    'You can add your personal key to the documents when you sign them.',
);

# one plain unit that takes a while
my $long = join ' ', map { $sentences[$_ % @sentences] } 1 .. 24;

# many units
my $document = join "\n\n", map {
    "$_. " . join ' ', map { $sentences[$_ % @sentences] } $_ .. $_ + 3
} 1 .. 12;

# much to send, little to do
my $big = join '', map {
    "<p>$sentences[$_ % @sentences]</p><!-- " . 'x' x 4000 . ' -->'
} 1 .. 30;


sub ask {
    my ($text, %more) = @_;

    return { text => $text, src_lang => 'en', tgt_lang => 'de', %more };
}

sub stream { return ask(@_, stream => JSON::PP::true) }


# The events of a body: decoded JSON, or the text as it is.
sub events {
    my ($body) = @_;

    my @events;

    for my $event (split /\n\n/, $body) {
        next if $event =~ /^:/;

        if ($event !~ s/^data: //) {
            fail("no event: $event");
            next;
        }

        push @events, eval { $json->decode($event) } || $event;
    }

    return @events;
}

sub text_of {
    return join '', map { ref && defined $_->{delta} ? $_->{delta} : () } @_;
}


# The text of a stream, '!' before it where it did not end well.
sub streamed {
    my ($res) = @_;

    my @events = events($res->{body});
    my $good = $res->{status} eq 200 && !defined $res->{error}
               && ref $events[-1] && $events[-1]{done};

    return ($good ? '' : '!' . ($res->{error} || '') . $res->{body})
           . text_of(@events);
}


sub idle {
    my ($limit) = @_;

    return $s->wait_until($limit, sub {
        my $j = $s->get('/status')->{json};

        return !grep { $_ } @{$j->{buffers}{used}}, map {
            ($_->{queue}{in_flight}, $_->{queue}{running}, $_->{queue}{waiting},
             $_->{kv}{blocks_used})
        } @{$j->{models}};
    });
}


# Reads to the end: [seconds since the beginning, bytes], ...
sub read_pieces {
    my ($sock, $began) = @_;

    my ($set, @pieces) = IO::Select->new($sock);

    while ($set->can_read(30)) {
        my $n = sysread($sock, my $data, 65536);

        next if !defined $n && Hymt::Http::again();
        last if !$n;

        push @pieces, [time() - $began, $data];
    }

    return @pieces;
}


# A stream's pieces on their way: seconds until the first text and the end, and
# the response.
sub timed {
    my ($uri, $data, @headers) = @_;

    my $began = time();
    my @pieces = read_pieces($s->open($s->http_json($uri, $data, @headers)),
                             $began);
    my $res = Hymt::Server::response(
        { data => join('', map { $_->[1] } @pieces) }, 0);
    my ($first) = grep { $_->[1] =~ /data: / } @pieces;

    return ($first ? $first->[0] : undef, @pieces ? $pieces[-1][0] : undef,
            $res);
}


# ---- what comes ----

my $want = $s->json('/translate', ask($sentences[0]))->{json}{translation};
my $res = $s->json('/translate', stream($sentences[0]));
my @events = events($res->{body});
my $last = $events[-1];

is($res->{status}, 200, 'stream: status');
is(header($res, 'Content-Type'), 'text/event-stream', 'stream: type');
is(header($res, 'Cache-Control'), 'no-store', 'stream: not to be kept');
is(header($res, 'X-Accel-Buffering'), 'no', 'stream: nor gathered');
is(header($res, 'Content-Length'), undef, 'stream: of no known length');
is(text_of(@events), $want, 'stream: the translation');
cmp_ok(scalar @events, '>', 4, 'stream: in pieces');
is_deeply([sort keys %$last],
          [qw(done finish_reason model src_lang tgt_lang timing usage)],
          'stream: the last event');
is($last->{finish_reason}, 'stop', 'stream: its reason');
cmp_ok($last->{usage}{completion_tokens}, '>', 5, 'stream: its usage');

my $events = 'Accept: text/event-stream';
my $plain = 'Content-Type: text/plain';

is(streamed($s->json('/translate', ask($sentences[0]), $events)), $want,
   'Accept: text/event-stream');
is(streamed($s->post('/translate?from=en&to=de', $sentences[0], $plain,
                     $events)), $want, 'Accept with text/plain');

for my $accept ('application/json, text/event-stream', '*/*', 'text/event') {
    is($s->json('/translate', ask($sentences[0]), "Accept: $accept")
         ->{json}{translation}, $want, "Accept: $accept");
}

is($s->json('/translate', ask($sentences[0], stream => JSON::PP::false),
            $events)->{json}{translation}, $want, 'stream false goes first');

$res = $s->json('/translate', stream(['a', 'b']));

is($res->{status}, 400, 'an array: 400');
is($res->{json}{error}{message}, 'stream takes one text, not an array',
   'an array: why');

# what fails before there is text has a status

$res = $s->json('/translate', stream('word ' x 4000, split => 'none'));

is($res->{status}, 422, 'too long a text: 422');
is($res->{json}{error}{code}, 'text_too_long', 'too long a text: its code');
is($s->json('/translate', stream(''))->{status}, 400, 'no text: 400');


# ---- the same as without: texts that documents change, in all languages ----

my @texts = (
    @sentences, $long, $document, '   ', " $sentences[0]\n", "- $sentences[0]",
    "$sentences[0]\n\n  $sentences[1]\r\n\r\n", '12:30', "\x{1f600}",
    'Use <|eos|> and <b>bold</b>.', 'Hello {name}, %s files at 50 % of $5.',
    "Press \x{ff5c} or #1.", "a\tb", 'Go to https://example.com/a?b=c now.',
);

for my $target (qw(de zh fr)) {
    my @plain = $s->send_many([map { $s->http_json('/translate',
        ask($_, tgt_lang => $target)) } @texts]);
    my @streams = $s->send_many([map { $s->http_json('/translate',
        stream($_, tgt_lang => $target)) } @texts]);

    for my $i (0 .. $#texts) {
        is(streamed($streams[$i]), $plain[$i]{json}{translation},
           "$target: text $i, at the same time as the others");
    }
}

for my $format (qw(html xml)) {
    my %ask = (format => $format);
    my $text = "<p>$sentences[0]</p><p><b>Open</b> the &amp; file.</p>";

    is(streamed($s->json('/translate', stream($text, %ask))),
       $s->json('/translate', ask($text, %ask))->{json}{translation},
       "$format: the same");
}

# wild texts: whatever the model writes; as many at once as are done in time.
# That of seed 74 has a placeholder at its end that the source does not have.

sub in_turns {
    my @raw = @_;
    my @responses;

    push @responses, $s->send_many([splice @raw, 0, 60]) while @raw;

    return @responses;
}

my @seeds = $ENV{HYMT_LONG} ? 1 .. 600 : (1 .. 59, 74);
my (@wild_plain, @wild_streams);

for my $seed (@seeds) {
    my %wild = (temperature => 1 + $seed % 4, seed => $seed, max_tokens => 60,
                tgt_lang => $seed % 2 ? 'zh' : 'de');

    push @wild_plain, $s->http_json('/translate', ask($sentences[0], %wild));
    push @wild_streams, $s->http_json('/translate',
                                      stream($sentences[0], %wild));
}

@wild_plain = in_turns(@wild_plain);
@wild_streams = in_turns(@wild_streams);

is_deeply([map { streamed($_) } @wild_streams],
          [map { $_->{json}{translation} } @wild_plain],
          @seeds . ' wild texts: the same');


# ---- in time ----

# The engine's process stops, unless the one request there is has come to its
# end: true where it has not, and stays so.
sub freeze {
    my $pid = $s->host();

    $s->signal('STOP', $pid);

    # the first answer may come before what the engine gave until now is taken

    my ($j) = map { $s->get('/status')->{json} } 1, 2;

    return $pid if grep { $_->{queue}{in_flight} } @{$j->{models}};

    $s->signal('CONT', $pid);

    return undef;
}


# What has come of a body: without its chunks, and as it was before gzip.
sub body_so_far {
    my ($raw) = @_;

    my ($head, $body) = $raw =~ /\A(.*?\r\n)\r\n(.*)\z/s or return '';
    my $out = '';

    if ($head =~ /^Transfer-Encoding: chunked/mi) {
        my $rest = $body;

        $body = '';
        $body .= substr($rest, 0, hex $1, '')
            while $rest =~ s/\A(?:\r\n)?([0-9a-f]+)\r\n//;
    }

    return $body if $head !~ /^Content-Encoding: gzip\r$/m;

    my ($inflate) = Compress::Raw::Zlib::Inflate->new(-WindowBits => WANT_GZIP);

    $inflate->inflate($body, $out);

    return $out;
}


# Reads until there is text; what has come.
sub first_text {
    my ($sock) = @_;

    my $raw = '';

    while (body_so_far($raw) !~ /^data: .*\n\n/m) {
        IO::Select->new($sock)->can_read(30) or last;
        sysread($sock, $raw, 65536, length $raw) or last;
    }

    return $raw;
}


# A stream whose first words, and little more, come while the engine is at work
# on the others, which it can't end before they are looked at.  The client may
# be late, so there are several tries; what is held back comes in none.
sub comes_early {
    my ($uri, $whole, $name, @headers) = @_;

    my ($early, $res);

    for (1 .. 20) {
        my $sock = $s->open($s->http_json($uri, stream($long), @headers));
        my $raw = first_text($sock);
        my $pid = freeze();

        $early = $pid && length(text_of(map { eval { $json->decode($_) } || () }
                                        body_so_far($raw) =~ /^data: (.*)$/mg))
                         < length($whole) / 5;

        $s->signal('CONT', $pid) if $pid;

        $raw .= join '', map { $_->[1] } read_pieces($sock, 0);
        $res = Hymt::Server::response({ data => $raw }, 0);
        $res->{body} = body_so_far($raw) if $raw =~ /^Content-Encoding:/m;

        last if $early;
    }

    ok($early, "$name: comes as it is made");
    is(streamed($res), $whole, "$name: all of it, the same");

    return $res;
}

my ($first, $all);

my ($slow, $token);

# the machine may have had something else to do just then

for (1 .. 5) {
    ($first, $all, $res) = timed('/translate', stream($long));
    @events = events($res->{body});
    $token = $events[-1]{timing}{first_token_ms} / 1000;
    $slow = Hymt::Process::slowness();

    last if $first - $token < 0.1 * $slow;
}

note(sprintf 'first event after %.1f ms, first token after %.1f ms, all after'
             . ' %.0f ms', 1000 * $first, 1000 * $token, 1000 * $all);
cmp_ok($first - $token, '<', 0.1 * $slow,
       'the first event comes with the first token');

my $whole = text_of(@events);

comes_early($_, $whole, $_)
    for '/translate', '/proxy', '/proxy11', '/postponed';

like(comes_early('/gzip', $whole, '/gzip', 'Accept-Encoding: gzip')->{head},
     qr/^Content-Encoding: gzip\r$/m, '/gzip: is');

my $big_whole = $s->json('/translate', ask($big, format => 'html'))
                  ->{json}{translation};

($first, $all, $res) = timed('/limited', stream($big, format => 'html'));

is(streamed($res), $big_whole, 'limit_rate: the same');
cmp_ok($all, '>', 1, 'limit_rate: in its time');


# ---- clients that leave ----

sub canceled { return $s->get('/status')->{json}{counters}{canceled} }
sub admitted { return $s->get('/status')->{json}{counters}{texts} }


# One client leaves after the first words of its stream, with the engine in the
# middle of it: true where that is counted before the engine goes on.  begin()
# gives whether there were words, and what ends the client; one whose stream was
# too fast for it reads it to its end, and there is another.
sub leaves_one {
    my ($begin) = @_;

    for (1 .. 20) {
        my $was = canceled();
        my ($words, $leave) = $begin->();
        my $pid = freeze();

        $leave->();
        next if !$pid;

        my $counted = $words && $s->wait_until(20, sub { canceled() > $was });

        $s->signal('CONT', $pid);

        return $counted ? 1 : 0;
    }

    return 0;
}


# ---- versions of HTTP ----

my $http10 = $s->http_json('/translate', stream($sentences[0]))
             =~ s/HTTP\/1.1/HTTP\/1.0/r;

$res = $s->send($http10);

is(header($res, 'Transfer-Encoding'), undef, 'HTTP/1.0: not chunked');
is(streamed($res), $want, 'HTTP/1.0: the same');

my $keep = $s->http_json('/translate', stream($sentences[0]))
           =~ s/Connection: close\r\n//r;

$res = $s->send($keep . $keep . $s->http_json('/translate',
                                              ask($sentences[0])));

is(streamed($res), $want, 'keep-alive: a stream');

$res = Hymt::Server::response({ data => $res->{left} }, 0);

is(streamed($res), $want, 'keep-alive: another one');

$res = Hymt::Server::response({ data => $res->{left} }, 0);

is($res->{json}{translation}, $want, 'keep-alive: and no stream after them');

SKIP: {
    my $features = `curl --version 2>/dev/null` || '';

    skip 'no curl with HTTP/2', 5 if $features !~ /HTTP2/;

    my $dir = tempdir(CLEANUP => 1);
    my $url = 'http://127.0.0.1:' . $s->port(2) . '/translate';

    # the command that asks
    my $curl = sub {
        my ($data, $options) = @_;

        open my $out, '>:raw', "$dir/body" or die "$dir/body: $!\n";
        print $out $json->encode($data);
        close $out;

        return "exec timeout 60 curl -sN --http2-prior-knowledge $options -H"
               . " 'Content-Type: application/json' --data-binary"
               . " \@$dir/body $url";
    };

    my $command = $curl->(stream($long), "-w '%{http_version}'");
    my $body = `$command`;

    ok($body =~ s/2$//, 'HTTP/2: is');
    is(streamed({ status => 200, body => $body }), $whole, 'HTTP/2: the same');

    $command = $curl->(stream($big, format => 'html'), '--limit-rate 100k');
    $body = `$command`;

    is(streamed({ status => 200, body => $body }), $big_whole,
       'HTTP/2: slow reader');

    ok(leaves_one(sub {
        my $pid = open my $pipe, '-|', $curl->(stream($document), '')
            or die "curl: $!\n";

        return (scalar(<$pipe>) =~ /"delta"/, sub {
            kill 'TERM', $pid;
            close $pipe;
        });
    }), 'HTTP/2: one that leaves is counted');
    ok(idle(5), 'HTTP/2: everything is freed');
}

SKIP: {
    skip 'no nghttp', 1 if !`nghttp --version 2>/dev/null`;

    my $dir = tempdir(CLEANUP => 1);

    open my $out, '>:raw', "$dir/body" or die "$dir/body: $!\n";
    print $out $json->encode(stream($sentences[0]));
    close $out;

    my $url = 'http://127.0.0.1:' . $s->port(2) . '/translate';
    my $type = "-H 'content-type: application/json'";
    my $body = `timeout 60 nghttp -m 6 -d $dir/body $type $url`;

    is(scalar(() = $body =~ /"done":true/g), 6,
       'HTTP/2: several in one connection');
}


# ---- slow readers ----

# A connection with a small receive buffer.
sub slow {
    my ($raw) = @_;

    my $sock = IO::Socket::INET->new(Proto => 'tcp') or die "socket: $!\n";

    setsockopt($sock, SOL_SOCKET, SO_RCVBUF, 2048) or die "setsockopt: $!\n";
    connect($sock, Socket::pack_sockaddr_in($s->port(),
                       Socket::inet_aton('127.0.0.1')))
        or die "connect: $!\n";

    $s->write($sock, $raw);

    return $sock;
}

# Clock ticks of the workers' event loops, and their memory in KB.
sub ticks {
    my $sum = 0;

    for my $pid ($s->workers()) {
        my @stat = split ' ', Hymt::Process::slurp("/proc/$pid/task/$pid/stat")
                              =~ s/^.*\) //sr;

        $sum += $stat[11] + $stat[12];
    }

    return $sum;
}

sub memory {
    my $sum = 0;

    for my $pid ($s->workers()) {
        $sum += $1 if Hymt::Process::slurp("/proc/$pid/status")
                      =~ /^VmRSS:\s+(\d+)/m;
    }

    return $sum;
}

{
    my $memory = memory();
    my @slow = map {
        slow($s->http_json('/translate', stream($big, format => 'html')))
    } 1 .. 4;

    # the others first, while these wait

    my $t = time();

    is($s->json('/translate', ask($sentences[0]))->{json}{translation}, $want,
       'slow readers: others are served');
    note(sprintf 'another request meanwhile: %.0f ms', 1000 * (time() - $t));

    ok($s->wait_until(30, sub {
        $s->get('/status')->{json}{models}[0]{queue}{running} == 0
    }), 'slow readers: the engine does not wait for them');

    my $was = ticks();

    sleep(1);
    cmp_ok(ticks() - $was, '<', 5, 'slow readers: the loop rests');

    my $grown = memory() - $memory;

    note("memory grew by $grown KB");

    # what a sanitizer holds back of freed memory is not ours

    cmp_ok($grown, '<', 16384, 'slow readers: memory is bounded')
        if !$ENV{HYMT_TEST_ASAN};

    # little by little at first

    my @data = ('') x @slow;

    for my $i (0 .. $#slow) {
        for (1 .. 20) {
            sysread($slow[$i], $data[$i], 100, length $data[$i]);
            sleep(0.002);
        }
    }

    for my $i (0 .. $#slow) {
        $slow[$i]->blocking(0);
        $data[$i] .= join '', map { $_->[1] } read_pieces($slow[$i], 0);
        is(streamed(Hymt::Server::response({ data => $data[$i] }, 0)),
           $big_whole, "slow readers: reader $i has it all");
    }

    ok(idle(5), 'slow readers: all is given back');

    # one that does not read at all

    my $from = $s->log_size();
    my $dead = slow($s->http_json('/impatient',
                                  stream($big, format => 'html')));

    ok($s->wait_log(qr/client timed out/, 20, $from),
       'a dead reader: send_timeout ends it');
    ok(idle(5), 'a dead reader: everything is freed');
}


# ---- streams that are left ----

{
    my $canceled = canceled();
    my $left = 0;

    for my $text (($long, $document) x 4) {
        $left += leaves_one(sub {
            my $sock = $s->open($s->http_json('/translate', stream($text)));

            return (first_text($sock) ne '', sub { close $sock });
        });
    }

    is($left, 8, 'aborts in the middle: each is counted');
    ok(idle(3), 'aborts in the middle: everything is freed');
    is(canceled(), $canceled + 8, 'aborts in the middle: once');
}


# ---- pings ----

{
    # work for many times a ping, no sentence of it like another

    my $before = admitted();
    my @busy = map {
        my $n = $_;

        $s->open($s->http_json('/one', ask(
            join(' ', map { "Open the file $n.$_ and save it." } 1 .. 16),
            split => 'sentence')))
    } 1 .. 6;

    ok($s->wait_until(10, sub { admitted() == $before + 6 }),
       'pings: six go before');

    ($first, $all, $res) = timed('/one', stream($sentences[0]));

    my $pings = () = $res->{body} =~ /^: ping$/mg;

    note(sprintf '%d pings in %.1f s before the text', $pings, $first);
    like($res->{body}, qr/\A: ping\n\n/, 'pings: while it waits');
    cmp_ok($pings, '>=', int($first / 0.1 / Hymt::Process::slowness()) - 2,
           'pings: as many as it takes');
    cmp_ok($pings, '<=', $first / 0.1 + 1, 'pings: and not more');
    is(streamed($res), $want, 'pings: then the text');
    $res = $s->json('/quiet', stream($sentences[0]));
    unlike($res->{body}, qr/^:/m, 'hymt_ping 0: none');
    is(streamed($res), $want, 'hymt_ping 0: the text');
    is($s->read_response($_)->{status}, 200, 'pings: the others') for @busy;
    ok(idle(5), 'pings: idle');
}


# ---- failures in the middle ----

{
    my $timeouts = $s->get('/status')->{json}{counters}{timeouts};

    # far more than any machine does in that time

    my $endless = join "\n",
                      map { "$_. $sentences[$_ % @sentences]" } 1 .. 2000;

    $res = $s->json('/hurry', stream($endless));
    @events = events($res->{body});

    is($res->{status}, 200, 'timeout: it had begun well');
    is($res->{error}, undef, 'timeout: the body has its end');
    like(text_of(@events), qr/^1\. \S/, 'timeout: some text');
    is_deeply($events[-1], { error => { code => 'timeout',
                             message => 'not done within 2000 ms' } },
              'timeout: the last event tells');
    is($s->get('/status')->{json}{counters}{timeouts}, $timeouts + 1,
       'timeout: counted');
    ok(idle(3), 'timeout: idle');
}

$s->allow_alerts(qr/exited on signal 9/);

for my $case (['a text in the making', $long, 1],
              ['units that are done', $document, 0])
{
    my ($name, $text, $lost) = @$case;
    my $reference = $s->json('/translate', ask($text))->{json}{translation};

    # one stream of a worker that has no engine

    my ($engine) = grep { $s->threads($_, qr{^hymt-}) } $s->workers();
    my ($sock, $data);

    for (1 .. 50) {
        $sock = $s->open($s->http_json('/translate', stream($text)));
        $data = '';

        while ($data !~ /"delta"/) {
            IO::Select->new($sock)->can_read(20);
            last if !sysread($sock, $data, 4096, length $data)
                    && !Hymt::Http::again();
        }

        last if $data =~ /^X-Pid: (\d+)/m && $1 != $engine;

        close $sock;
        undef $sock;
    }

    ok($sock, "$name: a stream of the other worker");
    kill 9, $engine;

    $data .= join '', map { $_->[1] } read_pieces($sock, 0);
    $res = Hymt::Server::response({ data => $data }, 0);
    is($res->{error}, undef, "$name: the body has its end");

    if ($lost) {
        is_deeply((events($res->{body}))[-1], { error => {
            code => 'unavailable', message => 'the engine was restarted',
        } }, "$name: lost with the engine, and told");

    } else {
        is(streamed($res), $reference, "$name: goes on with the next engine");
    }

    ok($s->wait_ready('/status'), "$name: ready again");
    ok(idle(10), "$name: idle");
}

$s->finish();
done_testing();
