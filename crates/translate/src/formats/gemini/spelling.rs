//! Names of fields, which Google reads in camel case and in snake case.

use crate::document::Value;
use std::borrow::Cow;

/// A name in camel case.
pub(crate) fn camel(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    Cow::Owned(camel)
}

/// A member of an object that is not opened yet, in either spelling.
pub(crate) fn spelled<'d>(value: Value<'d>, name: &str) -> Option<Value<'d>> {
    let mut members = value.members();
    members.find_map(|(key, value)| (key.is(name) || camel(&key.decode()) == name).then_some(value))
}
