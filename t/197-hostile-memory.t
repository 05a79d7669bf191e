# A peer gone wild in shared memory: its own lane first, then all of it.  No
# other worker may crash, hang or answer something else because of a lane; none
# at all may crash or hang because of anything there, and a reload mends all.
#
# HYMT_SEED=N repeats what is written.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Http;
use Hymt::Memory;
use Hymt::Server;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $SECONDS = $ENV{HYMT_LONG} ? 60 : 4;
my $SEED = $ENV{HYMT_SEED} || int(time() * 1000) % 1_000_000;

my $s = Hymt::Server->new(timeout => 30, conf => <<'END');
%%GLOBALS%%
worker_processes 3;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    add_header X-Pid $pid always;
    hymt_timeout 5s;
    hymt_cache zone=t:1m;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; hymt_cache off; }
        location = /cached { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /static { return 200 "static\n"; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

srand($SEED);
note("HYMT_SEED=$SEED");

my %use = (src_lang => 'en', tgt_lang => 'de');
my @texts = map { "Open the file number $_ and close it." } 1 .. 20;
my @requests = map { my $t = $_;
                     map { $s->http_json($_, { %use, text => $t }) }
                         qw(/translate /cached) } @texts;
my @want = map { $_->{json}{translation} } $s->send_many(\@requests);

is(scalar(grep { defined } @want), scalar(@requests), 'all are answered');

# Some words there get other values: any, small, all ones, a bit turned.
sub spoil {
    my ($mem, $at, $size) = @_;

    for (1 .. 50) {
        my $place = $at + 4 * int rand($size / 4);
        my $old = $mem->word($place);

        my $new = (int(rand(2 ** 32)), int(rand(20)), 0xffffffff,
                   $old ^ 1 << int rand(32), $old + 1 & 0xffffffff)[rand 5];

        $mem->poke($place, $new);
    }
}

# Where lanes begin: an attach word, and a line further the host's word for it.
sub lanes {
    my ($mem, $m) = @_;

    my @at;

    for my $i (0 .. 2) {
        my $from = $m->{at} + int($m->{size} / 3) * $i;

        $from = int($from / 64) * 64 - 8192;
        $from = $m->{at} if $from < $m->{at};

        for (my $at = $from; $at < $from + 65536; $at += 64) {
            my ($a, $b) = map { $mem->peek($at + $_, 8) } 0, 64;

            if ($a eq $b && unpack('L', $a) && unpack('x4 L', $a)) {
                push @at, $at;
                last;
            }
        }
    }

    return @at;
}

# Asks for so long from three processes; what came, "pid right|wrong|..." lines.
sub load {
    my ($until) = @_;

    my @pids;

    for my $i (1 .. 3) {
        my $pid = fork() // die "fork: $!\n";

        if ($pid) {
            push @pids, $pid;
            next;
        }

        srand($SEED + $i);
        open my $out, '>', $s->dir() . "/load.$i";

        while (time() < $until) {
            my $n = int rand @requests;
            my $r = $s->send($requests[$n]);
            my $by = Hymt::Http::header($r, 'X-Pid') // '-';
            my $right = ($r->{json}{translation} // '') eq $want[$n];

            print $out $by, ' ', $right ? 'right' : $r->{status} eq ''
                       ? 'none' : "$r->{status}", "\n";
        }

        close $out;
        POSIX::_exit(0);
    }

    return @pids;
}

sub came {
    waitpid $_, 0 for @_;

    return map { split /\n/, Hymt::Process::slurp($s->dir() . "/load.$_") }
               1 .. 3;
}

my $engine = $s->host();
my @workers = $s->workers();
my $mem = Hymt::Memory->new($engine)
    or plan skip_all => "/proc/PID/mem: $!";
my @maps = $mem->shared();
my $roster = $mem->roster($engine);
my @lanes = lanes($mem, $maps[0]);

is(scalar(@lanes), 3, 'three lanes are found') or BAIL_OUT('no lanes');
ok($roster, 'and who has them');

my @pid_of = $mem->pids($roster, 3);

# a request that is not streamed, but its slot says so before the engine takes
# it: the worker is told of progress that nobody has asked for

{
    $s->signal('STOP', $engine);

    my $cap = 123;
    my $sock = $s->open($s->http_json('/translate', {
        %use, text => $texts[0], max_tokens => $cap }));

    # a slot begins with languages, cap, ratio and flags

    my $at;

    $s->wait_until(10, sub {
        for my $lane (@lanes) {
            my $slots = $mem->peek($lane, 65536);

            for (my $i = 0; $i < length $slots; $i += 64) {
                next if unpack('x' . ($i + 8) . 'L', $slots) != $cap;
                $at = $lane + $i + 16;
                return 1;
            }
        }

        return 0;
    });

    ok($at, 'progress: the job is found');

    $mem->poke($at, $mem->word($at) | 1);
    $s->signal('CONT', $engine);

    is($s->read_response($sock)->{json}{translation}, $want[0],
       'progress: the answer is as before');
    is(join(' ', $s->workers()), join(' ', @workers),
       'progress: nobody died');
}

# one lane

{
    my $victim = $pid_of[2];
    my %seen;

    # its own requests wait for their timeout, all clients at once maybe

    for my $round (1 .. 10) {
        my $until = time() + $SECONDS;
        my @pids = load($until);

        while (time() < $until) {

            # rings and slots are a small part of it, but the one that matters

            spoil($mem, $lanes[2], 26 * 1024);
            spoil($mem, $lanes[2], 600 * 1024);
            spoil($mem, $lanes[2], $maps[0]{at} + $maps[0]{size} - $lanes[2]);
            sleep(0.01);
        }

        for (came(@pids)) {
            my ($pid, $what) = split / /;

            $seen{$pid eq $victim ? 'its own' : 'others'}{$what}++;
        }

        last if ($seen{others}{right} || 0) > 3;
    }

    my $others = $seen{others} || {};

    note(join ', ', map { "its own: $_ $seen{'its own'}{$_}" }
                    sort keys %{$seen{'its own'}});

    # the queue is that of all lanes: a spoiled one may say it has many jobs

    note('the queue was full for ' . (delete $others->{429} || 0));

    is(join(' ', sort keys %$others), 'right',
       'a lane: the others are as before');
    ok(($others->{right} || 0) > 3, "a lane: $others->{right} times");
    is(join(' ', $s->workers()), join(' ', @workers), 'a lane: nobody died');

    my $r = $s->get('/status')->{json};

    is($r->{models}[0]{state}, 'ready', 'a lane: the engine is ready');
    is($r->{models}[0]{epoch}, 1, 'a lane: and the same');
}

# all of it, and the cache

{
    my $until = time() + $SECONDS;
    my @pids = load($until);
    my ($cache) = grep { $_->{size} == 1024 * 1024 } @maps;

    ok($cache, 'all: there is the cache');

    while (time() < $until) {
        spoil($mem, $maps[0]{at}, 1024);
        spoil($mem, $_, 26 * 1024) for @lanes;
        spoil($mem, $_, 600 * 1024) for @lanes;
        spoil($mem, $maps[0]{at}, $maps[0]{size});

        # behind what the slab allocator has for itself

        spoil($mem, $cache->{at} + 64 * 1024, $cache->{size} - 64 * 1024)
            for 1 .. 4;

        is($s->get('/static')->{status}, 200, 'all: all else is served')
            if rand() < 0.01;

        sleep(0.01);
    }

    my %seen;

    $seen{(split / /)[1]}++ for came(@pids);
    note(join ', ', map { "$_ $seen{$_}" } sort keys %seen);

    is(join(' ', $s->workers()), join(' ', @workers), 'all: nobody died')
        or diag(join "\n", $s->grep_log(qr/exited|leaves|failed|stuck/));
    is(scalar $s->grep_log(qr/exited on signal/), 0, 'all: of no signal');
}

# new workers have new memory

ok($s->reload(20), 'reload');
ok($s->wait_until(20, sub {
    my $j = $s->get('/status')->{json};
    return $j && $j->{engine_worker}{pid} != $engine
           && $j->{models}[0]{state} eq 'ready';
}), 'reload: ready');
ok($s->wait_until(20, sub { $s->children() == 3 }),
   'reload: the old ones leave')
    or diag(join "\n", map { "$_->{pid} $_->{title}" } $s->children());

is(scalar(grep { ($_->{json}{translation} // '') ne shift @want }
          $s->send_many(\@requests)), 0, 'reload: all is as before');

$s->finish();
done_testing();
