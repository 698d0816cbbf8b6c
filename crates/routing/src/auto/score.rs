//! How much a request asks of a model, as a number: a sum of signals, each from 0 to 1 and
//! each with its weight. No signal is a judgement of the text; they are counts over its
//! shape and over a bounded sample of it.

use super::settings::WeightsSettings;
use tollgate_types::{ConversationFacts, Effort, RequestFacts, TextSample};

/// What a request is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// How long the conversation is.
    Length,
    /// How much of it is code.
    Code,
    /// How much of it is mathematics.
    Math,
    /// Tools are offered.
    Tools,
    /// Tools were called before.
    ToolTraffic,
    /// How many messages there are.
    Turns,
    /// How much of it is in a script that is not Latin.
    Script,
    /// The effort that the caller asks for: below zero where it is a low one.
    Effort,
    /// Images, documents or sound are in it.
    Media,
    /// Words that ask for work.
    Hard,
    /// Words that ask for little.
    Easy,
    /// Lists of things to be observed.
    Lists,
}

impl Signal {
    /// How many there are.
    pub const COUNT: usize = 12;

    /// All of them, in the order of [`Score::parts`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Length,
        Self::Code,
        Self::Math,
        Self::Tools,
        Self::ToolTraffic,
        Self::Turns,
        Self::Script,
        Self::Effort,
        Self::Media,
        Self::Hard,
        Self::Easy,
        Self::Lists,
    ];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Code => "code",
            Self::Math => "math",
            Self::Tools => "tools",
            Self::ToolTraffic => "tool_traffic",
            Self::Turns => "turns",
            Self::Script => "script",
            Self::Effort => "effort",
            Self::Media => "media",
            Self::Hard => "hard_words",
            Self::Easy => "easy_words",
            Self::Lists => "lists",
        }
    }
}

/// What each signal counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weights {
    base: f64,
    signals: [f64; Signal::COUNT],
}

impl Weights {
    /// What the settings say, the first of them that says something; else the usual.
    pub(crate) fn of(settings: &[Option<&WeightsSettings>]) -> Self {
        let pick = |read: &dyn Fn(&WeightsSettings) -> Option<f64>, usual: f64| {
            let said = settings.iter().flatten().find_map(|it| read(it));
            said.unwrap_or(usual)
        };
        let mut signals = [0.0; Signal::COUNT];
        for ((place, signal), usual) in signals.iter_mut().zip(Signal::ALL).zip(USUAL) {
            *place = pick(&|it| it.of(signal), usual);
        }
        Self {
            base: pick(&|it| it.base, BASE),
            signals,
        }
    }
}

/// What a request without any signal scores.
const BASE: f64 = 0.2;

/// What the signals count for where nobody says otherwise, in the order of [`Signal::ALL`].
const USUAL: [f64; Signal::COUNT] = [
    0.50, 0.15, 0.30, 0.05, 0.10, 0.00, 0.10, 0.40, 0.10, 0.50, -0.25, 0.10,
];

/// How much a request asks of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// From 0 to 1.
    pub value: f64,
    /// What each signal has added to it or taken from it, in the order of [`Signal::ALL`].
    pub parts: [f64; Signal::COUNT],
}

impl Score {
    /// Scores a request.
    pub(crate) fn of(facts: &RequestFacts, weights: &Weights) -> Self {
        let mut parts = signals(facts);
        let mut sum = weights.base;
        for (part, weight) in parts.iter_mut().zip(weights.signals) {
            *part *= weight;
            sum += *part;
        }
        Self {
            value: sum.clamp(0.0, 1.0),
            parts,
        }
    }
}

/// The signals of a request, in the order of [`Signal::ALL`].
fn signals(facts: &RequestFacts) -> [f64; Signal::COUNT] {
    let nothing = ConversationFacts::default();
    let conversation = facts.conversation.as_deref().unwrap_or(&nothing);
    let sample = &conversation.sample;
    let has_media = facts.media.parts > 0;
    [
        // 64 tokens are hardly anything, 64,000 are much; in between every doubling counts alike.
        doublings(conversation.text_bytes as f64 / 256.0, 10.0),
        code(sample),
        part_of(sample.math_marks + 2 * sample.math_words, 8.0),
        f64::from(u8::from(facts.needs.tools)),
        doublings(f64::from(conversation.tool_traffic), 6.0),
        doublings(f64::from(conversation.messages.saturating_sub(1)), 6.0),
        share(sample.other_letters, sample.letters),
        effort(facts),
        f64::from(u8::from(has_media)),
        part_of(sample.hard_words, 4.0),
        part_of(sample.easy_words, 2.0),
        part_of(sample.list_items, 8.0),
    ]
}

/// How often one has to be doubled to become `1 + amount`, of `most` times.
fn doublings(amount: f64, most: f64) -> f64 {
    ((1.0 + amount).log2() / most).clamp(0.0, 1.0)
}

fn part_of(count: u32, enough: f64) -> f64 {
    (f64::from(count) / enough).min(1.0)
}

fn share(part: u32, whole: u32) -> f64 {
    f64::from(part) / f64::from(whole.max(1))
}

/// Fences are certain; identifiers, keywords and marks tell by how dense they are.
fn code(sample: &TextSample) -> f64 {
    let fences = part_of(sample.fences, 4.0);
    let words = share(sample.code_words + sample.identifiers, sample.words.max(8));
    let symbols = share(sample.symbols, sample.bytes.max(64));
    (fences + 2.0 * words + 4.0 * symbols).min(1.0)
}

fn effort(facts: &RequestFacts) -> f64 {
    let asked: f64 = match facts.effort {
        Some(Effort::None | Effort::Minimal) => -1.0,
        Some(Effort::Low) => -0.5,
        Some(Effort::Medium) | None => 0.0,
        Some(Effort::High) => 0.5,
        Some(Effort::Xhigh | Effort::Max) => 1.0,
    };
    // Who gives a budget for thinking means it: 16,000 tokens are much.
    let budget = facts
        .thinking_budget
        .map(|it| (it as f64 / 16_000.0).min(1.0));
    budget.map_or(asked, |budget| asked.max(budget))
}
