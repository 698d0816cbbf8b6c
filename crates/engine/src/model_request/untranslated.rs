//! A body that is sent in the client's own format: the passes over it, in their order.
//!
//! 1. **Edits** of the fields that the first reading of the body found: the name of the model, the usage, the output
//!    limit, and what the model's mode of reasoning asks for. Their positions are those of the client's bytes.
//! 2. **Sampling settings** that the model does not accept. Pass 1 decides whether it thinks, and some models accept
//!    them only without thinking.
//! 3. **Seals** that a translation left in the conversation. Pass 5 judges the reasoning that remains.
//! 4. **The effort** of a model that always thinks, if the request has no setting for it.
//! 5. **Capabilities** of the provider: roles, lists of texts, cache marks, and fields that it does not know.
//! 6. **Refused fields**: the provider can refuse what passes 1 and 4 have set.
//! 7. **Patches** of the provider's configuration, which the gateway applies: the operator has the last word.
//!
//! Passes 1 to 6 parse the body, each only if there can be something for it to change.

use super::{ModelRequest, asks_for_usage};
use bytes::Bytes;
use std::borrow::Cow;
use tollgate_routing::{Deployment, Model};
use tollgate_translate::{
    AcceptedEfforts, ModelReasoning, ThinkingObstacles, lacks_any, sampling_settings,
    with_default_effort, within_capabilities, without_sampling, without_seals,
};
use tollgate_types::{Capabilities, Format, PublicError, ThinkingStyle};
use tollgate_wire::body::BodyEdits;
use tollgate_wire::reasoning;
use tollgate_wire::splice::Splice;

/// A body in the client's format, within the capabilities of a deployment.
pub struct Untranslated {
    /// The body.
    pub body: Bytes,
    /// The fields of the client's request that are left out.
    pub dropped: Vec<Cow<'static, str>>,
    /// The output limit in tokens, if it is not the client's.
    pub changed_limit: Option<u64>,
}

/// A body after pass 1.
struct Edited {
    body: Bytes,
    /// The fields that the edits leave out.
    dropped: Vec<&'static str>,
    /// The settings for pass 2.
    sampling: Vec<&'static str>,
    /// The output limit in tokens, if it is not the client's.
    changed_limit: Option<u64>,
}

impl<'a> ModelRequest<'a> {
    /// Whether [`untranslated`](Self::untranslated) copies the body to edit it.
    pub fn is_edited(&self, deployment: &Deployment) -> bool {
        // Obstacles to thinking are looked for later.
        self.adds_thinking() || !self.edits(deployment, false).0.into_splice().is_empty()
    }

    /// Whether [`untranslated`](Self::untranslated) parses the body.
    pub fn is_parsed(&self, deployment: &Deployment) -> bool {
        let (capabilities, peeked) = (&deployment.capabilities, self.peeked);
        peeked.has_seals
            || self.adds_thinking()
            || self.default_effort(deployment).is_some()
            || lacks_any(self.format, capabilities, peeked.has_top_k)
            || self.lacks_sampling()
    }

    /// The body after passes 1 to 6.
    ///
    /// # Errors
    ///
    /// The provider cannot do what the request depends on, or the operator does not allow a field to be dropped.
    pub fn untranslated(&self, deployment: &Deployment) -> Result<Untranslated, PublicError> {
        let edited = self.edited(deployment)?;
        let mut dropped = edited.dropped;
        let mut body = without_sampling(edited.body, &edited.sampling, self.strict())?;
        dropped.extend(edited.sampling);
        if self.peeked.has_seals
            && let Some(unsealed) = without_seals(self.format, &body, self.model.thinking_levels())
        {
            body = unsealed.body;
            dropped.extend(unsealed.dropped);
        }
        if let Some(effort) = self.default_effort(deployment)
            && let Some(with_effort) = with_default_effort(self.format, &body, effort)
        {
            body = with_effort;
        }
        let fitted = within_capabilities(
            self.format,
            body,
            &accepted(deployment, self.model),
            ModelReasoning {
                mode: self.model.reasoning,
                efforts: &self.model.efforts,
            },
            self.peeked.has_top_k,
            self.strict(),
        )?;
        // One field can be changed twice: an effort, for its model and beside tools.
        let more = fitted.dropped.into_iter();
        let more: Vec<_> = more.filter(|path| !dropped.contains(path)).collect();
        dropped.extend(more);
        let mut dropped = dropped.into_iter().map(Cow::Borrowed).collect();
        let body = self.without_refused(deployment, fitted.body, &mut dropped)?;
        Ok(Untranslated {
            body,
            dropped,
            changed_limit: edited.changed_limit,
        })
    }

    /// Pass 1.
    fn edited(&self, deployment: &Deployment) -> Result<Edited, PublicError> {
        let adds = self.adds_thinking();
        let lacks_sampling = self.lacks_sampling() && self.has_settings();
        let whole = (adds || lacks_sampling).then(|| self.assemble(Splice::default()).ok());
        let whole = whole.flatten();
        let obstacles = match &whole {
            Some(body) if adds => ThinkingObstacles::of(body),
            _ => ThinkingObstacles::default(),
        };
        let (edits, dropped) = self.edits(deployment, obstacles.excluded);
        let sampling = match &whole {
            Some(body) if lacks_sampling => sampling_settings(body),
            _ if adds && edits.says_how_to_think() => obstacles.sampling,
            _ => Vec::new(),
        };
        drop(whole);
        let changed_limit = self.changed_limit(edits.output_limit());
        Ok(Edited {
            body: self.assemble(edits.into_splice())?,
            dropped,
            sampling,
            changed_limit,
        })
    }

    /// The edits of pass 1, and the fields that they leave out. `excluded`: the rest of the request excludes
    /// thinking.
    fn edits(&self, deployment: &Deployment, excluded: bool) -> (BodyEdits<'a>, Vec<&'static str>) {
        let (context, model, facts) = (self.context, self.model, &self.peeked.facts);
        let mut edits = BodyEdits::new(self.format, self.peeked);
        let upstream_model = self.upstream_model(deployment);
        if facts.model.as_deref() != Some(upstream_model) {
            edits.set_model(upstream_model);
        }
        if asks_for_usage(context) {
            edits.ask_for_usage();
        }
        if let Some(tokens) = context.output_limit {
            edits.set_output_limit(tokens);
        }
        if !self.has_settings() {
            return (edits, Vec::new());
        }
        let bounds = reasoning::Bounds {
            output_limit: context.output_limit,
            most_output: context.reserved_output.or(model.max_output_tokens),
            excluded,
            adaptive: model.thinking == Some(ThinkingStyle::Adaptive),
            efforts: &model.efforts,
        };
        let dropped = reasoning::fit(model.reasoning, self.format, facts, &bounds, &mut edits);
        (edits, dropped)
    }

    /// Whether the request can have settings. Google's counter takes none.
    fn has_settings(&self) -> bool {
        self.format != Format::Gemini || !self.context.endpoint.is_count()
    }

    fn adds_thinking(&self) -> bool {
        reasoning::adds_thinking(self.model.reasoning, self.format, &self.peeked.facts)
    }

    /// Whether it has sampling settings, and its model does not accept any.
    const fn lacks_sampling(&self) -> bool {
        !self.model.sampling && self.peeked.has_sampling
    }

    /// What the model accepts as an effort, if a request of its own format may have to be given one. Counters
    /// take no settings.
    fn default_effort(&self, deployment: &Deployment) -> Option<AcceptedEfforts<'a>> {
        let (model, facts) = (self.model, &self.peeked.facts);
        let adds = !self.context.endpoint.is_count()
            && reasoning::adds_effort(model.reasoning, self.format, facts);
        adds.then(|| AcceptedEfforts {
            efforts: &model.efforts,
            thinking_levels: model.thinking_levels(),
            beside_tools: deployment.capabilities.chat.effort_with_tools,
        })
    }
}

/// The capabilities of a deployment for a model, for requests of its own format.
fn accepted<'a>(deployment: &'a Deployment, model: &Model) -> Cow<'a, Capabilities> {
    let known = &deployment.capabilities;
    let is_adaptive = model.thinking == Some(ThinkingStyle::Adaptive);
    if known.messages.adaptive_thinking || !is_adaptive {
        return Cow::Borrowed(known);
    }
    let mut of_model = known.clone();
    of_model.messages.adaptive_thinking = true;
    Cow::Owned(of_model)
}
