/*
 * glossary_fixture.h - what the tests of glossaries ask alike.
 */

#ifndef HYMT_GLOSSARY_FIXTURE_H
#define HYMT_GLOSSARY_FIXTURE_H

#include "glossary.h"
#include "tap.h"


static hymt_error_t  err;


static inline int
lang(const char *code)
{
    return hymt_lang_find(code, strlen(code));
}


/* the source terms that match, "a|b" */
static inline const char *
matches(const hymt_glossary_t *g, const char *text, bool icase, uint32_t max)
{
    size_t                        len;
    uint32_t                      i, n;
    const hymt_glossary_entry_t  *out[32];

    static char  buf[1024];

    buf[0] = '\0';

    if (hymt_glossary_match(g, text, strlen(text), icase, out, max, &n, &err)
        != HYMT_OK)
    {
        return err.text;
    }

    for (i = 0, len = 0; i < n; i++) {
        len += (size_t) snprintf(buf + len, sizeof(buf) - len, "%s%s",
                                 i == 0 ? "" : "|", out[i]->src);
    }

    return buf;
}


#endif /* HYMT_GLOSSARY_FIXTURE_H */
