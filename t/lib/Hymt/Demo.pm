package Hymt::Demo;

# The configuration that "./build.sh demo" starts, for Hymt::Server: what the
# demo has beside it is taken from where it lies in the tree.
#
#   my $s = Hymt::Demo::server();
#   $s->start();

use strict;
use warnings;

use Cwd qw(abs_path);

use Hymt::Server;


sub server {
    my $s = Hymt::Server->new(conf => conf());

    mkdir $s->dir() . '/temp';

    return $s;
}


sub conf {
    my $html = abs_path('conf/html');

    open my $in, '<', 'conf/nginx.conf.demo'
        or die "conf/nginx.conf.demo: $!\n";
    my $conf = do { local $/; <$in> };
    close $in;

    put($conf, qr/^load_module .*;$/m, '%%GLOBALS%%');
    put($conf, qr/^pid .*;$/m, '');
    put($conf, qr/^error_log .*;$/m, '');
    put($conf, qr/\@PORT\@/, '%%PORT%%');
    put($conf, qr/(?<=path )models\/demo(?=;)/,
        '%%MODEL%%; threads 1; max_batch 16; context 1024');
    put($conf, qr/\broot +html;/, "root $html;");

    return $conf;
}


sub put {
    $_[0] =~ s/$_[1]/$_[2]/g or die "conf/nginx.conf.demo has no $_[1]\n";
}


1;
