# hymt_engine_worker: who serves clients.  The dedicated worker accepts nothing,
# with accept_mutex and after a restart too; shared where it must be.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $CONF = <<'END';
%%GLOBALS%%
@PROCESSES@
events { worker_connections 512; @EVENTS@ }
http {
    %%GLOBALS_HTTP%%
    @MODE@
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%@LISTEN@;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /who { return 200 "$pid"; }
    }
}
END

sub conf {
    my (%o) = @_;

    my %put = (
        PROCESSES => 'worker_processes ' . ($o{workers} || 3) . '; '
                     . ($o{more} || ''),
        EVENTS => $o{events} || '',
        MODE => $o{mode} ? "hymt_engine_worker $o{mode};" : '',
        LISTEN => $o{listen} ? " $o{listen}" : '',
    );

    return $CONF =~ s/\@([A-Z]+)\@/$put{$1}/gr;
}

# Pids of who answers many connections at once.
sub who {
    my ($s) = @_;

    my %pids;

    for (1 .. 3) {
        $pids{$_->{body}}++
            for $s->send_many([($s->http('GET', '/who')) x 50]);
    }

    return \%pids;
}

for my $case (
    ['by default', {}, 'dedicated'],
    ['with accept_mutex', { events => 'accept_mutex on;' }, 'dedicated'],
    ['where it is said',
     { mode => 'dedicated', events => 'multi_accept on;' }, 'dedicated'],
    ['shared where it is said', { mode => 'shared' }, 'shared'],
    ['with one worker', { workers => 1 }, 'shared'],
    ['with reuseport', { listen => 'reuseport' }, 'shared', 'notice'],
    ['with reuseport against what is said',
     { mode => 'dedicated', listen => 'reuseport' }, 'shared', 'warn'],
) {
    my ($name, $options, $mode, $level) = @$case;

    my $s = Hymt::Server->new(conf => conf(%$options));

    $s->start();
    ok($s->wait_ready('/status'), "$name: ready");

    my $worker = $s->get('/status')->{json}{engine_worker};

    is($worker->{mode}, $mode, "$name: $mode");
    ok($s->threads($worker->{pid}, qr/^hymt-/),
       "$name: its pid is that of the engine's process");

    my $who = who($s);

    is($who->{''}, undef, "$name: every connection is answered");

    if ($mode eq 'dedicated') {
        is($who->{$worker->{pid}}, undef, "$name: it accepts nothing");

    } elsif (($options->{workers} || 3) == 1 || $options->{listen}) {
        ok($who->{$worker->{pid}}, "$name: it serves, too");
    }

    if ($level) {
        like($s->log(), qr/\[$level\].*hymt_engine_worker is "shared"/,
             "$name: said at $level");

    } else {
        unlike($s->log(), qr/hymt_engine_worker is/, "$name: nothing is said");
    }

    if ($mode eq 'dedicated') {
        $s->allow_alerts(qr/exited on signal 9/);
        $s->signal('KILL', $worker->{pid});

        ok($s->wait_until(20, sub {
            my $now = $s->get('/status')->{json};
            return $now->{engine_worker}{pid} != $worker->{pid}
                   && $now->{models}[0]{state} eq 'ready';
        }), "$name: ready again after a crash");

        my $pid = $s->host();

        is(who($s)->{$pid}, undef, "$name: the next one accepts nothing");

        ok($s->reload(), "$name: reloaded");
        ok($s->wait_ready('/status'), "$name: ready");

        $pid = $s->host();

        is(who($s)->{$pid}, undef, "$name: nor after a reload");
    }

    my $res = $s->json('/translate', { text => 'Open the file.',
                                       tgt_lang => 'de' });

    is($res->{status}, 200, "$name: translates");

    $s->finish();
}

# refused

my $s = Hymt::Server->new(conf => conf());

$s->allow_alerts(qr{hymt_engine_worker dedicated});

for my $case (
    ['dedicated with one worker', conf(mode => 'dedicated', workers => 1),
     qr/"hymt_engine_worker dedicated" .* one worker: set "worker_processes"/],
    ['dedicated without a master',
     conf(mode => 'dedicated', more => 'master_process off;'),
     qr/"hymt_engine_worker dedicated" .* one worker/],
    ['another value', conf(mode => 'alone'), qr/invalid value "alone"/],
    ['twice', conf(mode => 'shared; hymt_engine_worker shared'),
     qr/"hymt_engine_worker" directive is duplicate/],
) {
    my ($name, $conf, $message) = @$case;
    my ($code, $output) = $s->test_conf($conf);

    isnt($code, 0, "$name: refused");
    like($output, $message, "$name: says why");
}

done_testing();
