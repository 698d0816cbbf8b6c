//! Suggestions for unknown names.

/// The most names that a message lists.
const LISTED: usize = 8;

/// The known name that was most likely meant, if any is near enough.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ; a swap of neighbours counts as one.
    let allowed = name.chars().count() / 3;
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|other| (strsim::osa_distance(&name, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// `no provider 'alfa'; did you mean 'alpha'?`, or the names there are, where they are few.
pub fn unknown_name<'a>(
    kind: &str,
    given: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    let known = known.into_iter();
    // Whatever a client has sent as a name, it is only ever shown as what it is.
    let name = given.escape_debug();
    if let Some(near) = did_you_mean(given, known.clone()) {
        return format!("no {kind} '{name}'; did you mean '{near}'?");
    }
    let names: Vec<_> = known.collect();
    match names.as_slice() {
        [] => format!("no {kind} '{name}'; there is none at all"),
        [only] => format!("no {kind} '{name}'; the only one is '{only}'"),
        some if some.len() <= LISTED => {
            format!("no {kind} '{name}'; known are {}", some.join(", "))
        }
        many => format!("no {kind} '{name}' among the {} known", many.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_understood_and_an_unrelated_name_is_not() {
        let known = ["providers", "families", "models"];
        assert_eq!(did_you_mean("provider", known), Some("providers"));
        assert_eq!(did_you_mean("modles", known), Some("models"));
        assert_eq!(did_you_mean("MODELS", known), Some("models"));
        assert_eq!(did_you_mean("listen", known), None);
    }

    #[test]
    fn few_names_are_listed_and_many_are_counted() {
        assert_eq!(
            unknown_name("provider", "x", ["alpha", "beta"]),
            "no provider 'x'; known are alpha, beta"
        );
        assert_eq!(
            unknown_name("provider", "alhpa", ["alpha", "beta"]),
            "no provider 'alhpa'; did you mean 'alpha'?"
        );
        let many: Vec<String> = (0..20).map(|n| format!("model-number-{n}")).collect();
        assert_eq!(
            unknown_name("model", "x", many.iter().map(String::as_str)),
            "no model 'x' among the 20 known"
        );
    }
}
