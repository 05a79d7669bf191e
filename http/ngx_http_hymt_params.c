
/*
 * Copyright (C) the hymt authors
 */


/*
 * The parameters of a request, whatever way they came: JSON, a form of either
 * encoding, or the query string.  On any thread.
 */


#include "ngx_http_hymt.h"
#include "json_quick.h"

#include <float.h>
#include <math.h>


#define NGX_HTTP_HYMT_MAX_FIELDS   2000

/* values of JSON beside the texts: options, terms, messages */
#define NGX_HTTP_HYMT_MORE_VALUES  2000


static json_t *ngx_http_hymt_params_json(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_no_utf8(ngx_http_hymt_call_t *call);
static size_t ngx_http_hymt_values(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_params_form(ngx_http_hymt_call_t *call,
    json_t *root, const char *data, size_t len);
static ngx_int_t ngx_http_hymt_decode(ngx_http_hymt_call_t *call,
    const char *data, size_t len, char **text, size_t *text_len);
static ngx_int_t ngx_http_hymt_params_multipart(ngx_http_hymt_call_t *call,
    json_t *root);
static ngx_int_t ngx_http_hymt_part(ngx_http_hymt_call_t *call, json_t *root,
    const char *data, size_t len);
static ngx_int_t ngx_http_hymt_put(ngx_http_hymt_call_t *call, json_t *root,
    const char *name, const char *value, size_t len);
static ngx_int_t ngx_http_hymt_wrong(ngx_http_hymt_call_t *call,
    const char *name, const char *want, json_t *value);
static ngx_int_t ngx_http_hymt_no_number(ngx_http_hymt_call_t *call,
    const char *name, const char *want, json_t *value);
static ngx_int_t ngx_http_hymt_no_memory(ngx_http_hymt_call_t *call);


json_t *
ngx_http_hymt_params(ngx_http_hymt_call_t *call)
{
    json_t     *root;
    ngx_int_t   rc;

    if (call->type == NGX_HTTP_HYMT_JSON) {
        return ngx_http_hymt_params_json(call);
    }

    root = json_object();

    if (root == NULL) {
        (void) ngx_http_hymt_no_memory(call);
        return NULL;
    }

    call->root = root;

    rc = ngx_http_hymt_params_form(call, root, (char *) call->args.data,
                                   call->args.len);

    if (rc == NGX_OK && call->type == NGX_HTTP_HYMT_FORM) {
        rc = ngx_http_hymt_params_form(call, root, call->body,
                                       call->body_len);

    } else if (rc == NGX_OK && call->type == NGX_HTTP_HYMT_MULTIPART) {
        rc = ngx_http_hymt_params_multipart(call, root);
    }

    return rc == NGX_OK ? root : NULL;
}


static json_t *
ngx_http_hymt_params_json(ngx_http_hymt_call_t *call)
{
    json_t        *root;
    size_t         most;
    json_error_t   error;

    if (call->body_len == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_body",
                           "the body is empty");
        return NULL;
    }

    most = (size_t) call->conf->max_texts + NGX_HTTP_HYMT_MORE_VALUES;
    root = hymt_json_quick(call->body, call->body_len, most);

    if (root == NULL) {

        if (ngx_http_hymt_values(call) > most) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "too_many_values",
                               "the body has many more values than the %ld"
                               " texts that are taken need",
                               (long) call->conf->max_texts);
            return NULL;
        }

        root = json_loadb(call->body, call->body_len,
                          JSON_REJECT_DUPLICATES|JSON_ALLOW_NUL, &error);
    }

    if (root == NULL) {
        if (json_error_code(&error) == json_error_invalid_utf8) {
            ngx_http_hymt_no_utf8(call);

        } else {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_json",
                               "line %d, column %d: %s", error.line,
                               error.column, error.text);
        }

        return NULL;
    }

    call->root = root;

    if (!json_is_object(root)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                           "the body must be a JSON object, not %s",
                           ngx_http_hymt_type(json_typeof(root)));
        return NULL;
    }

    return root;
}


/* Jansson tells no column of it. */
static void
ngx_http_hymt_no_utf8(ngx_http_hymt_call_t *call)
{
    size_t       bad;
    ngx_uint_t   line, column;
    const char  *p, *last;

    bad = 0;

    (void) hymt_utf8_check(call->body, call->body_len, &bad);

    line = 1;
    column = 1;
    last = call->body + bad;

    for (p = call->body; p < last; p++) {

        if (*p == '\n') {
            line++;
            column = 1;

        } else if ((*p & 0xc0) != 0x80) {
            column++;
        }
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                       "line %lu, column %lu: the body is not UTF-8",
                       (unsigned long) line, (unsigned long) column);
}


/*
 * At most how many values a body has: a tree of them may take a hundred times
 * its bytes, and only these are charged.
 */
static size_t
ngx_http_hymt_values(ngx_http_hymt_call_t *call)
{
    size_t       n;
    ngx_uint_t   quoted;
    const char  *p, *last;

    n = 0;
    quoted = 0;
    last = call->body + call->body_len;

    for (p = call->body; p < last; p++) {

        if (*p == '"') {
            quoted = !quoted;

        } else if (quoted) {
            if (*p == '\\' && p + 1 < last) {
                p++;
            }

        } else if (*p == ',' || *p == '[' || *p == '{') {
            n++;
        }
    }

    return n;
}


/* application/x-www-form-urlencoded, WHATWG's URL standard, section 5.1 */
static ngx_int_t
ngx_http_hymt_params_form(ngx_http_hymt_call_t *call, json_t *root,
    const char *data, size_t len)
{
    char        *name, *value;
    size_t       name_len, value_len, n;
    ngx_int_t    rc;
    const char  *end, *amp, *eq;

    end = data + len;

    while (data < end) {
        amp = memchr(data, '&', end - data);
        amp = amp ? amp : end;

        if (amp == data) {
            data++;
            continue;
        }

        eq = memchr(data, '=', amp - data);
        n = eq ? (size_t) (eq - data) : (size_t) (amp - data);
        eq = eq ? eq + 1 : amp;

        if (ngx_http_hymt_decode(call, data, n, &name, &name_len) != NGX_OK) {
            return NGX_ERROR;
        }

        if (ngx_http_hymt_decode(call, eq, amp - eq, &value, &value_len)
            != NGX_OK)
        {
            free(name);
            return NGX_ERROR;
        }

        rc = ngx_http_hymt_put(call, root, name, value, value_len);

        free(name);
        free(value);

        if (rc != NGX_OK) {
            return rc;
        }

        data = amp + 1;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_decode(ngx_http_hymt_call_t *call, const char *data, size_t len,
    char **text, size_t *text_len)
{
    char        *p;
    size_t       i;
    ngx_int_t    c;

    *text = malloc(len + 1);

    if (*text == NULL) {
        return ngx_http_hymt_no_memory(call);
    }

    p = *text;

    for (i = 0; i < len; i++) {

        if (data[i] == '+') {
            *p++ = ' ';

        } else if (data[i] == '%' && len - i > 2
                   && (c = ngx_hextoi((u_char *) data + i + 1, 2))
                      != NGX_ERROR)
        {
            *p++ = (char) c;
            i += 2;

        } else {
            *p++ = data[i];
        }
    }

    *p = '\0';
    *text_len = p - *text;

    if (!hymt_utf8_check(*text, *text_len, NULL)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                           "the form is not UTF-8");
        free(*text);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* multipart/form-data, RFC 7578: small fields; a file is a field as well. */
static ngx_int_t
ngx_http_hymt_params_multipart(ngx_http_hymt_call_t *call, json_t *root)
{
    char         mark[80];
    size_t       n;
    const char  *p, *end, *next;

    n = (size_t) snprintf(mark, sizeof(mark), "\r\n--%s", call->boundary);

    p = call->body;
    end = p + call->body_len;

    /* the first one has no line before it */

    if (call->body_len < n - 2 || memcmp(p, mark + 2, n - 2) != 0) {
        p = call->body_len ? memmem(p, call->body_len, mark, n) : NULL;

        if (p == NULL) {
            goto broken;
        }

        p += 2;
    }

    p += n - 2;

    for ( ;; ) {

        if (end - p >= 2 && p[0] == '-' && p[1] == '-') {
            return NGX_OK;
        }

        while (p < end && (*p == ' ' || *p == '\t')) {
            p++;
        }

        if (end - p < 2 || p[0] != '\r' || p[1] != '\n') {
            goto broken;
        }

        p += 2;
        next = memmem(p, end - p, mark, n);

        if (next == NULL) {
            goto broken;
        }

        if (ngx_http_hymt_part(call, root, p, next - p) != NGX_OK) {
            return NGX_ERROR;
        }

        p = next + n;
    }

broken:

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_form",
                       "the multipart/form-data body is malformed");

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_part(ngx_http_hymt_call_t *call, json_t *root, const char *data,
    size_t len)
{
    char         name[256];
    size_t       n;
    const char  *head, *p, *q;

    head = len ? memmem(data, len, "\r\n\r\n", 4) : NULL;
    p = head ? (char *) ngx_strlcasestrn((u_char *) data, (u_char *) head,
                                         (u_char *) " name=\"", 7 - 1)
             : NULL;
    q = p ? memchr(p + 7, '"', head - p - 7) : NULL;

    if (q == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_form",
                           "a part of the multipart/form-data body has no"
                           " name");
        return NGX_ERROR;
    }

    p += 7;
    n = ngx_min((size_t) (q - p), sizeof(name) - 1);

    ngx_memcpy(name, p, n);
    name[n] = '\0';

    head += 4;

    if (!hymt_utf8_check(name, n, NULL)
        || !hymt_utf8_check(head, data + len - head, NULL))
    {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                           "the form is not UTF-8");
        return NGX_ERROR;
    }

    return ngx_http_hymt_put(call, root, name, head, data + len - head);
}


static ngx_int_t
ngx_http_hymt_put(ngx_http_hymt_call_t *call, json_t *root, const char *name,
    const char *value, size_t len)
{
    json_t  *old, *array, *string;

    string = json_stringn(value, len);

    if (string == NULL) {
        return ngx_http_hymt_no_memory(call);
    }

    old = json_object_get(root, name);

    if (old == NULL) {

        if (json_object_size(root) >= NGX_HTTP_HYMT_MAX_FIELDS) {
            json_decref(string);
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_form",
                               "the form has too many fields");
            return NGX_ERROR;
        }

        return json_object_set_new(root, name, string) == 0
               ? NGX_OK : ngx_http_hymt_no_memory(call);
    }

    if (json_is_array(old)) {
        return json_array_append_new(old, string) == 0
               ? NGX_OK : ngx_http_hymt_no_memory(call);
    }

    array = json_array();

    if (array == NULL
        || json_array_append(array, old) != 0
        || json_array_append_new(array, string) != 0
        || json_object_set_new(root, name, array) != 0)
    {
        return ngx_http_hymt_no_memory(call);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_param_string(ngx_http_hymt_call_t *call, const char *name,
    const char **value, size_t *len)
{
    json_t  *v;

    v = json_object_get(call->root, name);

    if (v == NULL || json_is_null(v)) {
        return NGX_DECLINED;
    }

    /* of a form's repeated field, the last */

    if (json_is_array(v) && call->type != NGX_HTTP_HYMT_JSON) {
        v = json_array_get(v, json_array_size(v) - 1);
    }

    if (!json_is_string(v)) {
        return ngx_http_hymt_wrong(call, name, "a string", v);
    }

    *value = json_string_value(v);

    if (len != NULL) {
        *len = json_string_length(v);

    } else if (strlen(*value) != json_string_length(v)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s must not hold a NUL character", name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_param_bool(ngx_http_hymt_call_t *call, const char *name,
    ngx_uint_t *value)
{
    json_t      *v;
    const char  *text;

    v = json_object_get(call->root, name);

    if (v == NULL || json_is_null(v)) {
        return NGX_DECLINED;
    }

    if (json_is_boolean(v)) {
        *value = json_is_true(v);
        return NGX_OK;
    }

    text = json_string_value(v);

    if (text != NULL && strlen(text) == json_string_length(v)) {

        if (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0) {
            *value = 1;
            return NGX_OK;
        }

        if (strcmp(text, "0") == 0 || strcasecmp(text, "false") == 0
            || text[0] == '\0')
        {
            *value = 0;
            return NGX_OK;
        }
    }

    return ngx_http_hymt_wrong(call, name, "a boolean", v);
}


ngx_int_t
ngx_http_hymt_param_integer(ngx_http_hymt_call_t *call, const char *name,
    int64_t low, int64_t high, int64_t *value)
{
    char        *end;
    json_t      *v;
    long long    n;
    const char  *text;

    v = json_object_get(call->root, name);

    if (v == NULL || json_is_null(v)) {
        return NGX_DECLINED;
    }

    if (json_is_integer(v)) {
        n = json_integer_value(v);

    } else if (json_is_string(v) && call->type != NGX_HTTP_HYMT_JSON) {
        text = json_string_value(v);
        errno = 0;
        n = strtoll(text, &end, 10);

        if (end == text || end != text + json_string_length(v) || errno
            || (*text != '-' && (*text < '0' || *text > '9')))
        {
            return ngx_http_hymt_no_number(call, name, "an integer", v);
        }

    } else {
        return ngx_http_hymt_wrong(call, name, "an integer", v);
    }

    if (n < low || n > high) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s must be from %lld to %lld, not %lld", name,
                           (long long) low, (long long) high, n);
        return NGX_ERROR;
    }

    *value = n;

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_param_real(ngx_http_hymt_call_t *call, const char *name,
    double *value)
{
    double   x;
    json_t  *v;

    v = json_object_get(call->root, name);

    if (v == NULL || json_is_null(v)) {
        return NGX_DECLINED;
    }

    if (json_is_number(v)) {
        x = json_number_value(v);

    } else if (json_is_string(v) && call->type != NGX_HTTP_HYMT_JSON) {

        if (strlen(json_string_value(v)) != json_string_length(v)
            || ngx_http_hymt_decimal(json_string_value(v), &x) != NGX_OK)
        {
            return ngx_http_hymt_no_number(call, name, "a number", v);
        }

    } else {
        return ngx_http_hymt_wrong(call, name, "a number", v);
    }

    *value = x;

    return NGX_OK;
}


/* strtod() takes "inf", "nan", "0x1" and leading blanks as well */
ngx_int_t
ngx_http_hymt_decimal(const char *text, double *value)
{
    char    *end;
    double   x;

    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') {
        return NGX_ERROR;
    }

    errno = 0;
    x = strtod(text, &end);

    if (*end != '\0' || errno || !isfinite(x)) {
        return NGX_ERROR;
    }

    *value = x;

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_float(ngx_http_hymt_call_t *call, const char *name, double real,
    float *value)
{
    if (fabs(real) > FLT_MAX) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s: %g is out of range", name, real);
        return NGX_ERROR;
    }

    *value = (float) real;

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_param_strings(ngx_http_hymt_call_t *call, const char *name,
    ngx_uint_t comma, json_t **value)
{
    size_t       i, n;
    json_t      *v, *list, *one;
    const char  *p, *q;

    v = json_object_get(call->root, name);

    if (v == NULL || json_is_null(v)) {
        return NGX_DECLINED;
    }

    list = json_array();

    if (list == NULL) {
        return ngx_http_hymt_no_memory(call);
    }

    *value = list;

    if (json_is_array(v)) {

        json_array_foreach(v, i, one) {
            if (!json_is_string(one)) {
                json_decref(list);
                return ngx_http_hymt_wrong(call, name, "an array of strings",
                                           one);
            }

            if (json_array_append(list, one) != 0) {
                json_decref(list);
                return ngx_http_hymt_no_memory(call);
            }
        }

        return NGX_OK;
    }

    if (!json_is_string(v)) {
        json_decref(list);
        return ngx_http_hymt_wrong(call, name,
                                   "a string or an array of strings", v);
    }

    p = json_string_value(v);

    do {
        q = comma ? strchr(p, ',') : NULL;
        n = comma ? (q ? (size_t) (q - p) : strlen(p)) : json_string_length(v);

        if (json_array_append_new(list, json_stringn(p, n)) != 0) {
            json_decref(list);
            return ngx_http_hymt_no_memory(call);
        }

        p = q ? q + 1 : NULL;

    } while (p != NULL);

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_wrong(ngx_http_hymt_call_t *call, const char *name,
    const char *want, json_t *value)
{
    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                       "%s must be %s, not %s", name, want,
                       ngx_http_hymt_type(json_typeof(value)));

    return NGX_ERROR;
}


/* Of a form, where everything is a string. */
static ngx_int_t
ngx_http_hymt_no_number(ngx_http_hymt_call_t *call, const char *name,
    const char *want, json_t *value)
{
    char  shown[NGX_HTTP_HYMT_SHOWN];

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                       "%s must be %s, not \"%s\"", name, want,
                       ngx_http_hymt_show(shown, json_string_value(value),
                                          json_string_length(value)));

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_no_memory(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                       "out of memory");

    return NGX_ERROR;
}


const char *
ngx_http_hymt_show(char shown[NGX_HTTP_HYMT_SHOWN], const char *value,
    size_t len)
{
    size_t  i;

    len = hymt_utf8_whole(value, ngx_min(len, NGX_HTTP_HYMT_SHOWN - 1));

    for (i = 0; i < len; i++) {
        shown[i] = value[i] ? value[i] : '?';
    }

    shown[len] = '\0';

    return shown;
}


const char *
ngx_http_hymt_type(json_type type)
{
    switch (type) {

    case JSON_OBJECT:
        return "an object";

    case JSON_ARRAY:
        return "an array";

    case JSON_STRING:
        return "a string";

    case JSON_INTEGER:
        return "an integer";

    case JSON_REAL:
        return "a real number";

    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";

    case JSON_NULL:
        break;
    }

    return "null";
}
