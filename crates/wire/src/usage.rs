//! Usage as the formats report it, in one canonical form.
//!
//! This file decides which part of a report is credible. The ledger decides what to charge if no
//! report is; the readers (`answer`, `stream`) find the numbers.

use crate::answer::part::SeenCalls;
use crate::json::Number;
use tollgate_types::{ProviderTool, ServiceTier, Usage, UsageDetails};

/// The most tokens that a credible report has: greater integers are not exact in JSON.
const MAX_TOKENS: u64 = 1 << 53;

/// What a provider has reported so far, and whether the report is credible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The tokens, in exclusive form; zero for a number that was not reported.
    pub usage: Usage,
    /// Parts of them, and what is charged besides. Their tier is not set.
    pub details: UsageDetails,
    /// The tier, if it was reported.
    pub tier: Option<ServiceTier>,
    /// Calls of each of [`ProviderTool::ALL`] among the items that have arrived. The final report has the number that
    /// counts.
    pub seen_calls: [u64; ProviderTool::ALL.len()],
    /// The input tokens were reported.
    pub has_input: bool,
    /// The output tokens were reported.
    pub has_output: bool,
    /// A number was no count of tokens (negative, fractional, not a number, above 2^53) and was
    /// ignored.
    pub absurd: bool,
    /// A later report was lower than an earlier one, which is impossible for a running total. The higher one
    /// counts.
    pub conflicting: bool,
}

impl ReportedUsage {
    /// The usage, if it is complete and every number is a count of tokens.
    pub fn plausible(&self) -> Option<Usage> {
        (self.has_input && self.has_output && !self.absurd).then_some(self.usage)
    }
}

/// Whether the input tokens of a report contain the cached ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// They do.
    Inclusive,
    /// Each token counts in one number only.
    Exclusive,
    /// The input contains the cached tokens. Reasoning and what the provider's tools read count
    /// apart from output and input.
    Apart,
    /// There is no output: a total that stands alone is the input.
    InputAlone,
}

/// The numbers of a usage object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageField {
    /// `prompt_tokens`, `input_tokens`.
    Input,
    /// `completion_tokens`, `output_tokens`.
    Output,
    /// `total_tokens`.
    Total,
    /// `cached_tokens`, `cache_read_input_tokens`, `prompt_cache_hit_tokens`.
    CacheRead,
    /// `cache_write_tokens`, `cache_creation_input_tokens`.
    CacheWrite,
    /// `reasoning_tokens`, `thinking_tokens`, `thoughtsTokenCount`.
    Reasoning,
    /// `toolUsePromptTokenCount`.
    ToolInput,
}

/// The part of a report that a number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageOf {
    /// The whole answer's, as far as the provider counts it in its totals.
    Totals,
    /// The image tool's.
    ImageTool,
    /// Those of the iteration that is being read.
    Iteration,
}

/// The reports so far. Streams report running totals, so a later number replaces an earlier one
/// and never adds to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageReport {
    /// The report that is being read.
    last: Numbers,
    /// It had a value that is no count of tokens.
    absurd: bool,
    /// The sum of the reports before it.
    before: Whole,
    /// What any of them said last of each part.
    pub(crate) details: UsageDetails,
    /// The tier that any of them named last.
    pub(crate) tier: Option<ServiceTier>,
    /// The calls of tools that have arrived.
    pub(crate) seen: SeenCalls,
    /// The usage of the image tool of a response, which no total contains.
    image_tool: Numbers,
    iterations: Iterations,
}

/// The usage of the iterations of an answer that the totals of messages leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Iterations {
    usage: Usage,
    cache_write_1h: u64,
    /// The iteration that is being read.
    last: Numbers,
    last_cache_write_1h: u64,
    is_left_out: bool,
}

/// The sum of several reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Whole {
    numbers: Numbers,
    conflicting: bool,
    absurd: bool,
}

/// One report, as it was written: a number for each [`UsageField`] that was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers([Option<u64>; UsageField::ToolInput as usize + 1]);

use UsageField::{CacheRead, CacheWrite, Input, Output, Reasoning, ToolInput, Total};

impl UsageReport {
    /// Whether nothing was reported but the standard tier, which every event of some streams repeats.
    pub(crate) fn has_no_news(&self) -> bool {
        let other_tier = self.tier.filter(|tier| *tier != ServiceTier::Standard);
        let news = Self {
            tier: other_tier,
            ..*self
        };
        news == Self::default()
    }

    /// Begins a report that is complete by itself. Reports of formats that spread usage over
    /// several events are read as one.
    pub(crate) fn begin(&mut self) {
        self.before = self.whole();
        self.last = Numbers::default();
        self.absurd = false;
    }

    /// The sum of all reports. If only one of two is credible, that one.
    fn whole(&self) -> Whole {
        let before = &self.before;
        let (numbers, conflicting, absurd) = match (before.absurd, self.absurd) {
            (false, true) if before.numbers.are_whole() => (before.numbers, true, false),
            (true, false) if self.last.are_whole() => (self.last, true, false),
            (before_was, last_is) => {
                let (numbers, conflicting) = self.last.after(&before.numbers);
                (numbers, conflicting, before_was || last_is)
            }
        };
        Whole {
            numbers,
            conflicting: conflicting || before.conflicting,
            absurd,
        }
    }

    /// Takes a number; notes and ignores one that cannot be a count of tokens.
    pub(crate) fn set(&mut self, of: UsageOf, field: UsageField, number: Number<'_>) {
        let numbers = match of {
            UsageOf::Totals => &mut self.last,
            UsageOf::ImageTool => &mut self.image_tool,
            UsageOf::Iteration => &mut self.iterations.last,
        };
        match tokens(number) {
            Some(tokens) => numbers.set(field, Some(tokens)),
            None => self.absurd = true,
        }
    }

    /// Begins a list of iterations, which replaces an earlier one.
    pub(crate) fn begin_iterations(&mut self) {
        self.iterations = Iterations::default();
    }

    /// Takes the type of the iteration that is being read. The totals are the sum of those of the model's own
    /// messages.
    pub(crate) fn set_iteration_type(&mut self, name: &str) {
        self.iterations.is_left_out = !matches!(name, "message" | "fallback_message");
    }

    /// Takes what the iteration that is being read wrote to a cache for an hour.
    pub(crate) fn set_iteration_cache_hour(&mut self, number: Number<'_>) {
        match tokens(number) {
            Some(tokens) => self.iterations.last_cache_write_1h = tokens,
            None => self.absurd = true,
        }
    }

    /// Ends an iteration.
    pub(crate) fn end_iteration(&mut self) {
        let Iterations {
            usage,
            cache_write_1h,
            last,
            last_cache_write_1h,
            is_left_out,
        } = std::mem::take(&mut self.iterations);
        self.iterations.usage = usage;
        self.iterations.cache_write_1h = cache_write_1h;
        if is_left_out {
            self.iterations.usage = sum(usage, last.exclusive());
            self.iterations.cache_write_1h = cache_write_1h.saturating_add(last_cache_write_1h);
        }
    }

    /// Takes the number of a part, in the same way.
    pub(crate) fn set_part(&mut self, part: fn(&mut UsageDetails) -> &mut u64, number: Number<'_>) {
        match tokens(number) {
            Some(tokens) => *part(&mut self.details) = tokens,
            None => self.absurd = true,
        }
    }

    /// Notes that a field had another value than a number. `null` stands for an unknown number and
    /// is not reported here.
    pub(crate) const fn set_absurd(&mut self) {
        self.absurd = true;
    }

    /// The report in canonical form.
    pub(crate) fn reported(&self, counting: Counting) -> ReportedUsage {
        let Whole {
            numbers,
            conflicting,
            absurd,
        } = self.whole();
        let numbers = match counting {
            Counting::InputAlone => numbers.input_alone(),
            _ => numbers,
        };
        let mut details = self.details;
        let usage = match counting {
            Counting::Inclusive => {
                let images = self.image_tool.inclusive();
                details.image_output = details.image_output.saturating_add(images.output);
                sum(numbers.inclusive(), images)
            }
            Counting::InputAlone => numbers.inclusive(),
            Counting::Exclusive => {
                let hour = self.iterations.cache_write_1h;
                details.cache_write_1h = details.cache_write_1h.saturating_add(hour);
                sum(numbers.exclusive(), self.iterations.usage)
            }
            Counting::Apart => {
                // The sound of the whole prompt was reported.
                let cached = details.audio_cache_read;
                details.audio_input = details.audio_input.saturating_sub(cached);
                numbers.apart()
            }
        };
        ReportedUsage {
            usage,
            details,
            seen_calls: self.seen.charged(),
            tier: self.tier,
            has_input: numbers.get(Input).is_some(),
            has_output: numbers.get(Output).is_some()
                // An answer that was cut while the model thought has no other output.
                || (counting == Counting::Apart && numbers.get(Reasoning).is_some()),
            absurd,
            conflicting,
        }
    }
}

impl Numbers {
    fn get(&self, field: UsageField) -> Option<u64> {
        self.0.get(field as usize).copied().flatten()
    }

    /// The same, zero if it was not reported.
    fn count(&self, field: UsageField) -> u64 {
        self.get(field).unwrap_or(0)
    }

    fn set(&mut self, field: UsageField, tokens: Option<u64>) {
        if let Some(number) = self.0.get_mut(field as usize) {
            *number = tokens;
        }
    }

    /// The sum of this report and those before it, and whether they contradict each other. Totals
    /// grow. If the later of two says less, one is wrong: the greater counts as it was written,
    /// since a mix of both would be a report that no provider sent.
    fn after(&self, before: &Self) -> (Self, bool) {
        let mut pairs = self.0.into_iter().zip(before.0);
        let shrinks = |(later, earlier): (Option<u64>, Option<u64>)| {
            later
                .zip(earlier)
                .is_some_and(|(later, earlier)| later < earlier)
        };
        if pairs.any(shrinks) {
            let greater = if self.all() > before.all() {
                self
            } else {
                before
            };
            return (*greater, true);
        }
        if self.are_whole() {
            return (*self, false);
        }
        // A partial report says nothing about the other numbers.
        let mut whole = *self;
        for (number, earlier) in whole.0.iter_mut().zip(before.0) {
            *number = number.or(earlier);
        }
        (whole, false)
    }

    fn are_whole(&self) -> bool {
        self.get(Input).is_some() && self.get(Output).is_some()
    }

    /// Input and output together.
    fn all(&self) -> u64 {
        let parts = self.count(Input).saturating_add(self.count(Output));
        parts.max(self.count(Total))
    }

    /// The report of an answer without output.
    fn input_alone(mut self) -> Self {
        let input = self.get(Input).or(self.get(Total));
        self.set(Input, input);
        self.set(Output, input.map(|_| 0));
        self.set(Total, input);
        self
    }

    /// The usage of a report that counts each token once.
    fn exclusive(&self) -> Usage {
        let output = self.count(Output);
        Usage {
            input: self.count(Input),
            cache_read: self.count(CacheRead),
            cache_write: self.count(CacheWrite),
            output,
            reasoning: self.count(Reasoning).min(output),
        }
    }

    /// The usage of a report whose input contains the cached tokens. The parts never exceed the
    /// whole: some providers count a token as read from the cache and as written to it.
    fn inclusive(&self) -> Usage {
        let prompt = self.count(Input);
        let cache_read = self.count(CacheRead).min(prompt);
        let uncached = prompt.saturating_sub(cache_read);
        let cache_write = self.count(CacheWrite).min(uncached);
        let output = self.count(Output).saturating_add(self.hidden_output());
        Usage {
            input: uncached.saturating_sub(cache_write),
            cache_read,
            cache_write,
            output,
            reasoning: self.count(Reasoning).max(self.hidden_output()).min(output),
        }
    }

    /// The usage of a report whose output does not contain the reasoning.
    fn apart(&self) -> Usage {
        let prompt = self.count(Input);
        let cache_read = self.count(CacheRead).min(prompt);
        let reasoning = self.count(Reasoning);
        Usage {
            input: prompt
                .saturating_sub(cache_read)
                .saturating_add(self.count(ToolInput)),
            cache_read,
            cache_write: 0,
            output: self.count(Output).saturating_add(reasoning),
            reasoning,
        }
    }

    /// Reasoning that the total contains and the output does not, as two providers report it.
    fn hidden_output(&self) -> u64 {
        match (self.get(Input), self.get(Output), self.get(Total)) {
            (Some(input), Some(output), Some(total)) => {
                total.saturating_sub(input).saturating_sub(output)
            }
            _ => 0,
        }
    }
}

const fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_write: a.cache_write.saturating_add(b.cache_write),
        output: a.output.saturating_add(b.output),
        reasoning: a.reasoning.saturating_add(b.reasoning),
    }
}

/// A count of tokens. Some backends write integers as `12.0`.
fn tokens(number: Number<'_>) -> Option<u64> {
    let padded = || {
        let integer = number.as_str().trim_end_matches('0').strip_suffix('.')?;
        integer.parse().ok()
    };
    let count = number.as_u64().or_else(padded);
    count.filter(|n| *n <= MAX_TOKENS)
}

#[cfg(test)]
mod tests;
