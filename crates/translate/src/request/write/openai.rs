//! Writes what chat and responses share apart from the conversation: sampling, schemas, the
//! end user, caching.

use super::{
    Writer,
    shared::{hashed_user, schema_name, text},
    tools::is_closed,
};
use crate::request::conversation::{AnswerFormat, Conversation};

impl Writer<'_, '_> {
    /// `temperature` and `top_p`, which chat and responses share, and `top_k`.
    pub(crate) fn openai_sampling(&mut self, conversation: &Conversation<'_>) {
        let sampling = &conversation.sampling;
        let is_taken = self.scope.target.sampling;
        let has_top_k = is_taken && (self.scope.rules.has_top_k)(self.scope.target);
        for (name, value, is_known) in [
            ("temperature", sampling.temperature, is_taken),
            ("top_p", sampling.top_p, is_taken),
            ("top_k", sampling.top_k, has_top_k),
        ] {
            match value {
                Some(value) if is_known => self.out.key(name).raw(value.raw()),
                Some(_) => self.scope.note_dropped(name),
                None => {}
            }
        }
    }

    /// The members of a JSON schema's description, which chat and responses share.
    pub(crate) fn schema(&mut self, format: &AnswerFormat<'_>) {
        let AnswerFormat::Schema {
            name,
            description,
            schema,
            strict,
        } = format
        else {
            return;
        };
        self.out.key("name").string(&schema_name(*name));
        if let Some(description) = description {
            text(self.out.key("description"), *description);
        }
        if let Some(schema) = schema {
            self.out.key("schema").raw(schema.raw());
        }
        if let Some(strict) = strict {
            // Messages enforces every schema. Chat and responses can only enforce a closed object.
            let can = !self.scope.source.has_open_schemas
                || schema.is_some_and(|schema| schema.has("type", "object") && is_closed(schema));
            self.out.key("strict").bool(*strict && can);
        }
    }

    /// What chat and responses share apart from the conversation.
    pub(crate) fn openai_extras(&mut self, conversation: &Conversation<'_>) {
        let user = &conversation.user;
        if let Some(name) = user.user {
            text(self.out.key("user"), name);
        }
        match (user.safety_identifier, user.user_id) {
            (Some(name), _) => text(self.out.key("safety_identifier"), name),
            (None, Some(_)) => {
                if let Some(user) = hashed_user(user) {
                    self.out.key("safety_identifier").string(&user);
                }
            }
            (None, None) => {}
        }
        if let Some(metadata) = user.metadata {
            self.out.key("metadata").raw(metadata.raw());
        }
        if let Some(moderation) = conversation.moderation {
            self.out.key("moderation").raw(moderation.raw());
            // The answer goes without what the provider found.
            self.scope.note_dropped("moderation");
        }
        if let Some(tier) = conversation.service_tier {
            text(self.out.key("service_tier"), tier);
        }
        let cache = &conversation.cache;
        if let Some(key) = cache.key {
            text(self.out.key("prompt_cache_key"), key);
        }
        if let Some(retention) = cache.retention {
            text(self.out.key("prompt_cache_retention"), retention);
        }
        if cache.mode.is_some() || cache.ttl.is_some() {
            self.out.key("prompt_cache_options").begin_object();
            if let Some(mode) = cache.mode {
                text(self.out.key("mode"), mode);
            }
            if let Some(ttl) = cache.ttl {
                text(self.out.key("ttl"), ttl);
            }
            self.out.end_object();
        }
    }
}
