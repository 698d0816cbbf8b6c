//! What the gateway edits in a request that it forwards in the client's format: the name of the
//! model, the output limit, whether a stream reports usage.
//!
//! This file decides which bytes change; the rest of the body stays as the client wrote it.
//! Missing members are inserted after the opening brace.

use crate::{
    formats::{self, rules::FormatRules},
    json::Span,
    peek::{LimitSpan, ObjectSpan, Peeked},
    splice::Splice,
};
use serde_json::{Value, json};
use tollgate_types::Effort;
use tollgate_types::Format;

/// The edits to be made on one peeked body.
///
/// ```
/// use bytes::Bytes;
/// use tollgate_types::Format;
/// use tollgate_wire::{body::BodyEdits, peek::{Peeker, PeekLimits}};
///
/// let body = [Bytes::from_static(br#"{"model":"auto","messages":[{"role":"user","content":""}],"stream":true}"#)];
/// let mut peeker = Peeker::new(Format::Chat, &PeekLimits::default());
/// peeker.push(&body[0])?;
/// let peeked = peeker.finish()?;
/// let mut edits = BodyEdits::new(Format::Chat, &peeked);
/// edits.set_model("upstream-1");
/// edits.ask_for_usage();
/// let spliced = edits.into_splice().apply(&body)?;
/// assert_eq!(
///     spliced.chunks.concat(),
///     br#"{"stream_options":{"include_usage":true},"model":"upstream-1","messages":[{"role":"user","content":""}],"stream":true}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BodyEdits<'a> {
    rules: &'static FormatRules,
    peeked: &'a Peeked,
    splice: Splice,
    /// Members to insert into the top-level object, as JSON.
    members: Vec<String>,
    output_limit: Option<u64>,
    says_how_to_think: bool,
}

impl<'a> BodyEdits<'a> {
    /// No edits yet on a body of this format.
    pub fn new(format: Format, peeked: &'a Peeked) -> Self {
        Self {
            rules: formats::rules(format),
            peeked,
            splice: Splice::default(),
            members: Vec::new(),
            output_limit: None,
            says_how_to_think: false,
        }
    }

    /// Sets the name of the model. If the format has it in the [path](crate::address), only replaces a name that the
    /// body has. At most once per body.
    pub fn set_model(&mut self, name: &str) {
        let name = Value::from(name).to_string();
        match self.peeked.spans.model {
            Some(span) => self.splice.replace(span, name),
            None if self.rules.request.has_model_in_address => {}
            None => self.members.push(format!("\"model\":{name}")),
        }
    }

    /// Limits the output to this many tokens, in the field that the client used; if there is none,
    /// in that of the format. If the client used several fields, none of them keeps a greater
    /// limit, and a field that lifts the limits becomes `false`. The last call counts.
    pub const fn set_output_limit(&mut self, tokens: u64) {
        self.output_limit = Some(tokens);
    }

    /// The limit that was set.
    pub const fn output_limit(&self) -> Option<u64> {
        self.output_limit
    }

    fn limit_output(&mut self, tokens: u64) {
        let spans = &self.peeked.spans;
        let (own, older) = (spans.output_limit, spans.older_output_limit);
        let given = |limit: &LimitSpan| limit.tokens.is_some();
        let places = match (own.filter(given), older.filter(given)) {
            (None, None) => [own.or(older), None],
            (own, older) => [own, older],
        };
        if places == [None, None] {
            let field = self.rules.request.output_limit.field;
            let (outer, name) = match field.split_once('.') {
                Some((outer, name)) => (Some(outer), name),
                None => (None, field),
            };
            let member = format!("\"{name}\":{tokens}");
            match (outer, spans.output_settings) {
                (None, _) => self.members.push(member),
                (Some(outer), None) => self.members.push(format!("\"{outer}\":{{{member}}}")),
                (_, Some((_, Some(object)))) => self.insert_member(object, &member),
                (_, Some((null, None))) => self.splice.replace(null, format!("{{{member}}}")),
            }
        }
        let asked = self.peeked.facts.output_limit;
        let others = self.peeked.other_limits.iter();
        // Where nothing lifts the limits any more, a lower one beside it would count again.
        let raises = asked.is_some_and(|asked| asked < tokens) || others.clone().any(|it| it.lifts);
        for place in places.into_iter().flatten().chain(others.copied()) {
            if place.lifts {
                self.splice.replace(place.span, "false");
            } else if raises || place.tokens.is_none_or(|asked| asked > tokens) {
                self.splice.replace(place.span, tokens.to_string());
            }
        }
    }

    /// Removes the effort from the field of the format; `false` if there is none. In every format
    /// `null` stands for none. At most once per body.
    pub fn leave_out_effort(&mut self) -> bool {
        let Some(span) = self.peeked.spans.effort else {
            return false;
        };
        self.splice.replace(span, "null");
        true
    }

    /// Replaces the effort in the field of the format; `false` if there is none. At most once per body.
    pub fn set_effort(&mut self, effort: Effort) -> bool {
        let Some(span) = self.peeked.spans.effort else {
            return false;
        };
        let mut word = json!(effort).to_string();
        if self.rules.request.capital_efforts {
            word.make_ascii_uppercase();
        }
        self.splice.replace(span, word);
        true
    }

    /// Sets how the model thinks, in the words of the messages format. At most once per body.
    pub fn set_thinking(&mut self, thinking: &str) {
        self.says_how_to_think = true;
        match self.peeked.spans.thinking {
            Some(span) => self.splice.replace(span, thinking.to_owned()),
            None => self.members.push(format!("\"thinking\":{thinking}")),
        }
    }

    /// Whether [`set_thinking`](Self::set_thinking) was called.
    pub const fn says_how_to_think(&self) -> bool {
        self.says_how_to_think
    }

    /// Asks a stream to report its usage; the other members of `stream_options` stay. Nothing
    /// changes if the client has asked already, or if the format always reports usage. At most
    /// once per body.
    pub fn ask_for_usage(&mut self) {
        let asked = self.peeked.facts.include_usage == Some(true);
        if !self.rules.usage.is_on_request || asked {
            return;
        }
        let spans = &self.peeked.spans;
        match (
            spans.include_usage,
            spans.stream_options_object,
            spans.stream_options,
        ) {
            (Some(value), ..) => self.splice.replace(value, "true"),
            (None, Some(object), _) => self.insert_member(object, r#""include_usage":true"#),
            (None, None, Some(null)) => self.replace_options(null),
            (None, None, None) => {
                let member = r#""stream_options":{"include_usage":true}"#;
                self.members.push(member.to_owned());
            }
        }
    }

    /// The edits, ready to apply.
    pub fn into_splice(mut self) -> Splice {
        if let Some(tokens) = self.output_limit {
            self.limit_output(tokens);
        }
        if !self.members.is_empty() {
            let members = self.members.join(",");
            self.insert_member(self.peeked.spans.top, &members);
        }
        self.splice
    }

    fn replace_options(&mut self, options: Span) {
        self.splice.replace(options, r#"{"include_usage":true}"#);
    }

    fn insert_member(&mut self, object: ObjectSpan, member: &str) {
        let comma = if object.is_empty { "" } else { "," };
        self.splice
            .insert(object.inside, format!("{member}{comma}"));
    }
}

#[cfg(test)]
mod tests;
