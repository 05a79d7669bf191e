# $hymt_...: what a request was, in the access log; "-" where nothing was.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep);

my @NAMES = qw(model src tgt tokens_in tokens_out queue_time ttft
               compute_time batch finish);

my $FORMAT = join ' ', map { "\$hymt_$_" } @NAMES;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    log_format hymt '$uri $arg_n $status $request_time @FORMAT@';
    map $hymt_finish $cut { length cut; loop cut; default whole; }
    log_format map '$arg_n $cut';
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512;
                      queue 8; }
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/logs/hymt.log hymt;
        access_log %%DIR%%/logs/map.log map;
        location /translate { hymt_translate demo; }
        location = /hurry { hymt_translate demo; hymt_timeout 20ms; }
        location = /fallback {
            hymt_translate demo;
            error_page 400 /sorry;
        }
        location = /sorry { return 400 "sorry\n"; }
        location /v1/ { hymt_translate demo api=openai; }
        location = /static { return 200 "static\n"; }
        location = /status { hymt_status; }
    }
}
END

my $s = Hymt::Server->new(conf => $CONF =~ s/\@FORMAT\@/$FORMAT/r,
                          timeout => 60);

$s->start();
ok($s->wait_ready('/status'), 'ready');

# The line of the request that had ?n=N.
sub logged {
    my ($n, $of) = @_;

    my $line;

    $of = $of ? quotemeta $of : '\S+';

    $s->wait_until(10, sub {
        ($line) = grep { /^$of \Q$n\E / }
                  split /\n/, Hymt::Process::slurp($s->dir()
                                                   . '/logs/hymt.log');
    });

    my ($uri, undef, $status, $time, @values) = split / /, $line || '';

    my %v = (uri => $uri, status => $status, request_time => $time);

    @v{@NAMES} = @values;

    return \%v;
}

my %USE = (src_lang => 'en', tgt_lang => 'de');

# one text

my $r = $s->json('/translate?n=one', { %USE, text => 'Open the file.' });
my $v = logged('one');

is($v->{status}, 200, 'one: status');
is($v->{model}, 'demo', 'one: model');
is("$v->{src} $v->{tgt}", 'en de', 'one: languages');
is($v->{tokens_in}, $r->{json}{usage}{prompt_tokens}, 'one: tokens in');
is($v->{tokens_out}, $r->{json}{usage}{completion_tokens}, 'one: tokens out');
is($v->{batch}, 1, 'one: alone in its batch');
is($v->{finish}, 'stop', 'one: finish');

for (qw(queue_time ttft compute_time)) {
    like($v->{$_}, qr/^\d+\.\d{6}$/, "one: $_ $v->{$_}");
}

cmp_ok($v->{queue_time}, '<=', $v->{ttft}, 'one: a step before a token');
cmp_ok($v->{ttft}, '<=', $v->{queue_time} + $v->{compute_time},
       'one: the first token before the last');

# NGINX's clock ticks by the millisecond, when its loop turns

cmp_ok($v->{queue_time} + $v->{compute_time}, '<=',
       $v->{request_time} + 0.05, 'one: within the request');

# several

$r = $s->json('/translate?n=many', { %USE,
    text => [map { "Open the file number $_." } 1 .. 8] });
$v = logged('many');

is($v->{tokens_out}, $r->{json}{usage}{completion_tokens},
   'many: tokens of all');
cmp_ok($v->{batch}, '>', 1, 'many: side by side');

$s->json('/translate?n=mixed', { src_lang => 'auto', tgt_lang => 'fr', text => [
    'The weather is nice today and we are going to the park.',
    'Das Wetter ist heute schön und wir gehen in den großen Park.' ] });
is(logged('mixed')->{src}, 'mixed', 'mixed: sources differ');
is(logged('mixed')->{tgt}, 'fr', 'mixed: one target');

# text that nobody translates needs no engine

$s->json('/translate?n=marks', { %USE, text => '!!!' });
$v = logged('marks');
is("$v->{status} $v->{tokens_in} $v->{tokens_out} $v->{queue_time}"
   . " $v->{finish}", '200 0 0 - stop', 'marks: no tokens, no times');

# ends

$s->json('/translate?n=cut', { %USE, text => 'Open the file.',
                               max_tokens => 1 });
is(logged('cut')->{finish}, 'length', 'cut: finish');
is(logged('cut')->{tokens_out}, 1, 'cut: tokens');

$s->json('/translate?n=stream', { %USE, text => 'Open the file.',
                                  stream => JSON::PP::true });
is(logged('stream')->{finish}, 'stop', 'stream: finish');
cmp_ok(logged('stream')->{tokens_out}, '>', 0, 'stream: tokens');

$s->json('/v1/chat/completions?n=chat', {
    model => 'demo', max_tokens => 4,
    messages => [{ role => 'user', content => 'Good morning.' }] });
$v = logged('chat');
is("$v->{src} $v->{tgt}", '- -', 'chat: no languages');
cmp_ok($v->{tokens_in}, '>', 0, 'chat: tokens');

# failures name their code

$s->json('/translate?n=bad', { text => 'x' });
$v = logged('bad');
is("$v->{status} $v->{model} $v->{tokens_in} $v->{finish}",
   '400 demo - missing_field', 'bad: never asked');

my $long = { %USE, text => [map { "Open the file number $_." } 1 .. 300] };

# on a busy machine the time may be over before the body has been read

for (1 .. 10) {
    $s->json("/hurry?n=late$_", $long);
    $v = logged("late$_");

    last if $v->{src} ne '-';
}

is("$v->{status} $v->{finish}", '504 timeout', 'late: finish');
is("$v->{src} $v->{tgt}", 'en de', 'late: languages');

# what the late one had is given back a moment after its answer

ok($s->wait_until(10, sub {
    $s->get('/status')->{json}{models}[0]{queue}{in_flight} == 0
}), 'late: all is given back');

my $sock = $s->open($s->http_json('/translate?n=gone', $long));

$s->wait_until(5, sub {
    $s->get('/status')->{json}{models}[0]{queue}{running} > 0
});
close $sock;
$v = logged('gone');
is("$v->{status} $v->{finish}", '499 canceled', 'gone: finish');

# nothing of ours

$s->get('/translate/languages?n=list');
$v = logged('list');
is("$v->{status} $v->{model} $v->{src} $v->{batch} $v->{finish}",
   '200 demo - - -', 'list: no texts');

$s->get('/static?n=static');
$v = logged('static');
is(join(' ', map { $v->{$_} } @NAMES), join(' ', ('-') x @NAMES),
   'static: nothing');

# which has no arguments, either

$s->json('/fallback?n=page', { text => 'x' });
$v = logged('-', '/sorry');
is("$v->{status} $v->{model}", '400 -', 'page: an internal redirect forgets');

# and where NGINX has a use for them

my $map = Hymt::Process::slurp($s->dir() . '/logs/map.log');

like($map, qr/^cut cut$/m, 'map: length');
like($map, qr/^one whole$/m, 'map: stop');

$s->finish();
done_testing();
