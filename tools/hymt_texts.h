/*
 * hymt_texts.h - everyday English sentences that bench and self-test translate.
 */

#ifndef HYMT_TEXTS_H
#define HYMT_TEXTS_H


static const char *const  hymt_texts[] = {
    "The weather is nice today.",
    "Where is the train station?",
    "I would like a cup of coffee, please.",
    "She has lived in this city for more than ten years.",
    "How much does it cost?",
    "The museum is closed on Mondays.",
    "We are going to the mountains next week with our children.",
    "He forgot to bring his umbrella, and then it began to rain.",
    "Please send me the report before Friday.",
    "Can you help me find my keys?",
    "The doctor told him to drink more water and to sleep longer.",
    "My brother works in a small bookshop near the river.",
    "There are three apples and two oranges on the table.",
    "If the road is blocked, take the second street on the left.",
    "Nobody knew the answer to the last question.",
    "Thank you for your letter; we will reply as soon as we can.",
};


#endif /* HYMT_TEXTS_H */
