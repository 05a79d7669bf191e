/*
 * detect_test.c - detect.h: sentences in all languages, sets, mixed and short
 * texts, and texts that mean no good.
 *
 * The first sentence of each language is the beginning of the Universal
 * Declaration of Human Rights, article 1; the second was written for this test.
 */

#include "detect.h"

#include "tap.h"


typedef struct {
    const char  *code;
    const char  *text[2];
} detect_sample_t;


static const detect_sample_t  detect_samples[] = {
    { "zh", { "人人生而自由,在尊严和权利上一律平等。",
              "火车晚点了半个小时,我们只好在车站里等着。" } },
    { "zh-Hant", { "人人生而自由,在尊嚴和權利上一律平等。",
                   "火車誤點了半個小時,我們只好在車站裡等著。" } },
    { "en", { "All human beings are born free and equal in dignity and rights.",
              "The train was half an hour late, so we waited." } },
    { "fr", { "Tous les êtres humains naissent libres et égaux en dignité et en"
              " droits.",
              "Le train avait une demi-heure de retard et nous avons attendu à"
              " la gare." } },
    { "pt", { "Todos os seres humanos nascem livres e iguais em dignidade e em"
              " direitos.",
              "O comboio chegou com meia hora de atraso e não havia ninguém na"
              " estação." } },
    { "es", { "Todos los seres humanos nacen libres e iguales en dignidad y"
              " derechos.",
              "El tren llegó con media hora de retraso y tuvimos que esperar en"
              " la estación." } },
    { "ja", { "すべての人間は、生まれながらにして自由であり、"
              "かつ、尊厳と権利とについて平等である。",
              "電車が三十分遅れたので、駅で待つしかなかった。" } },
    { "tr", { "Bütün insanlar hür, haysiyet ve haklar bakımından eşit"
              " doğarlar.",
              "Tren yarım saat gecikti, biz de istasyonda beklemek zorunda"
              " kaldık." } },
    { "ru", { "Все люди рождаются свободными и равными в своем достоинстве и"
              " правах.",
              "Поезд опоздал на полчаса, и нам пришлось ждать на вокзале." } },
    { "ar", { "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
              "تأخر القطار نصف ساعة فاضطررنا إلى الانتظار في المحطة." } },
    { "ko", { "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어"
              " 동등하다.",
              "기차가 삼십 분 늦어서 역에서 기다려야 했다." } },
    { "th", { "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
              "รถไฟมาช้าครึ่งชั่วโมง เราจึงต้องรอที่สถานี" } },
    { "it", { "Tutti gli esseri umani nascono liberi ed eguali in dignità e"
              " diritti.",
              "Il treno aveva mezz'ora di ritardo e abbiamo aspettato alla"
              " stazione." } },
    { "de", { "Alle Menschen sind frei und gleich an Würde und Rechten"
              " geboren.",
              "Der Zug hatte eine halbe Stunde Verspätung, also warteten wir am"
              " Bahnhof." } },
    { "vi", { "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân"
              " phẩm và quyền.",
              "Tàu đến muộn nửa tiếng nên chúng tôi phải đợi ở nhà ga." } },
    { "ms", { "Semua manusia dilahirkan bebas dan samarata dari segi kemuliaan"
              " dan hak-hak.",
              "Kereta api lewat setengah jam, jadi kami terpaksa menunggu di"
              " stesen kerana tiada bas." } },
    { "id", { "Semua orang dilahirkan merdeka dan mempunyai martabat dan"
              " hak-hak yang sama.",
              "Kereta terlambat setengah jam karena rusak, sehingga kami harus"
              " menunggu di stasiun." } },
    { "tl", { "Ang lahat ng tao'y isinilang na malaya at pantay-pantay sa"
              " karangalan at mga karapatan.",
              "Nahuli ng kalahating oras ang tren kaya naghintay kami sa"
              " istasyon." } },
    { "hi", { "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात"
              " स्वतन्त्रता और"
              " समानता प्राप्त है।",
              "रेलगाड़ी आधा घंटा देर से आई, इसलिए हमें स्टेशन पर"
              " इंतज़ार करना पड़ा।" } },
    { "pl", { "Wszyscy ludzie rodzą się wolni i równi pod względem swej"
              " godności i swych praw.",
              "Pociąg spóźnił się pół godziny, więc czekaliśmy na dworcu." } },
    { "cs", { "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a"
              " práv.",
              "Vlak měl půl hodiny zpoždění, a tak jsme čekali na nádraží." } },
    { "nl", { "Alle mensen worden vrij en gelijk in waardigheid en rechten"
              " geboren.",
              "De trein had een half uur vertraging, dus we wachtten op het"
              " station." } },
    { "km", { "មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាពក្នុងសិទ្ធិ"
              "និងសេចក្ដីថ្លៃថ្នូរ។",
              "រថភ្លើងមកយឺតកន្លះម៉ោង។" } },
    { "my", { "လူတိုင်းသည် တူညီလွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ"
              " ဖြစ်သည်။",
              "ရထား နာရီဝက် နောက်ကျသည်။" } },
    { "fa", { "تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم"
              " برابرند.",
              "قطار نیم ساعت تأخیر داشت و ما مجبور شدیم در ایستگاه منتظر"
              " بمانیم." } },
    { "gu", { "પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો જન્મથી"
              " સ્વતંત્ર અને સમાન"
              " હોય છે.",
              "ટ્રેન અડધો કલાક મોડી હતી." } },
    { "ur", { "تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا"
              " ہوئے ہیں۔",
              "ریل گاڑی آدھا گھنٹہ لیٹ تھی، اس لیے ہمیں اسٹیشن پر انتظار کرنا"
              " پڑا۔" } },
    { "te", { "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును"
              " సమానులును నగుదురు.",
              "రైలు అరగంట ఆలస్యంగా వచ్చింది." } },
    { "mr", { "सर्व मानवी व्यक्ति जन्मतः स्वतंत्र आहेत व त्यांना समान"
              " प्रतिष्ठा व"
              " समान अधिकार आहेत.",
              "गाडी अर्धा तास उशिरा आली, म्हणून आम्हाला स्थानकावर"
              " थांबावे लागले."
    } },
    { "he", { "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
              "הרכבת איחרה בחצי שעה ולכן חיכינו בתחנה." } },
    { "bn", { "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে"
              " জন্মগ্রহণ করে।",
              "ট্রেন আধ ঘণ্টা দেরি করেছিল।" } },
    { "ta", { "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
              "ரயில் அரை மணி நேரம் தாமதமாக வந்தது." } },
    { "uk", { "Всі люди народжуються вільними і рівними у своїй гідності та"
              " правах.",
              "Потяг запізнився на пів години, тож ми чекали на вокзалі." } },
    { "bo", { "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང་།",
              "མེ་འཁོར་འཕྱིས་སོང་།" } },
    { "kk", { "Барлық адамдар тумысынан азат және қадір-қасиеті мен құқықтары"
              " тең болып дүниеге келеді.",
              "Пойыз жарты сағатқа кешікті, сондықтан біз вокзалда күттік." } },
    { "mn", { "Хүн бүр төрж мэндлэхэд эрх чөлөөтэй, адилхан нэр төртэй, ижил"
              " эрхтэй байдаг.",
              "Галт тэрэг хагас цаг хоцорсон тул бид буудал дээр хүлээсэн." } },
    { "ug", { "ھەممە ئادەم تۇغۇلۇشىدىنلا ئەركىن، ئىززەت-ھۆرمەت ۋە ھوقۇقتا"
              " باپباراۋەر بولۇپ تۇغۇلغان.",
              "پويىز يېرىم سائەت كېچىككەچكە، بىز ۋوگزالدا ساقلاپ تۇردۇق." } },
};


static int
lang(const char *code)
{
    return hymt_lang_find(code, strlen(code));
}


static hymt_lang_set_t
set_of(const char *a, const char *b, const char *c)
{
    hymt_lang_set_t  set;

    set = (hymt_lang_set_t) 1 << lang(a);

    if (b != NULL) {
        set |= (hymt_lang_set_t) 1 << lang(b);
    }

    if (c != NULL) {
        set |= (hymt_lang_set_t) 1 << lang(c);
    }

    return set;
}


static hymt_detection_t
detect(const char *text, bool html, hymt_lang_set_t set)
{
    hymt_detection_t  d;

    memset(&d, 0x55, sizeof(d));

    hymt_detect(text, strlen(text), html, set, &d);

    return d;
}


static const char *
best(const hymt_detection_t *d)
{
    return d->n == 0 ? "none" : hymt_langs[d->best[0].lang].code;
}


/* what must hold of every answer */
static bool
sane(const hymt_detection_t *d, hymt_lang_set_t set)
{
    uint32_t  i, k;

    if (d->n > HYMT_DETECT_MAX || (d->reliable && d->n == 0)
        || (d->reliable && d->too_short))
    {
        return false;
    }

    for (i = 0; i < d->n; i++) {
        if (d->best[i].lang < 0 || d->best[i].lang >= HYMT_N_LANGS
            || (set >> d->best[i].lang & 1) == 0
            || !(d->best[i].confidence > 0 && d->best[i].confidence <= 1)
            || (i > 0 && d->best[i].confidence > d->best[i - 1].confidence))
        {
            return false;
        }

        for (k = 0; k < i; k++) {
            if (d->best[k].lang == d->best[i].lang) {
                return false;
            }
        }
    }

    return true;
}


static void
test_languages(void)
{
    size_t            i, k, right, reliable, total;
    hymt_detection_t  d;

    right = 0;
    reliable = 0;
    total = 0;

    for (i = 0; i < hymt_nelts(detect_samples); i++) {
        for (k = 0; k < 2; k++) {
            d = detect(detect_samples[i].text[k], false, HYMT_LANGS_ALL);

            is_str(best(&d), detect_samples[i].code, "%s, sentence %zu",
                   detect_samples[i].code, k + 1);
            ok(sane(&d, HYMT_LANGS_ALL) && !d.too_short, "its answer is sane");

            total++;
            right += strcmp(best(&d), detect_samples[i].code) == 0;
            reliable += d.reliable;
        }
    }

    printf("# %zu of %zu sentences right, %zu reliable\n", right, total,
           reliable);

    is_int(total, 2 * (HYMT_N_LANGS - 1), "every language but Cantonese");
    ok(reliable >= 66, "nearly all are reliable");
}


/* the beginnings of the sentences, cut between words or code points */
static void
test_accuracy(void)
{
    const char       *text;
    size_t            i, k, n, c, len, right[4], told[4], sure[4], wrong[4];
    hymt_detection_t  d;

    static const size_t  chars[4] = { 8, 15, 25, 40 };

    memset(right, 0, sizeof(right));
    memset(told, 0, sizeof(told));
    memset(sure, 0, sizeof(sure));
    memset(wrong, 0, sizeof(wrong));

    for (i = 0; i < 2 * hymt_nelts(detect_samples); i++) {
        for (k = 0; k < 4; k++) {
            text = detect_samples[i / 2].text[i % 2];

            for (n = 0, len = 0; text[len] != '\0'; len++) {
                c = (unsigned char) text[len];
                n += (c & 0xc0) != 0x80;

                if (n > chars[k]) {
                    break;
                }
            }

            hymt_detect(text, len, false, HYMT_LANGS_ALL, &d);

            right[k] += strcmp(best(&d), detect_samples[i / 2].code) == 0;
            told[k] += d.n != 0;
            sure[k] += d.reliable;
            wrong[k] += d.reliable
                        && strcmp(best(&d), detect_samples[i / 2].code) != 0;
        }
    }

    for (k = 0; k < 4; k++) {
        printf("# first %2zu characters of %zu: %zu told, %zu right;"
               " %zu reliable, %zu of them wrong\n", chars[k],
               2 * hymt_nelts(detect_samples), told[k], right[k], sure[k],
               wrong[k]);
    }

    ok(right[0] >= 56 && right[1] >= 62 && right[2] >= 67 && right[3] >= 70,
       "accuracy has not fallen");
    ok(wrong[0] + wrong[1] + wrong[2] + wrong[3] <= 4,
       "what is called reliable is right");
}


static void
test_scripts(void)
{
    size_t            i;
    hymt_detection_t  d;

    static const char  *certain[][2] = {
        { "สวัสดี", "th" }, { "שלום", "he" }, { "안녕", "ko" },
        { "សួស្តី", "km" }, { "မင်္ဂလာပါ", "my" }, { "નમસ્તે", "gu" },
        { "నమస్కారం", "te" }, { "வணக்கம்", "ta" }, { "নমস্কার", "bn" },
        { "བཀྲ་ཤིས", "bo" }, { "ᠮᠣᠩᠭᠣᠯ", "mn" }, { "ありがとう", "ja" },
    };

    for (i = 0; i < hymt_nelts(certain); i++) {
        d = detect(certain[i][0], false, HYMT_LANGS_ALL);

        is_str(best(&d), certain[i][1], "one word in a script of its own");
        ok(d.reliable && !d.too_short && d.best[0].confidence > 0.9,
           "and certain");
    }

    d = detect("我哋今日唔去喇,佢話聽日先至得閒。", false, HYMT_LANGS_ALL);
    is_str(best(&d), "zh-Hant", "Cantonese is not told apart");
}


static void
test_short(void)
{
    size_t            i;
    hymt_detection_t  d;

    static const char  *empty[] = {
        "", " ", "\n\t ", "12345", "3.14 + 2 = 5.14", "😀🎉👍🏽", "!?…—", "١٢٣",
        "๑๒๓", "2024-01-02 03:04:05",
    };

    static const char  *few[] = { "Hello", "ok", "Guten Tag", "Да", "东京", "a" };

    for (i = 0; i < hymt_nelts(empty); i++) {
        d = detect(empty[i], false, HYMT_LANGS_ALL);
        ok(d.n == 0 && d.too_short && !d.reliable, "no letter, %zu", i);
    }

    for (i = 0; i < hymt_nelts(few); i++) {
        d = detect(few[i], false, HYMT_LANGS_ALL);
        ok(d.too_short && !d.reliable && sane(&d, HYMT_LANGS_ALL),
           "too few letters in \"%s\"", few[i]);
    }
}


static void
test_mixed(void)
{
    hymt_detection_t  d;

    d = detect("Der Zug hatte gestern wieder eine halbe Stunde Verspätung und"
               " niemand wusste warum. Поезд опоздал вчера на полчаса.", false,
               HYMT_LANGS_ALL);

    is_str(best(&d), "de", "two languages: the larger part first");
    is_int(d.n, 2, "both are told");
    ok(d.n == 2 && d.best[1].lang == lang("ru"), "the smaller second");

    d = detect("请在服务器上安装 nginx 软件包,然后重新启动系统服务。", false,
               HYMT_LANGS_ALL);
    is_str(best(&d), "zh", "a foreign name does not turn the sentence");

    d = detect("このボタンを click して file を upload してください。", false,
               HYMT_LANGS_ALL);
    is_str(best(&d), "ja", "nor do a few words");

    d = detect("Dansk sprog er ikke med på listen over de sprog, som modellen"
               " kender til.", false, HYMT_LANGS_ALL);
    ok(!d.reliable && !d.too_short, "a language that is none of the 38");
}


static void
test_sets(void)
{
    hymt_lang_set_t   set;
    hymt_detection_t  d;

    set = set_of("ms", "en", "zh");
    d = detect("Semua orang dilahirkan merdeka dan mempunyai martabat.", false,
               set);
    is_str(best(&d), "ms", "Indonesian, where only Malay is known");

    set = set_of("zh", "en", NULL);
    d = detect("火車誤點了半個小時,我們只好在車站裡等著。", false, set);
    is_str(best(&d), "zh", "traditional, where only simplified is known");

    set = set_of("en", "uk", NULL);
    d = detect("Поезд опоздал на полчаса, и нам пришлось ждать.", false, set);
    is_str(best(&d), "uk", "the set's only language of the script");
    ok(!d.reliable && d.best[0].confidence < 0.5, "with little confidence");

    set = set_of("th", "ko", NULL);
    d = detect("The train was late.", false, set);
    is_int(d.n, 0, "nothing in the set is written so");

    d = detect("The train was late.", false, 0);
    is_int(d.n, 0, "an empty set");

    d = detect("The train was half an hour late today.", false,
               ~(hymt_lang_set_t) 0);
    is_str(best(&d), "en", "bits beyond the languages are nothing");
}


static void
test_html(void)
{
    hymt_detection_t  d;

    d = detect("<div class=\"the quick brown fox jumps over\"><script>var the ="
               " \"this is all english text\";</script><p title=\"hello\">Der"
               " Zug hatte eine halbe Stunde Versp&auml;tung.</p></div>", true,
               HYMT_LANGS_ALL);
    is_str(best(&d), "de", "tags, attributes and scripts are skipped");
    is_int(d.n, 1, "and give no language of their own");

    d = detect("<p>รถไฟ</p><br/><style>p { color: red }</style>", true,
               HYMT_LANGS_ALL);
    is_str(best(&d), "th", "one word between tags");
    ok(d.best[0].confidence > 0.9, "is the whole text");

    d = detect("<p class=\"x\"></p><!-- The train was late -->", true,
               HYMT_LANGS_ALL);
    ok(d.n == 0 && d.too_short, "tags alone");

    d = detect("a < b and the rest of this sentence is plainly English", true,
               HYMT_LANGS_ALL);
    is_str(best(&d), "en", "a lone < is no tag");
}


static void
test_bytes(void)
{
    char              *text;
    size_t             i, k, n, len;
    uint64_t           rng, start, worst;
    hymt_detection_t   d;

    static const char  *parts[] = {
        "<", "<a ", "&", "&#x", "&amp;", "<script>", "</", "\"", "'", ">",
        "é", "中", "\xf0\x9f\x98\x80", "ab", "\x01", "ө", "ە", "<!--", "あ",
        "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "a ", "\xcc\x81",
    };

    hymt_detect("Hello\0 this is an English sentence \x01\x02 here.", 44, false,
                HYMT_LANGS_ALL, &d);
    is_str(best(&d), "en", "NUL and control bytes are no end");

    d = detect("The train was late \xff and so on", false, HYMT_LANGS_ALL);
    ok(d.n == 0, "bytes that are not UTF-8 tell nothing");

    d = detect("\xed\xa0\x80\xed\xb0\x80", false, HYMT_LANGS_ALL);
    ok(d.n == 0, "nor do surrogates");

    len = 200000;
    text = malloc(len);
    worst = 0;
    rng = 1;

    for (i = 0; i < 2 * hymt_nelts(parts); i++) {

        n = strlen(parts[i / 2]);

        for (k = 0; k + n <= len; k += n) {
            memcpy(text + k, parts[i / 2], n);
        }

        start = tap_cpu_ns();
        hymt_detect(text, k, i % 2, HYMT_LANGS_ALL, &d);
        worst = hymt_max(worst, tap_cpu_ns() - start);

        if (!sane(&d, HYMT_LANGS_ALL)) {
            ok(false, "200 KB of \"%s\"", parts[i / 2]);
        }
    }

    for (i = 0; i < 400; i++) {
        for (len = 0; len < 3000; len += n) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            k = (rng >> 33) % hymt_nelts(parts);
            n = strlen(parts[k]);
            memcpy(text + len, parts[k], n);
        }

        hymt_detect(text, len, i % 2, HYMT_LANGS_ALL, &d);

        if (!sane(&d, HYMT_LANGS_ALL)) {
            ok(false, "random parts, round %zu", i);
        }
    }

    printf("# the slowest 64 KiB took %.1f ms\n", (double) worst / 1e6);
    ok(worst < 2000000000, "no text takes seconds");

    free(text);
}


int
main(void)
{
    test_languages();
    test_accuracy();
    test_scripts();
    test_short();
    test_mixed();
    test_sets();
    test_html();
    test_bytes();

    return tap_done();
}
