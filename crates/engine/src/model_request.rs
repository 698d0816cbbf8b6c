//! A request to a model, fitted to a deployment: the body in a format of the deployment, and the fields that it
//! loses. The gateway adds the memory that this takes, the patches and the address.

mod untranslated;

pub use untranslated::Untranslated;

use crate::candidate::{internal_error, purpose};
use bytes::Bytes;
use std::borrow::Cow;
use tollgate_config::TranslationSettings;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::settings::EmbeddingsApi;
use tollgate_routing::{Deployment, Model};
use tollgate_translate::{
    EmbeddingsFormat, EmbeddingsRequest, Lossy, Strict, Target, Translated, embeddings_request,
    needs_custom_tools, request, without_refused,
};
use tollgate_types::{ErrorCode, Format, MessagesCapabilities, PublicError};
use tollgate_wire::body::BodyEdits;
use tollgate_wire::peek::Peeked;
use tollgate_wire::splice::{Splice, Spliced};

/// A request whose model is known.
#[derive(Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The results of the filters.
    pub context: &'a RequestContext,
    /// The model that answers.
    pub model: &'a Model,
    /// The client's format.
    pub format: Format,
    /// The pieces of the body.
    pub pieces: &'a [Bytes],
    /// The result of one pass over the body.
    pub peeked: &'a Peeked,
    /// The operator's rules for fields that cannot be translated.
    pub settings: &'a TranslationSettings,
}

impl<'a> ModelRequest<'a> {
    /// The name of the model at a deployment.
    pub fn upstream_model<'d>(&self, deployment: &'d Deployment) -> &'d str
    where
        'a: 'd,
    {
        deployment.upstream_model(self.model_asked())
    }

    fn model_asked(&self) -> &'a str {
        self.context.model_asked().unwrap_or(&self.model.id)
    }

    /// Whether a deployment that is asked in the format `to` gets the body in the client's format.
    pub fn is_untranslated(&self, deployment: &Deployment, to: Format) -> bool {
        let capabilities = &deployment.capabilities;
        if self.format != to {
            return false;
        }
        if to != Format::Chat || capabilities.chat.custom_tools {
            return true;
        }
        let body = self.assemble(Splice::default());
        !body.is_ok_and(|body| needs_custom_tools(to, &body, capabilities))
    }

    /// Removes the fields that the provider refuses, and adds them to `dropped`.
    ///
    /// # Errors
    ///
    /// The operator does not allow one of them to be dropped.
    pub fn without_refused(
        &self,
        deployment: &Deployment,
        body: Bytes,
        dropped: &mut Vec<Cow<'static, str>>,
    ) -> Result<Bytes, PublicError> {
        let refused = &deployment.capabilities.refused_fields;
        let (rest, found) = without_refused(body, refused, self.strict())?;
        dropped.extend(found.into_iter().map(|name| name.to_owned().into()));
        Ok(rest)
    }

    /// The API of a deployment's embeddings. `None`: that of OpenAI.
    ///
    /// # Errors
    ///
    /// The name of the model does not say it: a client can choose any under a pattern.
    pub fn embeddings_format(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<EmbeddingsFormat>, PublicError> {
        let endpoint = deployment.provider.endpoint(self.format);
        let target = endpoint.and_then(|endpoint| endpoint.target(purpose(self.context)));
        let Some(api) = target.and_then(|target| target.api) else {
            return Ok(None);
        };
        Ok(Some(match api.of_model(self.upstream_model(deployment)) {
            Some(EmbeddingsApi::BedrockTitan) => EmbeddingsFormat::Titan,
            Some(EmbeddingsApi::BedrockCohere) => EmbeddingsFormat::Cohere,
            Some(EmbeddingsApi::Gemini) => EmbeddingsFormat::Gemini,
            Some(EmbeddingsApi::VertexPredict) => EmbeddingsFormat::VertexPredict,
            Some(EmbeddingsApi::VertexEmbedContent) => EmbeddingsFormat::VertexEmbedContent,
            Some(EmbeddingsApi::Bedrock) | None => {
                let message = "the vendor of this model of embeddings is unknown";
                return Err(PublicError::new(ErrorCode::InvalidModel, message));
            }
        }))
    }

    /// A request for embeddings, of which `body` is the one of OpenAI's API, in another API.
    ///
    /// # Errors
    ///
    /// The model does not take such an input, or the operator does not allow a field to be dropped.
    pub fn embeddings(
        &self,
        deployment: &Deployment,
        to: EmbeddingsFormat,
        body: &[u8],
    ) -> Result<EmbeddingsRequest, PublicError> {
        let upstream_model = self.upstream_model(deployment);
        let made = embeddings_request(to, body, self.model_asked(), upstream_model, self.strict());
        Ok(made?)
    }

    /// The client's body with the output limit that its balance covers, to be translated.
    ///
    /// # Errors
    ///
    /// A fault of the gateway.
    pub fn limited(&self) -> Result<Bytes, PublicError> {
        let mut edits = BodyEdits::new(self.format, self.peeked);
        if let Some(tokens) = self.context.output_limit {
            edits.set_output_limit(tokens);
        }
        self.assemble(edits.into_splice())
    }

    /// Translates `body` into the first format of a deployment that carries the request by itself, or else the
    /// first in which the gateway emulates a field.
    ///
    /// # Errors
    ///
    /// None does: the refusal of the one that carries most.
    pub fn translated(
        &self,
        deployment: &Deployment,
        target: &Target<'_>,
        body: &[u8],
    ) -> Result<(Format, Translated), PublicError> {
        let translate = |to| request(self.format, to, body, target);
        let mut refusal = None;
        let mut emulating = None;
        for to in deployment.formats_for(self.format) {
            match translate(to) {
                Ok(made) if !made.notes.emulates() => return Ok((to, made)),
                // Made again if no other format is better: two bodies at once need more memory.
                Ok(_) => emulating = emulating.or(Some(to)),
                Err(error) => drop(refusal.get_or_insert(error)),
            }
        }
        match emulating {
            Some(to) => Ok((to, translate(to)?)),
            None => Err(refusal.map_or_else(internal_error, PublicError::from)),
        }
    }

    /// The target of a translation for a deployment.
    pub fn target(&self, deployment: &'a Deployment) -> Target<'a> {
        let Deployment {
            provider,
            capabilities,
            ..
        } = deployment;
        let (context, model, facts) = (self.context, self.model, &self.peeked.facts);
        Target {
            asked_model: Some(self.model_asked()),
            asked_stream: facts.stream,
            max_output_tokens: context.output_limit.or(model.max_output_tokens),
            reserved_output: context.reserved_output,
            reasoning: model.reasoning,
            efforts: &model.efforts,
            sampling: model.sampling,
            cache_breakpoints: capabilities.cache_breakpoints,
            max_stop_sequences: capabilities.max_stop_sequences.map(usize::from),
            chat: capabilities.chat,
            responses: capabilities.responses,
            messages: MessagesCapabilities {
                adaptive_thinking: model.adaptive_thinking(&capabilities.messages),
                ..capabilities.messages
            },
            thinking_levels: model.thinking_levels(),
            lossy: Lossy(&self.settings.lossy),
            strict: self.strict(),
            ..Target::new(self.upstream_model(deployment), &provider.name)
        }
    }

    /// The output limit that is sent, if the client asked for another one.
    pub fn changed_limit(&self, sent: Option<u64>) -> Option<u64> {
        let asked = self.peeked.facts.output_limit;
        sent.filter(|sent| asked.is_some_and(|asked| asked != *sent))
    }

    /// Logs that a body for the provider cannot be built, and returns the error for the client.
    pub fn fault(&self) -> PublicError {
        let id = self.context.id;
        log::error!("{id}: the request body for the provider cannot be built");
        internal_error()
    }

    const fn strict(&self) -> Strict<'a> {
        Strict(self.settings.strict.as_slice())
    }

    /// The body in one piece, with these edits. A body that came in one piece and has no edits is not copied.
    fn assemble(&self, edits: Splice) -> Result<Bytes, PublicError> {
        let spliced = edits.apply(self.pieces);
        spliced.map(Spliced::into_bytes).map_err(|_| self.fault())
    }
}

/// Whether the gateway asks for the usage of a chat stream, and so must remove the chunk with the usage.
pub fn asks_for_usage(request: &RequestContext) -> bool {
    request.endpoint == Endpoint::ChatCompletions
        && request
            .facts_if_read()
            .is_some_and(|facts| facts.stream && facts.include_usage != Some(true))
}
