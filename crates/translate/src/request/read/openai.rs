//! Parts that chat and responses share: words and objects of the same API.

use crate::{
    Refusal,
    document::Text,
    request::{
        conversation::{AnswerFormat, CacheRequests, Choice, Grammar, Takes, Tool, User},
        fields::Fields,
        path::Path,
        scope::{Scope, refuse, shown},
    },
    table::Shape,
};

/// A choice in one word; chat and responses use the same.
pub(crate) fn choice_word(word: Text<'_>, path: &Path<'_>) -> Result<Choice<'static>, Refusal> {
    match word {
        _ if word.is("auto") => Ok(Choice::Auto),
        _ if word.is("none") => Ok(Choice::None),
        _ if word.is("required") => Ok(Choice::Required),
        _ => {
            let message = format!(
                "is '{}'; expected auto, none, required or an object",
                shown(word)
            );
            Err(refuse(path, message))
        }
    }
}

/// Takes the fields that identify the end user.
pub(crate) fn take_user<'d>(top: &mut Fields<'d, '_>) -> Result<User<'d>, Refusal> {
    Ok(User {
        user: top.text("user")?,
        safety_identifier: top.text("safety_identifier")?,
        user_id: None,
        metadata: top.object("metadata")?,
    })
}

/// Takes the fields that ask for caching; `shape` is that of the options.
pub(crate) fn take_cache_requests<'d>(
    scope: &mut Scope<'_>,
    top: &mut Fields<'d, '_>,
    shape: &'static Shape,
) -> Result<CacheRequests<'d>, Refusal> {
    let mut requests = CacheRequests {
        key: top.text("prompt_cache_key")?,
        retention: top.text("prompt_cache_retention")?,
        ..CacheRequests::default()
    };
    if let Some(value) = top.take("prompt_cache_options") {
        let path = Path::ROOT.field("prompt_cache_options");
        let mut options = scope.open(value, shape, &path)?;
        requests.mode = options.text("mode")?;
        requests.ttl = options.text("ttl")?;
        options.close()?;
    }
    Ok(requests)
}

/// Reads the schema that the answer must fit.
pub(crate) fn answer_schema<'d>(mut fields: Fields<'d, '_>) -> Result<AnswerFormat<'d>, Refusal> {
    let format = AnswerFormat::Schema {
        name: fields.text("name")?,
        description: fields.text("description")?,
        schema: fields.object("schema")?,
        strict: fields.bool("strict")?,
    };
    fields.close()?;
    Ok(format)
}

/// Reads a function that is offered.
pub(crate) fn function<'d>(mut fields: Fields<'d, '_>) -> Result<Tool<'d>, Refusal> {
    let tool = Tool {
        name: fields.require_text("name")?,
        namespace: None,
        namespace_description: None,
        description: fields.text("description")?,
        takes: Takes::Object {
            schema: fields.object("parameters")?,
            strict: fields.bool("strict")?,
        },
        cache: None,
    };
    fields.close()?;
    Ok(tool)
}

/// Reads the grammar of a tool that takes free text.
pub(crate) fn grammar<'d>(mut fields: Fields<'d, '_>) -> Result<Grammar<'d>, Refusal> {
    let grammar = Grammar {
        syntax: fields.require_text("syntax")?,
        definition: fields.require_text("definition")?,
    };
    fields.close()?;
    Ok(grammar)
}
