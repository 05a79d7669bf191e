/*
 * document_test.c - texts and pages through a document.
 */

#include "document_fixture.h"
#include "markup.h"
#include "placeholder.h"


static trace_t       trace;
static hymt_error_t  err;
static size_t        out_len;


static void
is_out(const char *text, const hymt_document_params_t *p,
    translator_pt translator, void *data, const char *want, const char *units,
    const char *name)
{
    char  *out;

    out = translate(text, strlen(text), p, translator, data, &out_len, &trace,
                    &err);
    is_str(out != NULL ? out : err.text, want, "%s", name);

    if (units != NULL) {
        is_str(trace.units, units, "%s: units", name);
    }

    free(out);
}


static void
test_text(void)
{
    hymt_list_t             keep;
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_TEXT, "en", "de");

    is_out("", &p, upper, NULL, "", "", "nothing");
    is_out("  \r\n\t\n", &p, upper, NULL, "  \r\n\t\n", "", "blanks");
    is_out("12:30 :-)", &p, upper, NULL, "12:30 :-)", "", "no letters");
    is_out("Hello.", &p, upper, NULL, "HELLO.", "Hello.|", "one unit");
    ok(trace.plain, "is plain");
    is_out(" Hello. It is. ", &p, upper, NULL, " HELLO. IT IS. ",
           "Hello. It is.|", "sentences that fit");
    ok(trace.plain, "blanks around: plain all the same");
    is_out("One.\r\n\r\n  Two.\n\tThree\r", &p, upper, NULL,
           "ONE.\r\n\r\n  TWO.\n\tTHREE\r", "One.|Two.|Three|", "lines");
    is_out("- one\n  * two\n1. three\n• four\na) five", &p, upper, NULL,
           "- ONE\n  * TWO\n1. THREE\n• FOUR\na) FIVE",
           "one|two|three|four|five|", "list markers");
    is_out("Hello", &p, constant, " \n Hallo\nWelt \n", "Hallo Welt", NULL,
           "an answer's line ends");

    p.split = HYMT_SPLIT_SENTENCE;
    is_out("Dr. Who is. He  was.", &p, upper, NULL, "DR. WHO IS. HE  WAS.",
           "Dr. Who is.|He  was.|", "sentences");

    p.split = HYMT_SPLIT_NONE;
    is_out("One.\r\n  Two.", &p, upper, NULL, "ONE.\r\n  TWO.",
           "One.\r\n  Two.|", "none: line ends come back");
    is_out("One.\r\n  Two.", &p, constant, "x", "x\r\n  x",
           "One.\r\n  Two.|One.|Two.|", "none: or the lines are cut");

    p = params(HYMT_FORMAT_TEXT, "en", "zh");
    p.unit_bytes = 16;
    is_out("One is it. Two is it.  Three is it.", &p, constant, "好。",
           "好。好。  好。", "One is it.|Two is it.|Three is it.|",
           "en-zh: one space between sentences goes");

    p = params(HYMT_FORMAT_TEXT, "zh", "en");
    p.unit_bytes = 20;
    is_out("今天天气好。明天也很好。", &p, constant, "Good.", "Good. Good.",
           NULL, "zh-en: one comes");

    p = params(HYMT_FORMAT_TEXT, "zh", "ja");
    p.unit_bytes = 20;
    is_out("今天天气好。明天也很好。", &p, constant, "良い。", "良い。良い。",
           NULL, "zh-ja: none");

    /* terms */

    p = params(HYMT_FORMAT_TEXT, "en", "de");
    keep.item = (const char *[]) { "Acme", "Acme Go", "Go" };
    keep.n = 3;
    p.keep = keep;

    is_out("Acme Go by Acme. Going.", &p, constant, "Von Acme: Acme Go. x",
           "Von Acme: Acme Go. x", NULL, "terms");
    is_out("Acme Go by Acme.", &p, constant, "Von Acme.",
           "Acme Go Von Acme Acme.", NULL, "a lost term");
    is_int(trace.stats.fallbacks, 1, "is cut at");
}


static void
test_placeholders(void)
{
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_TEXT, "en", "de");

    is_out("Hi {name}, %d of %d.", &p, constant, "%d von %d, {name}.",
           "%d von %d, {name}.", "Hi {name}, %d of %d.|", "moved");
    is_out("Hi {name}, %d of %d.", &p, constant, "%d, {name}.",
           "Hi {name}, %d of %d.", NULL, "runs of no use stay");
    is_out("Hi {name}, you.", &p, constant, "Ja", "Ja {name}, Ja",
           "Hi {name}, you.|Hi|you.|", "lost: cut at");
    is_out("Hi {name}.", &p, constant, "{name} {name}", "Hi {name}.", NULL,
           "doubled");
    is_out("Plain text", &p, constant, "a %s b", "a b", "Plain text|",
           "new: taken out");
    is_int(trace.stats.stripped, 1, "is counted");
    is_int(trace.stats.retries, 0, "there is no second try");
    is_out("Plain text", &p, constant, " {a}{b} x<br> {c}", "x", NULL,
           "new: at the ends, several");
    is_out("Plain text", &p, constant, "x %%<b>s {{a}b} 50 % y",
           "x s b} 50 % y", NULL, "new: where one leaves another behind");
    is_out("Plain text", &p, constant, "x <|{a}eos|>%<|eos|>s y", "x  y", NULL,
           "new: and control tokens, each of the other");
    is_out("Plain text", &p, constant, "{a} %s", "Plain text",
           "Plain text|Plain text|", "new: nothing else");
    is_out("Hi.\nPlain text", &p, constant, "a {b}", "a\na", "Hi.|Plain text|",
           "new: in one of several units");
    is_out("See <x id=\"1\"/> and <x id=\"12\"></x> there", &p, constant,
           "<x id=\"12\"></x> da <x id=\"1\"/>",
           "<x id=\"12\"></x> da <x id=\"1\"/>", NULL, "tags in text");
    is_out("See https://a.b/c?d=e. Mail me@x.org", &p, constant,
           "me@x.org, https://a.b/c?d=e", "me@x.org, https://a.b/c?d=e", NULL,
           "addresses");
    is_out("You have {n, plural, one {# item} other {# items}} now", &p,
           constant, "x", "x {n, plural, one {# item} other {# items}} x",
           NULL, "an ICU message");
    is_out("Only 100% sure", &p, upper, NULL, "ONLY 100% SURE",
           "Only 100% sure|", "a per cent sign");
}


/* what is text for what stands around it stays text in every part */
static void
test_joined(void)
{
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_HTML, "en", "en");
    p.unit_bytes = 16;
    p.keep.item = (const char *[]) { "a" };
    p.keep.n = 1;

    is_out("H?<t->uKd1p]=p]p])K%u7%en_Ul", &p, identity, NULL,
           "H?<t->uKd1p]=p]p])K%u7%en_Ul", "H?|uKd1p]=p]p])K%u|7%en_Ul|",
           "no cut behind the digit");

    p = params(HYMT_FORMAT_TEXT, "en", "en");
    p.unit_bytes = 16;

    is_out("abcdefghijklmn50%discount", &p, identity, NULL,
           "abcdefghijklmn50%discount", "abcdefghijklmn5|0%discount|",
           "nor behind it");
    is_out("abcdefghijkl50%discount", &p, identity, NULL,
           "abcdefghijkl50%discount", "abcdefghijkl5|0%discount|",
           "nor before the letter");

    p = params(HYMT_FORMAT_TEXT, "en", "de");

    is_out("Mail m@x.org7%en it", &p, constant, "Ja", "Ja m@x.org7%eJa",
           "Mail m@x.org7%en it|Mail|n it|",
           "a digit that is held is none before it");
    is_out("Take %d of 7%den it", &p, constant, "Von 7%den nimm %d",
           "Von 7%den nimm %d", "Take %d of 7%den it|",
           "an answer with both");
    is_out("Take %d of 7%den it", &p, constant, "Nimm 7%den",
           "Nimm 7%den %d Nimm 7%den", "Take %d of 7%den it|Take|of 7%den it|",
           "the text does not come for the placeholder");

    p.split = HYMT_SPLIT_SENTENCE;

    is_out("See http://home.(\xc3\x9c""ber it", &p, upper, NULL,
           "SEE http://home.(\xc3\x9c""BER IT",
           "See http://home.(|See|\xc3\x9c""ber it|",
           "a bracket at an address's end stays with it");
}


static void
test_guard(void)
{
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_TEXT, "en", "de");

    is_out("Hi", &p, constant, "<｜hy_place▁holder▁no▁2｜>Hallo<|eos|>",
           "Hallo", NULL, "control tokens");
    is_int(trace.stats.stripped, 1, "are counted");
    is_out("Hi", &p, constant, "Hallo｜hy_User｜ <|extra_0|>", "Hallo", NULL,
           "without angle brackets");
    is_out("Hi", &p, constant, "Hallo <｠hy_EOT｠><|e<|eos|>os|>", "Hallo",
           NULL, "another bar; one inside another");
    is_out("Hi", &p, constant, "Hallo <｜hy_plac", "Hallo", NULL, "cut off");
    is_out("a | b", &p, constant, "<| x | y", "<| x | y", NULL, "bars");
    is_out("The token <|eos|> ends", &p, constant, "Das <|eos|> endet",
           "Das <|eos|> endet", NULL, "in the source: stays");
    is_out("Hi", &p, constant, "<target>Hallo</target>", "Hallo", NULL,
           "wrapper");
    is_out("Hi there", &p, constant, "<|eos|>", "Hi there",
           "Hi there|Hi there|", "empty: once more, then the source");
    is_out("Hi", &p, constant, "a\x01\xff" "b", "a\xef\xbf\xbd" "b", NULL,
           "control characters, broken UTF-8");
}


static void
is_stream(const char *text, const char *tgt, const char *answer,
    const char *want_sent, const char *want, const char *name)
{
    char                    *sent, *out;
    size_t                   n_sent, n;
    hymt_document_params_t   p;

    p = params(HYMT_FORMAT_TEXT, "en", tgt);

    sent = stream(text, &p, answer, strlen(answer), &n_sent, &out, &n);
    is_str(sent, want_sent, "%s: sent", name);
    is_str(out != NULL ? out : "(it changed)", want, "%s: the output", name);

    free(sent);
    free(out);
}


/* each guard, when a part was sent */
static void
test_stream(void)
{
    is_stream("Hi", "de", " \n Hallo, du. ", "Hallo, du.", "Hallo, du.",
              "white space");
    is_stream("- Hi\n", "de", "Hallo, du", "Hallo, du", "- Hallo, du\n",
              "what stands around");
    is_stream("Hi", "de", "Hallo <|eos|>, du", "Hallo", "Hallo , du",
              "a control token");
    is_stream("Hi", "de", "Hallo ｜hy_User｜ du", "Hallo", "Hallo  du",
              "without angle brackets");
    is_stream("Hi", "de", "Hallo</target>", "Hallo", "Hallo", "a wrapper");
    is_stream("Hi", "de", "Hallo \n du", "Hallo", "Hallo du", "a line end");
    is_stream("Hi", "zh", "你好 \n 你", "你好", "你好你", "a line end, none");
    is_stream("Hi", "de", "Hallo\x01 du", "Hallo", "Hallo du",
              "a control character");
    is_stream("Hi", "de", "Hallo %s du", "Hallo", "Hallo du", "a format");
    is_stream("Hi", "de", "Hallo {name}, du", "Hallo", "Hallo , du", "braces");
    is_stream("Hi", "de", "Ja ${x}#{y}", "Ja", "Ja", "a template");
    is_stream("Hi", "de", "Ja <b>du</b>", "Ja", "Ja du", "tags");
    is_stream("Hi", "de", "Ja {{a}{{b}z}", "Ja", "Ja z}", "one in another");
    is_stream("Hi", "de", "%s Hallo", "", "Hallo", "at the beginning");
    is_stream("Hi", "de", "%s", "", "Hi", "nothing else");
    is_stream("Hi", "de", "\"1, {x}.", "", "Hi", "nothing else with letters");
    is_stream("Hi", "de", "\"1, a {x}.", "\"1, a", "\"1, a .",
              "something with letters");
    is_stream("Hi", "de", "12.", "", "12.", "no letters");
    is_stream("Hi", "de", "Nur 50 % von 5 < 6 $5 #1.",
              "Nur 50 % von 5 < 6 $5 #1.", "Nur 50 % von 5 < 6 $5 #1.",
              "signs");
    is_stream("Hi", "zh", "你 % \ns", "你", "你", "signs that join");
    is_stream("Hi", "zh", "你 % \xe2\x80\xa8" "s", "你", "你",
              "signs that join over another line end");
    is_stream("Hi", "de", "$\x01{x} y", "", "y", "signs that join at once");
    is_stream("Hi", "de", "Hi", "Hi", "Hi", "the source");
    is_stream("Hi", "de", "Hallo {nam", "Hallo", "Hallo {nam", "cut off");
}


static void
test_html(void)
{
    hymt_list_t             list;
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_HTML, "en", "de");

    is_out("<p>Hello <b>big</b> world</p>\n<!-- c --><hr>", &p, upper, NULL,
           "<p>HELLO <b>BIG</b> WORLD</p>\n<!-- c --><hr>",
           "Hello|big|world|", "runs between tags");
    is_out("<p><b> Hello world.</b></p>", &p, upper, NULL,
           "<p><b> HELLO WORLD.</b></p>", "Hello world.|", "a pair around all");
    is_out("a &amp; b &lt;i&gt; &eacute;&nbsp;x", &p, constant, "<&>\xc2\xa0",
           "&lt;&amp;&gt;", "a & b <i> é\xc2\xa0x|", "references");
    is_out("AT&T is &copy2024 &foo; ok", &p, constant, "x &foo; & y",
           "x &foo; &amp; y", "AT&T is ©2024 &foo; ok|", "loose references");
    is_out("<script>if (a < b) x = 'Hi';</script><style>b {}</style>Hi", &p,
           upper, NULL,
           "<script>if (a < b) x = 'Hi';</script><style>b {}</style>HI",
           "Hi|", "script and style");
    is_out("<p translate=no>Keep <b translate=\"yes\">this</b> it<p>Go", &p,
           upper, NULL,
           "<p translate=no>Keep <b translate=\"yes\">THIS</b> it<p>GO",
           "this|Go|", "translate");
    is_out("<div class=\"a notranslate\">Keep</div>Go", &p, upper, NULL,
           "<div class=\"a notranslate\">Keep</div>GO", "Go|", "notranslate");
    is_out("Run <code>make all</code> to build", &p, constant,
           "Zum Bauen make all rufen",
           "Zum Bauen <code>make all</code> rufen", "Run make all to build|",
           "inline code is held");
    is_out("Run <code>make all</code> to build", &p, constant, "Ja",
           "Ja <code>make all</code> Ja", NULL, "or cut at");
    is_out("Line one<br>line two<br/>", &p, upper, NULL,
           "LINE ONE<br>LINE TWO<br/>", "Line one|line two|", "br");
    is_out("<pre>One\n  two <b>b</b>\n</pre>", &p, upper, NULL,
           "<pre>ONE\n  TWO <b>B</b>\n</pre>", "One|two|b|", "pre");
    is_out("<title>A <b> c</title><textarea>Keep</textarea>", &p, upper, NULL,
           "<title>A &lt;b&gt; C</title><textarea>Keep</textarea>", NULL,
           "title");
    is_out("a <b and 2 < 3 >", &p, identity, NULL, "a <b and 2 < 3 >", NULL,
           "a tag with odd attributes");
    is_out("Hello <b", &p, upper, NULL, "HELLO <b", NULL, "a tag cut off");
    is_out("x<!-->y--> <!---->z</p><//>?", &p, upper, NULL,
           "X<!-->Y--&gt; <!---->Z</p><//>?", NULL, "odd comments");
    is_out("<a title=\"Hi > you\" href=x>Go</a> on", &p, upper, NULL,
           "<a title=\"Hi > you\" href=x>GO</a> ON", NULL, "attributes");
    is_out("<b>x <i>y</b> z</i>", &p, upper, NULL, "<b>X <i>Y</b> Z</i>", NULL,
           "misnested");
    is_out("<script><!-- <script> </script> Hi --></script>Go", &p, upper, NULL,
           "<script><!-- <script> </script> Hi --></script>GO", "Go|",
           "an escaped script");
    is_out("<svg><text>Keep<![CDATA[<]]></text></svg> Go", &p, upper, NULL,
           "<svg><text>Keep<![CDATA[<]]></text></svg> GO", "Go|", "svg");
    is_out("Take <x id=\"1\"/> that", &p, upper, NULL,
           "TAKE <x id=\"1\"/> THAT", NULL, "an unknown void tag");

    list.item = (const char *[]) { "X-Y", "em" };
    list.n = 2;
    p.ignore_tags = list;
    is_out("<x-y>Keep</x-y><p>Go <em>Keep it</em></p>", &p, upper, NULL,
           "<x-y>Keep</x-y><p>GO <em>Keep it</em></p>", NULL, "ignore_tags");
}


static void
test_tags(void)
{
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_HTML, "en", "de");
    p.tags_by_model = true;

    is_out("Hello <b>big</b> <img src=x> world", &p, constant,
           "<target>Welt <s2></s2>, <s1>gross</s1></target>",
           "Welt <img src=x>, <b>gross</b>",
           "Hello <s1>big</s1> <s2></s2> world|", "tags by the model");
    is_out("A <b>b <i>c</i></b> d", &p, constant,
           "<s1><s2>C</s2> B</s1> &", "<b><i>C</i> B</b> &amp;",
           "A <s1>b <s2>c</s2></s1> d|", "nested");
    is_out("A <b>b <i>c</i></b> d", &p, constant, "<s2><s1>C</s1> B</s2>",
           "C B <b>C B <i>C B</i></b> C B", NULL, "nested otherwise");
    is_int(trace.stats.fallbacks, 1, "is refused");
    is_out("A <b>b</b> c", &p, constant, "x", "x <b>x</b> x",
           "A <s1>b</s1> c|A|b|c|", "lost: runs between tags");
    is_out("A <b>b</b> c", &p, constant, "<s1></s1> x", "x <b>x</b> x", NULL,
           "emptied");
    is_out("<b>Note:</b> do <i>it</i>", &p, upper, NULL,
           "<b>NOTE:</b> DO <i>IT</i>", "<s1>Note:</s1> do <s2>it</s2>|",
           "pairs at the ends stay inside");
    is_out("<p><i><b>Do it.</b></i></p>", &p, upper, NULL,
           "<p><i><b>DO IT.</b></i></p>", "Do it.|", "pairs around go outside");
    is_out("Text &lt;s1&gt; <b>x</b> y", &p, upper, NULL,
           "TEXT &lt;s1&gt; <b>X</b> Y", "Text <s1>|x|y|",
           "a text about such tags");
}


static void
test_xml(void)
{
    hymt_list_t             list;
    hymt_document_params_t  p;

    p = params(HYMT_FORMAT_XML, "en", "de");

    is_out("Hello <x id=\"1\"/> world", &p, upper, NULL,
           "HELLO <x id=\"1\"/> WORLD", "Hello|world|", "a fragment");
    is_out("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<!DOCTYPE d>\n"
           "<d a=\"Hi\"><t>One</t>\n<t>Two <b>b</b></t></d>\n<!-- e -->\n", &p,
           upper, NULL,
           "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<!DOCTYPE d>\n"
           "<d a=\"Hi\"><t>ONE</t>\n<t>TWO <b>B</b></t></d>\n<!-- e -->\n",
           "One|Two|b|", "a document");
    is_out("<n:a>Go &amp; <![CDATA[<keep>]]> &nbsp; x<?pi keep?></n:a>", &p,
           upper, NULL,
           "<n:a>GO &amp; <![CDATA[<keep>]]> &nbsp; X<?pi keep?></n:a>", NULL,
           "CDATA, instructions, HTML's references");
    is_out("<d><t translate=\"no\">Keep</t><t its:translate=\"no\">Keep</t>"
           "<t>Go</t></d>", &p, upper, NULL,
           "<d><t translate=\"no\">Keep</t><t its:translate=\"no\">Keep</t>"
           "<t>GO</t></d>", "Go|", "translate");
    is_out("<a>x</b>", &p, upper, NULL,
           "XML, line 1, column 7: mismatched tag: send well-formed XML, or use"
           " html", NULL, "malformed");
    is_out("<a>x", &p, upper, NULL, "XML: the text ends inside an element or"
           " tag: is an end tag missing?", NULL, "not closed");
    is_out("a\n </r><r>", &p, upper, NULL,
           "XML, line 2, column 6: junk after document element: send"
           " well-formed XML, or use html", NULL, "our own element");
    is_out("<!DOCTYPE l [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n"
           "<l>&b;</l>", &p, upper, NULL, "XML, line 1: entity declarations are"
           " refused: write the entity's text instead", NULL,
           "billion laughs");
    is_out("<!DOCTYPE l [<!ENTITY % a SYSTEM \"file:///etc/passwd\"> %a;]>"
           "<l>x</l>", &p, upper, NULL, "XML, line 1: entity declarations are"
           " refused: write the entity's text instead", NULL,
           "an external entity");
    is_out("<!DOCTYPE l SYSTEM \"http://127.0.0.1/x.dtd\"><l>x y</l>", &p,
           upper, NULL, "<!DOCTYPE l SYSTEM \"http://127.0.0.1/x.dtd\">"
           "<l>X Y</l>", NULL, "an external subset is not read");

    list.item = (const char *[]) { "x" };
    list.n = 1;
    p.ignore_tags = list;
    is_out("Set <x>%s foo</x> now", &p, constant, "Jetzt %s foo",
           "Jetzt <x>%s foo</x>", "Set %s foo now|", "ignore_tags");

    p = params(HYMT_FORMAT_XML, "en", "de");
    p.splitting_tags = list;
    p.tags_by_model = true;
    is_out("One <x>two <y>three</y></x> four", &p, upper, NULL,
           "ONE <x>TWO <y>THREE</y></x> FOUR", "One|two <s1>three</s1>|four|",
           "splitting_tags");

    p.splitting_tags.n = 0;
    p.non_splitting_tags = list;
    p.inline_tags_split = true;
    is_out("One <x>two</x> <y>three</y>", &p, upper, NULL,
           "ONE <x>TWO</x> <y>THREE</y>", "One <s1>two</s1>|three|",
           "all tags split but one");

    p = params(HYMT_FORMAT_XML, "en", "de");
    p.tags_by_model = true;
    is_out("<d><x>one</x><y>two</y></d>", &p, upper, NULL,
           "<d><x>ONE</x><y>TWO</y></d>", "one|two|", "the structure splits");

    p.listed_tags_split = true;
    is_out("<d><x>one</x><y>two</y></d>", &p, upper, NULL,
           "<d><x>ONE</x><y>TWO</y></d>", "<s1>one</s1><s2>two</s2>|",
           "only listed tags split: none");

    list.item = (const char *[]) { "y" };
    p.splitting_tags = list;
    p.splitting_tags.n = 1;
    is_out("<d><x>one</x> <x>two</x><y>three</y></d>", &p, upper, NULL,
           "<d><x>ONE</x> <x>TWO</x><y>THREE</y></d>",
           "<s1>one</s1> <s2>two</s2>|three|", "only listed tags split: one");
}


typedef struct {
    size_t  n;
    size_t  len;
    size_t  context_len;
} waiting_t;


static void
wait_for(const hymt_unit_t *unit, void *data)
{
    waiting_t  *w;

    w = data;
    w->n++;
    w->len += unit->len;
    w->context_len += unit->context_len;
}


/* 100 KB in 400 paragraphs; answers come in from the last to the first */
static void
test_long(void)
{
    char                    *text, *p;
    size_t                   n, i, k, ends, ready;
    const char              *s;
    waiting_t                waiting, sent;
    hymt_unit_t              unit, *units;
    hymt_status_t            rc;
    hymt_document_t         *doc;
    hymt_document_params_t   prm;

    text = malloc(200000);
    p = text;

    for (i = 0; i < 400; i++) {
        p += sprintf(p, "Paragraph %zu begins. %s\n\n", i,
                     "It has sentences, e.g. this one by Dr. No. And this one,"
                     " which is longer than most. One more sentence comes here,"
                     " then another. Do you read them all? No! Nobody does,"
                     " says Mr. Smith.");
    }

    n = (size_t) (p - text);
    prm = params(HYMT_FORMAT_TEXT, "en", "de");
    prm.unit_bytes = 100;
    prm.neighbours = true;

    rc = hymt_document_create(text, n, &prm, &doc, &err);
    is_int(rc, HYMT_OK, "%zu bytes", n);

    units = calloc(10000, sizeof(hymt_unit_t));

    memset(&waiting, 0, sizeof(waiting));
    memset(&sent, 0, sizeof(sent));

    hymt_document_waiting(doc, wait_for, &waiting);

    for (k = 0; k < 10000; k++) {
        if (hymt_document_next(doc, &units[k]) != HYMT_OK) {
            break;
        }

        wait_for(&units[k], &sent);

        if (units[k].len > 100) {
            ok(false, "unit %zu has %zu bytes", k, units[k].len);
        }
    }

    ok(k >= 1200 && k < 2000, "%zu units", k);
    is_int(hymt_document_next(doc, &unit), HYMT_AGAIN, "all are out");
    is_int(waiting.n, k, "as many as were waiting");
    is_int(waiting.len, sent.len, "of as many bytes");
    ok(sent.context_len > 0, "with their contexts");
    is_int(waiting.context_len, sent.context_len, "of as many bytes");

    hymt_document_waiting(doc, wait_for, &waiting);
    is_int(waiting.n, k, "none waits any more");
    ok(units[0].context == NULL, "the first has no context");
    ok(units[1].context == units[0].text, "the second has the first");

    while (k-- > 1) {
        hymt_document_result(doc, units[k].id, "Ein\nSatz", 8, false);
    }

    hymt_document_ready(doc, 0, &s, &ready);
    is_int(ready, 0, "nothing is ready before the first");
    is_int(hymt_document_output(doc, &s, &ready), HYMT_AGAIN, "nor whole");

    hymt_document_result(doc, units[0].id, "Ein Satz", 8, false);
    hymt_document_result(doc, units[0].id, "again", 5, false);
    hymt_document_result(doc, 123456, "unknown", 7, false);

    is_int(hymt_document_next(doc, &unit), HYMT_DECLINED, "all are done");
    is_int(hymt_document_output(doc, &s, &n), HYMT_OK, "whole");

    for (i = 0, ends = 0; i + 1 < n; i++) {
        ends += s[i] == '\n' && s[i + 1] == '\n';
    }

    is_int(ends, 400, "paragraphs");

    hymt_document_free(doc);

    prm.max_units = 100;
    rc = hymt_document_create(text, (size_t) (p - text), &prm, &doc, &err);
    is_int(rc, HYMT_ERROR, "max_units");
    has_str(err.text, "more than 100 units", "says so");

    free(units);
    free(text);
}


int
main(void)
{
    test_text();
    test_placeholders();
    test_joined();
    test_guard();
    test_stream();
    test_html();
    test_tags();
    test_xml();
    test_long();

    return tap_done();
}
