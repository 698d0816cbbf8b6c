//! The spans of one request.

use crate::content::{Content, KeptBody};
use crate::export::Spans;
use crate::{Shared, inject, name, new_span_id, provider};
use bytes::Bytes;
use http::HeaderMap;
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tollgate_types::{Money, OutputKind, Usage};

/// The trace of a request under way.
pub struct RequestTrace {
    shared: Arc<Shared>,
    parent: Option<SpanContext>,
    /// Of the request's own span.
    context: SpanContext,
    started: Instant,
    attempts: SmallVec<[AttemptSpan; 1]>,
    prompt: Option<KeptBody>,
    answer: Option<KeptBody>,
}

/// An attempt at a provider.
struct AttemptSpan {
    id: SpanId,
    began: Instant,
    ended: Option<Instant>,
    attempt: Attempt,
    failure: Option<Failure>,
}

/// Why an attempt failed.
struct Failure {
    class: &'static str,
    status: Option<u16>,
}

/// Where an attempt goes.
pub struct Attempt {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The provider's host.
    pub host: Arc<str>,
    /// The provider's port.
    pub port: u16,
    /// The operation of the provider, such as `chat`.
    pub operation: &'static str,
    /// The name of the model at the provider. `None` for a request without a model.
    pub model: Option<String>,
}

/// How a request has ended.
pub struct Facts<'a> {
    /// The request's id, as in the access log.
    pub id: &'a str,
    /// The HTTP method.
    pub method: &'a str,
    /// The path of the endpoint, such as `/v1/responses/{id}`. `None`: the gateway has no such endpoint.
    pub route: Option<&'static str>,
    /// The status that the client got.
    pub status: u16,
    /// The code of the error that the client got.
    pub code: Option<&'static str>,
    /// The outcome, as in the access log.
    pub outcome: &'static str,
    /// Whether the request failed through no fault of the client.
    pub has_failed: bool,
    /// The id of the API key.
    pub key: Option<&'a str>,
    /// The model in the configuration.
    pub model: Option<&'a str>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// The kind of output that the client asked for.
    pub output: Option<OutputKind>,
    /// The seed that the client gave.
    pub seed: Option<i64>,
    /// The id of the conversation that the provider keeps.
    pub conversation: Option<&'a str>,
    /// The output limit in tokens that the client asked for.
    pub output_limit: Option<u64>,
    /// The number of answers that the client asked for.
    pub choices: u64,
    /// The usage that the provider reported.
    pub usage: Option<Usage>,
    /// Tokens charged to the key.
    pub charged: Option<u64>,
    /// The cost, in the currency of the prices.
    pub cost: Option<Money>,
    /// When the first byte of the provider's answer was sent.
    pub first_byte: Option<Instant>,
    /// Why each choice stopped, in the provider's words.
    pub stops: &'a [&'a str],
    /// The id of the answer.
    pub answer_id: Option<&'a str>,
    /// The model that answered, as the provider names it.
    pub answer_model: Option<&'a str>,
}

impl RequestTrace {
    pub(crate) fn new(
        shared: Arc<Shared>,
        parent: Option<SpanContext>,
        context: SpanContext,
        started: Instant,
    ) -> Self {
        Self {
            shared,
            parent,
            context,
            started,
            attempts: SmallVec::new(),
            prompt: None,
            answer: None,
        }
    }

    /// The trace id: 32 hexadecimal digits.
    pub fn id(&self) -> String {
        let mut digits = vec![0; 32];
        // The slice fits. `hex::encode` collects single characters.
        let _ = hex::encode_to_slice(self.context.trace_id().to_bytes(), &mut digits);
        String::from_utf8(digits).unwrap_or_default()
    }

    /// An attempt begins. The one before has ended.
    pub fn begin_attempt(&mut self, attempt: Attempt) {
        let now = Instant::now();
        self.end_attempt(now);
        self.attempts.push(AttemptSpan {
            id: new_span_id(),
            began: now,
            ended: None,
            attempt,
            failure: None,
        });
    }

    /// The current attempt has failed. `status`: the one that the provider answered with.
    pub fn fail_attempt(&mut self, class: &'static str, status: Option<u16>) {
        self.end_attempt(Instant::now());
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.failure = Some(Failure { class, status });
        }
    }

    /// The current attempt has sent nothing: it gets no span.
    pub fn retract_attempt(&mut self) {
        self.attempts.pop();
    }

    fn end_attempt(&mut self, now: Instant) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.ended.get_or_insert(now);
        }
    }

    /// Keeps the prompt, if content of this key is exported. Returns what keeps the answer.
    pub fn keep_prompt(&mut self, key: &str, pieces: &[Bytes]) -> Option<KeptBody> {
        let keeping = self.shared.content.as_ref()?;
        if self.prompt.is_none() {
            let mut prompt = keeping.body(key)?;
            pieces.iter().for_each(|piece| prompt.add(piece));
            self.prompt = Some(prompt);
        }
        keeping.body(key)
    }

    /// Adds the answer that was kept.
    pub fn set_answer(&mut self, answer: Option<KeptBody>) {
        self.answer = answer;
    }

    /// Puts the trace context of the current attempt into the head that goes to the provider.
    pub fn inject(&self, head: &mut HeaderMap) {
        if let Some(attempt) = self.attempts.last() {
            inject(&self.context_of(attempt.id), head);
        }
    }

    fn context_of(&self, span: SpanId) -> SpanContext {
        let context = &self.context;
        let state = context.trace_state().clone();
        SpanContext::new(
            context.trace_id(),
            span,
            context.trace_flags(),
            false,
            state,
        )
    }

    /// Whether the trace is exported when the request ends now. `has_failed`: through no fault of the client.
    pub fn is_sampled(&self, has_failed: bool) -> bool {
        let has_failed = has_failed || self.attempts.iter().any(|it| it.failure.is_some());
        self.context.is_sampled()
            || self
                .shared
                .is_sampled_at_end(has_failed, self.started.elapsed())
    }

    /// Ends the trace and exports it.
    pub fn export(mut self, facts: &Facts<'_>) {
        let end = End::now();
        self.end_attempt(end.instant);
        let mut spans = Vec::with_capacity(self.attempts.len().saturating_add(1));
        spans.push(self.request_span(facts, end));
        let last = self.attempts.len().checked_sub(1);
        for (index, attempt) in self.attempts.iter().enumerate() {
            // The facts of the answer are those of the last attempt.
            let answer = (Some(index) == last).then_some(facts);
            spans.push(self.attempt_span(attempt, facts, answer, end));
        }
        let answer = self.answer.take();
        let content = self.prompt.take().map(|prompt| Content { prompt, answer });
        self.shared.queue.add(Spans { spans, content });
    }

    fn request_span(&self, facts: &Facts<'_>, end: End) -> SpanData {
        let mut attributes = Attributes::default();
        attributes.text(name::HTTP_REQUEST_METHOD, facts.method);
        attributes.optional(name::HTTP_ROUTE, facts.route);
        attributes.number(name::HTTP_RESPONSE_STATUS_CODE, facts.status.into());
        attributes.text("tollgate.request.id", facts.id);
        attributes.text("tollgate.outcome", facts.outcome);
        attributes.optional("tollgate.key", facts.key);
        attributes.optional("tollgate.model", facts.model);
        attributes.optional(name::ERROR_TYPE, facts.code);
        attributes.optional_number("tollgate.charged", facts.charged);
        let cost = facts.cost.map(|cost| cost.to_string());
        attributes.optional("tollgate.cost", cost.as_deref());
        let status = match (facts.has_failed, facts.code) {
            (true, code) => Status::error(code.unwrap_or(facts.outcome)),
            (false, _) => Status::Unset,
        };
        let parent = self.parent.as_ref();
        SpanData {
            span_context: self.context.clone(),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanContext::span_id),
            parent_span_is_remote: parent.is_some(),
            span_kind: SpanKind::Server,
            name: Cow::Owned(match facts.route {
                Some(route) => format!("{} {route}", facts.method),
                None => facts.method.to_owned(),
            }),
            start_time: end.time_of(self.started),
            end_time: end.time,
            attributes: attributes.0,
            status,
            ..self.empty_span()
        }
    }

    /// `answer`: the facts of the request, if this attempt has answered it.
    fn attempt_span(
        &self,
        span: &AttemptSpan,
        facts: &Facts<'_>,
        answer: Option<&Facts<'_>>,
        end: End,
    ) -> SpanData {
        let attempt = &span.attempt;
        let operation = attempt.operation;
        let mut attributes = Attributes::default();
        attributes.text(name::GEN_AI_OPERATION_NAME, operation);
        let well_known = provider::well_known(&attempt.host);
        attributes.text(
            name::GEN_AI_PROVIDER_NAME,
            well_known.unwrap_or(&attempt.provider),
        );
        attributes.text("tollgate.provider", &attempt.provider);
        attributes.text(name::SERVER_ADDRESS, &attempt.host);
        attributes.number(name::SERVER_PORT, attempt.port.into());
        attributes.optional(name::GEN_AI_REQUEST_MODEL, attempt.model.as_deref());
        attributes.flag(name::GEN_AI_REQUEST_STREAM, facts.stream);
        let output = facts.output.map(OutputKind::as_str);
        attributes.optional(name::GEN_AI_OUTPUT_TYPE, output);
        attributes.optional(name::GEN_AI_CONVERSATION_ID, facts.conversation);
        if let Some(seed) = facts.seed {
            attributes.add(name::GEN_AI_REQUEST_SEED, seed);
        }
        attributes.optional_number(name::GEN_AI_REQUEST_MAX_TOKENS, facts.output_limit);
        let choices = Some(facts.choices).filter(|choices| *choices > 1);
        attributes.optional_number(name::GEN_AI_REQUEST_CHOICE_COUNT, choices);
        let mut events = SpanEvents::default();
        if let Some(failure) = &span.failure {
            attributes.text(name::ERROR_TYPE, failure.class);
            let status = failure.status.map(u64::from);
            attributes.optional_number(name::HTTP_RESPONSE_STATUS_CODE, status);
        }
        if let Some(answer) = answer {
            attributes.answer(answer);
            if let Some(first) = answer.first_byte {
                let waited = first.saturating_duration_since(span.began);
                attributes.seconds(name::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, waited);
                let event = Event::new("gen_ai.first_chunk", end.time_of(first), Vec::new(), 0);
                events.events.push(event);
            }
        }
        let model = attempt.model.as_deref();
        let name = model.map_or_else(
            || operation.to_owned(),
            |model| format!("{operation} {model}"),
        );
        let failure = span.failure.as_ref();
        SpanData {
            span_context: self.context_of(span.id),
            parent_span_id: self.context.span_id(),
            span_kind: SpanKind::Client,
            name: Cow::Owned(name),
            start_time: end.time_of(span.began),
            end_time: span.ended.map_or(end.time, |ended| end.time_of(ended)),
            attributes: attributes.0,
            events,
            status: failure.map_or(Status::Unset, |failure| Status::error(failure.class)),
            ..self.empty_span()
        }
    }

    fn empty_span(&self) -> SpanData {
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.shared.scope.clone(),
        }
    }
}

/// When a request has ended, by both clocks.
#[derive(Clone, Copy)]
struct End {
    time: SystemTime,
    instant: Instant,
}

impl End {
    fn now() -> Self {
        Self {
            time: SystemTime::now(),
            instant: Instant::now(),
        }
    }

    /// The time of day at an instant before the end.
    fn time_of(self, instant: Instant) -> SystemTime {
        let before = self.instant.saturating_duration_since(instant);
        self.time.checked_sub(before).unwrap_or(self.time)
    }
}

/// The attributes of a span.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(name, value));
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.add(name, value.to_owned());
    }

    fn optional(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.add(name, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn optional_number(&mut self, name: &'static str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.add(name, value);
    }

    fn seconds(&mut self, name: &'static str, value: Duration) {
        self.add(name, value.as_secs_f64());
    }

    fn answer(&mut self, facts: &Facts<'_>) {
        self.optional(name::GEN_AI_RESPONSE_ID, facts.answer_id);
        self.optional(name::GEN_AI_RESPONSE_MODEL, facts.answer_model);
        if !facts.stops.is_empty() {
            let reasons = facts
                .stops
                .iter()
                .map(|stop| StringValue::from((*stop).to_owned()));
            let reasons = reasons.collect();
            self.add(
                name::GEN_AI_RESPONSE_FINISH_REASONS,
                Value::Array(Array::String(reasons)),
            );
        }
        let Some(usage) = facts.usage else { return };
        // The conventions count tokens of the cache and of reasoning within input and output.
        let input = usage.input.saturating_add(usage.cache_read);
        let input = input.saturating_add(usage.cache_write);
        self.number(name::GEN_AI_USAGE_INPUT_TOKENS, input);
        self.number(name::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, usage.cache_read);
        self.number(
            name::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
            usage.cache_write,
        );
        self.number(name::GEN_AI_USAGE_OUTPUT_TOKENS, usage.output);
        self.number(name::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, usage.reasoning);
    }
}
