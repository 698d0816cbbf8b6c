//! Reads the offer of the provider's search of the web, as far as formats share it.
//!
//! It decides which offers the target can keep to. A limit on what may be searched is kept,
//! or the tool is not offered at all: it never vanishes from under a search that is made.

use crate::{
    Refusal,
    document::Value,
    request::{
        conversation::{Conversation, Location, WebSearch},
        fields::{Fields, text},
        path::Path,
        scope::{Scope, refuse},
    },
    table::Shape,
};

/// The name by which messages knows the tool.
pub(crate) const NAME: &str = "web_search";

/// Takes the offer of a search, if the target has one and `read` finds that it can be kept to.
/// `kind` is its `type`.
pub(crate) fn take_offer<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    kind: &str,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
    read: impl FnOnce(&mut Scope<'_>) -> Result<Option<WebSearch<'d>>, Refusal>,
) -> Result<(), Refusal> {
    let read = scope.has_search().then(|| read(scope)).transpose()?;
    let Some(search) = read.flatten() else {
        scope.note_dropped(format!("tools[].{kind}"));
        conversation.lost_tools = true;
        return Ok(());
    };
    match conversation.search.and_then(|before| before.offer) {
        Some(before) if before.raw() != tool.raw() => Err(refuse(
            path,
            "offers the search of the web once more, and in another way",
        )),
        _ => {
            conversation.search = Some(WebSearch {
                offer: Some(tool),
                ..search
            });
            Ok(())
        }
    }
}

/// Where both lists stand, messages refuses them, and responses passes over the second.
pub(crate) fn check_domains(search: &WebSearch<'_>, path: &Path<'_>) -> Result<(), Refusal> {
    if search.allowed.is_some() && search.blocked.is_some() {
        let message = "stands beside 'allowed_domains': only one of the two lists can be kept to";
        return Err(refuse(&path.field("blocked_domains"), message));
    }
    Ok(())
}

/// A list of domains; an empty one says nothing.
pub(crate) fn domains<'d>(
    fields: &mut Fields<'d, '_>,
    name: &str,
) -> Result<Option<Value<'d>>, Refusal> {
    let path = fields.path.field(name);
    let list = fields.array(name)?;
    for (at, domain) in list.into_iter().flat_map(Value::elements).enumerate() {
        text(domain, &path.index(at))?;
    }
    Ok(list.filter(|list| list.elements().next().is_some()))
}

pub(crate) fn location<'d>(
    scope: &mut Scope<'_>,
    fields: &mut Fields<'d, '_>,
    shape: &'static Shape,
) -> Result<Option<Location<'d>>, Refusal> {
    let Some(value) = fields.take("user_location") else {
        return Ok(None);
    };
    let path = fields.path.field("user_location");
    let mut fields = scope.open(value, shape, &path)?;
    let location = Location {
        city: fields.text("city")?,
        country: fields.text("country")?,
        region: fields.text("region")?,
        timezone: fields.text("timezone")?,
    };
    fields.close()?;
    Ok(Some(location))
}
