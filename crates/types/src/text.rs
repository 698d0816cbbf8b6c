//! Which text is fit for a name that people read.

/// The first character of `text` that a reader does not see, or that changes how the text around
/// it looks: control characters, line separators, and format characters that are invisible or
/// reorder text (Unicode, categories Cc, Zl, Zp, and Cf without its visible signs).
///
/// A name with such a character can pass for another one in a log, a table or a terminal.
pub fn hidden_character(text: &str) -> Option<char> {
    let is_hidden = |c: &char| {
        c.is_control()
            || matches!(
                c,
                '\u{ad}'
                    | '\u{61c}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{feff}'
                    | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e007f}'
            )
    };
    text.chars().find(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_found_and_letters_of_all_scripts_are_not() {
        for hidden in [
            '\0',
            '\n',
            '\t',
            '\u{7f}',
            '\u{9b}',
            '\u{200b}',
            '\u{200e}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{2028}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            let text = format!("key{hidden}name");
            assert_eq!(hidden_character(&text), Some(hidden), "{text:?}");
        }
        for plain in [
            "",
            "ci 1",
            "Zoë's laptop",
            "開発",
            "مفتاح",
            "מפתח",
            "कुंजी",
            "🚀",
            "a\u{a0}b",
        ] {
            assert_eq!(hidden_character(plain), None, "{plain:?}");
        }
    }
}
