package Test::Nginx::Checks;

# What a block of a declarative test may expect, and how it is judged.
#
#   error_code, error_code_like            the status; 200 if neither is there
#   response_body, _like, _unlike          text, pattern
#   response_body_filters, response_body_json_sort, charset
#   response_headers                       "Name: value"; "!Name": not there
#   response_headers_like                  "Name: pattern of the whole value"
#   raw_response_headers_like, _unlike     pattern
#   error_log, no_error_log                a line each: text, or patterns (eval)
#   grep_error_log, grep_error_log_out     the matching parts, one a line
#   access_log, no_access_log              as error_log
#   shutdown_error_log, no_shutdown_error_log   once NGINX has gone
#
# With several requests in a block each expectation of a response is an array.
# Logs are searched from where they stood when the request was sent.

use strict;
use warnings;

use Digest::MD5 ();
use Digest::SHA ();
use Encode ();
use JSON::PP ();
use Test::More;
use Time::HiRes qw(sleep time);

use Hymt::Http qw(header);
use Hymt::Process;


use constant LOG_WAIT => 2;     # seconds a line may be late

my %log_pos;
my @body_checks;
my $plain_diff;


sub no_long_string { $plain_diff = 1 }
sub add_body_check { push @body_checks, $_[0] }


# ---- responses ----

sub check_response {
    my ($block, $res, $index, $several, $repeat) = @_;

    my $pick = sub {
        my ($section) = @_;

        my $value = $block->$section;

        return $value if !defined $value;

        if (ref $value eq 'ARRAY') {
            return $value->[$index];
        }

        Test::More->builder->BAIL_OUT($block->name . " - $section must be an"
            . " array: there are several requests") if $several;

        return $value;
    };

    my $name = $block->name;
    my $where = "(repeated req $repeat, req $index)";

    check_status($name, $res, $pick);
    check_raw_headers($name, $res, $pick);
    check_headers($name, $res, $pick);
    filter_body($block, $res, $index);
    check_body($block, $name, $res, $pick, $where);

    $_->($block, $res->{body}, $index, $repeat, 0) for @body_checks;
}


sub check_status {
    my ($name, $res, $pick) = @_;

    my $like = $pick->('error_code_like');

    if (defined $like) {
        like($res->{status}, qr/$like/sm, "$name - status code ok");
        return;
    }

    my $want = $pick->('error_code');
    $want = 200 if !defined $want;
    $want =~ s/\A\s+|\s+\z//g;

    my $ok = is($res->{status}, $want, "$name - status code ok");

    diag("the answer: $res->{body}") if !$ok && $res->{body} ne '';
}


sub check_raw_headers {
    my ($name, $res, $pick) = @_;

    my $like = $pick->('raw_response_headers_like');
    my $unlike = $pick->('raw_response_headers_unlike');

    if (defined $like) {
        like($res->{head}, qr/$like/s, "$name - raw response headers like");
    }

    if (defined $unlike) {
        unlike($res->{head}, qr/$unlike/s,
               "$name - raw response headers unlike");
    }
}


sub check_headers {
    my ($name, $res, $pick) = @_;

    my $exact = $pick->('response_headers');
    my $like = defined $exact ? undef : $pick->('response_headers_like');

    for (split /\n+/, defined $exact ? $exact : defined $like ? $like : '') {
        next if !/\S/;

        if (/^\s*!\s*(\S+)\s*$/) {
            unlike($res->{head}, qr/^\s*\Q$1\E\s*:/mi,
                   "$name - header $1 not present in the raw headers");
            next;
        }

        my ($key, $want) = /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/
            or Test::More->builder->BAIL_OUT("$name - bad header line: $_");

        my $got = header($res, $key);
        $got = '' if !defined $got;

        if (defined $exact) {
            $want =~ s/\$ServerPort(?:ForClient)?\b/$ENV{TEST_NGINX_PORT}/g;
            is($got, $want, "$name - header $key ok");

        } else {
            like($got, qr/^$want$/, "$name - header $key like ok");
        }
    }
}


# Filters apply to every response of the block, or, as a list of lists, each
# list to its own.
sub filter_body {
    my ($block, $res, $index) = @_;

    my $filters = $block->response_body_filters;

    return if !defined $filters;

    $filters = ref $filters ? [$filters] : [split ' ', $filters]
        if ref $filters ne 'ARRAY';

    $filters = $filters->[$index] if ref $filters->[0] eq 'ARRAY';

    for my $filter (@$filters) {
        my $f = ref $filter ? $filter : body_filter($filter)
            or Test::More->builder->BAIL_OUT($block->name
                . " - unknown response_body filter \"$filter\"");

        $res->{body} = $f->($res->{body});
    }
}


sub body_filter {
    my ($name) = @_;

    return {
        md5_hex  => \&Digest::MD5::md5_hex,
        sha1_hex => \&Digest::SHA::sha1_hex,
        uc       => sub { uc $_[0] },
        lc       => sub { lc $_[0] },
        ucfirst  => sub { ucfirst $_[0] },
        lcfirst  => sub { lcfirst $_[0] },
        length   => sub { length $_[0] },
    }->{$name};
}


sub check_body {
    my ($block, $name, $res, $pick, $where) = @_;

    my $want = $pick->('response_body');
    my $got = $res->{body};

    if (defined $want) {
        $want = Test::Nginx::Socket::expand($block, $want);

        if (defined $block->response_body_json_sort) {
            my $json = JSON::PP->new->canonical->loose->allow_nonref;
            my $sorted = eval { $json->encode($json->decode($got)) };

            $got = "$sorted\n" if defined $sorted;
        }

        Encode::from_to($want, 'UTF-8', $block->charset)
            if defined $block->charset;

        if (ref $want) {
            like($got, $want, "$name - response_body - like $where");

        } else {
            $want =~ s/\$ServerPort(?:ForClient)?\b/$ENV{TEST_NGINX_PORT}/g;
            is_text($got, $want,
                    "$name - response_body - response is expected $where");
        }

        return;
    }

    my $like = $pick->('response_body_like');
    my $unlike = $pick->('response_body_unlike');

    if (defined $like) {
        like($got, qr/$like/s,
             "$name - response_body_like - response is expected $where");

    } elsif (defined $unlike) {
        unlike($got, qr/$unlike/s,
               "$name - response_body_unlike - response is expected $where");
    }
}


# Equal texts; a difference is shown from where it begins.
sub is_text {
    my ($got, $want, $name) = @_;

    return is($got, $want, $name)
        if $plain_diff || $got eq $want
           || length($got) < 200 && length($want) < 200;

    my $at = 0;
    $at++ while substr($got, $at, 1) eq substr($want, $at, 1);

    fail($name);
    diag(sprintf("got %d bytes, want %d; they differ from byte %d on:\n"
                 . "got:  \"%s\"\nwant: \"%s\"", length $got, length $want,
                 $at, show(substr($got, $at, 160)),
                 show(substr($want, $at, 160))));

    return 0;
}


sub show {
    my ($text) = @_;

    $text =~ s/([\0-\037\177-\377])/sprintf '\\x%02x', ord $1/eg;

    return $text;
}


sub is_str {
    my ($got, $want, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return ref $want ? like($got, $want, $name) : is_text($got, $want, $name);
}


# ---- logs ----

sub log_file {
    my ($which) = @_;

    return "$ENV{TEST_NGINX_SERVER_ROOT}/logs/$which.log";
}


sub log_reset {
    %log_pos = ();
}


sub log_mark {
    $log_pos{$_} = -s log_file($_) || 0 for qw(error access);
}


sub log_lines {
    my ($which) = @_;

    my $text = Hymt::Process::slurp(log_file($which));
    my $pos = $log_pos{$which} || 0;

    return split /^/, $pos < length $text ? substr($text, $pos) : '';
}


# The patterns of a section: lines of text, one regex, or a list of both.
sub patterns {
    my ($block, $section) = @_;

    my $value = $block->$section;

    return () if !defined $value;
    return grep { defined } @$value if ref $value eq 'ARRAY';
    return ($value) if ref $value;

    return grep { /\S/ } split /\n+/, $value;
}


sub matches {
    my ($line, $pattern) = @_;

    return ref $pattern ? $line =~ /$pattern/ : index($line, $pattern) >= 0;
}


# Whether alerts or emergencies are what the block is about.
sub expects_alert {
    my ($block) = @_;

    return defined $block->must_die
           || speaks_of_alerts($block, qw(error_log shutdown_error_log
                                          grep_error_log));
}


sub speaks_of_alerts {
    my ($block, @sections) = @_;

    return scalar grep { /\[(?:alert|emerg|crit)/ }
                  map { patterns($block, $_) } @sections;
}


sub check_error_log {
    my ($block, $repeat) = @_;

    my $name = $block->name;

    check_grep($block, $repeat);
    check_present($name, 'error', 'error_log', $repeat,
                  patterns($block, 'error_log'));
    check_absent($name, 'error', 'no_error_log', $repeat,
                 patterns($block, 'no_error_log'));

    my $quiet = expects_alert($block)
                || speaks_of_alerts($block, 'no_error_log');

    for my $line (log_lines('error')) {
        warn "# $name - $line"
            if $line =~ /\[(?:alert|emerg|crit)\]/ && !$quiet;

        fail("$name - $line") if $line =~ /\bAssertion .*?failed\b/;
    }
}


sub check_access_log {
    my ($block, $repeat) = @_;

    my $name = $block->name;

    check_present($name, 'access', 'access_log', $repeat,
                  patterns($block, 'access_log'));
    check_absent($name, 'access', 'no_access_log', $repeat,
                 patterns($block, 'no_access_log'));
}


sub check_shutdown_error_log {
    my ($block) = @_;

    my $name = $block->name;

    check_present($name, 'error', 'shutdown_error_log', 0,
                  patterns($block, 'shutdown_error_log'));
    check_absent($name, 'error', 'no_shutdown_error_log', 0,
                 patterns($block, 'no_shutdown_error_log'));
}


# Lines may come a moment after the answer: they are waited for.
sub check_present {
    my ($name, $which, $section, $repeat, @patterns) = @_;

    return if !@patterns;

    my $end = time() + LOG_WAIT;
    my @left;

    for (;;) {
        my @lines = log_lines($which);

        @left = grep {
            my $pattern = $_;
            !grep { matches($_, $pattern) } @lines;
        } @patterns;

        last if !@left || time() > $end;
        sleep(0.02);
    }

    my %left = map { $_ => 1 } @left;

    for my $pattern (@patterns) {
        ok(!$left{$pattern}, "$name - $section - pattern \"$pattern\" matches a"
           . " line in $which.log (req $repeat)");
    }
}


sub check_absent {
    my ($name, $which, $section, $repeat, @patterns) = @_;

    return if !@patterns;

    my @lines = log_lines($which);

    for my $pattern (@patterns) {
        my ($bad) = grep { matches($_, $pattern) } @lines;

        ok(!defined $bad, "$name - $section - pattern \"$pattern\" matches no"
           . " line in $which.log (req $repeat)")
            or diag($bad);
    }
}


sub check_grep {
    my ($block, $repeat) = @_;

    my $name = $block->name;
    my $pattern = $block->grep_error_log;
    my $want = $block->grep_error_log_out;

    return if !defined $pattern && !defined $want;

    Test::More->builder->BAIL_OUT("$name - grep_error_log and"
        . " grep_error_log_out go together")
        if !defined $pattern || !defined $want;

    $pattern = $pattern->[$repeat] if ref $pattern eq 'ARRAY';
    $want = $want->[$repeat] if ref $want eq 'ARRAY';
    $want = Test::Nginx::Socket::expand($block, $want);

    $pattern =~ s/\s+\z// if !ref $pattern;
    my $re = ref $pattern ? $pattern : qr/\Q$pattern\E/;
    my $got = join '', map { /$re/ ? "$&\n" : () } log_lines('error');

    if (ref $want) {
        like($got, $want, "$name - grep_error_log_out (req $repeat)");

    } else {
        is($got, $want, "$name - grep_error_log_out (req $repeat)");
    }
}


1;
