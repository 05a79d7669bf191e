package Test::Nginx::Socket;

# A runner for declarative NGINX tests in the form of Test::Nginx: each block
# below __DATA__ gives a configuration, a request and what must come of it.
#
#   use Test::Nginx::Socket 'no_plan';
#
#   run_tests();
#
#   __DATA__
#
#   === TEST 1: a fixed answer
#   --- config
#       location = /t { return 200 "hello\n"; }
#   --- request
#   GET /t
#   --- response_body
#   hello
#
# Sections understood: config, http_config, main_config, post_main_config,
# user_files, init, log_level, server_name, timeout, abort, shutdown, wait,
# request, raw_request, raw_request_middle_delay, pipelined_requests,
# more_headers, server_addr_for_client, http09, must_die, suppress_stderr,
# skip_nginx, skip_eval, todo, ignore_response, and those of
# Test::Nginx::Checks.  They mean what they mean to Test::Nginx itself, so the
# same files run under either.  Left out: HTTP/2 and 3, reloads between blocks
# (TEST_NGINX_USE_HUP), leak checks, helper servers.
#
# Environment: TEST_NGINX_BINARY, _LOAD_MODULES, _SERVROOT, _PORT, _TIMEOUT,
# _LOG_LEVEL, _MASTER_PROCESS, _NO_SHUFFLE, _VERBOSE, _USE_VALGRIND;
# $TEST_NGINX_ANYTHING is put in where a section names it.  Beyond Test::Nginx:
# HYMT_TEST_ALERTS=1 fails a block that leaves an [alert] or [emerg] line, or
# what a sanitizer says, in the error log, until its NGINX has gone.  Under
# valgrind a model takes a minute to load, longer than requests wait: where a
# configuration has a hymt_model, the first request waits for it.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);
use List::Util qw(shuffle);
use Test::Base ();
use Test::More ();
use Time::HiRes qw(sleep time);

use Hymt::Http qw(exchange parse_response free_port);
use Hymt::Process;
use Test::Nginx::Checks;
use Test::Nginx::Request;

our @FUNCTIONS = qw(
    run_tests repeat_each no_shuffle no_long_string no_root_location
    master_on master_off master_process_enabled workers worker_connections
    log_level timeout env_to_nginx server_root html_dir server_port
    server_port_for_client server_addr server_name add_block_preprocessor
    add_response_body_check add_cleanup_handler add_test_cleanup_handler
    bail_out use_hup check_accum_error_log is_str config_preamble
    server_port_for_client no_nginx_manager
);

my %opt = (
    repeat      => 1,
    shuffle     => !$ENV{TEST_NGINX_NO_SHUFFLE},
    root        => 1,
    master      => ($ENV{TEST_NGINX_MASTER_PROCESS} || 'off'),
    workers     => 1,
    connections => 64,
    log_level   => $ENV{TEST_NGINX_LOG_LEVEL} || 'debug',
    timeout     => parse_time($ENV{TEST_NGINX_TIMEOUT}) || 3,
    port        => $ENV{TEST_NGINX_SERVER_PORT} || $ENV{TEST_NGINX_PORT}
                   || 1984,
    addr        => '127.0.0.1',
    name        => 'localhost',
    preamble    => '',
    accum       => 0,
);

my $valgrind = $ENV{TEST_NGINX_USE_VALGRIND};
my $alerts = $ENV{HYMT_TEST_ALERTS};
my $client_port = $ENV{TEST_NGINX_CLIENT_PORT} || $opt{port};

my $servroot = $ENV{TEST_NGINX_SERVROOT} || 't/servroot';
my @env;
my @preprocessors;
my @cleanups;
my @test_cleanups;

my $nginx;              # Hymt::Process, of the current configuration
my $nginx_block;        # the block that started it
my %rand_port;


sub import {
    my ($class, @args) = @_;

    my $caller = caller;

    no strict 'refs';
    *{"${caller}::$_"} = \&$_ for @FUNCTIONS;

    Test::Base->import(-package => $caller, @args);
}


# ---- what a test file may say before run_tests() ----

sub repeat_each {
    return $opt{repeat} if !@_;
    $opt{repeat} = $_[0];
}

sub no_shuffle             { $opt{shuffle} = 0 }
sub no_long_string         { Test::Nginx::Checks::no_long_string() }
sub no_root_location       { $opt{root} = 0 }
sub no_nginx_manager       { bail_out("no_nginx_manager is not supported") }
sub master_on              { $opt{master} = 'on' }
sub master_off             { $opt{master} = 'off' }
sub workers                { $opt{workers} = $_[0] }
sub worker_connections     { $opt{connections} = $_[0] }
sub env_to_nginx           { push @env, @_ }
sub config_preamble        { $opt{preamble} = $_[0] }
sub check_accum_error_log  { $opt{accum} = 1 }
sub add_block_preprocessor(&) { unshift @preprocessors, $_[0] }
sub add_response_body_check { Test::Nginx::Checks::add_body_check($_[0]) }
sub add_cleanup_handler    { push @cleanups, $_[0] }
sub add_test_cleanup_handler { push @test_cleanups, $_[0] }
sub server_root            { return $servroot }
sub html_dir               { return "$servroot/html" }
sub use_hup                { return 0 }
sub is_str                 { goto &Test::Nginx::Checks::is_str }

sub master_process_enabled {
    return $opt{master} eq 'on' if !@_;
    $opt{master} = $_[0] ? 'on' : 'off';
}

sub log_level {
    return $opt{log_level} if !@_;
    $opt{log_level} = $_[0];
}

sub timeout {
    return $opt{timeout} if !@_;
    $opt{timeout} = parse_time($_[0]);
}

sub server_port {
    return $opt{port} if !@_;
    $client_port = $_[0] if $client_port == $opt{port};
    $opt{port} = $_[0];
}

sub server_port_for_client {
    return $client_port if !@_;
    $client_port = $_[0];
}

sub server_addr {
    return $opt{addr} if !@_;
    $opt{addr} = $_[0];
}

sub server_name {
    return $opt{name} if !@_;
    $opt{name} = $_[0];
}

sub bail_out {
    Test::More->builder->BAIL_OUT(join '', @_);
}


# ---- the run ----

sub run_tests {
    make_path($servroot);
    $servroot = abs_path($servroot);

    $ENV{TEST_NGINX_SERVER_ROOT} = $servroot;
    $ENV{TEST_NGINX_HTML_DIR} = html_dir();
    $ENV{TEST_NGINX_SERVER_PORT} = $opt{port};
    $ENV{TEST_NGINX_CLIENT_PORT} = $client_port;
    $ENV{TEST_NGINX_PORT} = $opt{port};

    my @blocks = Test::Base::blocks();

    for my $block ($opt{shuffle} ? shuffle(@blocks) : @blocks) {
        $_->($block) for @preprocessors;

        $block->set_value(name => "$0 " . $block->name);

        run_block($block);

        $_->() for splice @test_cleanups;
    }

    stop_nginx();

    $_->() for @cleanups;
}


sub run_block {
    my ($block) = @_;

    my $name = $block->name;
    my $builder = Test::More->builder;

    my ($skip, $why) = skipped($block);

    if ($skip) {
        $builder->skip("$name - $why") for 1 .. $skip * $opt{repeat};
        return;
    }

    my $todo = $block->todo;

    $builder->todo_start($todo =~ /^\s*\d+\s*:\s*(.*)/s ? $1 : $todo)
        if defined $todo;

    if (prepare($block)) {
        for my $i (0 .. $opt{repeat} - 1) {
            run_requests($block, $i);
        }
    }

    $builder->todo_end() if defined $todo;
}


# How many tests of the block to skip, and why.
sub skipped {
    my ($block) = @_;

    my $spec = $block->skip_eval;

    if (defined $spec) {
        $spec =~ /^\s*(\d+)\s*:\s*(.*)/s
            or bail_out($block->name . " - bad skip_eval: $spec");

        my ($n, $code) = ($1, $2);
        my $skip = eval "package main; $code";
        bail_out($block->name . " - skip_eval: $@") if $@;

        return ($n, 'skip_eval') if $skip;
    }

    $spec = $block->skip_nginx;

    if (defined $spec) {
        $spec =~ /^\s*(\d+)\s*:\s*([<>]=?)\s*(\d+)\.(\d+)\.(\d+)
                  (?:\s*:\s*(.*?))?\s*$/x
            or bail_out($block->name . " - bad skip_nginx: $spec");

        my ($n, $op, $want, $why) = ($1, $2, $3 * 1e6 + $4 * 1e3 + $5, $6);
        my $have = nginx_version();

        my %holds = ('<' => $have < $want, '<=' => $have <= $want,
                     '>' => $have > $want, '>=' => $have >= $want);

        return ($n, $why || "nginx version $op $3.$4.$5") if $holds{$op};
    }

    return (0, undef);
}


sub nginx_version {
    my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';
    my $out = `$binary -v 2>&1`;

    return $out =~ m{/(\d+)\.(\d+)\.(\d+)} ? $1 * 1e6 + $2 * 1e3 + $3 : 0;
}


# Starts NGINX with the block's configuration; without one the last one goes on.
# False: there is nothing to ask of it.
sub prepare {
    my ($block) = @_;

    my $name = $block->name;

    if (!defined $block->config) {
        bail_out("$name - no config section, and none before") if !$nginx;
        return 1;
    }

    stop_nginx();

    %rand_port = ();

    my $config = text($block, 'config');

    set_up_root($block);

    my $init = $block->init;

    if (defined $init) {
        eval $init;
        bail_out("$name - init: $@") if $@;
    }

    my $under_valgrind = $valgrind && !defined $block->must_die;

    write_config($block, $config, $under_valgrind);

    $nginx_block = $block;
    $nginx = Hymt::Process->new(
        prefix     => $servroot,
        conf       => "$servroot/conf/nginx.conf",
        once       => defined $block->must_die,
        foreground => $under_valgrind,
        valgrind   => $under_valgrind
                      ? [Hymt::Process::valgrind_command("$servroot/logs")]
                      : [],
    );

    my $started = $nginx->start();

    Test::Nginx::Checks::log_reset();

    if (defined $block->must_die) {
        must_die($block, $started);
        return 0;
    }

    if (!$started) {
        Test::More::diag($nginx->output());
        Test::More::diag(Hymt::Process::slurp("$servroot/logs/error.log"))
            if $nginx->output() eq '';
        bail_out("$name - NGINX did not start");
    }

    wait_models($block) if $under_valgrind;

    Test::More::diag($nginx->output())
        if $nginx->output() ne '' && !defined $block->suppress_stderr
           && $ENV{TEST_NGINX_VERBOSE};

    return 1;
}


sub wait_models {
    my ($block) = @_;

    my $conf = Hymt::Process::slurp("$servroot/conf/nginx.conf");
    my $models = () = $conf =~ /^\s*hymt_model\s/mg;
    my $end = time() + 300;

    while (time() < $end) {
        my $log = Hymt::Process::slurp("$servroot/logs/error.log");
        my $told = () = $log =~ /hymt "[^"]*": ready|\[error\].* hymt "/g;

        last if $told >= $models;
        sleep(0.2);
    }
}


# A configuration that NGINX must refuse, with an exit code where one is given.
sub must_die {
    my ($block, $started) = @_;

    my $name = $block->name;
    my $want = $block->must_die;
    my $code = $nginx->exit_code();

    for my $i (0 .. $opt{repeat} - 1) {

        if (defined $want && $want =~ /^\s*(\d+)\s*$/) {
            Test::More::is($code, $1,
                           "$name - die with the expected exit code");

        } else {
            Test::More::ok(!$started && $code != 0, "$name - NGINX must die");
        }

        Test::Nginx::Checks::check_error_log($block, $i);
    }

    undef $nginx_block;
}


# Stops the running NGINX and looks at what its log holds by then.
sub stop_nginx {
    return if !$nginx;

    my $block = $nginx_block;
    my $took = $nginx->stop('QUIT', $valgrind ? 60 : 10);

    undef $nginx;
    undef $nginx_block;

    return if !$block;

    my $name = $block->name;

    report("$name - NGINX did not stop on QUIT") if !defined $took;

    Test::Nginx::Checks::check_shutdown_error_log($block);

    if ($alerts && !Test::Nginx::Checks::expects_alert($block)) {
        my $log = Hymt::Process::slurp("$servroot/logs/error.log");

        report("$name - error.log: $_") for Hymt::Process::bad_lines($log);
    }

    report("$name - valgrind:\n$_")
        for Hymt::Process::valgrind_faults("$servroot/logs");
}


# A fault that is not among the tests planned: one more test, which fails.
sub report {
    my ($text) = @_;

    Test::More::fail($text);
}


# ---- files ----

sub set_up_root {
    my ($block) = @_;

    remove_tree($servroot, { keep_root => 1 });
    mkdir "$servroot/$_" for qw(logs conf html);

    write_file("$servroot/html/index.html", "<html><head><title>It works!"
               . "</title></head><body>It works!</body></html>\n");

    my $files = expand($block, scalar $block->user_files);

    return if !defined $files;

    if (ref $files) {
        write_file("$servroot/html/$_->[0]", $_->[1]) for @$files;
        return;
    }

    my @parts = split /^>>>[ \t]*(\S+)[ \t]*([^\n]*)\n/m, $files;
    shift @parts;

    while (my ($path, $date, $text) = splice @parts, 0, 3) {
        $path = "$servroot/html/$path" if $path !~ m{^/};
        write_file($path, defined $text ? $text : '');

        if ($date =~ /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d\d))?$/) {
            system('touch', '-t', $date, $path);
        }
    }
}


sub write_file {
    my ($path, $text) = @_;

    make_path($path =~ m{^(.*)/});

    open my $out, '>', $path or bail_out("$path: $!");
    binmode $out;
    utf8::encode($text) if utf8::is_utf8($text);
    print $out $text;
    close $out or bail_out("$path: $!");
}


sub write_config {
    my ($block, $config, $under_valgrind) = @_;

    my $main = text($block, 'main_config');
    my $http = text($block, 'http_config');
    my $post = text($block, 'post_main_config');
    my $level = $block->log_level || $opt{log_level};
    my $name = $block->server_name || $opt{name};
    my $modules = join ' ', map { "load_module $_;" }
                            split ' ', $ENV{TEST_NGINX_LOAD_MODULES} || '';
    my $daemon = $under_valgrind ? 'off' : 'on';
    my $user = $> == 0 ? 'user root;' : '';
    my $env = join '', map { /\s/ ? "env '$_';\n" : "env $_;\n" } @env;

    my $temp = '';

    for my $kind (qw(client_body proxy fastcgi scgi uwsgi)) {
        $temp .= "    ${kind}_temp_path $servroot/${kind}_temp;\n"
            if $http !~ /\b${kind}_temp_path\b/;
    }

    my $root = !$opt{root} ? '' : <<END;
        location / {
            root $servroot/html;
            index index.html index.htm;
        }
END

    write_file("$servroot/conf/nginx.conf", <<END);
worker_processes $opt{workers};
daemon $daemon;
master_process $opt{master};
error_log $servroot/logs/error.log $level;
pid $servroot/logs/nginx.pid;
env LD_PRELOAD;
env LD_LIBRARY_PATH;
env ASAN_OPTIONS;
env UBSAN_OPTIONS;
$env
$user
$modules $main

http {
    access_log $servroot/logs/access.log;
$temp
    default_type text/plain;
    keepalive_timeout 68000ms;

$http

    server {
        listen $opt{port};
        server_name '$name';
        client_max_body_size 30M;

$opt{preamble}
$config
$root
    }
}

$post

events {
    accept_mutex off;
    worker_connections $opt{connections};
}
END
}


sub text {
    my ($block, $section) = @_;

    my $value = expand($block, scalar $block->$section);

    return defined $value ? $value : '';
}


# Puts the environment's TEST_NGINX_* in; those named _RAND_PORT_n are free
# ports, the same within a block.
sub expand {
    my ($block, $value) = @_;

    return $value if !defined $value || ref $value eq 'Regexp';
    return [map { expand($block, $_) } @$value] if ref $value eq 'ARRAY';
    return $value if ref $value;

    $value =~ s{\$(TEST_NGINX_[_A-Z0-9]+)}{
        my $var = $1;

        if ($var =~ /_RAND_PORT_\d+$/) {
            $rand_port{$var} ||= free_port();

        } else {
            defined $ENV{$var}
                or bail_out($block->name . " - \$$var is not set");
            $ENV{$var};
        }
    }gex;

    return $value;
}


# Seconds, or with a unit: "3", "3s", "300ms".
sub parse_time {
    my ($value) = @_;

    return undef if !defined $value;

    return $1 / 1000 if $value =~ /^\s*([\d.]+)\s*ms\s*$/;
    return $1 + 0 if $value =~ /^\s*([\d.]+)\s*s?\s*$/;

    bail_out("bad time: $value");
}


# ---- requests ----

sub run_requests {
    my ($block, $repeat) = @_;

    my $name = $block->name;
    my @requests = Test::Nginx::Request::requests($block, $opt{name});
    my $pipelined = $block->pipelined_requests;
    my $n = $pipelined ? @$pipelined : @requests;
    my $timeout = parse_time(scalar $block->timeout);
    my $index = 0;

    for my $request (@requests) {
        my $sent = join '', map { $_->{value} } @$request;
        my $answer = send_request($block, $request,
                                  defined $timeout ? $timeout : $opt{timeout});

        for my $left (reverse 1 .. ($pipelined ? $n : 1)) {
            my $res;

            if (!defined $block->ignore_response) {
                $res = take_response($block, $answer, $sent =~ /^\s*HEAD\s/);

                warn "# $name - bytes after the response: $res->{left}\n"
                    if $res->{left} ne '' && $left == 1;

                $answer = $res->{left};

                Test::Nginx::Checks::check_response($block, $res, $index,
                                                    $n > 1, $repeat);
            }

            sleep($block->wait) if $block->wait;

            Test::Nginx::Checks::check_error_log($block, $repeat);
            Test::Nginx::Checks::check_access_log($block, $repeat)
                if !defined $block->ignore_response;

            $index++;
        }
    }
}


sub send_request {
    my ($block, $packets, $timeout) = @_;

    my $name = $block->name;
    my $shutdown = $block->shutdown;

    $shutdown = 1 if defined $shutdown && $shutdown !~ /\S/;

    Test::Nginx::Checks::log_mark() if !$opt{accum};

    my $result = exchange(
        addr     => $block->server_addr_for_client || $opt{addr},
        port     => $client_port,
        packets  => $packets,
        timeout  => $valgrind ? $timeout * 10 : $timeout,
        shutdown => $shutdown,
    );

    my $error = $result->{error};

    if (defined $error && $error eq 'timeout') {
        report("ERROR: client socket timed out - $name\n")
            if !defined $block->abort;

    } elsif (defined $error && $error =~ /^cannot connect/) {
        report("$name - $error");

    } elsif (defined $error) {
        warn "# $name - $error\n";
    }

    return $result->{data};
}


sub take_response {
    my ($block, $raw, $is_head) = @_;

    my $name = $block->name;

    warn "# response: [$raw]\n" if $ENV{TEST_NGINX_VERBOSE};

    if (defined $block->http09) {
        return { status => 200, head => '', headers => [], body => $raw,
                 left => '' };
    }

    my $res = parse_response($raw, $is_head);

    report("$name - bad response: $res->{error}: [$raw]")
        if $res->{error} && !defined $block->abort;

    warn "# $name - the response is truncated\n" if $res->{truncated};

    return $res;
}


1;
