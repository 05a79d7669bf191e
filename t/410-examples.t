# The examples in conf are configurations that NGINX takes, and those of keys,
# limits, models, origins, TLS and a proxy do what they say.

use strict;
use warnings;

use Test::More;

use Hymt::Http qw(header free_port);
use Hymt::Server;


my $text = { text => 'Open the file.', src_lang => 'en', tgt_lang => 'de' };
my ($alice, $bob) = qw(replace-me-7Yq0c1Vw9sLr4TzKd2Ju
                       replace-me-f3Nn8XbQ5oHa6PeRm1Ug);

# a model that takes terms and context, as the real ones do

my $MODEL = Hymt::Server::own_model('{"family": "mt1.5", "greedy": true}');

my @files = ('conf/nginx.conf.example', sort glob 'conf/examples/*.conf');

is_deeply([map { m{([^/]+)\.conf$} } @files],
          [qw(api-keys cors limits models proxy tls)], 'the examples');

for my $file (@files) {
    my $s = Hymt::Server->new(conf => 'events { }');
    my ($rc, $out) = check($s, $file);

    next if !defined $rc;

    is($rc, 0, "nginx -t takes $file") or diag($out);
    unlike($out, qr/\[(?:warn|error|emerg|alert)\]/, "$file: no warnings")
        or diag($out);
}

keys_();
limits();
models();
origins();
tls();
proxy();

done_testing();


# ---- what each does ----

sub keys_ {
    my $s = serve('api-keys') or return;

    my $no = $s->json('/translate', $text);

    is($no->{status}, 401, 'no key');
    is($no->{json}{error}{code}, 'unauthorized', 'no key: the body');
    is(header($no, 'WWW-Authenticate'), 'Bearer', 'no key: which one is wanted');

    my %form = (
        'Authorization: Bearer KEY'         => '/translate',
        'Authorization: DeepL-Auth-Key KEY' => '/translate',
        'X-Goog-Api-Key: KEY'               => '/translate',
        'X-API-Key: KEY'                    => '/translate',
        'X-Nothing: here'                   => '/translate?api_key=KEY',
        'X-Nothing: at all'                 => '/translate?key=KEY',
    );

    for my $form (sort keys %form) {
        for ([$alice, 200], [$bob, 200], ['made-up', 401], ['', 401]) {
            my ($key, $status) = @$_;
            my ($header, $uri) = ($form, $form{$form});

            s/KEY/$key/ for $header, $uri;

            is($s->json($uri, $text, $header)->{status}, $status,
               "$uri, $header");
        }
    }

    my $deepl = { text => ['Open the file.'], target_lang => 'DE' };
    my @key = "Authorization: DeepL-Auth-Key $alice";

    is($s->json('/v2/translate', $deepl)->{status}, 403, 'DeepL: no key');
    is($s->json('/v2/translate', $deepl, @key)->{status}, 200, 'DeepL: a key');
    is($s->json('/libre/translate', {})->{json}{error}, 'Invalid API key',
       'LibreTranslate: no key');

    is($s->json('/v1/chat/completions', {})->{json}{error}{code},
       'invalid_api_key', 'OpenAI: no key');
    is($s->get('/v1/models', "Authorization: Bearer $bob")->{status}, 200,
       'OpenAI: a key');

    my $made = $s->json('/v2/glossaries', {
        name => 'mine', source_lang => 'en', target_lang => 'de',
        entries => "file\tAkte", entries_format => 'tsv' }, @key);

    is($made->{status}, 201, 'a glossary');

    my $id = $made->{json}{glossary_id} // '';

    is($s->get("/v2/glossaries/$id", @key)->{status}, 200, 'is hers');
    is($s->get("/v2/glossaries/$id", "Authorization: DeepL-Auth-Key $bob")
       ->{status}, 404, 'and nobody else knows it');

    is($s->json('/translate', { %$text, session_id => 'one' },
                "Authorization: Bearer $alice")->{status}, 200, 'a session');

    unlike($s->access_log(), qr/replace-me|made-up/, 'no key is logged');
    like($s->access_log(), qr/^127\.0\.0\.1 alice /m, 'but whose it was');

    $s->finish();
}


sub limits {
    my $s = serve('limits') or return;

    my @many = map { $s->http_json('/translate', $text,
                                   'X-Goog-Api-Key: made-up-' . $_) } 1 .. 60;
    my @res = $s->send_many(\@many);
    my @ok = grep { $_->{status} == 200 } @res;
    my @no = grep { $_->{status} == 429 } @res;

    is(@ok + @no, 60, 'answered or limited');
    cmp_ok(scalar @ok, '>=', 8, 'some are answered');
    cmp_ok(scalar @no, '>=', 1, 'some are limited, whatever keys they make up');

    my $no = $no[0] || {};

    is($no->{json}{error}{code}, 'too_many_requests', 'limited: the body');
    is(header($no, 'Retry-After'), 1, 'limited: when to come back');

    is($s->json('/translate', $text, "Authorization: Bearer $alice")->{status},
       200, 'who has a key has limits of his own');

    @many = map { $s->http_json('/v2/translate', {
                      text => ['Open the file.'], target_lang => 'DE' },
                      "Authorization: DeepL-Auth-Key $bob") } 1 .. 60;
    ($no) = grep { $_->{status} == 429 } $s->send_many(\@many);

    is($no->{json}{message}, 'Too many requests', 'DeepL: limited');

    $s->finish();
}


sub models {
    my $s = serve('models') or return;

    is($s->json('/translate', $text)->{json}{model}, 'small', 'the first model');
    is($s->json('/translate?model=large', $text)->{json}{model}, 'large',
       'a model by argument');
    is($s->json('/translate', $text, 'X-Model: large')->{json}{model}, 'large',
       'by header');
    is($s->get('/translate/languages?model=large')->{json}{model}, 'large',
       'what is below the URL');

    my $none = $s->json('/translate?model=huge', $text);

    is($none->{status}, 404, 'no such model');
    is($none->{json}{error}{code}, 'no_such_model', 'no such model: the body');
    is($s->json('/large', $text)->{status}, 404, 'no way around it');

    $s->finish();
}


sub origins {
    my $s = serve('cors') or return;

    my @origin = 'Origin: https://app.example.com:8443';
    my $name = 'Access-Control-Allow-Origin';

    my $res = $s->send($s->http('OPTIONS', '/translate', undef, @origin,
                                'Access-Control-Request-Method: POST'));

    is($res->{status}, 204, 'a preflight');
    is(header($res, $name), 'https://app.example.com:8443', 'is granted');

    $res = $s->json('/translate', {}, @origin);
    is($res->{status}, 400, 'an error');
    is(header($res, $name), 'https://app.example.com:8443', 'may be read');

    $res = $s->json('/translate', $text, 'Origin: https://elsewhere.example');
    is(header($res, $name), undef, 'not from elsewhere');

    $res = $s->get('/libre/languages', 'Origin: https://elsewhere.example');
    is(header($res, $name), '*', 'but where anybody may ask');

    $s->finish();
}


sub tls {
    my $s = serve('tls') or return;

    my $url = 'https://127.0.0.1:' . $s->port(443) . '/translate';
    my $body = JSON::PP->new->encode($text);

    my $curl = "curl -s -k -i -m 20 -H 'Content-Type: application/json'";
    my $got = `$curl -d '$body' $url`;

    like($got, qr{^HTTP/2 200}, 'over TLS, by HTTP/2');
    like($got, qr/Datei/, 'a translation');
    like($got, qr/^strict-transport-security: max-age/mi, 'and always so');

    my $clear = $s->json('/translate', $text);

    is($clear->{status}, 403, 'not without TLS');
    is($clear->{json}{error}{code}, 'https_only', 'not without TLS: the body');

    $s->finish();
}


# One machine that is there, and one that is not.
sub proxy {
    my $s = Hymt::Server->new(conf => <<'END');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /translate { hymt_translate demo; hymt_split sentence; }
        location /v2/ { hymt_translate demo api=deepl; }
    }
}
END

    $s->start();

    my ($there, $gone) = ($s->port(), free_port());
    my $front = serve('proxy', sub {
        $_[0] =~ s/192\.0\.2\.11:80/127.0.0.1:$there/g;
        $_[0] =~ s/192\.0\.2\.12:80/127.0.0.1:$gone/g;
    });

    my @res = map { $front->json('/translate', $text) } 1 .. 6;

    is(join(' ', map { $_->{status} } @res), '200 200 200 200 200 200',
       'a machine that is gone loses nothing');

    is($front->json('/v2/translate', { text => ['Open the file.'],
                                       target_lang => 'DE' })->{status}, 200,
       'DeepL by way of the proxy');

    # events come as they are made

    my $long = join ' ', map { "The train number $_ arrives at the station." }
                         1 .. 30;
    my ($early, $all);

    for (1 .. 20) {
        my $sock = $front->open($front->http_json(
            '/translate', { %$text, text => $long, stream => JSON::PP::true }));

        ($early, $all) = in_parts($sock, ($s->workers())[0]);

        last if $early;
    }

    ok($early, 'events come while others are not there yet');
    like($all, qr/"done":true/, 'a stream to its end');

    $front->finish();
    $s->finish();
}


# ---- helpers ----

# A server that runs an example, changed by code where there is any.
sub serve {
    my ($name, $code) = @_;

    my $s = Hymt::Server->new(conf => 'events { }');
    my $conf = example($s, "conf/examples/$name.conf") // return;

    $code->($conf) if $code;

    $s->write_conf($conf);
    $s->start();

    return $s;
}


# What "nginx -t" says of an example: the exit code, the text.
sub check {
    my ($s, $file) = @_;
    my $conf = example($s, $file) // return;

    return $s->test_conf($conf);
}


# An example with this machine's paths and ports; undef where it can't be had.
sub example {
    my ($s, $file) = @_;

    my $dir = $s->dir();
    my $http = $s->expand('%%GLOBALS_HTTP%%');

    open my $in, '<', $file or die "$file: $!\n";
    my $conf = do { local $/; <$in> };
    close $in;

    $conf =~ s/^load_module .*;$//m;
    $conf =~ s/^worker_processes auto/worker_processes 1/m;
    $http =~ s/^access_log .*;\n//m if $conf =~ /\baccess_log\b/;
    $conf =~ s/^http \{$/http {\n$http/m;
    $conf =~ s{\bpath( +)/models/[^;]+;}
              {path$1$MODEL; threads 1; max_batch 8; context 1024;}g;
    $conf =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/g;
    $conf =~ s/listen 443 /listen 127.0.0.1:%%PORT_443%% /g;

    if ($conf =~ s{/etc/ssl/hymt/}{$dir/}g) {
        my $made = system("openssl req -x509 -newkey rsa:2048 -nodes -days 2"
                          . " -subj /CN=localhost -keyout $dir/privkey.pem"
                          . " -out $dir/fullchain.pem 2>/dev/null");

        if ($made != 0) {
            diag("$file is not tried: no openssl");
            return;
        }
    }

    if ($conf =~ s{/var/lib/hymt/glossaries}{$dir/glossaries}g) {
        mkdir "$dir/glossaries";
        chmod 0777, "$dir/glossaries";
    }

    return "%%GLOBALS%%\n$conf";
}


# A stream whose source stops when its first words are here, and once more when
# others are: whether more was to come both times, and all of it.
sub in_parts {
    my ($sock, $pid) = @_;

    my $all = '';
    my $early = 1;

    for (1, 2) {
        my $more = length $all;

        while ($all !~ /\A.{$more}.*^data: /ms && take($sock, \$all, 20)) { }

        kill 'STOP', $pid;

        while (take($sock, \$all, 0.3)) { }

        $early &&= $all !~ /"done":true/;

        kill 'CONT', $pid;
    }

    while (take($sock, \$all, 20)) { }

    return ($early, $all);
}


# What comes on a socket within that time; false at its end, or where nothing
# does.
sub take {
    my ($sock, $all, $timeout) = @_;

    IO::Select->new($sock)->can_read($timeout) or return 0;

    my $n = sysread($sock, $$all, 65536, length $$all);

    return defined $n ? $n : Hymt::Http::again();
}
