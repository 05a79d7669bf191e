# Glossaries by DeepL's API: made, listed, read, used, deleted; whose they are;
# their directory.

use strict;
use warnings;
use utf8;

use Cwd ();
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

use Hymt::Http qw(header);
use Hymt::Server;


binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


# a model that says it has prompts for terms, whatever the built-in one says

my $model = Hymt::Server::own_model('{"family": "mt1.5", "greedy": true,'
    . ' "languages": ["en", "de", "zh", "zh-Hant"]}');

my $CONF = <<"END";
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path $model; threads 1; max_batch 8; context 1024; }
    hymt_model old { path $model; family mt1; threads 1; max_batch 2;
                     context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        hymt_owner \$http_authorization;
        hymt_glossaries %%DIR%%/glossaries;
        location /v2/ { hymt_translate demo api=deepl; }
        location /old/ { hymt_translate old api=deepl; }
        location /off/ { hymt_translate demo api=deepl; hymt_glossaries off; }
        location /small/ {
            hymt_translate demo api=deepl;
            hymt_glossaries small max=2 entries=3 bytes=200;
        }
        location /status { hymt_status; }
    }
}
END

my $s = Hymt::Server->new(conf => $CONF, timeout => 60);
my $dir = $s->dir() . '/glossaries';

mkdir $_, 0700 for $dir, $s->dir() . '/small';

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $mine = 'Authorization: DeepL-Auth-Key mine';
my $other = 'Authorization: DeepL-Auth-Key other';
my $form = 'Content-Type: application/x-www-form-urlencoded';

my $good = { name => 'Wörter', source_lang => 'EN', target_lang => 'DE',
             entries => "file\tAkte\nIT\tEDV\nred car\tRotwagen\n",
             entries_format => 'tsv' };


sub create {
    my ($data, @headers) = @_;

    my $res = $s->json('/v2/glossaries', { %$good, %$data },
                       @headers ? @headers : $mine);

    is($res->{status}, 201, 'made') or diag($res->{body});

    return $res->{json}{glossary_id};
}


sub list {
    my ($key, $where) = @_;

    my $res = $s->get(($where || '/v2') . '/glossaries', $key || $mine);

    return map { $_->{glossary_id} } @{$res->{json}{glossaries}};
}


sub delete_one {
    my ($id, $key) = @_;

    return $s->send($s->http('DELETE', "/v2/glossaries/$id", undef,
                             $key || $mine));
}


# How many tokens of prompts a translation costs.
sub cost {
    my (%data) = @_;

    my $tokens = sub {
        return $s->get('/status')->{json}{counters}{prompt_tokens};
    };

    my $before = $tokens->();
    my $res = $s->json('/v2/translate', { source_lang => 'EN',
                                          target_lang => 'DE', %data }, $mine);

    is($res->{status}, 200, 'translated') or diag($res->{body});

    return $tokens->() - $before;
}


# ---- one life ----

my $id;

{
    is_deeply([list()], [], 'none at first');
    is_deeply([map { "$_->{source_lang}-$_->{target_lang}" }
        @{$s->get('/v2/glossary-language-pairs', $mine)
              ->{json}{supported_languages}}],
        [qw(zh-en zh-de en-zh en-de de-zh de-en)],
        'pairs of languages, scripts aside');

    my $res = $s->json('/v2/glossaries', $good, $mine);
    my $g = $res->{json};

    is($res->{status}, 201, 'POST: 201');
    is(header($res, 'Content-Type'), 'application/json', 'POST: JSON');
    like($g->{glossary_id},
         qr/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}
            -[0-9a-f]{12}$/x,
         'a UUID of ours');
    like($g->{creation_time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
         'creation_time, with a fraction and Z');
    ok($g->{ready}, 'ready');
    is($g->{name}, 'Wörter', 'name');
    is("$g->{source_lang}-$g->{target_lang}", 'en-de', 'languages');
    is($g->{entry_count}, 3, 'entry_count');

    $id = $g->{glossary_id};

    is_deeply($s->get("/v2/glossaries/$id", $mine)->{json}, $g, 'GET');
    is_deeply($s->get('/v2/glossaries', $mine)->{json}, { glossaries => [$g] },
              'GET of all');

    $res = $s->get("/v2/glossaries/$id/entries", $mine,
                   'Accept: text/tab-separated-values');
    is($res->{body}, $good->{entries}, 'its entries');
    is(header($res, 'Content-Type'),
       'text/tab-separated-values; charset=utf-8', 'and their type');

    # another worker knows as well

    is($s->get("/v2/glossaries/$id", $mine)->{status}, 200, "worker $_")
        for 1 .. 8;
}

# by form, with regions, in CSV

{
    my $res = $s->post('/v2/glossaries', 'name=f&source_lang=en-gb'
        . '&target_lang=ZH-HANT&entries_format=csv'
        . '&entries=%22a%2C%20b%22%2C%E7%94%B2%0D%0Ac%2C%E4%B9%99', $form,
        $mine);

    is($res->{status}, 201, 'a form') or diag($res->{body});
    is("$res->{json}{source_lang}-$res->{json}{target_lang}", 'en-zh',
       'regions and scripts aside');

    my $csv = $res->{json}{glossary_id};

    is($s->get("/v2/glossaries/$csv/entries", $mine)->{body},
       "a, b\t\xe7\x94\xb2\nc\t\xe4\xb9\x99\n", 'CSV comes as TSV');
    is($s->json('/v2/translate', { text => 'c', source_lang => 'EN',
                                   target_lang => $_, glossary_id => $csv },
                $mine)->{status}, 200, "used for $_")
        for qw(ZH zh-Hans ZH-HANT);

    is(scalar list(), 2, 'two of them');
    is(delete_one($csv)->{status}, 204, 'DELETE: 204');
    is(delete_one($csv)->{status}, 404, 'DELETE again: 404');
    is_deeply([list()], [$id], 'and one is left');
}


# ---- whose they are ----

is_deeply([list($other)], [], 'another owner sees none');

{
    my %answers = (
        GET => $s->get("/v2/glossaries/$id", $other),
        entries => $s->get("/v2/glossaries/$id/entries", $other),
        DELETE => delete_one($id, $other),
        translate => $s->json('/v2/translate',
            { text => 'a', source_lang => 'EN', target_lang => 'DE',
              glossary_id => $id }, $other),
    );

    for my $what (sort keys %answers) {
        is($answers{$what}{status}, 404, "another owner: $what: 404");
        is_deeply($answers{$what}{json}, { message => 'Glossary not found' },
                  "another owner: $what: its message");
    }

    is($s->get("/v2/glossaries/$id", $mine)->{status}, 200, 'still there');
}

# nobody has none, and off is off

for my $case (['no key', '/v2', 'X-Nothing: 1', qr/need an owner/],
              ['off', '/off', $mine, qr/off here/])
{
    my ($what, $at, $key, $message) = @$case;

    my @answers = (
        $s->get("$at/glossaries", $key),
        $s->get("$at/glossaries/$id", $key),
        $s->get("$at/glossaries/$id/entries", $key),
        $s->send($s->http('DELETE', "$at/glossaries/$id", undef, $key)),
        $s->json("$at/glossaries", $good, $key),
        $s->json("$at/translate", { text => 'a', source_lang => 'EN',
            target_lang => 'DE', glossary_id => $id }, $key),
    );

    is(join(' ', map { $_->{status} } @answers), join(' ', (403) x 6),
       "$what: 403 six times");
    like($_->{json}{message}, $message, "$what: told why") for @answers;

    is_deeply($s->get("$at/glossary-language-pairs", $key)->{json},
              { supported_languages => [] }, "$what: no pairs");
}

# ids are looked at before any path is made

for my $bad ('x', '..', '%2e%2e%2f%2e%2e%2fetc%2fpasswd', uc $id,
             "$id%00", "$id%0a", substr($id, 1), $id =~ tr/-/_/r,
             '00000000-0000-4000-8000-000000000000', 'new.' . $id, 'a' x 5000)
{
    my $res = $s->get("/v2/glossaries/$bad", $mine);

    like($res->{status}, qr/^40[034]$/, "id " . substr($bad, 0, 50));

    $res = $s->json('/v2/translate', { text => 'a', source_lang => 'EN',
        target_lang => 'DE', glossary_id => $bad }, $mine);
    is($res->{status}, 404, 'the same to translate with');
}


# ---- in use: only terms that occur ----

{
    my $with = sub {
        my ($text) = @_;
        return cost(text => [$text], glossary_id => $id)
               - cost(text => [$text]);
    };

    is($with->('Open it.'), 0, 'no term in the text: the prompt as ever');
    cmp_ok($with->('Open the file.'), '>', 0, 'a term that occurs');
    cmp_ok($with->('File it.'), '>', 0, 'at the beginning of a sentence');
    is($with->('Open the files.'), 0, 'no part of a word');
    is($with->('Open it and profile it.'), 0, 'no end of a word');
    cmp_ok($with->('A red car.'), '>', 0, 'a term of two words');
    is($with->('A red boat and a car.'), 0, 'not of its parts');
    cmp_ok($with->('The IT of the house.'), '>', 0, 'capitals');
    cmp_ok($with->('A red car and a file.'), '>', $with->('A red car.'),
           'two terms');

    # each unit has its own

    cmp_ok(cost(text => ['Open the file.', 'Open it.'], glossary_id => $id),
           '==', cost(text => ['Open the file.'], glossary_id => $id)
                 + cost(text => ['Open it.']), 'a text has only its own terms');

    # a thousand terms that all occur leave room for the text

    my $many = create({ entries => join '', map { "t$_\tT$_" . 'x' x 50 . "\n" }
                                            1 .. 1000 });

    cost(text => [join ' ', map { "t$_" } 1 .. 100], glossary_id => $many);
    delete_one($many);
}

for my $case (
    [{ target_lang => 'ZH' }, 400, qr/from EN to DE.*must match/],
    [{ source_lang => 'DE', target_lang => 'EN' }, 400, qr/must match/],
    [{ source_lang => undef }, 400, qr/requires the source_lang/],
    [{ source_lang => 'EN', target_lang => 'EN' }, 400, qr/must match/],
) {
    my ($fields, $status, $message) = @$case;
    my $res = $s->json('/v2/translate', { text => 'a', source_lang => 'EN',
        target_lang => 'DE', glossary_id => $id, %$fields }, $mine);

    is($res->{status}, $status, 'another pair: 400');
    like($res->{json}{message}, $message, 'another pair: its message');
}

# deleted while it is used

{
    my $short = create({});
    my $sock = $s->open($s->http_json('/v2/translate', { source_lang => 'EN',
        target_lang => 'DE', glossary_id => $short,
        text => [map { "Open the door number $_." } 1 .. 60] }, $mine));

    ok($s->wait_until(5, sub {
        return $s->get('/status')->{json}{models}[0]{queue}{in_flight} > 0;
    }), 'in use');
    is(delete_one($short)->{status}, 204, 'deleted meanwhile');
    is(scalar @{$s->read_response($sock)->{json}{translations} || []}, 60,
       'and used to the end');
}

# a family without a prompt for terms

{
    my $res = $s->json('/old/glossaries', $good, $mine);

    is($res->{status}, 400, 'no prompt for terms: 400');
    like($res->{json}{message}, qr/no prompt for terms/, 'and told so');

    is($s->json('/old/translate', { text => 'a', source_lang => 'EN',
        target_lang => 'DE', glossary_id => $id }, $mine)->{status}, 400,
       'no use of it either');
    is_deeply($s->get('/old/glossary-language-pairs', $mine)->{json},
              { supported_languages => [] }, 'and no pairs');
}


# ---- bad input ----

# [fields over a good request, the message]

my @bad = (
    [{ name => undef }, qr/^Parameter 'name' not specified/],
    [{ name => '' }, qr/^Parameter 'name' not specified/],
    [{ name => 5 }, qr/^name must be a string, not an integer/],
    [{ name => 'x' x 2000 }, qr/name: 2000 bytes/],
    [{ name => "a\nb" }, qr/name: .*control/],
    [{ name => "a\0" }, qr/name: .*control/],
    [{ source_lang => undef }, qr/^Parameter 'source_lang' not specified/],
    [{ source_lang => 'XX' }, qr/^Value for 'source_lang' not supported/],
    [{ source_lang => [] }, qr/^source_lang must be a string/],
    [{ target_lang => undef }, qr/^Parameter 'target_lang' not specified/],
    [{ target_lang => 'JA' }, qr/^Value for 'target_lang' not supported/],
    [{ target_lang => 'EN-US' }, qr/^Unsupported glossary language pair/],
    [{ source_lang => 'ZH', target_lang => 'ZH-HANT' }, qr/^Unsupported gloss/],
    [{ entries => undef }, qr/^Parameter 'entries' not specified/],
    [{ entries => ['a'] }, qr/^entries must be a string, not an array/],
    [{ entries => '' }, qr/^Bad glossary: /],
    [{ entries => "\n\n" }, qr/^Bad glossary: /],
    [{ entries => 'a' }, qr/^Bad glossary: .*line 1/],
    [{ entries => "a\tb\n\tc" }, qr/^Bad glossary: .*line 2/],
    [{ entries => "a\tb\tc" }, qr/^Bad glossary: .*line 1/],
    [{ entries => "a\tb\na\tc" }, qr/^Bad glossary: .*line 2/],
    [{ entries => "a\x{1}\tb" }, qr/^Bad glossary: .*control/],
    [{ entries => "a\0\tb" }, qr/^Bad glossary: .*control/],
    [{ entries => "a\x{85}\tb" }, qr/^Bad glossary: .*control/],
    [{ entries => "a,b\n", entries_format => 'tsv' }, qr/^Bad glossary: /],
    [{ entries => "a\tb\n", entries_format => 'csv' }, qr/^Bad glossary: /],
    [{ entries_format => 'xls' }, qr/^Value for 'entries_format' not supp/],
    [{ entries_format => 1 }, qr/^entries_format must be a string/],
);

for my $case (@bad) {
    my ($fields, $message) = @$case;
    my $res = $s->json('/v2/glossaries', { %$good, %$fields }, $mine);
    my $what = substr(JSON::PP->new->ascii->encode($fields), 0, 50);

    is($res->{status}, 400, "$what: 400");
    is(join(' ', keys %{$res->{json} || {}}), 'message', "$what: its form");
    like($res->{json}{message}, $message, "$what: its message");
}

is($s->post('/v2/glossaries', $_->[0], 'Content-Type: application/json',
            $mine)->{status}, 400, "body $_->[1]")
    for ['', 'empty'], ['{', 'broken'], ['[]', 'no object'],
        ['{"name": "\ud800"}', 'a lone surrogate'],
        ["{\"name\": \"\xff\"}", 'not UTF-8'],
        ['{"name": "a", "name": "b"}', 'a field twice'];

is($s->json('/v2/glossaries/' . $id, {}, $mine)->{status}, 405,
   'POST to one: 405');
is($s->json('/v2/glossaries', { name => 'm', dictionaries => [] }, $mine)
       ->{status}, 400, 'what version 3 sends: 400');
is_deeply([list()], [$id], 'nothing of that was made');


# ---- limits ----

{
    my $small = sub {
        my (%fields) = @_;
        return $s->json('/small/glossaries', { %$good, %fields }, $mine);
    };

    my $res = $small->(entries => join '', map { "a$_\tb\n" } 1 .. 4);
    is($res->{status}, 413, 'too many entries: 413');
    like($res->{json}{message}, qr/^Glossary limit exceeded: .*3/,
         'too many entries: told');

    $res = $small->(entries => 'a' x 150 . "\t" . 'b' x 150);
    is($res->{status}, 413, 'too many bytes: 413');

    is($small->()->{status}, 201, 'as many as max: one');
    is($small->()->{status}, 201, 'as many as max: two');

    $res = $small->();
    is($res->{status}, 413, 'one more: 413');
    like($res->{json}{message}, qr/2 are allowed: delete one/, 'and the cure');

    is($s->json('/small/glossaries', $good, $other)->{status}, 201,
       'another owner has room of his own');
    is(scalar list($mine, '/small'), 2, 'those that were made');
}

# many at once, in both workers

{
    my @res = $s->send_many([map { $s->http_json('/v2/glossaries',
        { %$good, name => "n$_" }, $mine) } 1 .. 24]);

    is((grep { $_->{status} == 201 } @res), 24, 'made at once');
    is(scalar list(), 25, 'all are there');
    is((grep { delete_one($_->{json}{glossary_id})->{status} == 204 } @res), 24,
       'deleted');
}


# ---- the directory ----

{
    my ($owner) = glob "$dir/*";

    like($owner, qr{/[0-9a-f]{64}$}, "an owner's key is not readable in names");
    is((stat $owner)[2] & 077, 0, 'and its files are for nobody else');

    # what is no glossary harms no other

    my $broken = '11111111-1111-4111-8111-111111111111';
    my $link = '22222222-2222-4222-8222-222222222222';

    open my $file, '>', "$owner/$broken" or die "$!\n";
    print $file "nothing\n";
    close $file;
    symlink '/etc/passwd', "$owner/$link";

    is_deeply([list()], [$id], 'broken files are not listed');

    for my $bad ($broken, $link) {
        my $res = $s->get("/v2/glossaries/$bad", $mine);

        is($res->{status}, 500, 'a broken file: 500');
        like($res->{json}{message}, qr/^glossary $bad/, 'which one it is');
        unlike($res->{body}, qr/root:/, 'and nothing of it');
        is(delete_one($bad)->{status}, 204, 'it can be deleted');
    }

    ok(-e '/etc/passwd', 'what a link names stays');
    is(scalar(grep { !/\Q$id\E$/ } glob "$owner/*"), 0, 'nothing is left over');
}

# they outlive the server

{
    ok($s->reload(), 'reloaded');
    is_deeply([list()], [$id], 'still there after a reload');

    $s->finish();

    $s = Hymt::Server->new(conf => $CONF =~ s/%%DIR%%\/glossaries/$dir/r,
                           timeout => 60);
    mkdir $s->dir() . '/small';
    $s->start();
    ok($s->wait_ready('/status'), 'ready again');

    is_deeply([list()], [$id], 'still there after a restart');
    is($s->get("/v2/glossaries/$id", $mine)->{json}{name}, 'Wörter',
       'with its name');
    is(delete_one($id)->{status}, 204, 'and can be deleted');
    $s->finish();
}


# ---- the directive ----

sub refused {
    my ($directive, $message, $what, $user) = @_;

    my $globals = $user ? "load_module %%MODULE%%;\nuser $user;\n"
                          . "pid %%DIR%%/logs/test.pid;\n"
                        : "%%GLOBALS%%\n";

    my ($code, $said) = $s->test_conf(<<"END");
$globals
events { }
http {
    hymt_model demo { path $model; threads 1; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /v2/ { hymt_translate demo api=deepl; $directive }
    }
}
END

    isnt($code, 0, "$what: refused");
    like($said, $message, "$what: why");
}

refused('hymt_glossaries %%DIR%%/missing;',
        qr/\[emerg\] .*"hymt_glossaries" in .*test\.conf:\d+: .*missing: No/,
        'no directory');
refused('hymt_glossaries %%DIR%%/nginx.conf;', qr/nginx\.conf: not a direct/,
        'a file');
refused('hymt_glossaries "";', qr/names no directory/, 'nothing');
refused("hymt_glossaries html $_;", qr/invalid parameter "\Q$_\E" of "hymt_gl/,
        $_) for 'max=0', 'max=x', 'entries=-1', 'bytes=0', 'bytes=x', 'size=1';
refused('hymt_glossaries html; hymt_glossaries html;', qr/is duplicate/,
        'twice');
refused('hymt_glossaries html; hymt_cors *;', qr/"hymt_cors \*" does not go/,
        'for every page');

SKIP: {
    skip 'needs root and the user nobody', 4 if $> != 0 || !getpwnam('nobody');

    my ($uid, $gid) = (getpwnam('nobody'))[2, 3];
    my $user = 'nobody ' . getgrgid($gid);
    my $home = tempdir(CLEANUP => 1);

    chmod 0755, $home;
    mkdir "$home/g", 0755;

    refused("hymt_glossaries $home/g;",
            qr/user "nobody" may not write to \Q$home\E\/g: chown it/,
            'a directory of somebody else', $user);

    chown $uid, $gid, "$home/g";
    chmod 0700, $home;
    refused("hymt_glossaries $home/g;",
            qr/user "nobody" may not enter \Q$home\E: /,
            'a directory below one of somebody else', $user);
}

done_testing();
