//! Writes what a chat request has besides the conversation, as far as the provider knows it.

use crate::{
    Refusal,
    request::{
        conversation::{AnswerFormat, Conversation},
        write::{
            Writer,
            shared::{hashed_user, text},
        },
    },
};

impl Writer<'_, '_> {
    /// Sampling settings that only chat has.
    pub(crate) fn chat_sampling(&mut self, conversation: &Conversation<'_>) {
        let sampling = &conversation.sampling;
        let is_taken = self.scope.target.sampling;
        for (name, value, is_known) in [
            ("seed", sampling.seed, true),
            ("presence_penalty", sampling.presence_penalty, is_taken),
            ("frequency_penalty", sampling.frequency_penalty, is_taken),
        ] {
            match value {
                Some(value) if is_known => self.out.key(name).raw(value.raw()),
                Some(_) => self.scope.note_dropped(name),
                None => {}
            }
        }
    }

    pub(crate) fn chat_stop(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        const MOST: usize = 4;
        let stop = &conversation.stop;
        if stop.is_empty() {
            return Ok(());
        }
        self.check_stops(stop.len(), Some(MOST))?;
        self.out.key("stop").begin_array();
        for entry in stop {
            text(self.out.item(), *entry);
        }
        self.out.end_array();
        Ok(())
    }

    pub(crate) fn chat_format(&mut self, conversation: &Conversation<'_>) {
        let Some(format) = &conversation.format else {
            return;
        };
        self.out.key("response_format").begin_object();
        match format {
            AnswerFormat::JsonObject => self.out.key("type").string("json_object"),
            AnswerFormat::Schema { .. } => {
                self.out.key("type").string("json_schema");
                self.out.key("json_schema").begin_object();
                self.schema(format);
                self.out.end_object();
            }
        }
        self.out.end_object();
    }

    /// Writes the fields besides the conversation, as far as the provider knows them.
    pub(crate) fn chat_extras(&mut self, conversation: &Conversation<'_>) -> Result<(), Refusal> {
        if conversation.logprobs {
            self.out.key("logprobs").bool(true);
        }
        if let Some(top) = conversation.top_logprobs {
            if !conversation.logprobs {
                // Responses asks for the one by asking for the other.
                self.out.key("logprobs").bool(true);
            }
            self.out.key("top_logprobs").raw(top.raw());
        }
        if self.scope.target.chat.openai {
            if let Some(verbosity) = conversation.verbosity {
                text(self.out.key("verbosity"), verbosity);
            }
            self.openai_extras(conversation);
            return Ok(());
        }
        if conversation.moderation.is_some() {
            let message = self.scope.cannot("this provider has no moderation");
            return Err(Refusal::new("moderation", message));
        }
        self.plain_user(conversation);
        let cache = &conversation.cache;
        for (path, is_given) in [
            ("text.verbosity", conversation.verbosity.is_some()),
            (
                "service_tier",
                conversation.service_tier.is_some_and(|it| !it.is("auto")),
            ),
            ("prompt_cache_key", cache.key.is_some()),
            ("prompt_cache_retention", cache.retention.is_some()),
            (
                "prompt_cache_options",
                cache.mode.is_some() || cache.ttl.is_some(),
            ),
        ] {
            if is_given {
                self.scope.note_dropped(path);
            }
        }
        Ok(())
    }

    /// The end user's id, for providers that know `user` alone.
    fn plain_user(&mut self, conversation: &Conversation<'_>) {
        let user = &conversation.user;
        match (user.user.or(user.safety_identifier), user.user_id) {
            (Some(user), _) => text(self.out.key("user"), user),
            (None, Some(_)) => {
                if let Some(user) = hashed_user(user) {
                    self.out.key("user").string(&user);
                }
            }
            (None, None) => {}
        }
    }
}
