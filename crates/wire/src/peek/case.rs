//! Keys that differ from a known one in case only. Servers in Go take such a key for the known one,
//! and the last of several (`encoding/json`); all others take it for an unknown one.

/// The known keys with capitals, of all tables.
const CAPITALS: [&str; 29] = [
    "cachedContent",
    "candidateCount",
    "dataStore",
    "fileData",
    "fileSearchStoreNames",
    "fileUri",
    "functionDeclarations",
    "generateContentRequest",
    "generationConfig",
    "inferenceConfig",
    "inlineData",
    "maxOutputTokens",
    "maxTokens",
    "mimeType",
    "modelConfig",
    "modelSelectionConfig",
    "providerOptions",
    "ragCorpora",
    "ragCorpus",
    "ragFileIds",
    "responseMimeType",
    "responseModalities",
    "routingConfig",
    "serviceTier",
    "systemInstruction",
    "thinkingBudget",
    "thinkingConfig",
    "thinkingLevel",
    "thoughtSignature",
];

/// The key in the case in which tables have it; `None` if it is in that case.
pub(super) fn known_case(key: &[u8]) -> Option<String> {
    let is_lower = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if key.iter().all(is_lower) || CAPITALS.iter().any(|it| it.as_bytes() == key) {
        return None;
    }
    let lower = |it| match it {
        // The two letters beyond ASCII that Go folds to one of ASCII.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        it => it.to_ascii_lowercase(),
    };
    let folded: String = std::str::from_utf8(key).ok()?.chars().map(lower).collect();
    let known = CAPITALS.iter().find(|it| it.eq_ignore_ascii_case(&folded));
    Some(known.map_or(folded, |it| (*it).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::location::{Location, Slot};
    use super::*;
    use crate::formats;
    use std::{collections::BTreeSet, fs};
    use tollgate_types::Format;

    /// The byte strings in the sources of all tables.
    fn candidates() -> BTreeSet<String> {
        let folders = ["src/formats", "src/peek"];
        let files = folders.map(|folder| {
            let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
            fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().path())
        });
        let files = files.into_iter().flatten().filter(|path| path.is_file());
        let texts: Vec<_> = files
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let words = texts.iter().flat_map(|text| text.split("b\"").skip(1));
        words
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect()
    }

    #[test]
    fn every_key_with_capitals_of_a_table_is_listed_and_no_other_key() {
        let candidates = candidates();
        let mut found = BTreeSet::new();
        for format in Format::ALL {
            let rules = formats::rules(format);
            let mut locations = vec![
                Location::Top,
                Location::Node,
                Location::Item,
                Location::Payload,
                Location::Source,
                Location::Blob,
                Location::Offered,
                Location::Tool,
                Location::HostedTool,
                Location::Function,
                Location::AnswerFormat,
                Location::Reference,
                Location::Container,
                Location::Prompt,
                Location::Plugin,
                Location::Search,
            ];
            let mut read = 0;
            while let Some(location) = locations.get(read).copied() {
                read += 1;
                for key in &candidates {
                    let slot = location.slot(rules, key.as_bytes());
                    let inner = match slot {
                        Slot::Within(inner) => Some(inner),
                        Slot::Settings(settings) => Some(settings.location),
                        _ => None,
                    };
                    locations.extend(inner.filter(|it| !locations.contains(it)));
                    let has_capitals = key.contains(|c: char| c.is_ascii_uppercase());
                    if has_capitals && slot != location.slot(rules, b"") {
                        found.insert(key.as_str());
                    }
                }
            }
        }
        assert_eq!(found, CAPITALS.into_iter().collect());
    }
}
