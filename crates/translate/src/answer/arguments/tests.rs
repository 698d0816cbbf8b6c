use super::*;

fn check(pieces: &[&str]) -> Arguments {
    let mut arguments = Arguments::default();
    for piece in pieces {
        arguments.push(RawText::escaped(piece));
    }
    arguments
}

#[test]
fn a_whole_object_is_known_in_any_pieces() {
    let written = r#"{\"a\":[1,\"\ud83d\ude00 \\\" \"],\"b\":{}}"#;
    let mut ends: Vec<_> = (0..=written.len()).collect();
    ends.retain(|at| !written[..*at].ends_with('\\') && written.is_char_boundary(*at));
    for cut in ends {
        let (head, tail) = written.split_at(cut);
        if head.ends_with("\\\\u") || head.contains("\\u") && !head.contains("ude00") {
            continue;
        }
        let seen = check(&[head, tail]);
        assert!(seen.is_object() && seen.is_over(), "{head} | {tail}");
        assert_eq!(check(&[head]).is_over(), cut == written.len());
    }
}

#[test]
fn other_values_than_objects_are_distinguished() {
    for (pieces, is_empty, is_object, is_over) in [
        (&[][..], true, false, false),
        (&["", " \\n"], true, false, false),
        (&["{}"], false, true, true),
        (&["{}", "\\n"], false, true, true),
        (&["{}", "x"], false, false, true),
        (&["[{}]"], false, false, true),
        (&["{\\\"a\\\":"], false, false, false),
        (&["nul", "l"], false, false, true),
        (&["no"], false, false, true),
    ] {
        let seen = check(pieces);
        let found = (seen.is_empty(), seen.is_object(), seen.is_over());
        assert_eq!(found, (is_empty, is_object, is_over), "{pieces:?}");
    }
}

fn input(pieces: &[String]) -> (String, bool) {
    let (mut reader, mut input) = (CustomInput::default(), String::new());
    for piece in pieces {
        let left = reader.push(RawText::escaped(piece)).as_str();
        // What has left must stand alone as contents of a string.
        serde_json::from_str::<String>(&format!("\"{left}\"")).unwrap();
        input.push_str(left);
    }
    (input, reader.is_whole())
}

#[test]
fn the_input_of_a_custom_tool_comes_out_as_it_was_meant_in_any_pieces() {
    for meant in ["", "*** Begin\n\"x\"\t\\ ü😀", "\\ud83d", "}\"}"] {
        for ascii in [false, true] {
            let mut inner = serde_json::to_string(meant).unwrap();
            if ascii {
                inner = inner
                    .replace('ü', "\\u00fc")
                    .replace('😀', "\\ud83d\\ude00");
            }
            let arguments = format!(" {{ \"input\" : {inner} }} ");
            let chars: Vec<char> = arguments.chars().collect();
            for size in 1..=chars.len() {
                let pieces: Vec<String> = chars
                    .chunks(size)
                    .map(|piece| {
                        let piece: String = piece.iter().collect();
                        let written = serde_json::to_string(&piece).unwrap();
                        written[1..written.len() - 1].to_owned()
                    })
                    .collect();
                let (found, is_whole) = input(&pieces);
                assert!(is_whole, "{arguments} by {size}");
                let found: String = serde_json::from_str(&format!("\"{found}\"")).unwrap();
                assert_eq!(found, meant, "{arguments} by {size}");
            }
        }
    }
}

#[test]
fn a_pair_may_come_in_two_pieces() {
    let head = r#"{\"input\":\"x"#;
    let pieces = |cut: &[&str]| {
        let cut = cut.iter().map(|it| (*it).to_owned());
        let (found, is_whole) = input(&cut.collect::<Vec<_>>());
        assert!(is_whole, "{found}");
        found
    };
    let half = format!(r"{head}\ud83d");
    assert_eq!(pieces(&[&half, r#"\ude00y\"}"#]), "x😀y");
    assert_eq!(pieces(&[&half, "", r#"\ude00y\"}"#]), "x😀y");
    assert_eq!(pieces(&[&half, r#"y\"}"#]), "x\u{fffd}y");
    // Backslashes of the input itself.
    let escaped = format!(r"{head}\\\\ud83d");
    assert_eq!(pieces(&[&escaped, r#"\ude00\"}"#]), "x\\\\ud83d\u{fffd}");
}

#[test]
fn half_a_pair_does_not_swallow_the_end() {
    let piece = r#"{\"input\":\"a\\ud83d\"}"#.to_owned();
    assert_eq!(raw_input(&piece), (r"a\ud83d".to_owned(), true));
    let piece = r#"{\"input\":\"a\\ud83d\\n\"}"#.to_owned();
    assert_eq!(raw_input(&piece), (r"a\ud83d\n".to_owned(), true));
}

fn raw_input(piece: &str) -> (String, bool) {
    let mut reader = CustomInput::default();
    let input = reader.push(RawText::escaped(piece)).as_str().to_owned();
    (input, reader.is_whole())
}

#[test]
fn no_arguments_are_a_call_without_input() {
    for arguments in ["", " ", "{}", " { \\n } "] {
        assert_eq!(raw_input(arguments), (String::new(), true), "{arguments}");
    }
}

#[test]
fn other_arguments_have_no_input() {
    for arguments in [
        "{",
        "{\\\"in\\\":1}",
        "[]",
        "{\\\"input\\\":\\\"a\\\"",
        "{\\\"input\\\":\\\"a\\\",\\\"b\\\":1}",
    ] {
        let (_, is_whole) = raw_input(arguments);
        let is_cut = arguments.ends_with("a\\\"");
        assert_eq!(is_whole, is_cut, "{arguments}");
    }
}
