//! Random documents, written in every way that JSON allows.

use proptest::prelude::*;

/// A string as it may stand in a document: plain, escaped in every way, of any script.
pub(super) fn string_source() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ !#-\\[\\]-~]{0,12}",
        1 => "[a-z]{40,200}",
        2 => "[äß日本語😀\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}]{1,6}",
        2 => Just(r#"\""#.to_owned()),
        2 => prop_oneof![Just(r"\\"), Just(r"\/"), Just(r"\b"), Just(r"\f"), Just(r"\n"), Just(r"\r"), Just(r"\t")].prop_map(str::to_owned),
        1 => any::<char>().prop_map(|c| {
            c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        }),
        1 => any::<char>().prop_map(|c| {
            c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()
        }),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number_source() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        "-?(0|[1-9][0-9]{0,9})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?",
    ]
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

pub(super) fn document_source() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        number_source(),
        string_source(),
    ];
    let value = leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec((space(), inner.clone(), space()), 0..6).prop_map(|elements| {
                let elements: Vec<_> = elements
                    .into_iter()
                    .map(|(before, value, after)| format!("{before}{value}{after}"))
                    .collect();
                format!("[{}]", elements.join(","))
            }),
            prop::collection::vec((space(), string_source(), inner, space()), 0..6).prop_map(
                |members| {
                    // A number in front keeps the keys apart: serde_json merges equal ones.
                    let members: Vec<_> = members
                        .into_iter()
                        .enumerate()
                        .map(|(n, (before, key, value, after))| {
                            let key = format!("\"{n}{}", &key[1..]);
                            format!("{before}{key}{after}:{before}{value}{after}")
                        })
                        .collect();
                    format!("{{{}}}", members.join(","))
                }
            ),
        ]
    });
    (space(), value, space()).prop_map(|(before, value, after)| format!("{before}{value}{after}"))
}
