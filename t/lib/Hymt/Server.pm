package Hymt::Server;

# An NGINX of a test's own, for what blocks can't say: reload, quit, abort,
# kill.  Only Perl's core modules.
#
#   use Hymt::Server;
#   use Test::More;
#
#   my $s = Hymt::Server->new(conf => <<'END');
#   %%GLOBALS%%
#   worker_processes 2;
#   events { }
#   http {
#       %%GLOBALS_HTTP%%
#       hymt_model demo { path %%MODEL%%; }
#       server {
#           listen 127.0.0.1:%%PORT%%;
#           location = /translate { hymt_translate demo; }
#       }
#   }
#   END
#
#   $s->start();
#   my $res = $s->json('/translate', { text => 'Hello', tgt_lang => 'de' });
#   is($res->{status}, 200);
#   $s->finish();
#   done_testing();
#
# Put in: %%GLOBALS%% (load_module, pid, error_log, user where root starts it),
# %%GLOBALS_HTTP%% (access_log, temporary paths), %%MODULE%%, %%MODEL%%, %%DIR%%
# (its folder), %%PORT%%, and %%PORT_1%%, %%PORT_2%% ...: free ports that stay
# the same for the object.
#
# Environment: TEST_NGINX_BINARY, HYMT_MODULE, HYMT_MODEL; HYMT_TEST_BACKEND, the
# backend of each hymt_model that names none; with
# TEST_NGINX_USE_VALGRIND NGINX runs under valgrind, all that is waited for may
# take $SLOW times as long, and finish() fails on what valgrind finds.  With
# HYMT_TEST_ASAN NGINX and the module were built or started with sanitizers; what
# those find is in the error log.
#
# A response is what Hymt::Http::parse_response() makes, with `json` (decoded,
# where it is JSON) and `error` (undef, "timeout", what the system said).

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use IO::Select;
use JSON::PP ();
use Test::More ();
use Time::HiRes qw(sleep time);

use Hymt::Http qw(connect_to exchange exchange_many parse_response free_port);
use Hymt::Process;


our $SLOW = $ENV{TEST_NGINX_USE_VALGRIND} ? 20 : $ENV{HYMT_TEST_ASAN} ? 4 : 1;


# Options: conf (text), log_level ("info"), timeout of a request, seconds (20).
sub new {
    my ($class, %o) = @_;

    my $self = bless {
        dir       => tempdir(CLEANUP => 1),
        module    => abs_path($ENV{HYMT_MODULE}
                              || 'build/ngx_http_hymt_module.so'),
        model     => abs_path($ENV{HYMT_MODEL} || 'models/demo'),
        log_level => 'info',
        timeout   => 20,
        ports     => {},
        allowed   => [],
        owner     => $$,
        %o,
    }, $class;

    $self->{timeout} *= $SLOW;

    # workers may be another user's

    chmod 0755, $self->{dir};
    mkdir "$self->{dir}/$_" for qw(logs html);

    $self->write_conf($self->{conf});

    $self->{process} = Hymt::Process->new(
        prefix   => $self->{dir},
        conf     => "$self->{dir}/nginx.conf",
        valgrind => $SLOW > 1
            ? [Hymt::Process::valgrind_command("$self->{dir}/logs")] : [],
    );

    return $self;
}


sub dir  { return $_[0]->{dir} }
sub port { return $_[0]->{ports}{$_[1] || ''} ||= free_port() }


# ---- models ----

# A folder with the built-in model's files and a hymt.json of one's own, for what
# the built-in one does not say it can do.  It goes with the program.
sub own_model {
    my ($json) = @_;

    my $demo = abs_path($ENV{HYMT_MODEL} || 'models/demo');
    my $dir = tempdir(CLEANUP => 1);

    chmod 0755, $dir;
    symlink "$demo/$_", "$dir/$_"
        for qw(config.json generation_config.json model.safetensors
               tokenizer.json tokenizer_config.json chat_template.jinja);

    CORE::open(my $out, '>', "$dir/hymt.json") or die "$dir/hymt.json: $!\n";
    print {$out} $json;
    close $out;

    return $dir;
}


# ---- configuration ----

# Writes a configuration, for start() or reload(); at once, should NGINX be
# reading the one before.
sub write_conf {
    my ($self, $conf) = @_;

    $self->write_file('nginx.conf.new', $self->expand($conf));

    rename "$self->{dir}/nginx.conf.new", "$self->{dir}/nginx.conf"
        or die "nginx.conf: $!\n";
}


# Writes a file into the folder.
sub write_file {
    my ($self, $name, $text) = @_;

    open my $out, '>:raw', "$self->{dir}/$name" or die "$name: $!\n";
    print $out $text;
    close $out or die "$name: $!\n";
}


sub expand {
    my ($self, $text) = @_;

    my $dir = $self->{dir};
    my $user = $> == 0 ? 'user root;' : '';

    my $backend = $ENV{HYMT_TEST_BACKEND};

    $text =~ s/^(\s*hymt_model\s+\w+\s*\{)(?![^}]*\bbackend\s)
              /$1 backend $backend;/gmx if $backend;

    $text =~ s{%%GLOBALS%%}{<<"END"}eg;
load_module $self->{module};
pid $dir/logs/nginx.pid;
error_log $dir/logs/error.log $self->{log_level};
$user
END

    $text =~ s{%%GLOBALS_HTTP%%}{<<"END"}eg;
access_log $dir/logs/access.log;
client_body_temp_path $dir/client_body_temp;
proxy_temp_path $dir/proxy_temp;
fastcgi_temp_path $dir/fastcgi_temp;
uwsgi_temp_path $dir/uwsgi_temp;
scgi_temp_path $dir/scgi_temp;
END

    $text =~ s/%%MODULE%%/$self->{module}/g;
    $text =~ s/%%MODEL%%/$self->{model}/g;
    $text =~ s/%%DIR%%/$dir/g;
    $text =~ s/%%PORT(?:_(\d+))?%%/$self->port($1)/eg;

    return $text;
}


# Asks NGINX what it thinks of a configuration ("nginx -t"): the exit code and
# what it said.
sub test_conf {
    my ($self, $conf) = @_;

    $self->write_file('test.conf', $self->expand($conf));

    my $process = Hymt::Process->new(
        prefix    => $self->{dir},
        conf      => "$self->{dir}/test.conf",
        error_log => "$self->{dir}/logs/test.log",
        args      => ['-t'],
    );

    $process->run($process->command());

    return ($process->exit_code(), $process->output());
}


# ---- life ----

# Starts it; dies with what NGINX said where it does not start.
sub start {
    my ($self) = @_;

    if (!$self->{process}->start()) {
        die "NGINX did not start: " . $self->{process}->output()
            . $self->log();
    }

    return $self;
}


# Stops it with a signal (QUIT) within `limit` (10) seconds: what it took, and
# undef where it needed more than that signal.
sub stop {
    my ($self, $signal, $limit) = @_;

    return $self->{process}->stop($signal, ($limit || 10) * $SLOW);
}


# Stops it and tests that it went in time and left no alert: two tests, a third
# under valgrind.
sub finish {
    my ($self) = @_;

    $self->{finished} = 1;

    my $running = $self->master();
    my $took = $self->stop();

    Test::More::ok(!$running || defined $took, 'NGINX stops on QUIT');
    Test::More::is(join("\n", $self->alerts()), '', 'no alerts');

    if ($SLOW > 1) {
        my @faults = Hymt::Process::valgrind_faults("$self->{dir}/logs");

        Test::More::is(join("\n", @faults), '', 'valgrind finds nothing');
    }
}


# Lines that no test may leave but those that were allowed.
sub alerts {
    my ($self) = @_;

    my @bad = Hymt::Process::bad_lines($self->log());

    for my $allowed (@{$self->{allowed}}) {
        @bad = grep { !/$allowed/ } @bad;
    }

    return @bad;
}


# Alerts that the test itself brings about, such as qr/exited on signal 9/.
sub allow_alerts {
    my ($self, @patterns) = @_;

    push @{$self->{allowed}}, @patterns;
}


sub DESTROY {
    my ($self) = @_;

    return if $self->{owner} != $$ || $self->{finished};

    local ($@, $!);

    # at the end of the program the process may have gone first, and stopped

    $self->stop() if defined $self->{process};

    my @bad = $self->alerts();

    if (@bad) {
        Test::More::fail("no alerts: " . join("\n", @bad));
        $? ||= 1;
    }
}


# ---- processes ----

sub master { return $_[0]->{process}->master() }


sub signal {
    my ($self, $signal, @pids) = @_;

    @pids = ($self->master()) if !@pids;

    # 0 is the test itself and who runs it
    die "no process to send $signal to\n" if grep { !$_ || $_ <= 0 } @pids;

    return kill($signal, @pids);
}


# The master's children: { pid, title } in order of their pids.
sub children {
    my ($self) = @_;

    my $master = $self->master();
    my @children;

    opendir my $proc, '/proc' or die "/proc: $!\n";

    for my $pid (sort { $a <=> $b } grep { /^\d+$/ } readdir $proc) {
        my $stat = Hymt::Process::slurp("/proc/$pid/stat");

        next if $stat !~ /^\d+ \(.*\) (\S) (\d+) /s;
        next if $1 eq 'Z' || $2 != $master;

        my $title = Hymt::Process::slurp("/proc/$pid/cmdline");
        $title =~ s/\0+\z//;
        $title =~ tr/\0/ /;

        push @children, { pid => $pid, title => $title };
    }

    return @children;
}


# Pids of workers that serve; those of workers on their way out.
sub workers {
    my ($self) = @_;

    return map { $_->{pid} }
           grep { $_->{title} =~ /worker process$/ } $self->children();
}

sub leaving {
    my ($self) = @_;

    return map { $_->{pid} }
           grep { $_->{title} =~ /worker process is shutting down/ }
           $self->children();
}


# How many threads of a process have a name that matches (all, without one).
sub threads {
    my ($self, $pid, $name) = @_;

    my @names = map { Hymt::Process::slurp($_) } glob "/proc/$pid/task/*/comm";

    return scalar grep { !defined $name || /$name/ } @names;
}


# HUP, and waits until workers of a new generation serve.  False: they did not
# come in `limit` seconds (10); the log says why.
sub reload {
    my ($self, $limit) = @_;

    my %old = map { $_ => 1 } $self->workers();

    $self->signal('HUP');

    return $self->wait_until($limit || 10, sub {
        my @workers = $self->workers();

        return @workers && !grep { $old{$_} } @workers;
    });
}


# HUP where there is not memory for two engines: waits until the new one says that
# it waits, and until no workers but its own accept.  Where the log was.
sub reload_short {
    my ($self) = @_;

    my $old = $self->host();
    my $from = $self->log_size();

    $self->signal('HUP');
    Test::More::ok(
        $self->wait_log(qr/waits for the memory of the engine before it/, 20,
                        $from), 'the new engine waits');

    # those before may accept until they have been told to leave

    Test::More::ok($self->wait_until(10, sub {
        my $told = () = substr($self->log(), $from)
                        =~ /gracefully shutting down/g;

        return $told == 2 && $self->host() != $old;
    }), 'its workers serve');

    return $from;
}


# ---- engines, as /status has them ----

# The pid of the worker that they are in; the first one's state.
sub host  { return $_[0]->get('/status')->{json}{engine_worker}{pid} }
sub model { return $_[0]->get('/status')->{json}{models}[0] }


# ---- waiting ----

# Calls code until it is true; what it gave, or a false value after `limit`
# seconds.
sub wait_until {
    my ($self, $limit, $code) = @_;

    my $began = time();
    my $end = $began + $limit * $SLOW;
    my $busy;

    for (;;) {
        my $value = $code->();

        return $value if $value;

        if (time() > $end) {
            return $value if $busy++;

            $end = $began + $limit * $SLOW * Hymt::Process::slowness();
        }

        sleep(0.02);
    }
}


# Waits for a line of the error log after byte `from`; true where it came.
sub wait_log {
    my ($self, $pattern, $limit, $from) = @_;

    return $self->wait_until($limit || 10, sub {
        return substr($self->log(), $from || 0) =~ $pattern;
    });
}


# Waits until GET of a status page has "state": "ready" in it.
sub wait_ready {
    my ($self, $uri, $limit) = @_;

    return $self->wait_until($limit || 30, sub {
        return $self->get($uri)->{body} =~ /"state":\s*"ready"/;
    });
}


# ---- logs ----

sub log        { return Hymt::Process::slurp("$_[0]->{dir}/logs/error.log") }
sub access_log { return Hymt::Process::slurp("$_[0]->{dir}/logs/access.log") }
sub log_size   { return length $_[0]->log() }


# Lines of the error log that match.
sub grep_log {
    my ($self, $pattern) = @_;

    return grep { /$pattern/ } split /\n/, $self->log();
}


# ---- requests ----

# The bytes of a request; `headers` are lines without end.
sub http {
    my ($self, $method, $uri, $body, @headers) = @_;

    my $head = "$method $uri HTTP/1.1\r\nHost: localhost\r\n"
               . "Connection: close\r\n";

    $head .= "$_\r\n" for @headers;

    if (defined $body) {
        utf8::encode($body) if utf8::is_utf8($body);
        $head .= 'Content-Length: ' . length($body) . "\r\n"
            if !grep { /^(?:Content-Length|Transfer-Encoding):/i } @headers;
    }

    return "$head\r\n" . (defined $body ? $body : '');
}


# The bytes of a POST of JSON; data is encoded unless it is text already.
sub http_json {
    my ($self, $uri, $data, @headers) = @_;

    $data = JSON::PP->new->utf8->canonical->encode($data) if ref $data;

    return $self->http('POST', $uri, $data, 'Content-Type: application/json',
                       @headers);
}


sub get {
    my ($self, $uri, @headers) = @_;

    return $self->send($self->http('GET', $uri, undef, @headers));
}


sub post {
    my ($self, $uri, $body, @headers) = @_;

    return $self->send($self->http('POST', $uri, $body, @headers));
}


sub json {
    my ($self, $uri, $data, @headers) = @_;

    return $self->send($self->http_json($uri, $data, @headers));
}


# Sends raw bytes, or packets [{ value, delay_before }, ...], on a connection of
# its own.
sub send {
    my ($self, $raw, %o) = @_;

    my $packets = ref $raw ? $raw : [{ value => $raw }];

    my $result = exchange(
        addr    => '127.0.0.1',
        port    => $self->port(),
        packets => $packets,
        timeout => $self->{timeout},
        %o,
    );

    return response($result, $packets->[0]{value} =~ /^HEAD /);
}


# Sends many requests (raw bytes) at the same time; responses in their order,
# each with `took` in seconds.
sub send_many {
    my ($self, $requests, %o) = @_;

    my $results = exchange_many(
        addr    => '127.0.0.1',
        port    => $self->port(),
        timeout => $self->{timeout},
        %o,
        requests => $requests,
    );

    return map { response($_, 0) } @$results;
}


# A connection on which raw bytes, if any, have been sent; the caller reads
# (read_response) or closes it, be it in the middle.
sub open {
    my ($self, $raw) = @_;

    my $sock = connect_to('127.0.0.1', $self->port());

    $self->write($sock, $raw) if defined $raw;

    return $sock;
}


# A client that is slow: a worker has all of a request but for its end.  The
# connection, and the end.
sub open_slow {
    my ($self, $request) = @_;

    my $sock = $self->open(substr($request, 0, -5));

    Test::More::ok($self->wait_until(10, sub {
        grep { $_ } @{$self->get('/status')->{json}{buffers}{used}}
    }), 'a client is slow');

    return ($sock, substr($request, -5));
}


sub write {
    my ($self, $sock, $raw) = @_;

    local $SIG{PIPE} = 'IGNORE';

    $sock->blocking(1);
    my $ok = print {$sock} $raw;
    $sock->blocking(0);

    return $ok;
}


# Reads until the server closes.
sub read_response {
    my ($self, $sock, $limit) = @_;

    my $set = IO::Select->new($sock);
    my $end = time() + ($limit || $self->{timeout});
    my ($data, $error) = ('', undef);

    for (;;) {
        my $wait = $end - time();

        if ($wait <= 0 || !$set->can_read($wait)) {
            $error = 'timeout';
            last;
        }

        my $n = sysread($sock, $data, 65536, length $data);

        next if !defined $n && Hymt::Http::again();

        $error = "$!" if !defined $n;
        last if !$n;
    }

    return response({ data => $data, error => $error }, 0);
}


sub response {
    my ($result, $is_head) = @_;

    my $res = parse_response($result->{data}, $is_head);

    $res->{error} = $result->{error} if defined $result->{error};
    $res->{took} = $result->{took};

    my $type = Hymt::Http::header($res, 'Content-Type') || '';

    if ($type =~ m{^application/json\b}) {
        $res->{json} = eval { JSON::PP->new->utf8->decode($res->{body}) };
    }

    return $res;
}


1;
