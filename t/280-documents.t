# Whole documents: every line, blank line, indentation, list marker, tag and
# placeholder where it was, and short requests served meanwhile.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(time);

# 100 KB in the long form; the short one has the same structure

my $PARAGRAPHS = $ENV{HYMT_LONG} ? 1000 : 60;

my $s = Hymt::Server->new(timeout => 600, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 256; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; max_batch 16; context 1024; }
    hymt_split   sentence;
    hymt_tags    runs;
    hymt_timeout 600s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /narrow { hymt_translate demo; hymt_window 4; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

my @sentences = (
    'Open the file and save your changes.',
    'Click the button to close the window.',
    'The selected text is copied to the clipboard.',
    'Enter a name for the new folder.',
    'You can change the settings at any time.',
);

my @lines;

for my $i (1 .. $PARAGRAPHS) {
    push @lines, $i % 7 == 0 ? "  - $sentences[$i % 5]"
               : $i % 11 == 0 ? "\t$i. $sentences[$i % 5]"
               : join ' ', @sentences[$i % 5, ($i + 1) % 5, ($i + 2) % 5];
    push @lines, '' if $i % 3 == 0;
}

my $text = join("\n", @lines) . "\n\n";

note(length($text) . ' bytes');

my $t = time();
my $doc = $s->open($s->http_json('/narrow', { text => $text, tgt_lang => 'de',
                                              src_lang => 'en' }));

# short ones while it runs

my @took;
my $sock_done = 0;

while (!$sock_done && @took < 400) {
    my $from = time();
    my $r = $s->json('/translate', { text => 'Open the file.',
                                     tgt_lang => 'de' });

    last if $r->{status} != 200;
    push @took, time() - $from;

    my $q = $s->get('/status')->{json}{models}[0]{queue};
    $sock_done = 1 if $q->{in_flight} == 0;
}

my $r = $s->read_response($doc);
my $whole = time() - $t;

is($r->{status}, 200, 'the document comes back');

my @got = split /\n/, $r->{json}{translation}, -1;
my @want = split /\n/, $text, -1;

is(scalar(@got), scalar(@want), 'with as many lines');

my @wrong = grep {
    my ($g, $w) = ($got[$_], $want[$_]);

    my ($head) = $w =~ /^(\s*(?:-|\d+\.)?\s*)/;

    ($w eq '') != ($g eq '') || index($g, $head) != 0;
} 0 .. $#want;

is(scalar(@wrong), 0, 'blank lines, indentation and list markers as they were');

@took = sort { $a <=> $b } @took;

note(sprintf('document %.1f s; %d short ones meanwhile, median %.0f ms, worst'
             . ' %.0f ms', $whole, scalar(@took), 1000 * $took[@took / 2],
             1000 * $took[-1]));

cmp_ok(scalar(@took), '>', 0, 'short requests were answered meanwhile');
cmp_ok($took[@took / 2], '<', $whole / 4, 'and did not wait for it');

# the same sentence in a document and alone

my $one = $s->json('/translate', { text => $sentences[1], tgt_lang => 'de',
                                   src_lang => 'en' })->{json}{translation};

ok(index($r->{json}{translation}, $one) >= 0,
   'a sentence reads as it does alone');

# HTML

my $html = '<!DOCTYPE html><html lang="en"><head><title>Open the file.</title>'
    . '<style>p { color: red }</style></head><body class="a">'
    . '<!-- Open the file. --><h1>Save your changes.</h1>'
    . '<p>Click the <b>button</b> to close the <i class="x">window</i>.<br>'
    . 'Enter a name &amp; press Enter.</p><pre>open(file);</pre>'
    . '<ul><li>Open the file.</li><li translate="no">Open the file.</li></ul>'
    . '<script>var a = "Open the file.";</script><img src="a.png" alt="x">'
    . '</body></html>';

$r = $s->json('/translate', { text => $html, tgt_lang => 'de',
                              src_lang => 'en', format => 'html' });

my @tags = $html =~ /(<[^>]*>)/g;
my @back = $r->{json}{translation} =~ /(<[^>]*>)/g;

is_deeply(\@back, \@tags, 'HTML: the same tags in the same order');
like($r->{json}{translation}, qr/<!-- Open the file. -->/, 'HTML: comments');
like($r->{json}{translation}, qr/<script>var a = "Open the file.";<\/script>/,
     'HTML: scripts');
like($r->{json}{translation}, qr/<li translate="no">Open the file\.<\/li>/,
     'HTML: translate="no"');
like($r->{json}{translation}, qr/<h1>[^<]*nderungen[^<]*<\/h1>/,
     'HTML: and a heading is translated');
unlike($r->{json}{translation}, qr/&(?!\w+;|#)/,
       'HTML: escaped where it must be');

# placeholders

for my $case (
    'Copied %d of %1$s files to {name}.',
    'Hello {{user}}, open ${path} now.',
    'Press %(key)s to close <x id="1"/>.',
) {
    my @places = $case =~ /(%\d?\$?\(?\w+\)?s?|\{\{?\w+\}?\}|\$\{\w+\})/g;

    $r = $s->json('/translate', { text => $case, tgt_lang => 'es' });

    my $got = $r->{json}{translation};

    is(scalar(grep { index($got, $_) >= 0 } @places), scalar(@places),
       "placeholders of \"$case\": \"$got\"");
}

# XML that is none

$r = $s->json('/translate', { text => '<a><b>Open</a>', tgt_lang => 'de',
                              format => 'xml' });
is($r->{status}, 400, 'malformed XML is refused');
like($r->{json}{error}{message}, qr/line 1/, 'with its place');

# An answer of nothing is asked for once more, of which the second token tells;
# then with other random numbers, so not for nothing again.  The same each time.

{
    my ($twice, $kept, $differ) = (0, 0, 0);
    my $source = 'Open the file.';

    for my $first (0, 50, 100) {
        my @ask = map {
            $s->http_json('/translate', { text => $source, tgt_lang => 'de',
                                          temperature => 5, max_tokens => 1,
                                          seed => $_ })
        } $first + 1 .. $first + 50;

        my @one = $s->send_many([@ask]);
        my @other = $s->send_many([@ask]);

        for my $i (0 .. $#one) {
            $differ++ if $one[$i]{json}{translation}
                         ne $other[$i]{json}{translation};

            next if $one[$i]{json}{usage}{completion_tokens} != 2;

            $twice++;
            $kept++ if $one[$i]{json}{translation} eq $source;
        }
    }

    cmp_ok($twice, '>', 0, 'nothing: some are asked for twice');
    cmp_ok($kept, '<', $twice, "nothing: of $twice not all for nothing");
    is($differ, 0, 'nothing: and the same comes of it each time');
}

$s->finish();
done_testing();
