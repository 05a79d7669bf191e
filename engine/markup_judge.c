/*
 * markup_judge.c - see markup_judge.h.
 */

#include "markup_judge.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <expat.h>
#include <libxml/HTMLparser.h>


/*
 * Text beside elements at the top would be given a paragraph by libxml2; in
 * XML it would be malformed.
 */
#define HYMT_JUDGE_OPEN   "<div>"
#define HYMT_JUDGE_CLOSE  "</div>"

#define HYMT_JUDGE_HTML_OPTIONS                                               \
    (HTML_PARSE_RECOVER | HTML_PARSE_NONET | HTML_PARSE_NOIMPLIED             \
     | HTML_PARSE_IGNORE_ENC | HTML_PARSE_NODEFDTD)


/* What a fragment holds: the order of what is summed makes no difference. */
typedef struct {
    uint64_t          sum;
    uint32_t          n;
    uint32_t          depth;
    bool              deep;
    htmlParserCtxtPtr html;                      /* to stop it, or NULL */
    XML_Parser        xml;
    uint64_t          open[HYMT_JUDGE_DEPTH];    /* name, and those around */
} hymt_holding_t;


static bool hymt_judge_fits(const char *p, size_t len);
static bool hymt_judge_html(const char *p, size_t len, hymt_holding_t *h);
static bool hymt_judge_xml(const char *p, size_t len, hymt_holding_t *h);
static void hymt_judge_once(void);
static void hymt_judge_start(void *data, const char *name,
    const char **attrs);
static void hymt_judge_end(void *data, const char *name);
static void hymt_judge_comment(void *data, const char *text);
static void hymt_judge_pi(void *data, const char *target, const char *text);
static void hymt_judge_html_start(void *data, const xmlChar *name,
    const xmlChar **attrs);
static void hymt_judge_html_end(void *data, const xmlChar *name);
static void hymt_judge_html_comment(void *data, const xmlChar *text);
static void hymt_judge_html_pi(void *data, const xmlChar *target,
    const xmlChar *text);
static void hymt_judge_html_error(void *data, xmlErrorPtr error);
static void hymt_judge_add(hymt_holding_t *h, uint64_t hash);
static uint64_t hymt_judge_hash(uint64_t hash, const char *s);


hymt_judgement_t
hymt_markup_judge(hymt_format_t format, const char *was, size_t was_len,
    const char *is, size_t is_len)
{
    bool            good;
    hymt_holding_t  had, has;

    if (!hymt_judge_fits(was, was_len) || !hymt_judge_fits(is, is_len)) {
        return HYMT_JUDGE_UNKNOWN;
    }

    if (format == HYMT_FORMAT_HTML) {

        if (!hymt_judge_html(was, was_len, &had)) {
            return HYMT_JUDGE_UNKNOWN;
        }

        good = hymt_judge_html(is, is_len, &has);

    } else {

        if (!hymt_judge_xml(was, was_len, &had)) {
            return HYMT_JUDGE_UNKNOWN;
        }

        good = hymt_judge_xml(is, is_len, &has);
    }

    return good && had.n == has.n && had.sum == has.sum ? HYMT_JUDGE_SAME
                                                        : HYMT_JUDGE_OTHER;
}


/* not too long, and no tag with attributes without number */
static bool
hymt_judge_fits(const char *p, size_t len)
{
    bool      tag;
    size_t    i;
    uint32_t  n;

    if (len > HYMT_JUDGE_BYTES) {
        return false;
    }

    tag = false;
    n = 0;

    for (i = 0; i < len; i++) {

        switch (p[i]) {

        case '<':
            tag = true;
            n = 0;
            break;

        case '>':
            tag = false;
            break;

        /* what parts attributes */

        case ' ': case '\t': case '\n': case '\f': case '\r':
        case '"': case '\'':
            if (tag && ++n > HYMT_JUDGE_TAGS) {
                return false;
            }

            break;
        }
    }

    return true;
}


static bool
hymt_judge_html(const char *p, size_t len, hymt_holding_t *h)
{
    char               *text, *end;
    bool                good;
    xmlDocPtr           doc;
    htmlParserCtxtPtr   ctxt;

    static pthread_once_t  once = PTHREAD_ONCE_INIT;

    pthread_once(&once, hymt_judge_once);

    h->sum = 0;
    h->n = 0;
    h->depth = 0;
    h->deep = false;
    h->xml = NULL;

    text = malloc(len + sizeof(HYMT_JUDGE_OPEN HYMT_JUDGE_CLOSE));
    ctxt = htmlNewParserCtxt();

    if (text == NULL || ctxt == NULL) {
        free(text);
        htmlFreeParserCtxt(ctxt);
        return false;
    }

    end = stpcpy(text, HYMT_JUDGE_OPEN);
    memcpy(end, p, len);
    end = stpcpy(end + len, HYMT_JUDGE_CLOSE);

    memset(ctxt->sax, 0, sizeof(*ctxt->sax));

    ctxt->sax->initialized = XML_SAX2_MAGIC;
    ctxt->sax->startElement = hymt_judge_html_start;
    ctxt->sax->endElement = hymt_judge_html_end;
    ctxt->sax->comment = hymt_judge_html_comment;
    ctxt->sax->processingInstruction = hymt_judge_html_pi;
    ctxt->sax->serror = hymt_judge_html_error;
    ctxt->userData = h;
    h->html = ctxt;

    doc = htmlCtxtReadMemory(ctxt, text, (int) (end - text), NULL, "UTF-8",
                             HYMT_JUDGE_HTML_OPTIONS);

    good = !h->deep && ctxt->errNo != XML_ERR_NO_MEMORY;

    if (doc != NULL) {
        xmlFreeDoc(doc);
    }

    htmlFreeParserCtxt(ctxt);
    free(text);

    return good;
}


static void
hymt_judge_once(void)
{
    xmlInitParser();
}


static bool
hymt_judge_xml(const char *p, size_t len, hymt_holding_t *h)
{
    bool        good;
    XML_Parser  parser;

    h->sum = 0;
    h->n = 0;
    h->depth = 0;
    h->deep = false;
    h->html = NULL;

    parser = XML_ParserCreate("UTF-8");

    if (parser == NULL) {
        return false;
    }

    h->xml = parser;

    XML_SetUserData(parser, h);
    XML_SetElementHandler(parser, hymt_judge_start, hymt_judge_end);
    XML_SetCommentHandler(parser, hymt_judge_comment);
    XML_SetProcessingInstructionHandler(parser, hymt_judge_pi);

    /* references to entities of a doctype elsewhere are none of our concern */

    XML_UseForeignDTD(parser, XML_TRUE);

    good = XML_Parse(parser, HYMT_JUDGE_OPEN, sizeof(HYMT_JUDGE_OPEN) - 1, 0)
           && XML_Parse(parser, p, (int) len, 0)
           && XML_Parse(parser, HYMT_JUDGE_CLOSE,
                        sizeof(HYMT_JUDGE_CLOSE) - 1, 1);

    XML_ParserFree(parser);

    return good && !h->deep;
}


static void
hymt_judge_start(void *data, const char *name, const char **attrs)
{
    uint64_t         hash, attr;
    hymt_holding_t  *h;

    h = data;

    if (h->depth == HYMT_JUDGE_DEPTH) {
        h->deep = true;

        if (h->html != NULL) {
            xmlStopParser(h->html);

        } else {
            XML_StopParser(h->xml, XML_FALSE);
        }

        return;
    }

    hash = h->depth != 0 ? h->open[h->depth - 1] : 1;
    hash = hymt_judge_hash(hash, name);
    h->open[h->depth++] = hash;

    hymt_judge_add(h, hash);

    for ( /* void */ ; attrs != NULL && attrs[0] != NULL; attrs += 2) {
        attr = hymt_judge_hash(hash, attrs[0]);
        attr = hymt_judge_hash(attr, attrs[1] != NULL ? attrs[1] : "");
        hymt_judge_add(h, attr);
    }
}


static void
hymt_judge_end(void *data, const char *name)
{
    hymt_holding_t  *h;

    (void) name;

    h = data;
    h->depth -= h->depth != 0;
}


static void
hymt_judge_comment(void *data, const char *text)
{
    hymt_judge_add(data, hymt_judge_hash(2, text));
}


static void
hymt_judge_pi(void *data, const char *target, const char *text)
{
    hymt_judge_add(data, hymt_judge_hash(hymt_judge_hash(3, target),
                                         text != NULL ? text : ""));
}


static void
hymt_judge_html_start(void *data, const xmlChar *name, const xmlChar **attrs)
{
    hymt_judge_start(data, (const char *) name, (const char **) attrs);
}


static void
hymt_judge_html_end(void *data, const xmlChar *name)
{
    hymt_judge_end(data, (const char *) name);
}


static void
hymt_judge_html_comment(void *data, const xmlChar *text)
{
    hymt_judge_comment(data, (const char *) text);
}


static void
hymt_judge_html_pi(void *data, const xmlChar *target, const xmlChar *text)
{
    hymt_judge_pi(data, (const char *) target, (const char *) text);
}


/* a page's mistakes are not news: without this they went to stderr */
static void
hymt_judge_html_error(void *data, xmlErrorPtr error)
{
    (void) data;
    (void) error;
}


static void
hymt_judge_add(hymt_holding_t *h, uint64_t hash)
{
    /* the mixer of MurmurHash3, so that sums of hashes tell them apart */

    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdu;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53u;
    hash ^= hash >> 33;

    h->sum += hash;
    h->n++;
}


/* FNV-1a, the terminating NUL included */
static uint64_t
hymt_judge_hash(uint64_t hash, const char *s)
{
    hash ^= 0xcbf29ce484222325u;

    do {
        hash ^= (unsigned char) *s;
        hash *= 0x100000001b3u;
    } while (*s++ != '\0');

    return hash;
}
