//! The catalog of one configuration as requests use it: with a number for each model, the
//! conversations that models have answered, and the health of providers.

use std::collections::HashMap;
use std::sync::Arc;
use tollgate_filter::{ModelHandle, ModelView};
use tollgate_routing::health::Fleet;
use tollgate_routing::{Catalog, Conversations, Model};
use tollgate_types::Format;

/// The catalog, with a number for each model.
pub struct IndexedCatalog {
    catalog: Catalog,
    models: Vec<Indexed>,
    handles: HashMap<Arc<str>, ModelHandle, foldhash::fast::RandomState>,
    conversations: Arc<Conversations>,
    fleet: Option<Arc<Fleet>>,
}

struct Indexed {
    model: Arc<Model>,
    providers: Vec<Arc<str>>,
    serves: Vec<Format>,
    responses_for: Vec<Format>,
}

impl IndexedCatalog {
    /// Numbers the models of a catalog.
    pub fn new(catalog: Catalog) -> Self {
        let mut models: Vec<Indexed> = Vec::new();
        let mut handles = HashMap::default();
        for model in catalog.all() {
            if let Ok(place) = u32::try_from(models.len()) {
                handles.insert(Arc::clone(&model.id), ModelHandle(place));
                models.push(Indexed::new(model));
            }
        }
        Self {
            catalog,
            models,
            handles,
            conversations: Arc::default(),
            fleet: None,
        }
    }

    /// The same, with the conversations that began before it was made.
    #[must_use]
    pub fn with_conversations(mut self, conversations: Arc<Conversations>) -> Self {
        self.conversations = conversations;
        self
    }

    /// The same, with the health of the deployments of its models.
    #[must_use]
    pub fn with_fleet(mut self, fleet: Arc<Fleet>) -> Self {
        self.fleet = Some(fleet);
        self
    }

    /// The health of the deployments; `None` in a catalog by itself.
    pub const fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// Which models have answered which conversations.
    pub fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// The catalog itself.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The models, in the order of their numbers.
    pub fn in_order(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.iter().map(|indexed| &indexed.model)
    }

    /// A model by its number.
    pub fn model(&self, handle: ModelHandle) -> Option<&Arc<Model>> {
        self.indexed(handle).map(|indexed| &indexed.model)
    }

    fn indexed(&self, handle: ModelHandle) -> Option<&Indexed> {
        self.models.get(usize::try_from(handle.0).ok()?)
    }

    /// A model as filters see it.
    pub fn view(&self, model: &Model) -> Option<ModelView<'_>> {
        self.view_of(*self.handles.get(&model.id)?)
    }

    /// The same by its number.
    pub fn view_of(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        let indexed = self.indexed(handle)?;
        Some(ModelView {
            handle,
            id: &indexed.model.id,
            group: &indexed.model.group,
            providers: &indexed.providers,
            serves: &indexed.serves,
            responses_for: &indexed.responses_for,
            reasoning: indexed.model.reasoning,
            max_output_tokens: indexed.model.max_output_tokens,
            context_window: indexed.model.context_window,
        })
    }
}

impl Indexed {
    fn new(model: &Arc<Model>) -> Self {
        Self {
            model: Arc::clone(model),
            providers: model
                .deployments
                .iter()
                .map(|deployment| Arc::clone(&deployment.provider.name))
                .collect(),
            serves: Format::ALL
                .into_iter()
                .filter(|format| {
                    let mut asked = model.deployments.iter();
                    asked.any(|it| it.format_for(*format).is_some())
                })
                .collect(),
            responses_for: Format::OF_CLIENTS
                .into_iter()
                .filter(|format| {
                    let mut asked = model.deployments.iter();
                    asked.any(|it| {
                        !it.formats.contains(*format) && it.formats.contains(Format::Responses)
                    })
                })
                .collect(),
        }
    }
}
