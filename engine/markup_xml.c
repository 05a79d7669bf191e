/*
 * markup_xml.c - XML into spans, by Expat; see markup.h.
 *
 * What has neither XML declaration nor doctype may be a fragment (text and
 * several elements side by side): it is read inside an element of ours.
 * Documents that declare entities are refused: none of them is needed to
 * translate, and expanding them is the oldest attack there is.  References to
 * undeclared entities (HTML's) stay as they are.
 */

#include "markup_private.h"

#include <stdlib.h>
#include <string.h>

#include <expat.h>


#define HYMT_XML_OPEN   "<r>"
#define HYMT_XML_CLOSE  "</r>"


typedef struct {
    hymt_builder_t   b;
    XML_Parser       parser;
    uint32_t         len;
    uint32_t         shift;     /* bytes of ours before the text */
    uint32_t         at;        /* behind the last span */
    uint32_t         depth;     /* with our element */
    bool             entity;    /* one is declared */
} hymt_xml_t;


static bool hymt_xml_fragment(const char *text, size_t len);
static hymt_status_t hymt_xml_parse(hymt_xml_t *x, const char *text,
    hymt_error_t *err);
static hymt_status_t hymt_xml_failed(hymt_xml_t *x, hymt_error_t *err);
static void XMLCALL hymt_xml_start(void *data, const XML_Char *name,
    const XML_Char **attrs);
static void XMLCALL hymt_xml_end(void *data, const XML_Char *name);
static void XMLCALL hymt_xml_comment(void *data, const XML_Char *text);
static void XMLCALL hymt_xml_pi(void *data, const XML_Char *target,
    const XML_Char *text);
static void XMLCALL hymt_xml_cdata(void *data);
static void XMLCALL hymt_xml_cdata_end(void *data);
static void XMLCALL hymt_xml_entity(void *data, const XML_Char *name,
    int is_parameter, const XML_Char *value, int len, const XML_Char *base,
    const XML_Char *system, const XML_Char *public, const XML_Char *notation);
static void hymt_xml_upto(hymt_xml_t *x, uint32_t at);
static void hymt_xml_span(hymt_xml_t *x, hymt_span_kind_t kind);
static uint32_t hymt_xml_at(const hymt_xml_t *x);
static int hymt_xml_translate(const XML_Char **attrs);
static void hymt_xml_inline(hymt_xml_t *x);


hymt_status_t
hymt_markup_xml(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_markup_t *m, hymt_error_t *err)
{
    hymt_xml_t     x;
    hymt_status_t  rc;

    if (len >= INT32_MAX - 64) {
        return hymt_fail(err, "XML of %zu bytes: at most %d", len,
                         INT32_MAX - 64);
    }

    memset(&x, 0, sizeof(x));

    x.len = (uint32_t) len;
    x.b.text = text;
    x.b.params = params;
    x.b.markup = m;
    x.b.root = HYMT_SPAN_NONE;

    if (hymt_xml_fragment(text, len)) {
        x.shift = sizeof(HYMT_XML_OPEN) - 1;
    }

    /* the text is UTF-8 whatever its declaration says */

    x.parser = XML_ParserCreate("UTF-8");

    if (x.parser == NULL) {
        return hymt_fail(err, "no memory for an XML parser");
    }

    XML_SetUserData(x.parser, &x);
    XML_SetElementHandler(x.parser, hymt_xml_start, hymt_xml_end);
    XML_SetCommentHandler(x.parser, hymt_xml_comment);
    XML_SetProcessingInstructionHandler(x.parser, hymt_xml_pi);
    XML_SetCdataSectionHandler(x.parser, hymt_xml_cdata, hymt_xml_cdata_end);
    XML_SetEntityDeclHandler(x.parser, hymt_xml_entity);
    XML_UseForeignDTD(x.parser, XML_TRUE);

    rc = hymt_xml_parse(&x, text, err);

    if (rc == HYMT_OK) {
        hymt_xml_upto(&x, x.len);
        hymt_xml_inline(&x);

        if (x.b.no_memory) {
            rc = hymt_fail(err, "no memory for XML of %zu bytes", len);
        }
    }

    XML_ParserFree(x.parser);
    free(x.b.open);

    return rc;
}


/* no declaration, no doctype: the prolog is comments, instructions, blanks */
static bool
hymt_xml_fragment(const char *text, size_t len)
{
    size_t       i;
    const char  *end;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }

    if (len >= 6 && memcmp(text, "<?xml", 5) == 0
        && strchr(" \t\r\n", text[5]) != NULL)
    {
        return false;
    }

    for (i = 0; i < len; i = (size_t) (end - text) + 1) {

        i += strspn(text + i, " \t\r\n");

        if (len - i >= 9 && memcmp(text + i, "<!DOCTYPE", 9) == 0) {
            return false;
        }

        if (len - i >= 4 && memcmp(text + i, "<!--", 4) == 0) {
            end = memmem(text + i + 4, len - i - 4, "-->", 3);
            end = end != NULL ? end + 2 : NULL;

        } else if (len - i >= 2 && memcmp(text + i, "<?", 2) == 0) {
            end = memmem(text + i + 2, len - i - 2, "?>", 2);
            end = end != NULL ? end + 1 : NULL;

        } else {
            return true;
        }

        if (end == NULL) {
            return true;
        }
    }

    return true;
}


static hymt_status_t
hymt_xml_parse(hymt_xml_t *x, const char *text, hymt_error_t *err)
{
    enum XML_Status  status;

    if (x->shift == 0) {
        status = XML_Parse(x->parser, text, (int) x->len, 1);
        return status == XML_STATUS_OK ? HYMT_OK : hymt_xml_failed(x, err);
    }

    /* a BOM inside our element would be text */

    if (XML_Parse(x->parser, HYMT_XML_OPEN, sizeof(HYMT_XML_OPEN) - 1, 0)
            != XML_STATUS_OK
        || XML_Parse(x->parser, text, (int) x->len, 0) != XML_STATUS_OK
        || XML_Parse(x->parser, HYMT_XML_CLOSE, sizeof(HYMT_XML_CLOSE) - 1, 1)
            != XML_STATUS_OK)
    {
        return hymt_xml_failed(x, err);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_xml_failed(hymt_xml_t *x, hymt_error_t *err)
{
    unsigned long   line, column;
    enum XML_Error  e;

    line = XML_GetCurrentLineNumber(x->parser);
    column = XML_GetCurrentColumnNumber(x->parser) + 1;

    if (line == 1 && column > x->shift) {
        column -= x->shift;
    }

    if (x->entity) {
        return hymt_fail(err, "XML, line %lu: entity declarations are refused:"
                         " write the entity's text instead", line);
    }

    e = XML_GetErrorCode(x->parser);

    if (e == XML_ERROR_NO_MEMORY || x->b.no_memory) {
        return hymt_fail(err, "no memory for XML of %u bytes", x->len);
    }

    if (x->shift != 0 && hymt_xml_at(x) >= x->len) {
        return hymt_fail(err, "XML: the text ends inside an element or tag: is"
                         " an end tag missing?");
    }

    return hymt_fail(err, "XML, line %lu, column %lu: %s: send well-formed XML,"
                     " or use html", line, column, XML_ErrorString(e));
}


static void XMLCALL
hymt_xml_start(void *data, const XML_Char *name, const XML_Char **attrs)
{
    hymt_tag_t   tag;
    hymt_xml_t  *x;

    x = data;

    if (x->depth++ == 0 && x->shift != 0) {
        return;
    }

    hymt_xml_upto(x, hymt_xml_at(x));
    memset(&tag, 0, sizeof(tag));

    tag.at = x->at;
    tag.len = (uint32_t) XML_GetCurrentByteCount(x->parser);
    tag.name = tag.at + 1;
    tag.name_len = (uint32_t) strlen(name);
    tag.translate = hymt_xml_translate(attrs);
    tag.empty = x->b.text[tag.at + tag.len - 2] == '/';

    x->at += tag.len;

    hymt_build_open(&x->b, &tag);
}


static void XMLCALL
hymt_xml_end(void *data, const XML_Char *name)
{
    uint32_t     at, len;
    hymt_xml_t  *x;

    (void) name;

    x = data;

    if (--x->depth == 0 && x->shift != 0) {
        return;
    }

    at = hymt_xml_at(x);
    len = (uint32_t) XML_GetCurrentByteCount(x->parser);

    /* <x/> ends where it began, and has been handled whole */

    if (at < x->at || len == 0 || x->b.n_open == 0) {
        return;
    }

    hymt_xml_upto(x, at);
    hymt_build_close(&x->b, x->b.n_open - 1, at, len);
    x->at = at + len;
}


static void XMLCALL
hymt_xml_comment(void *data, const XML_Char *text)
{
    (void) text;

    hymt_xml_span(data, HYMT_SPAN_VOID);
}


static void XMLCALL
hymt_xml_pi(void *data, const XML_Char *target, const XML_Char *text)
{
    (void) target;
    (void) text;

    hymt_xml_span(data, HYMT_SPAN_VOID);
}


static void XMLCALL
hymt_xml_cdata(void *data)
{
    hymt_xml_upto(data, hymt_xml_at(data));
}


static void XMLCALL
hymt_xml_cdata_end(void *data)
{
    uint32_t     end;
    hymt_xml_t  *x;

    x = data;

    end = hymt_xml_at(x) + (uint32_t) XML_GetCurrentByteCount(x->parser);

    hymt_build_span(&x->b, HYMT_SPAN_VOID, x->at, end - x->at);
    x->at = end;
}


static void XMLCALL
hymt_xml_entity(void *data, const XML_Char *name, int is_parameter,
    const XML_Char *value, int len, const XML_Char *base,
    const XML_Char *system, const XML_Char *public, const XML_Char *notation)
{
    hymt_xml_t  *x;

    (void) name;
    (void) is_parameter;
    (void) value;
    (void) len;
    (void) base;
    (void) system;
    (void) public;
    (void) notation;

    x = data;

    x->entity = true;
    XML_StopParser(x->parser, XML_FALSE);
}


/* what lies between the last span and at: text, or the prolog */
static void
hymt_xml_upto(hymt_xml_t *x, uint32_t at)
{
    bool  outside;

    if (at <= x->at) {
        return;
    }

    outside = x->b.n_open == 0 && x->shift == 0;

    hymt_build_span(&x->b, outside ? HYMT_SPAN_BREAK : HYMT_SPAN_TEXT, x->at,
                    at - x->at);
    x->at = at;
}


static void
hymt_xml_span(hymt_xml_t *x, hymt_span_kind_t kind)
{
    uint32_t  len;

    /* in a doctype: part of the prolog */

    if (x->depth == 0) {
        return;
    }

    hymt_xml_upto(x, hymt_xml_at(x));
    len = (uint32_t) XML_GetCurrentByteCount(x->parser);
    hymt_build_span(&x->b, kind, x->at, len);
    x->at += len;
}


/* in the text */
static uint32_t
hymt_xml_at(const hymt_xml_t *x)
{
    XML_Index  at;

    at = XML_GetCurrentByteIndex(x->parser);

    if (at < (XML_Index) x->shift) {
        return 0;
    }

    return hymt_min((uint32_t) at - x->shift, x->len);
}


/* translate, its:translate; class as in HTML */
static int
hymt_xml_translate(const XML_Char **attrs)
{
    int          t, class;
    size_t       i;
    const char  *colon;

    t = -1;
    class = -1;

    for (i = 0; attrs[i] != NULL; i += 2) {
        colon = strrchr(attrs[i], ':');
        colon = colon != NULL ? colon + 1 : attrs[i];

        if (strcmp(colon, "translate") == 0) {
            t = hymt_build_translate(attrs[i + 1], strlen(attrs[i + 1]));

        } else if (strcmp(attrs[i], "class") == 0
                   && hymt_build_notranslate(attrs[i + 1],
                                             strlen(attrs[i + 1])))
        {
            class = 0;
        }
    }

    return t != -1 ? t : class;
}


/* which tags lie inside of sentences: parents come before their children */
static void
hymt_xml_inline(hymt_xml_t *x)
{
    uint32_t      i;
    hymt_span_t  *span, *s;

    span = x->b.markup->span;

    for (i = 0; i < x->b.markup->n; i++) {
        s = &span[i];

        if (!s->element) {
            continue;
        }

        if (s->splits != -1) {
            s->is_inline = s->splits == 0;

        } else if (s->parent == HYMT_SPAN_NONE) {
            s->is_inline = x->b.mixed;

        } else {
            s->is_inline = span[s->parent].mixed || span[s->parent].is_inline;
        }

        if (!s->is_inline) {

            if (s->match != HYMT_SPAN_NONE) {
                span[s->match].kind = HYMT_SPAN_BREAK;
            }

            s->kind = HYMT_SPAN_BREAK;
        }
    }
}
