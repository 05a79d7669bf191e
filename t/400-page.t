# The page in Chromium: what a reader does with it, and what it does with what
# an API may answer.

use strict;
use warnings;
use utf8;

use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

use Hymt::Demo;


binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);

my $python = find_python();
my $s = Hymt::Demo::server();

$s->start();
$s->wait_ready('/status') or BAIL_OUT('the model is not ready');

my $url = 'http://127.0.0.1:' . $s->port() . '/';
my $log = $s->dir() . '/logs/page.log';
my $out = `timeout -k 5 300 $python t/clients/page.py $url 2>$log`;

is($?, 0, 'the browser got through') or diag(Hymt::Process::slurp($log));

my $seen = eval { JSON::PP->new->utf8->decode($out) };

if (!$seen) {
    $s->finish();
    done_testing();
    exit;
}

my ($real, $mock, $keys) = @$seen{qw(real mock keyboard)};


# ---- with the demo's model ----

is_deeply($real->{options}, ['Choose a language', 'Detect language', 'Chinese',
                             'English', 'French', 'German', 'Spanish'],
          'languages to translate from');
is_deeply($real->{targets}, ['Choose a language', 'Chinese', 'English',
                             'French', 'German', 'Spanish'],
          'languages to translate to');
is_deeply($real->{required}, [qw(form source target text)],
          'all three are required');
is($real->{'not asked'}, '', 'without them nothing is asked');

translated($real->{translate}, qr/^Wo ist .+\?$/, 'a translation');
like($real->{usage}, qr/^\d+ tokens in, \d+ out; in the engine: first token/,
     'tokens');
like($real->{usage}, qr/ after [\d.]+ m?s, all after [\d.]+ m?s$/, 'and time');
is_deeply($real->{out}, ['de', 'ltr'], 'language and direction of it');
is($real->{hash}, '#en/de', 'languages in the address');

translated($real->{another}, qr/^Le temps/, 'into another language');
is_deeply($real->{swapped}, ['#fr/en', $real->{another}[0], ''],
          'swapped, with the text');
translated($real->{'and back'}, qr/\w/, 'back');

translated($real->{detected}, qr/\w/, 'from a language to be detected');
like($real->{detected}[1], qr/From French\.$/, 'which was found');
is($real->{'swap of detected'}, '#de/fr', 'and can be swapped');

is_deeply($real->{error}, ['', '', 'source and target language are the same:'
                                   . ' en'], 'an error of the API, as it is');
like($real->{terms}[2], qr/does not do what was asked/,
     'terms, which the built-in model does not take');
translated($real->{tags}, qr{<b>.+</b>}, 'tags');

my ($lengths, @long) = @{$real->{long}};

translated(\@long, qr/^.{1600,}$/, 'a long text');
cmp_ok(@$lengths, '>', 5, 'which grew') or diag("@$lengths");

is($real->{stopped}[1], 'Stopped.', 'a long text, stopped');
cmp_ok(length $real->{stopped}[0], '<', length $long[0],
       'of which some had come');
is($real->{'focus after stop'}, 'translate', 'the focus is not lost');
is($real->{again}[0], $long[0], 'once more, to the end');

like($real->{copied}[0], qr/\w/, 'something to copy');
is($real->{copied}[1], $real->{copied}[0], 'copied');


# ---- keys alone ----

is_deeply($keys->{order}, [qw(source swap target text translate SUMMARY out
                              BODY source)], 'the order of focus');
is($keys->{hash}, '#en/de', 'languages by their names');
translated($keys->{translate}, qr/^Wo ist .+\?$/, 'Ctrl+Enter translates');
is_deeply($keys->{labels}, [], 'nothing without a name');
is_deeply($keys->{live}, [qw(status alert)], 'live regions');


# ---- what an API may answer ----

my $markup = '<img src=x onerror="window.hacked = 1"><b>bold</b> & &amp;';

is_deeply($mock->{growing}, ['word0 ', 'Translating…', 'true'],
          'text is there before the end');
is($mock->{escape}, 'Stopped.', 'Esc stops');
ok($mock->{'no more after stop'}, 'and then nothing more comes');

translated($mock->{replaced}, qr/^\Q$markup\E$/, 'a new one replaces the old;'
           . ' markup is text');
is($mock->{hacked}, undef, 'and does nothing');

translated($mock->{bytes}, qr/^a😀ü\n\z/, 'events cut anywhere');
translated($mock->{loop}, qr/^again $/, 'a loop');
like($mock->{loop}[1], qr/repeated itself/, 'is told');
like($mock->{unsure}[1], qr/not recognised/, 'so is a language not found');
is_deeply($mock->{broken}, ['half ', '', 'the engine <i>was</i> lost'],
          'an error in the middle');
is_deeply($mock->{cut}, ['half ', '', 'The connection broke before the end.'],
          'an end in the middle');
is_deeply($mock->{busy}, ['', '', $markup], 'an error with markup is text');
is($mock->{'hacked by an error'}, undef, 'and does nothing');
is_deeply($mock->{proxy}, ['', '', 'The server answered 502 Bad Gateway.'],
          "somebody else's error");

my %plain = (text => 'markup', src_lang => 'en', tgt_lang => 'de',
             stream => JSON::PP::true);

is_deeply($mock->{fields}, { %plain, format => 'html',
                             context => "A letter.\nTo a friend.",
                             terms => { a => 'b = c', 'train car' => 'Waggon',
                                        __proto__ => 'x' } },
          'glossary, context and format are sent');
is_deeply($mock->{'no fields'}, \%plain, 'where there are any');
is_deeply($mock->{glossary}, ['', '', 'Glossary, line 2: write "term ='
                                      . ' translation".'], 'a wrong line');
ok($mock->{'glossary not asked'}, 'is not sent');

is_deeply($mock->{directions},
          { (map { $_ => ['rtl', $_] } qw(ar fa he ug ur)),
            (map { $_ => ['ltr', $_] } qw(de zh-Hant)) }, 'directions');
is_deeply([@{$mock->{'direction of the text'}}[0, 1]], ['rtl', 'ar'],
          'direction of the text');

for my $screen ('320 light', '320 dark', '1100 dark') {
    my $look = $mock->{$screen};
    my ($width) = $screen =~ /^(\d+)/;

    is_deeply($look->{overflow}, [], "$screen: nothing sticks out");
    cmp_ok($look->{wide}, '<=', $width, "$screen: no scrolling sideways");

    for my $contrast ('contrast', 'contrast of error') {
        cmp_ok($look->{$contrast}[0], '>=', 4.5, "$screen: $contrast")
            or diag($look->{$contrast}[1]);
    }
}

isnt($mock->{'320 light'}{background}, $mock->{'320 dark'}{background},
     'dark is dark');

is_deeply($seen->{$_}, [], "no $_") for 'complaints', 'complaints of mock';

$s->finish();
done_testing();


sub translated {
    my ($got, $like, $name) = @_;

    like($got->[0], $like, $name);
    like($got->[1], qr/^Done in [\d.]+ m?s\./, "$name: done");
    is($got->[2], '', "$name: no error");
}


# A Python that has selenium: the system's, or one in an environment of its own.
sub find_python {
    for my $program (qw(chromium chromedriver)) {
        next if system("command -v $program >/dev/null") == 0;
        plan skip_all => "no $program (Debian: chromium, chromium-driver)";
    }

    for my $python ('python3', '/usr/bin/python3') {
        return $python
            if system("$python -c 'import selenium' >/dev/null 2>&1") == 0;
    }

    my $venv = tempdir(CLEANUP => 1);

    if (system("python3 -m venv $venv >$venv/log 2>&1") != 0) {
        plan skip_all => 'neither selenium nor python3 -m venv works here';
    }

    my $pip = "$venv/bin/pip install --disable-pip-version-check --retries 0"
              . ' --timeout 10 selenium==4.51.0';

    if (system("timeout 120 $pip >$venv/log 2>&1") != 0) {
        plan skip_all => 'pip could not install selenium: no registry?';
    }

    return "$venv/bin/python";
}
