# What the documentation names is there: files, links, commands, directives,
# variables, metrics, environment; and every directive, parameter of a model,
# variable and metric is in it.

use strict;
use warnings;

use lib 't/lib';

use File::Basename qw(basename dirname);
use File::Find;
use Hymt::Process;
use Test::More;

my @docs = ('README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md',
            glob('docs/*.md docs/api/*.md'));

my @files;

find({ no_chdir => 1, wanted => sub {
    $File::Find::prune = 1 if m{^\./(?:build|models|\.[^/]+)$};
    push @files, s{^\./}{}r if -f;
} }, '.');

my %text = map { $_ => Hymt::Process::slurp($_) } @docs;
my $docs = join "\n", values %text;
my %here = map { basename($_) => 1 } @files;

# Words of the sources, and strings of NGINX in those of the module.

my $sources = join "\n", map { Hymt::Process::slurp($_) }
                         grep { !/\.md$|^t\/062/ } @files;
my $module = join "\n", map { Hymt::Process::slurp($_) }
                        'ngx_http_hymt_module.c', glob('http/*.c');
my $commands = Hymt::Process::slurp('build.sh');
my %word = map { $_ => 1 } $sources =~ /\w+/g;


# As GitHub makes them of headings.
sub anchors {
    my ($file) = @_;

    return map { lc =~ s/[^\w\- ]//gr =~ tr/ /-/r }
           Hymt::Process::slurp($file) =~ /^#+ (.*)$/mg;
}


# What a link leads to that is not there.
sub dead {
    my ($from, $link) = @_;
    my ($path, $anchor) = split /#/, $link, 2;

    return 0 if $link =~ /^https?:/;

    my $to = $path eq '' ? $from : dirname($from) . "/$path";

    return !-e $to || (defined $anchor && !grep { $_ eq $anchor } anchors($to));
}


# Whether there is such a file: by its path, as what is built, or as the rest of
# a name, "_body.c".
sub found {
    my ($path) = @_;

    return 1 if grep { -e } glob $path;

    if ($path =~ m{^build/(?:bench|gpu)/([\w-]+)$}) {
        return -e "bench/$1" || grep { -e } glob "{bench,t/gpu}/$1.{c,cu}";
    }

    return index($sources, $path =~ s/^build/\$(BUILD)/r) != -1
        if $path =~ /^build\//;

    return 0 if $path =~ m{/};
    return $here{$path} if $path !~ /^_|\*/;

    my $name = quotemeta($path) =~ s/\\\*/.*/gr;

    return scalar grep { /$name$/ } keys %here;
}


for my $file (@docs) {
    my $text = $text{$file};
    my $plain = $text =~ tr/`//dr;

    is_deeply([grep { dead($file, $_) } $text =~ /\]\(([^)\s]+)\)/g], [],
              "$file: links");

    my @paths = $plain =~ m{(?<![\w/.~\$-])
        ((?:engine|kernels|http|bench|t|tools|conf|docs|build)/[\w./*-]*[\w*]
         |[\w*-]+\.(?:cuh?|[cht]|sh|py|pl|pm|md))\b(?![/\w])}gx;

    is_deeply([grep { !/NAME/ && !found($_) } @paths], [], "$file: files");

    is_deeply([grep { !/_$/ && !/NAME/ && !$word{$_} }
               $plain =~ /\b((?:hymt|ngx|HYMT|TEST_NGINX)_\w+)/g], [],
              "$file: names");

    is_deeply([grep { $commands !~ /^    $_\) /m }
               $text =~ m{(?:`|^)\./build\.sh ([a-z][a-z-]*)}mg], [],
              "$file: commands");
}

# and the other way round

my $readme = $text{'README.md'};
my $metrics = $text{'docs/metrics.md'};

# `_misses_total` goes on from the name before it
1 while $metrics =~ s/(`(hymt_\w+_cache)_\w+`, `)_/$1$2_/;

sub missing {
    my ($text, $what, @names) = @_;
    my %all = map { $_ => 1 } @names;

    cmp_ok(scalar(keys %all), '>', 10, "$what: they are found");
    is_deeply([grep { $text !~ /(?<!\w)\Q$_\E(?!\w)/ } sort keys %all], [],
              "$what: all are in the documentation");
}

missing($docs, 'directives and variables',
        $module =~ /ngx_string\("(hymt_\w+)"\)/g);
missing($readme, 'parameters of a model',
        Hymt::Process::slurp('http/ngx_http_hymt_model.c')
            =~ /^    \{ ngx_string\("(\w+)"\)/mg);
missing($metrics, 'metrics',
        Hymt::Process::slurp('http/ngx_http_hymt_prometheus.c')
            =~ /"(hymt_\w+)"/g);

done_testing();
