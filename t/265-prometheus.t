# The dashboard, the alerts and Prometheus itself: names that exist, and, where
# Prometheus is installed, queries that find something.

use strict;
use warnings;

use lib 't/lib';

use File::Temp qw(tempdir);
use Hymt::Http qw(exchange parse_response free_port);
use Hymt::Metrics;
use Hymt::Server;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus vllm; }
    }
}
END

sub slurp { return Hymt::Process::slurp($_[0]) }

my $board = JSON::PP->new->utf8->decode(slurp('conf/grafana/hymt.json'));
my $rules = slurp('conf/prometheus/hymt.rules.yml');

my @panels = grep { $_->{type} ne 'row' } @{$board->{panels}};

my $s = Hymt::Server->new(conf => $CONF, timeout => 60);

$s->start();
ok($s->wait_ready('/status'), 'ready');

# names

{
    my $m = Hymt::Metrics->new($s->get('/metrics')->{body});
    my %known = map { $_ => 1 } $m->families();
    my %used;

    for my $text ($rules, map { map { $_->{expr} } @{$_->{targets}} } @panels) {
        $used{$1 =~ s/_(?:bucket|sum|count)$//r} = 1
            while $text =~ /\b(hymt_[a-z_]+)/g;
    }

    is_deeply([grep { !$known{$_} } sort keys %used], [],
              'only metrics that exist are asked for');
    cmp_ok(scalar keys %used, '>', 25, 'most of them');
}

# places: no panel lies on another one

{
    my (%at, @twice);

    for my $p (@{$board->{panels}}) {
        my $g = $p->{gridPos};

        for my $x ($g->{x} .. $g->{x} + $g->{w} - 1) {
            for my $y ($g->{y} .. $g->{y} + $g->{h} - 1) {
                push @twice, $p->{title} if $x > 23 || $at{"$x $y"}++;
            }
        }
    }

    is_deeply(\@twice, [], 'panels have their places');
}

# the real one

my ($prometheus) = grep { -x } map { "$_/prometheus" } split /:/, $ENV{PATH};

if (!$prometheus) {
    $s->finish();
    diag('no prometheus: its part is left out');
    done_testing();
    exit;
}

my $dir = tempdir(CLEANUP => 1);
my $port = free_port();
my $target = '127.0.0.1:' . $s->port();

open my $out, '>', "$dir/prometheus.yml" or die "$dir: $!\n";
print $out <<"END";
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [ hymt.rules.yml ]
scrape_configs:
  - job_name: hymt
    static_configs: [ { targets: [ "$target" ] } ]
END
close $out;

open $out, '>', "$dir/hymt.rules.yml" or die "$dir: $!\n";
print $out $rules;
close $out;

my $pid = fork();

die "fork: $!\n" if !defined $pid;

if ($pid == 0) {
    open STDOUT, '>', "$dir/log";
    open STDERR, '>&', \*STDOUT;
    exec $prometheus, "--config.file=$dir/prometheus.yml",
         "--storage.tsdb.path=$dir/data",
         "--web.listen-address=127.0.0.1:$port";
    die "exec: $!\n";
}

END {
    if ($pid) {
        local $?;
        kill 'TERM', $pid;
        waitpid $pid, 0;
    }
}

sub api {
    my ($path, $query) = @_;

    $query =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;

    my $r = exchange(addr => '127.0.0.1', port => $port, timeout => 10,
        packets => [{ value => "GET $path?query=$query HTTP/1.1\r\n"
                               . "Host: localhost\r\nConnection: close\r\n\r\n"
                    }]);

    my $res = parse_response($r->{data}, 0);

    return eval { JSON::PP->new->utf8->decode($res->{body}) } || {};
}

sub found {
    my $r = api('/api/v1/query', $_[0]);

    return ($r->{status} || '') eq 'success' ? @{$r->{data}{result}} : ();
}

ok($s->wait_until(60, sub { return found('hymt_engine_up == 1') }),
   'Prometheus scrapes') or diag(slurp("$dir/log"));

# some seconds of load, so that rates have something to say

my $end = time() + 8;

while (time() < $end) {
    $s->json('/translate', { text => 'Open the file.', src_lang => 'en',
                             tgt_lang => 'de' });
    sleep(0.05);
}

for my $panel (@panels) {
    for my $t (@{$panel->{targets}}) {
        my $query = $t->{expr};

        $query =~ s/\$__rate_interval/10s/g;
        $query =~ s/\$(?:instance|model)/.*/g;

        my @all = found($query);

        ok(scalar @all, "panel \"$panel->{title}\", $t->{legendFormat}")
            or diag($query);
    }
}

ok(scalar found('histogram_quantile(0.9, sum by (le)'
                . ' (rate(vllm:e2e_request_latency_seconds_bucket[10s]))) > 0'),
   'a dashboard of others finds times');

# alerts: none is up, each can be asked

is_deeply([map { $_->{metric}{alertname} } found('ALERTS')], [],
          'no alert in good times');

my $state = api('/api/v1/rules', '');
my @bad = map { "$_->{name}: $_->{lastError}" }
          grep { $_->{health} ne 'ok' }
          map { @{$_->{rules}} } @{$state->{data}{groups} || []};

is(scalar(map { @{$_->{rules}} } @{$state->{data}{groups} || []}),
   scalar(() = $rules =~ /- alert:/g), 'rules are loaded');
is_deeply(\@bad, [], 'and can be evaluated');

is(scalar found('up{job="hymt"} == 1'), 1, 'every scrape was taken');

$s->finish();
done_testing();
