/*
 * The page's program: asks the native API and shows what comes.  Whatever comes
 * from outside becomes text, never HTML.
 */

const api = new URL(document.documentElement.dataset.api, document.baseURI);

const rightToLeft = new Set(['ar', 'fa', 'he', 'ug', 'ur']);

const page = {};

for (const element of document.querySelectorAll('[id]')) {
    page[element.id] = element;
}

let run = null;         /* AbortController of the translation under way */
let detected = '';      /* what "auto" was found to be */


page.form.addEventListener('submit', (event) => {
    event.preventDefault();
    translate();
});

page.form.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        page.form.requestSubmit();

    } else if (event.key === 'Escape' && run !== null) {
        stop();
    }
});

page.stop.addEventListener('click', stop);
page.swap.addEventListener('click', swap);
page.copy.addEventListener('click', copy);

for (const select of [page.source, page.target]) {
    select.addEventListener('change', () => {
        detected = '';
        remember();
    });
}

window.addEventListener('hashchange', recall);

loadLanguages();


/* ---- languages ---- */

async function loadLanguages() {
    try {
        const response = await ask(new URL('languages', api), {});
        const { languages } = await response.json();

        languages.sort((a, b) => a.name.localeCompare(b.name));

        for (const { code, name } of languages) {
            page.source.add(new Option(name, code));
            page.target.add(new Option(name, code));
        }

        recall();

    } catch (error) {
        fail(error);
    }
}


/* The languages live in the address, as #en/de: to be kept or handed on. */

function remember() {
    history.replaceState(null, '',
                         `#${page.source.value}/${page.target.value}`);
    mark(page.text, page.source.value);
}


function recall() {
    const [from, to] = location.hash.slice(1).split('/');

    for (const [select, code] of [[page.source, from], [page.target, to]]) {
        if ([...select.options].some((option) => option.value === code)) {
            select.value = code;
        }
    }

    mark(page.text, page.source.value);
}


/* Direction and, for the right shapes of Han characters, language. */

function mark(element, code) {
    const known = code !== '' && code !== 'auto';

    element.lang = known ? code : '';
    element.dir = !known ? 'auto' : rightToLeft.has(code) ? 'rtl' : 'ltr';
}


function swap() {
    const { source, target, text, out } = page;
    const from = source.value === 'auto' ? detected : source.value;

    stop();

    source.value = target.value;
    target.value = from;
    detected = '';

    if (out.textContent !== '') {
        text.value = out.textContent;
        out.textContent = '';
        page.usage.textContent = '';
        page.copy.disabled = true;
    }

    say('');
    remember();
}


/* ---- translation ---- */

async function translate() {
    const mine = new AbortController();
    const start = performance.now();
    const shown = document.createTextNode('');
    let result = null;

    run?.abort();
    run = mine;

    say('Translating…');
    page.usage.textContent = '';
    busy(true);
    mark(page.out, page.target.value);
    page.out.replaceChildren(shown);
    page.out.scrollIntoView({ block: 'nearest' });

    try {
        const response = await ask(api, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(question()),
            signal: mine.signal,
        });

        for await (const event of events(response.body)) {
            if (event.error) {
                throw new Error(event.error.message);
            }

            if (event.done) {
                result = event;

            } else {
                shown.appendData(event.delta);
            }
        }

        if (result === null) {
            throw new Error('The connection broke before the end.');
        }

        report(result, performance.now() - start);

    } catch (error) {
        if (run === mine) {
            fail(error);
        }

    } finally {
        if (run === mine) {
            run = null;
            busy(false);
        }
    }
}


function question() {
    const body = {
        text: page.text.value,
        src_lang: page.source.value,
        tgt_lang: page.target.value,
        stream: true,
    };

    const terms = glossary(page.terms.value);
    const context = page.context.value.trim();

    if (terms !== null) {
        body.terms = terms;
    }

    if (context !== '') {
        body.context = context;
    }

    if (page.html.checked) {
        body.format = 'html';
    }

    return body;
}


/* "term = translation" lines as an object; null without any. */

function glossary(text) {
    const terms = [];

    for (const [i, line] of text.split('\n').entries()) {
        const [, term, translation] = /^\s*(.*?)\s*=\s*(.*?)\s*$/.exec(line)
                                      ?? [];

        if (line.trim() === '') {
            continue;
        }

        if (!term || !translation) {
            page.more.open = true;
            throw new Error(`Glossary, line ${i + 1}: write`
                            + ' "term = translation".');
        }

        terms.push([term, translation]);
    }

    return terms.length ? Object.fromEntries(terms) : null;
}


function stop() {
    if (run === null) {
        return;
    }

    run.abort();
    run = null;

    say('Stopped.');
    busy(false);
}


function report(result, took) {
    const { usage, timing } = result;
    const parts = [`Done in ${seconds(took)}.`];

    if (page.source.value === 'auto') {
        detected = result.src_lang ?? '';

        parts.push(detected === '' ? 'The language was not recognised.'
                                   : `From ${languageName(detected)}.`);
    }

    if (result.finish_reason === 'length') {
        parts.push('Cut off: the translation became too long.');

    } else if (result.finish_reason === 'loop') {
        parts.push('Cut off: the model repeated itself.');
    }

    say(parts.join(' '));

    page.usage.textContent =
        `${usage.prompt_tokens.toLocaleString('en')} tokens in,`
        + ` ${usage.completion_tokens.toLocaleString('en')} out; in the engine:`
        + ` first token after ${seconds(timing.first_token_ms)}, all after`
        + ` ${seconds(timing.total_ms)}`;
}


function languageName(code) {
    return [...page.target.options].find((option) => option.value === code)
           ?.text ?? code;
}


function seconds(ms) {
    return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}


/* ---- what is shown ---- */

function say(text) {
    page.status.textContent = text;
    page.error.textContent = '';
}


function fail(error) {
    page.status.textContent = '';
    page.error.textContent = error.message;
    page.error.scrollIntoView({ block: 'nearest' });
}


function busy(yes) {
    /* a button that is switched off under the focus would lose it */

    if (!yes && document.activeElement === page.stop) {
        page.translate.focus();
    }

    /* spoken as a whole when it is done, not piece by piece */

    page.out.setAttribute('aria-busy', yes);
    page.stop.disabled = !yes;
    page.copy.disabled = yes || page.out.textContent === '';
}


async function copy() {
    try {
        await navigator.clipboard.writeText(page.out.textContent);

    } catch {

        /* no clipboard for pages that came over plain HTTP */

        getSelection().selectAllChildren(page.out);

        if (!document.execCommand('copy')) {
            fail(new Error('The browser does not let this page copy: the'
                           + ' translation is selected, press Ctrl+C.'));
            return;
        }
    }

    say('Copied.');
}


/* ---- HTTP ---- */

/* A response that is fine; else an error with the API's own message. */

async function ask(url, options) {
    let response, message;

    try {
        response = await fetch(url, options);

    } catch (error) {
        if (options.signal?.aborted) {
            throw error;
        }

        throw new Error('The server can not be reached.');
    }

    if (response.ok) {
        return response;
    }

    try {
        ({ error: { message } } = await response.json());

    } catch {

        /* a proxy's answer, say */

        message = `The server answered ${response.status}`
                  + ` ${response.statusText}`.trimEnd() + '.';
    }

    throw new Error(message);
}


/* The JSON of Server-Sent Events, as they come. */

async function* events(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';

    for (;;) {
        const { done, value } = await read(reader);

        if (done) {
            return;
        }

        const blocks = (rest + value).split(/\r?\n\r?\n/);
        rest = blocks.pop();

        for (const block of blocks) {
            const data = block.split(/\r?\n/)
                              .filter((line) => line.startsWith('data:'))
                              .map((line) => line.slice(5))
                              .join('\n');

            /* none in a comment, which only keeps the connection alive */

            if (data !== '') {
                yield JSON.parse(data);
            }
        }
    }
}


async function read(reader) {
    try {
        return await reader.read();

    } catch {
        throw new Error('The connection broke before the end.');
    }
}
