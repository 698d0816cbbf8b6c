//! The part of the walk that reads the fields which say how to answer, and checks their types.

use super::{
    super::{
        LimitSpan, ModelFault, PeekError,
        extensions::SPEED,
        location::{Location, Settings, Slot},
    },
    Value, Walk, fault,
};
use crate::json::{Container, Number, Span};
use tollgate_types::{AskedTier, Effort, OutputKind, ServiceTier, Thinking};

/// The largest output limit and thinking budget; no model reaches it.
const MAX_TOKENS: u64 = i32::MAX as u64;
/// The most answers that one chat request may ask for.
const MAX_CHOICES: u64 = 128;
pub(super) const POSITIVE_INTEGER: &str = "a positive integer";
const AT_MOST: &str = "at most 2147483647";
const OBJECT: &str = "an object";

/// Whether `null` stands for an absent field.
#[derive(Clone, Copy)]
enum Null {
    IsAbsent,
    IsRefused,
}

impl Walk {
    /// A field that says how to answer.
    pub(super) fn setting(
        &mut self,
        slot: Slot,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        match slot {
            Slot::Model => self.model(value, span)?,
            Slot::PathModel(field) => self.path_model(field, value, span)?,
            Slot::Stream => {
                let stream = flag("stream", value, self.null(), span)?;
                self.found.facts.stream = stream.unwrap_or(false);
                self.found.spans.stream = Some(span);
            }
            Slot::Tier(field) => {
                if let Value::Text(text) = value {
                    self.note_tier(field, text.as_str());
                }
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::InferenceGeo => {
                let is_global = matches!(value, Value::Text(text) if text.bytes == b"global");
                if !is_global && !matches!(value, Value::Null) {
                    self.found.facts.place = Some("inference_geo");
                }
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::Background(field) => {
                if flag(field, value, Null::IsAbsent, span)? == Some(true) {
                    self.found.facts.background = Some(field);
                }
            }
            Slot::Store => {
                self.found.facts.store = flag("store", value, Null::IsAbsent, span)?;
            }
            Slot::IncludeUsage => {
                let field = "stream_options.include_usage";
                self.found.facts.include_usage = flag(field, value, Null::IsAbsent, span)?;
                self.found.spans.include_usage = Some(span);
            }
            Slot::OutputLimit => {
                let field = self.format.request.output_limit.field;
                self.found.spans.output_limit = self.output_limit(field, value, span)?;
            }
            Slot::OlderOutputLimit(field) => {
                self.found.spans.older_output_limit = self.output_limit(field, value, span)?;
            }
            Slot::OtherLimit(field) => self.other_limit(field, value, span)?,
            Slot::Choices(field) => {
                let wanted = "an integer from 1 to 128";
                let choices = integer(field, wanted, MAX_CHOICES, value, Null::IsAbsent, span)?;
                let most = &mut self.found.facts.choices;
                *most = choices.map_or(*most, |choices| choices.max(*most));
            }
            Slot::ThinkingBudget => {
                let field = "thinking.budget_tokens";
                let budget = tokens(field, value, Null::IsRefused, span)?;
                self.found.facts.thinking_budget = budget;
                self.found.facts.needs.reasoning |= budget.is_some();
                self.found.spans.thinking_budget = Some(span);
            }
            Slot::Thinks => {
                self.found.facts.thinks |= match value {
                    Value::Null | Value::Bool(false) => false,
                    Value::Number(number) => number.as_u64() != Some(0),
                    Value::Text(text) => !matches!(text.bytes, b"" | b"none" | b"off"),
                    Value::Bool(true) | Value::Open(_) => true,
                };
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::Effort(field) => self.effort(field, value, span)?,
            Slot::ThinkingType => {
                self.found.facts.thinking = match value {
                    Value::Text(text) => Some(thinking(text.bytes)),
                    _ => return fault("thinking.type", "a string", span),
                };
            }
            Slot::AnswerFormatType => {
                let kind = match value {
                    Value::Text(text) => text.bytes,
                    _ => b"",
                };
                self.found.facts.needs.schema |= kind == b"json_schema";
                self.outputs(match kind {
                    b"json_schema" | b"json_object" => Some(OutputKind::Json),
                    b"text" => Some(OutputKind::Text),
                    _ => None,
                });
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::AnswerMediaType => {
                self.outputs(match value {
                    Value::Text(text) if text.bytes == b"application/json" => {
                        Some(OutputKind::Json)
                    }
                    Value::Text(text) if text.bytes == b"text/plain" => Some(OutputKind::Text),
                    _ => None,
                });
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::Seed => {
                if let Value::Number(number) = value {
                    self.found.facts.seed = number.as_str().parse().ok();
                }
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::Modalities => match value {
                Value::Open(Container::Array) => self.push(Location::Array, slot, span.start),
                Value::Text(text) => {
                    self.found.facts.needs.audio |= text.bytes == b"audio";
                    // Gemini has them in capitals.
                    self.outputs(match &*text.bytes.to_ascii_lowercase() {
                        b"audio" => Some(OutputKind::Speech),
                        b"image" => Some(OutputKind::Image),
                        _ => None,
                    });
                }
                _ => self.opaque(Slot::Ignored, value, span),
            },
            Slot::AudioOutput => {
                self.found.facts.needs.audio |= !matches!(value, Value::Null);
                self.opaque(Slot::Ignored, value, span);
            }
            Slot::Settings(settings) => self.settings(settings, value, span)?,
            _ => self.opaque(Slot::Ignored, value, span),
        }
        Ok(())
    }

    /// Notes a tier that the request asks for.
    fn note_tier(&mut self, field: &'static str, name: &str) {
        let known = match field {
            SPEED => name
                .eq_ignore_ascii_case("fast")
                .then_some(("fast", ServiceTier::Fast)),
            _ => ServiceTier::named(name),
        };
        let asked = known.map(|(value, tier)| AskedTier { field, value, tier });
        self.found.facts.tiers.extend(asked);
    }

    fn outputs(&mut self, kind: Option<OutputKind>) {
        self.found.facts.output = self.found.facts.output.max(kind);
    }

    /// A field whose value is an object of settings.
    fn settings(
        &mut self,
        settings: &Settings,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        match value {
            Value::Open(Container::Object) => {
                self.push(settings.location, Slot::Ignored, span.start);
            }
            Value::Null => match settings.location {
                Location::StreamOptions => self.found.spans.stream_options = Some(span),
                Location::Thinking => self.found.spans.thinking = Some(span),
                Location::OutputSettings(_) => {
                    self.found.spans.output_settings = Some((span, None));
                }
                _ => {}
            },
            _ => return fault(settings.field, OBJECT, span),
        }
        Ok(())
    }

    /// Checks that a model equals the model of the path, with or without `models/`. The one at the top of the body is
    /// replaced later: providers that are gateways prefer it to the path.
    fn path_model(
        &mut self,
        field: &'static str,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        let asked = self.found.facts.model.as_deref();
        let is_same = match value {
            // In the JSON of Google's APIs, null stands for an absent field.
            Value::Null => return Ok(()),
            Value::Text(text) => {
                let name = text.as_str();
                asked.is_none() || asked == Some(name.strip_prefix("models/").unwrap_or(name))
            }
            _ => false,
        };
        if !is_same {
            return fault(field, "the model of the path", span);
        }
        if self.frames.len() == 1 {
            self.found.spans.model = Some(span);
        }
        Ok(())
    }

    fn model(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        let Value::Text(text) = value else {
            return Err(PeekError::Model(ModelFault::NotAString));
        };
        if text.len == 0 {
            return Err(PeekError::Model(ModelFault::Empty));
        }
        if !text.is_whole() {
            return Err(PeekError::Model(ModelFault::TooLong(
                self.limits.model_bytes,
            )));
        }
        self.take_model(text.as_str().to_owned());
        self.found.spans.model = Some(span);
        Ok(())
    }

    /// Takes the name of the model, of the body or the path.
    pub(super) fn take_model(&mut self, name: String) {
        // OpenRouter's name for its web plugin.
        if name.split(':').skip(1).any(|it| it == "online") {
            self.add_hosted_tool();
        }
        self.found.facts.model = Some(name);
    }

    /// The value of a field of the format that limits the output.
    fn output_limit(
        &mut self,
        field: &'static str,
        value: Value<'_>,
        span: Span,
    ) -> Result<Option<LimitSpan>, PeekError> {
        let tokens = tokens(field, value, self.null(), span)?;
        self.own_limit = self.own_limit.max(tokens);
        Ok(Some(LimitSpan {
            span,
            tokens,
            lifts: false,
        }))
    }

    /// An output limit under another name. Some servers prefer it to the format's own, others
    /// ignore it, so it can raise the limit and never lower it. A number that limits nothing
    /// (`-1`, or more than any model writes) counts as none.
    fn other_limit(
        &mut self,
        field: &'static str,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        /// Removes the limits beside it.
        const LIFTS: &str = "auto_max_new_tokens";
        let tokens = match value {
            Value::Null => return Ok(()),
            // The model writes as much as there is room for, whatever the other limits are.
            Value::Bool(lifts) if field == LIFTS => match lifts {
                true => None,
                false => return Ok(()),
            },
            Value::Number(number) if field != LIFTS => number.as_u64(),
            _ if field == LIFTS => return fault(field, "a boolean", span),
            _ => return fault(field, "an integer", span),
        };
        let tokens = tokens.filter(|tokens| (1..=MAX_TOKENS).contains(tokens));
        self.found.other_limits.push(LimitSpan {
            span,
            tokens,
            lifts: field == LIFTS,
        });
        Ok(())
    }

    /// The greatest output limit that a server can apply; `None` if a server may apply none,
    /// because it ignores unknown fields or because a field removes the limits.
    pub(super) fn greatest_limit(&self) -> Option<u64> {
        let others = self.found.other_limits.iter();
        others.fold(self.own_limit, |greatest, other| {
            Some(greatest?.max(other.tokens?))
        })
    }

    /// If two fields ask for an effort, the greater counts.
    fn effort(
        &mut self,
        field: &'static str,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        match value {
            Value::Text(text) => {
                let effort = effort(text.bytes);
                self.found.facts.effort = self.found.facts.effort.max(effort);
                self.found.facts.needs.reasoning |= effort != Some(Effort::None);
            }
            Value::Null => {}
            _ => return fault(field, "a string", span),
        }
        if field == self.format.request.effort {
            self.found.spans.effort = Some(span);
        }
        Ok(())
    }

    /// What `null` means in the fields that some formats allow to be `null`.
    const fn null(&self) -> Null {
        match self.format.request.null_is_absent {
            true => Null::IsAbsent,
            false => Null::IsRefused,
        }
    }
}

fn flag(
    field: &'static str,
    value: Value<'_>,
    null: Null,
    span: Span,
) -> Result<Option<bool>, PeekError> {
    match (value, null) {
        (Value::Bool(flag), _) => Ok(Some(flag)),
        (Value::Null, Null::IsAbsent) => Ok(None),
        _ => fault(field, "true or false", span),
    }
}

fn tokens(
    field: &'static str,
    value: Value<'_>,
    null: Null,
    span: Span,
) -> Result<Option<u64>, PeekError> {
    let is_greater = |number: Number<'_>| number.as_u64().is_some_and(|n| n > MAX_TOKENS);
    match value {
        Value::Number(number) if is_greater(number) => fault(field, AT_MOST, span),
        _ => integer(field, POSITIVE_INTEGER, MAX_TOKENS, value, null, span),
    }
}

/// An integer from 1 to `max`.
fn integer(
    field: &'static str,
    wanted: &'static str,
    max: u64,
    value: Value<'_>,
    null: Null,
    span: Span,
) -> Result<Option<u64>, PeekError> {
    let number = match (value, null) {
        (Value::Null, Null::IsAbsent) => return Ok(None),
        (Value::Number(number), _) => number.as_u64(),
        _ => None,
    };
    match number.filter(|n| (1..=max).contains(n)) {
        Some(number) => Ok(Some(number)),
        None => fault(field, wanted, span),
    }
}

/// An effort; `None` if the word is unknown: providers add levels. Google writes them in capitals, too.
fn effort(word: &[u8]) -> Option<Effort> {
    let mut efforts = Effort::ALL.into_iter();
    efforts.find(|effort| effort.as_str().as_bytes().eq_ignore_ascii_case(word))
}

fn thinking(word: &[u8]) -> Thinking {
    match word {
        b"enabled" => Thinking::Enabled,
        b"adaptive" => Thinking::Adaptive,
        b"disabled" => Thinking::Disabled,
        _ => Thinking::Other,
    }
}
