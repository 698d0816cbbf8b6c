//! The characters that a name must not have, because they are invisible or misleading.

/// The first character of `text` that a reader does not see, or that changes how the text around
/// it looks: control characters, line separators, and format characters that are invisible or
/// reorder text (Unicode, categories Cc, Zl, Zp, Co, Cf without its visible signs, and invisible letters and
/// marks).
///
/// A name with such a character can pass for another one in a log, a table or a terminal.
pub fn hidden_character(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c))
}

/// Whether a character is invisible or changes how the text around it looks.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{fe00}'..='\u{fe0e}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{10ffff}'
        )
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
            '\u{115f}',
            '\u{3164}',
            '\u{fe00}',
            '\u{e000}',
            '\u{e0041}',
            '\u{e0100}',
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
            "❤\u{fe0f}",
            "a\u{a0}b",
        ] {
            assert_eq!(hidden_character(plain), None, "{plain:?}");
        }
    }
}
