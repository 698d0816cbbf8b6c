//! The settings of a messages request: sampling, thinking, the shape of the answer, the user.

use super::thinking::{MessagesPlan, ThinkingSent};
use crate::{
    Refusal,
    document::{Text, Value},
    request::{
        conversation::{AnswerFormat, Conversation},
        write::{
            Writer, schema,
            shared::{hashed_user, text},
        },
    },
};
use std::borrow::Cow;

impl Writer<'_, '_> {
    pub(crate) fn messages_sampling(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
    ) -> Result<(), Refusal> {
        self.bounded_sampling(conversation, plan, "top_p")?;
        if let Some(top_k) = conversation.sampling.top_k {
            if !self.scope.target.sampling || plan.thinks() {
                self.scope.note_dropped("top_k");
            } else {
                self.out.key("top_k").raw(top_k.raw());
            }
        }
        self.stop_sequences(&conversation.stop, "stop_sequences")
    }

    /// Writes the temperature, at most 1, and `top_p`, under the name that the format has for it.
    pub(crate) fn bounded_sampling(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
        top_p: &str,
    ) -> Result<(), Refusal> {
        let sampling = &conversation.sampling;
        let mut takes = self.scope.target.sampling;
        for (path, name, value, least_to_think) in [
            ("temperature", "temperature", sampling.temperature, 1.0),
            ("top_p", top_p, sampling.top_p, 0.95),
        ] {
            let Some(value) = value else { continue };
            let degree = value.as_f64().unwrap_or_default();
            if !takes || (plan.thinks() && degree < least_to_think) {
                self.scope.note_dropped(path);
            } else if degree > 1.0 {
                let message = "must be at most 1 for this model";
                return Err(self.scope.refusal(path, message));
            } else {
                self.out.key(name).raw(value.raw());
                // Claude refuses a `top_p` beside a temperature.
                takes = !self.scope.target.is_claude();
            }
        }
        Ok(())
    }

    /// Writes the stop sequences, except blank ones, which providers refuse.
    pub(crate) fn stop_sequences(&mut self, stop: &[Text<'_>], field: &str) -> Result<(), Refusal> {
        self.check_stops(stop.len(), None)?;
        let is_taken = |entry: &&Text<'_>| !entry.is_blank();
        let taken = stop.iter().filter(is_taken).count();
        if taken < stop.len() {
            self.scope.note_dropped(self.scope.source.paths.stop);
        }
        if taken == 0 {
            return Ok(());
        }
        self.out.key(field).begin_array();
        for entry in stop.iter().filter(is_taken) {
            text(self.out.item(), *entry);
        }
        self.out.end_array();
        Ok(())
    }

    pub(crate) fn thinking(&mut self, conversation: &Conversation<'_>, plan: &MessagesPlan) {
        let Some(thinking) = plan.thinking else {
            return;
        };
        self.out.key("thinking").begin_object();
        match thinking {
            ThinkingSent::Adaptive => {
                self.out.key("type").string("adaptive");
                // Without `display`, models differ in what they show.
                let is_hidden = conversation.reasoning.shown == Some(false);
                let display = if is_hidden { "omitted" } else { "summarized" };
                self.out.key("display").string(display);
            }
            ThinkingSent::Enabled(budget) => {
                self.out.key("type").string("enabled");
                self.out.key("budget_tokens").number(budget);
            }
            ThinkingSent::Disabled => self.out.key("type").string("disabled"),
        }
        self.out.end_object();
    }

    pub(crate) fn output_config(
        &mut self,
        conversation: &Conversation<'_>,
        plan: &MessagesPlan,
    ) -> Result<(), Refusal> {
        let schema = match conversation.format {
            Some(AnswerFormat::Schema { schema, .. }) => schema,
            _ => None,
        };
        let is_shaped = conversation.format.is_some();
        let field = self.scope.source.paths.answer_format;
        if is_shaped && !self.scope.target.messages.structured_output {
            let message = "cannot be kept to by this model: it takes no schemas";
            return Err(Refusal::new(field, message));
        }
        if is_shaped && schema.is_none() {
            return Err(Refusal::new(field, "must have a schema for this model"));
        }
        if schema.is_none() && plan.effort.is_none() {
            return Ok(());
        }
        self.out.key("output_config").begin_object();
        if let Some(effort) = plan.effort {
            self.out.key("effort").string(effort.as_str());
        }
        if let Some(schema) = schema {
            self.out.key("format").begin_object();
            self.out.key("type").string("json_schema");
            let schema = self.closed_schema(schema)?;
            self.out.key("schema").raw(schema.as_bytes());
            self.out.end_object();
        }
        self.out.end_object();
        Ok(())
    }

    /// The schema of the answer, without additional members, and with bounds moved into descriptions.
    pub(crate) fn closed_schema<'d>(&mut self, schema: Value<'d>) -> Result<Cow<'d, str>, Refusal> {
        let field = self.scope.source.paths.answer_schema;
        let mut closed = schema::parse(schema, field)?;
        let has_changed = schema::close(&mut closed).map_err(|it| it.refusal(field))?;
        if has_changed {
            self.scope.note_dropped(field);
        }
        Ok(match std::str::from_utf8(schema.raw()) {
            Ok(unchanged) if !has_changed => unchanged.into(),
            _ => closed.to_string().into(),
        })
    }

    pub(crate) fn messages_extras(
        &mut self,
        conversation: &Conversation<'_>,
    ) -> Result<(), Refusal> {
        let user = &conversation.user;
        if let Some(user) = hashed_user(user) {
            self.out.key("metadata").begin_object();
            self.out.key("user_id").string(&user);
            self.out.end_object();
        }
        let others = user.metadata.into_iter().flat_map(|it| it.members());
        if others.into_iter().any(|(key, _)| !key.is("user_id")) {
            self.scope.note_dropped("metadata");
        }
        if let Some(tier) = conversation.service_tier {
            self.messages_tier(tier);
        }
        Ok(())
    }

    fn messages_tier(&mut self, tier: Text<'_>) {
        if tier.is("default") {
            self.out.key("service_tier").string("standard_only");
        } else if tier.is("auto") {
            self.out.key("service_tier").string("auto");
        } else {
            self.scope.note_dropped("service_tier");
        }
    }
}
