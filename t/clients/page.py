"""Uses the page in Chromium; prints what was seen, as JSON.

usage: page.py URL

URL is where the demo serves the page.  For what a real model can't be made to
do, the page is served once more, from conf/html, beside an API that plays the
text it is asked for.  With HYMT_SCREENSHOTS set to a folder, pictures go there.
"""

import http.server
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait


HTML = pathlib.Path("conf/html")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

LANGUAGES = [("en", "English"), ("de", "German"), ("ar", "Arabic"),
             ("he", "Hebrew"), ("fa", "Persian"), ("ur", "Urdu"),
             ("ug", "Uyghur"), ("zh-Hant", "Traditional Chinese")]

MARKUP = "<img src=x onerror=\"window.hacked = 1\"><b>bold</b> & &amp;"
ARABIC = "مرحبا بالعالم، كيف حالك اليوم؟"

END = {"src_lang": "en", "tgt_lang": "de", "model": "mock",
       "finish_reason": "stop", "done": True,
       "usage": {"prompt_tokens": 1234, "completion_tokens": 9},
       "timing": {"queue_ms": 1.0, "first_token_ms": 35.2, "total_ms": 1210.5}}


class Mock(http.server.BaseHTTPRequestHandler):
    """The page, and an API whose answer is a scene named by the text."""

    asked = []          # bodies, the last one last
    left = []           # scenes that the page went away from

    def log_message(self, *args):
        pass

    def send(self, status, kind, data):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(data if isinstance(data, bytes) else data.encode())

    def do_GET(self):
        if self.path == "/translate/languages":
            self.send(200, "application/json", json.dumps({
                "model": "mock", "languages": [
                    {"code": code, "name": name, "native": name}
                    for code, name in LANGUAGES]}))
            return

        file = HTML / (self.path.lstrip("/") or "index.html")
        self.send(200, TYPES[file.suffix], file.read_bytes())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Mock.asked.append(body)

        try:
            getattr(self, "scene_" + body["text"])()

        except (BrokenPipeError, ConnectionResetError):
            Mock.left.append(body["text"])

    def events(self, *events):
        self.send(200, "text/event-stream",
                  "".join(f"data: {json.dumps(e)}\n\n" for e in events))

    def scene_slow(self):
        self.events()

        for i in range(200):
            self.wfile.write(f'data: {{"delta": "word{i} "}}\n\n'.encode())
            time.sleep(0.05)

    def scene_bytes(self):
        """Each byte alone, CRLF, comments, a character of four bytes."""
        text = json.dumps({"delta": "a😀ü\n"}, ensure_ascii=False)
        end = json.dumps(END)
        self.events()

        for byte in f": ping\r\n\r\ndata: {text}\r\n\r\ndata:{end}\n\n".encode():
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.001)

    def scene_markup(self):
        self.events({"delta": MARKUP}, END)

    def scene_arabic(self):
        self.events({"delta": ARABIC}, {**END, "tgt_lang": "ar"})

    def scene_long(self):
        self.events({"delta": "unbroken" * 100}, END)

    def scene_loop(self):
        self.events({"delta": "again "}, {**END, "finish_reason": "loop"})

    def scene_unsure(self):
        self.events({"delta": "?"}, {**END, "src_lang": None})

    def scene_broken(self):
        self.events({"delta": "half "}, {"error": {
            "code": "engine", "message": "the engine <i>was</i> lost"}})

    def scene_cut(self):
        self.events({"delta": "half "})

    def scene_busy(self):
        self.send(429, "application/json", json.dumps({"error": {
            "code": "queue_full", "message": MARKUP}}))

    def scene_proxy(self):
        self.send(502, "text/html", "<h1>Bad Gateway</h1>")


class Page:
    """The page as a reader uses it."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def open(self, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(self.url + fragment)
        self.until(lambda: len(self["target"].find_elements(
            By.TAG_NAME, "option")) > 2)

    def __getitem__(self, name):
        return self.driver.find_element(By.ID, name)

    def js(self, code, *args):
        return self.driver.execute_script("return " + code, *args)

    def until(self, condition, limit=20):
        return WebDriverWait(self.driver, limit, 0.02).until(
            lambda driver: condition())

    def languages(self, source, target):
        Select(self["source"]).select_by_value(source)
        Select(self["target"]).select_by_value(target)

    def type(self, name, text):
        self[name].clear()
        self[name].send_keys(text)

    def out(self):
        return self.js("document.getElementById('out').textContent")

    def idle(self):
        return not self["stop"].is_enabled()

    def ended(self):
        """Waits for the end: [translation, status, error]."""
        self.until(self.idle)
        return [self.out(), self["status"].text, self["error"].text]

    def translate(self, text):
        self.type("text", text)
        self["translate"].click()
        return self.ended()

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, held, key):
        (webdriver.ActionChains(self.driver).key_down(held).send_keys(key)
         .key_up(held).perform())

    def focus(self):
        return self.js("document.activeElement.id"
                       " || document.activeElement.tagName")

    def screen(self, width, height, scheme="light"):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def picture(self, name):
        folder = os.environ.get("HYMT_SCREENSHOTS")

        if folder:
            self.driver.save_screenshot(f"{folder}/{name}.png")

    def overflow(self):
        """Elements that stick out of the screen at its sides."""
        return self.js("""[...document.body.querySelectorAll('*')]
            .filter((e) => e.checkVisibility())
            .filter((e) => { const r = e.getBoundingClientRect();
                             return r.width > 0 && (r.left < -0.5
                                    || r.right > innerWidth + 0.5); })
            .map((e) => e.id || e.tagName)""")

    def contrast(self):
        """The lowest contrast of text with what is behind it, and whose."""
        return self.js("""(() => {
            const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
            const light = (c) => rgb(c).slice(0, 3).map((v) => v / 255)
                .map((v) => v <= 0.04045 ? v / 12.92
                                         : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
            const behind = (e) => {
                for (; e; e = e.parentElement) {
                    const c = getComputedStyle(e).backgroundColor;
                    if ((rgb(c)[3] ?? 1) === 1) return c;
                }
                return 'rgb(255, 255, 255)';
            };
            return [...document.querySelectorAll('main *')]
                .filter((e) => e.checkVisibility() && !e.disabled
                               && (e.value || e.textContent.trim()))
                .map((e) => {
                    const a = light(getComputedStyle(e).color);
                    const b = light(behind(e));
                    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
                            e.id || e.tagName];
                })
                .sort((a, b) => a[0] - b[0])[0];
        })()""")


def real(page):
    """With the model of the demo."""
    seen = {}

    page.screen(1100, 760)
    page.open()
    page.picture("empty")

    seen["options"] = [o.text for o in Select(page["source"]).options]
    seen["targets"] = [o.text for o in Select(page["target"]).options]

    page["translate"].click()
    seen["required"] = page.js("[...document.querySelectorAll(':invalid')]"
                               ".map((e) => e.id).filter((id) => id)")
    seen["not asked"] = page["status"].text

    page.languages("en", "de")
    seen["translate"] = page.translate("Where is the train station?")
    seen["usage"] = page["usage"].text
    seen["out"] = page.js("[document.getElementById('out').lang,"
                          " document.getElementById('out').dir]")
    seen["hash"] = page.js("location.hash")
    page.picture("translated")

    page.languages("en", "fr")
    seen["another"] = page.translate("The weather is nice today.")

    page["swap"].click()
    seen["swapped"] = [page.js("location.hash"),
                       page["text"].get_property("value"), page.out()]
    page["translate"].click()
    seen["and back"] = page.ended()

    page.open("#auto/de")
    seen["detected"] = page.translate("Le train arrive à huit heures.")
    page["swap"].click()
    seen["swap of detected"] = page.js("location.hash")

    page.open("#en/en")
    seen["error"] = page.translate("Open the file.")
    page.picture("error")

    page.open("#en/de")
    page["more"].find_element(By.TAG_NAME, "summary").click()
    page["html"].click()
    page.type("terms", "file = Akte")
    seen["terms"] = page.translate("Open the file.")
    page.type("terms", "")
    seen["tags"] = page.translate("Open the <b>file</b>.")
    page.picture("more")

    # many sentences come one after the other

    page.open("#en/de")
    text = " ".join(f"The train number {i} arrives at the station at eight"
                    " o'clock." for i in range(100, 140))
    page.js("void (document.getElementById('text').value = arguments[0])", text)
    page["translate"].click()
    lengths = set()

    while not page.idle():
        lengths.add(len(page.out()))

    seen["long"] = [sorted(lengths), *page.ended()]
    page.picture("long")

    page["translate"].click()
    page.until(lambda: page.out() != "")
    page["stop"].click()
    seen["stopped"] = page.ended()
    seen["focus after stop"] = page.focus()

    page["translate"].click()
    seen["again"] = page.ended()

    page.translate("Good morning.")
    page["copy"].click()
    page.until(lambda: page["status"].text == "Copied.")
    page["more"].find_element(By.TAG_NAME, "summary").click()
    page["context"].click()
    page.chord(Keys.CONTROL, "v")
    seen["copied"] = [page.out(), page["context"].get_property("value")]

    return seen


def keyboard(page):
    """From the first key to the translation, without a mouse."""
    seen = {"order": []}

    page.open("#en/de")

    for _ in range(9):
        page.press(Keys.TAB)
        seen["order"].append(page.focus())

    page.open()
    page.press(Keys.TAB, "En", Keys.TAB, Keys.TAB, "Ger", Keys.TAB)
    page.press("Where is the train station?")
    page.chord(Keys.CONTROL, Keys.ENTER)
    seen["hash"] = page.js("location.hash")
    seen["translate"] = page.ended()

    page["more"].find_element(By.TAG_NAME, "summary").click()
    seen["labels"] = [e.get_attribute("id") for e in
                      page.driver.find_elements(
                          By.CSS_SELECTOR, "select, textarea, input, button,"
                          " [tabindex]")
                      if not e.accessible_name]
    seen["live"] = page.js("['status', 'error'].map((id) =>"
                           " document.getElementById(id).role"
                           " ?? document.getElementById(id)"
                           ".getAttribute('role'))")

    return seen


def mock(page):
    """What an API may answer."""
    seen = {}

    page.screen(1100, 760)
    page.open("#en/de")

    page.type("text", "slow")
    page["translate"].click()
    page.until(lambda: "word3" in page.out())
    seen["growing"] = [page.out()[:6], page["status"].text,
                       page["out"].get_attribute("aria-busy")]
    page.picture("streaming")
    page["text"].click()
    page.press(Keys.ESCAPE)
    seen["escape"] = page.ended()[1]
    page.until(lambda: Mock.left == ["slow"])
    after = page.out()
    time.sleep(0.3)
    seen["no more after stop"] = page.out() == after

    # a second translation takes the place of the first

    page["translate"].click()
    page.until(lambda: "word3" in page.out())
    seen["replaced"] = page.translate("markup")
    seen["hacked"] = page.js("window.hacked ?? null")
    page.until(lambda: Mock.left == ["slow", "slow"])

    for scene in "bytes", "loop", "broken", "cut", "busy", "proxy":
        seen[scene] = page.translate(scene)

    page.picture("answered by a proxy")
    seen["hacked by an error"] = page.js("window.hacked ?? null")

    page.languages("auto", "de")
    seen["unsure"] = page.translate("unsure")

    # fields

    page.open("#en/de")
    page["more"].find_element(By.TAG_NAME, "summary").click()
    page.type("terms", "a = b = c\n\n  train car  =Waggon \n__proto__ = x")
    page.type("context", "  A letter.\nTo a friend. ")
    page["html"].click()
    page.translate("markup")
    seen["fields"] = Mock.asked[-1]

    n = len(Mock.asked)
    page.type("terms", "a = b\nnothing")
    seen["glossary"] = page.translate("markup")
    seen["glossary not asked"] = len(Mock.asked) == n

    page.type("terms", "")
    page.type("context", "")
    page["html"].click()
    page.translate("markup")
    seen["no fields"] = Mock.asked[-1]

    # directions

    seen["directions"] = {}

    for code, _ in LANGUAGES:
        if code != "en":
            page.languages("en", code)
            page.translate("arabic")
            seen["directions"][code] = page.js(
                "(({dir, lang}) => [dir, lang])(document"
                ".getElementById('out'))")

    page.languages("en", "ar")
    page.translate("arabic")
    page.picture("right to left")
    page["swap"].click()
    seen["direction of the text"] = page.js(
        "(({dir, lang, value}) => [dir, lang, value])(document"
        ".getElementById('text'))")

    # small and dark

    for width, scheme in (320, "light"), (320, "dark"), (1100, "dark"):
        page.screen(width, 760, scheme)
        page.open("#en/zh-Hant")
        page["more"].find_element(By.TAG_NAME, "summary").click()
        page.translate("long")
        name = f"{width} {scheme}"
        seen[name] = {
            "overflow": page.overflow(),
            "wide": page.js("document.documentElement.scrollWidth"),
            "contrast": page.contrast(),
            "background": page.js("getComputedStyle(document.body)"
                                  ".backgroundColor")}
        page.js("scrollTo(0, 0)")
        page.picture(name)
        page.js("document.getElementById('out').scrollIntoView()")
        page.picture(name + " end")
        page.translate("busy")
        seen[name]["contrast of error"] = page.contrast()
        page.picture(name + " error")

    return seen


def chromium(home):
    options = Options()
    options.binary_location = shutil.which("chromium")

    for argument in ("--headless=new", "--no-sandbox", "--no-first-run",
                     "--disable-dev-shm-usage", "--disable-gpu",
                     "--disable-background-networking", "--lang=en-US",
                     f"--user-data-dir={home}"):
        options.add_argument(argument)

    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})

    return webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver")))


def main():
    # the browser goes, too, when we are told to

    signal.signal(signal.SIGTERM, lambda *args: sys.exit(1))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mock)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        driver = chromium(home)

        try:
            demo = Page(driver, sys.argv[1])
            seen = {"real": real(demo), "keyboard": keyboard(demo)}

            # what the browser complains of, but for statuses asked for

            seen["complaints"] = [
                entry["message"] for entry in driver.get_log("browser")
                if "Failed to load resource" not in entry["message"]]

            seen["mock"] = mock(Page(
                driver, f"http://127.0.0.1:{server.server_port}/"))

            seen["complaints of mock"] = [
                entry["message"] for entry in driver.get_log("browser")
                if "Failed to load resource" not in entry["message"]]

        finally:
            driver.quit()

    json.dump(seen, sys.stdout)


main()
