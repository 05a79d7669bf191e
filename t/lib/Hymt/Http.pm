package Hymt::Http;

# HTTP/1 over a raw socket, for tests: bytes go out as they are given, in
# packets with delays where wanted, and what comes back is taken apart.

use strict;
use warnings;

use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(sleep time);

use Exporter 'import';
our @EXPORT_OK = qw(connect_to exchange exchange_many parse_response header
                    free_port);


# A connected socket, non-blocking; tries again while a server comes up.  Dies
# after `tries`.
sub connect_to {
    my ($addr, $port, $tries) = @_;

    $tries = 50 if !defined $tries;

    for my $try (1 .. $tries) {
        my $sock = IO::Socket::INET->new(
            PeerAddr => $addr,
            PeerPort => $port,
            Proto    => 'tcp',
            Timeout  => 5,
        );

        if ($sock) {
            $sock->autoflush(1);
            $sock->blocking(0);
            return $sock;
        }

        last if $try == $tries;
        sleep($try < 10 ? 0.02 * $try : 0.2);
    }

    die "cannot connect to $addr:$port: $!\n";
}


# Sends packets ([{ value, delay_before }, ...]) over a new connection and reads
# until the server closes it.
#
# Options: addr, port, packets, timeout (of silence, seconds), shutdown (how to
# shutdown() after sending).  Returns { data, error }: error is undef,
# "timeout", or what the system said.
sub exchange {
    my (%o) = @_;

    my @packets = @{$o{packets}};
    my ($out, $in, $error) = ('', '', undef);
    my $sent_all = 0;
    my $resume = 0;

    local $SIG{PIPE} = 'IGNORE';

    my $sock = eval { connect_to($o{addr}, $o{port}, $o{tries}) };

    if (!$sock) {
        chomp($error = $@);
        return { data => '', error => $error };
    }

    my $set = IO::Select->new($sock);

    for (;;) {

        if ($out eq '' && @packets) {
            my $packet = shift @packets;

            $out = $packet->{value};
            $resume = time() + ($packet->{delay_before} || 0);
        }

        if ($out eq '' && !@packets && !$sent_all) {
            $sent_all = 1;
            shutdown($sock, $o{shutdown}) if defined $o{shutdown};
        }

        my $pause = $resume - time();
        my $want_write = $out ne '' && $pause <= 0;
        my $wait = $out ne '' && $pause > 0 ? $pause : $o{timeout};

        my ($readable, $writable) = IO::Select->select(
            $set, $want_write ? $set : undef, undef, $wait);

        if (!defined $readable) {
            next if $out ne '' && $pause > 0;
            next if $!{EINTR};

            $error = 'timeout';
            last;
        }

        if (@$readable) {
            my $n = sysread($sock, $in, 65536, length $in);

            last if defined $n && $n == 0;

            if (!defined $n && !again()) {
                $error = "$!";
                last;
            }
        }

        if ($writable && @$writable) {
            my $n = syswrite($sock, $out);

            if (defined $n) {
                substr($out, 0, $n, '');

            } elsif (!again()) {

                # closed on us; an answer may have come before

                $error = "$!";
                $out = '';
                @packets = ();
                $sent_all = 1;
            }
        }
    }

    close $sock;

    return { data => $in, error => $error };
}


# Sends requests (each raw bytes) over connections of their own, all at the same
# time, and reads until the server closes them.
#
# Options: addr, port, requests, timeout (in all, seconds).  Returns a list of
# { data, error, took } in the requests' order.
sub exchange_many {
    my (%o) = @_;

    my (@results, %by_fd);

    local $SIG{PIPE} = 'IGNORE';

    my $read = IO::Select->new();
    my $write = IO::Select->new();

    for my $raw (@{$o{requests}}) {
        my $sock = connect_to($o{addr}, $o{port});
        my $result = { data => '', error => 'timeout', out => $raw,
                       sock => $sock, began => time() };

        push @results, $result;
        $by_fd{fileno $sock} = $result;
        $read->add($sock);
        $write->add($sock);
    }

    my $end = time() + $o{timeout};

    while ($read->count() && time() < $end) {
        my ($readable, $writable) = IO::Select->select($read, $write, undef,
                                                       $end - time());

        for my $sock (@{$writable || []}) {
            my $result = $by_fd{fileno $sock};
            my $n = syswrite($sock, $result->{out});

            substr($result->{out}, 0, $n, '') if defined $n;

            $write->remove($sock)
                if $result->{out} eq '' || !defined $n && !again();
        }

        for my $sock (@{$readable || []}) {
            my $result = $by_fd{fileno $sock};
            my $n = sysread($sock, $result->{data}, 65536,
                            length $result->{data});

            next if $n || !defined $n && again();

            $result->{error} = defined $n ? undef : "$!";
            $result->{took} = time() - $result->{began};
            $read->remove($sock);
            $write->remove($sock);
        }
    }

    for my $result (@results) {
        close delete $result->{sock};
        delete $result->{out};
    }

    return \@results;
}


sub again {
    return $!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR};
}


# Takes a response apart: { status, head (the raw header text), headers ([name,
# value] pairs), body, left (what follows it), error, truncated }.  Chunked
# bodies are decoded, strictly.
sub parse_response {
    my ($raw, $is_head) = @_;

    my %res = (status => '', head => '', headers => [], body => '',
               left => '');

    if ($raw !~ /\A(.*?\r?\n)\r?\n/s) {
        $res{error} = $raw eq '' ? 'empty response' : 'no end of the header';
        $res{head} = $raw;
        return \%res;
    }

    $res{head} = $1;

    my $rest = substr($raw, $+[0]);
    my @lines = split /\r?\n/, $res{head};

    if (shift(@lines) =~ m{^HTTP/\d+\.\d+ (\d{3})(?: |$)}) {
        $res{status} = $1;

    } else {
        $res{error} = 'no status line';
    }

    for (@lines) {
        push @{$res{headers}}, [$1, $2] if /^([^:\s]+):\s*(.*?)\s*$/;
    }

    my $length = header(\%res, 'Content-Length');
    my $coding = header(\%res, 'Transfer-Encoding') || '';

    if ($is_head || $res{status} =~ /^(?:1..|204|304)$/) {
        $res{left} = $rest;

    } elsif (lc $coding eq 'chunked') {
        decode_chunked(\%res, $rest);

    } elsif (defined $length && $length =~ /^\d+$/) {
        $res{body} = substr($rest, 0, $length);
        $res{left} = length $rest > $length ? substr($rest, $length) : '';
        $res{truncated} = length $rest < $length;

    } else {
        $res{body} = $rest;
    }

    return \%res;
}


sub decode_chunked {
    my ($res, $rest) = @_;

    while ($rest =~ s/\A([0-9A-Fa-f]+)[ \t]*(?:;[^\r\n]*)?\r\n//) {
        my $size = hex $1;

        if ($size == 0) {

            # trailers, then the empty line

            if ($rest =~ s/\A(?:[^\r\n]+\r\n)*\r\n//) {
                $res->{left} = $rest;

            } else {
                $res->{error} = 'no empty line after the last chunk';
            }

            return;
        }

        $res->{body} .= substr($rest, 0, $size);

        if (length $rest < $size + 2 || substr($rest, $size, 2) ne "\r\n") {
            $res->{error} = 'a chunk is cut';
            return;
        }

        substr($rest, 0, $size + 2, '');
    }

    $res->{error} = 'the last chunk is missing';
}


# The value of a header, several joined by ", "; undef where there is none.
sub header {
    my ($res, $name) = @_;

    my @values = map { $_->[1] }
                 grep { lc $_->[0] eq lc $name } @{$res->{headers}};

    return @values ? join(', ', @values) : undef;
}


# A port nobody listens on; below the range that clients' ends come from.
sub free_port {
    for (1 .. 200) {
        my $port = 10000 + int rand 20000;
        my $sock = IO::Socket::INET->new(
            LocalAddr => '127.0.0.1',
            LocalPort => $port,
            Proto     => 'tcp',
            Listen    => 1,
        );

        next if !$sock;

        close $sock;
        return $port;
    }

    die "no free port found\n";
}


1;
