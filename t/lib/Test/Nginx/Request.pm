package Test::Nginx::Request;

# The bytes a block's request sections stand for:
#
#   request                "METHOD [URL [VERSION]]\nBODY"; a list of such, each
#                          of which may be a list of packets, a packet being
#                          text or { value, delay_before }
#   raw_request            sent as it is; a list is sent in packets with
#                          raw_request_middle_delay seconds between them
#   pipelined_requests     a list, sent at once on one connection
#   more_headers           lines; a list where there are several requests
#
# Host, Connection and Content-Length are put in where more_headers has none.

use strict;
use warnings;


# The block's requests to that host, each a list of packets.
sub requests {
    my ($block, $host) = @_;

    my $name = $block->name;
    my $raw = $block->raw_request;
    my $delay = $block->raw_request_middle_delay || 0;

    if (defined $raw) {
        my $i = 0;

        return [map { { value => $_, delay_before => $i++ ? $delay : 0 } }
                ref $raw ? @$raw : ($raw)];
    }

    my $pipelined = Test::Nginx::Socket::expand(
        $block, scalar $block->pipelined_requests);

    if ($pipelined) {
        my $i = 0;
        my $all = '';

        for my $request (@$pipelined) {
            my $last = $i == $#$pipelined;

            $all .= build($block, $host, [{ value => $request }],
                          $i++, $last ? 'close' : 'keep-alive')->[0]{value};
        }

        return [{ value => $all }];
    }

    my $request = $block->request;

    Test::Nginx::Socket::bail_out("$name - no request section")
        if !defined $request;

    if (!ref $request) {
        1 while $request =~ s/^\s*\#[^\n]+\s+|^\s+//s;

        return build($block, $host, [{ value => $request }], 0, 'close');
    }

    my $i = 0;

    return map {
        my @packets = map { ref $_ ? { %$_ } : { value => $_ } }
                          ref $_ ? @$_ : ($_);

        build($block, $host, \@packets, $i++, 'close');
    } @$request;
}


# Makes HTTP of "METHOD [URL [VERSION]]\nBODY", which may be cut into packets
# anywhere; the cuts stay where they were in the text.
sub build {
    my ($block, $host, $packets, $index, $connection) = @_;

    my $name = $block->name;
    my $text = join '', map { $_->{value} } @$packets;

    $text =~ /\A(\s*)(\S+)(?: +(\S+))?(?: +(\S+))? *(\r?\n|\z)/
        or Test::Nginx::Socket::bail_out("$name - bad request line: \"$text\"");

    my ($method, $url, $version) = ($2, $3, $4);
    my $at = $+[0];
    my $body = substr($text, $at);

    my $more = $block->more_headers;
    my $length = '';

    if (ref $more) {
        $more = $more->[$index];
        Test::Nginx::Socket::bail_out("$name - more_headers has no entry"
                                      . " $index") if !defined $more;
    }

    $more = '' if !defined $more;
    $more =~ s/\A\s+//;
    $more =~ s/\s*\z/\n/;
    $more = '' if $more eq "\n";

    my $chunked = $more =~ /^Transfer-Encoding:\s*chunked\s*$/mi;

    if (!$chunked && $body ne '' && $more !~ /^Content-Length:/mi) {

        # the blank space around a section is not the body's

        $at += length $1 if $body =~ s/\A(\s+)//;
        $body =~ s/\s+\z//;
        $length = 'Content-Length: ' . length($body) . "\r\n";
    }

    $more =~ s/(?<!\r)\n/\r\n/g;

    my $head = "$method " . (defined $url ? $url : '/') . ' '
               . (defined $version ? $version : 'HTTP/1.1') . "\r\n";

    $head .= "Host: $host\r\n" if $more !~ /^Host:/mi;
    $head .= "Connection: $connection\r\n" if $more !~ /^Connection:/mi;
    $head .= "$more$length\r\n";

    return cut($packets, $head, $body, $at);
}


# Hands head and body out over the packets: the head goes with the packet in
# which the text before the body ends, body bytes stay in their packets.
sub cut {
    my ($packets, $head, $body, $at) = @_;

    my $from = 0;
    my $headed = 0;

    for my $packet (@$packets) {
        my $to = $from + length $packet->{value};
        my $value = '';

        if (!$headed && $to >= $at) {
            $value = $head;
            $headed = 1;
        }

        if ($to > $at) {
            my $begin = $from > $at ? $from - $at : 0;

            $value .= substr($body, $begin, $to - $at - $begin)
                if $begin < length $body;
        }

        $packet->{value} = $value;
        $from = $to;
    }

    return [grep { $_->{value} ne '' } @$packets];
}


1;
