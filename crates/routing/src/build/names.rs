//! Which names models, providers and groups may have.

use tollgate_types::MAX_MODEL_NAME_BYTES;

/// The model name that leaves the choice to the gateway.
pub(super) const AUTO: &str = "auto";
/// The name for all groups in plans.
pub(super) const ALL_GROUPS: &str = "all";
/// Names stand in metrics and headers: no longer than this.
const MAX_BYTES: usize = 128;
/// Keys are limited to groups by their names: no longer than a key can have.
const MAX_GROUP_BYTES: usize = 64;

/// Whether a model identifier is a pattern.
pub(super) fn is_wildcard(id: &str) -> bool {
    id.ends_with('*')
}

/// A model identifier or alias, without the `*` of a pattern.
pub(super) fn check_model(name: &str) -> Result<(), String> {
    if name == AUTO {
        return Err(format!(
            "'{AUTO}' is reserved; configure its candidates under `auto`"
        ));
    }
    if name.len() > MAX_MODEL_NAME_BYTES {
        return Err(format!(
            "a model name has at most {MAX_MODEL_NAME_BYTES} bytes; choose a shorter one, and name the provider's as \
             `upstream_model`"
        ));
    }
    check(name, "a model name", ".-_:/@+", MAX_MODEL_NAME_BYTES)
}

/// A provider or family name.
pub(super) fn check_plain(name: &str, what: &str) -> Result<(), String> {
    check(name, what, ".-_", MAX_BYTES)
}

/// The name of a rule of `auto`. It begins with a letter, so that it is not a position.
pub(super) fn check_rule(name: &str) -> Result<(), String> {
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("the name of a rule begins with a letter".to_owned());
    }
    check(name, "the name of a rule", "-_", MAX_BYTES)
}

/// A model group.
pub(super) fn check_group(name: &str) -> Result<(), String> {
    if name == ALL_GROUPS {
        return Err(format!(
            "'{ALL_GROUPS}' means every group; give this one a name of its own"
        ));
    }
    check(name, "a group", ".-_", MAX_GROUP_BYTES)
}

fn check(name: &str, what: &str, extra: &str, most: usize) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
    let is_valid = name.len() <= most
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_allowed);
    if is_valid {
        return Ok(());
    }
    let extra: Vec<_> = extra.chars().map(String::from).collect();
    Err(format!(
        "{what} begins with a letter or digit and holds letters, digits and {} only, at most {most} of them",
        extra.join(" ")
    ))
}
