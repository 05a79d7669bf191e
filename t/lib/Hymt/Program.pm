package Hymt::Program;

# The command line program, run by a test.
#
#   my ($status, $out, $err) = hymt($input, 'translate', '--to', 'zh', $model);
#
# $hymt is its path; put() writes a file for it.
#
# Environment: HYMT_PROGRAM, build/hymt unless set.

use strict;
use warnings;

use Exporter qw(import);
use File::Temp qw(tempdir);

our @EXPORT_OK = qw($hymt hymt put);

our $hymt = $ENV{HYMT_PROGRAM} || 'build/hymt';

my $dir = tempdir(CLEANUP => 1);


# Runs it with what is to come from stdin; (status, stdout, stderr).
sub hymt {
    my ($input, @args) = @_;

    put("$dir/in", $input);

    my $words = join ' ', map { "'$_'" } @args;

    system("$hymt $words <$dir/in >$dir/out 2>$dir/err");

    return ($? >> 8, get("$dir/out"), get("$dir/err"));
}


sub put {
    my ($path, $text) = @_;

    open(my $f, '>:raw', $path) or die "$path: $!";
    utf8::encode($text) if utf8::is_utf8($text);
    print $f $text;
    close($f) or die "$path: $!";
}


sub get {
    my ($path) = @_;

    open(my $f, '<:raw', $path) or die "$path: $!";
    local $/;

    my $text = <$f>;

    utf8::decode($text);

    return $text;
}

1;
