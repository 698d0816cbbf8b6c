//! The lexer against serde_json, in every chunking, and what it says of faults.

mod documents;

use super::*;
use documents::{document_source, string_source};
use proptest::prelude::*;
use serde_json::Value;

/// One report of the lexer, with the contents of everything.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Begin(Container, u64),
    End(Container, u64),
    Key(String, u64, Span),
    String(String, u64, Span),
    Number(String, Span),
    Literal(Literal, Span),
}

struct Tokens {
    want: Want,
    pieces: Vec<u8>,
    tokens: Vec<Token>,
}

impl Tokens {
    fn contents(&mut self, text: Text<'_>) -> String {
        match self.want {
            Want::Pieces => unescape(&std::mem::take(&mut self.pieces), usize::MAX),
            _ => text.as_str().to_owned(),
        }
    }
}

impl Sink for Tokens {
    type Error = JsonError;

    fn want_key(&mut self) -> Want {
        self.want
    }

    fn want_string(&mut self) -> Want {
        self.want
    }

    fn piece(&mut self, piece: &[u8]) {
        self.pieces.extend_from_slice(piece);
    }

    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        let token = Token::Key(self.contents(key), key.len, key.span);
        self.tokens.push(token);
        Ok(())
    }

    fn string(&mut self, text: Text<'_>) -> Result<(), JsonError> {
        let token = Token::String(self.contents(text), text.len, text.span);
        self.tokens.push(token);
        Ok(())
    }

    fn number(&mut self, number: Number<'_>) -> Result<(), JsonError> {
        let token = Token::Number(number.as_str().to_owned(), number.span);
        self.tokens.push(token);
        Ok(())
    }

    fn literal(&mut self, literal: Literal, span: Span) -> Result<(), JsonError> {
        self.tokens.push(Token::Literal(literal, span));
        Ok(())
    }

    fn begin(&mut self, container: Container, at: u64) -> Result<(), JsonError> {
        self.tokens.push(Token::Begin(container, at));
        Ok(())
    }

    fn end(&mut self, container: Container, end: u64) -> Result<(), JsonError> {
        self.tokens.push(Token::End(container, end));
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_pieces_of_a_string_unescape_to_it(
        document in document_source(),
        places in proptest::collection::vec(any::<usize>(), 0..4),
    ) {
        let chunks = cut(document.as_bytes(), &places);
        let expected = lex_with(&mut Lexer::new(), Want::Prefix(usize::MAX), chunks.clone());
        let pieces = lex_with(&mut Lexer::new(), Want::Pieces, chunks);
        prop_assert_eq!(pieces, expected);
    }
}

fn lex_with<'a>(
    lexer: &mut Lexer,
    want: Want,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Token>, JsonError> {
    let mut sink = Tokens {
        want,
        pieces: Vec::new(),
        tokens: Vec::new(),
    };
    for chunk in chunks {
        lexer.feed(chunk, &mut sink)?;
    }
    lexer.finish(&mut sink)?;
    Ok(sink.tokens)
}

fn lex(document: &[u8]) -> Result<Vec<Token>, JsonError> {
    lex_with(&mut Lexer::new(), Want::Prefix(usize::MAX), [document])
}

fn lex_bytewise(document: &[u8]) -> Result<Vec<Token>, JsonError> {
    lex_with(
        &mut Lexer::new(),
        Want::Prefix(usize::MAX),
        document.chunks(1),
    )
}

/// Cuts a document at the given places, in any order and number.
fn cut<'a>(document: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|at| at % (document.len() + 1)).collect();
    places.sort_unstable();
    places.push(document.len());
    let mut from = 0;
    let cut = |to| {
        let chunk = &document[from..to];
        from = to;
        chunk
    };
    places.into_iter().map(cut).collect()
}

/// What serde_json makes of the tokens' own source, in the order of the tokens.
fn expected(value: &Value, tokens: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            tokens.push("{".into());
            for (key, member) in members {
                tokens.push(format!("key {key}"));
                expected(member, tokens);
            }
            tokens.push("}".into());
        }
        Value::Array(elements) => {
            tokens.push("[".into());
            elements
                .iter()
                .for_each(|element| expected(element, tokens));
            tokens.push("]".into());
        }
        Value::String(text) => tokens.push(format!("string {text}")),
        other => tokens.push(other.to_string()),
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn reported(tokens: &[Token], document: &[u8]) -> Vec<String> {
    let slice = |span: Span| &document[place(span.start)..place(span.end)];
    let same = |span: Span, text: &str, len: u64| {
        let parsed: String = serde_json::from_slice(slice(span)).unwrap();
        assert_eq!(parsed, text, "the span must hold the string");
        assert_eq!(parsed.len() as u64, len);
    };
    let tell = |token: &Token| match token {
        Token::Begin(Container::Object, at) => {
            assert_eq!(document[place(*at)], b'{');
            "{".into()
        }
        Token::Begin(Container::Array, at) => {
            assert_eq!(document[place(*at)], b'[');
            "[".into()
        }
        Token::End(Container::Object, end) => {
            assert_eq!(document[place(*end) - 1], b'}');
            "}".into()
        }
        Token::End(Container::Array, end) => {
            assert_eq!(document[place(*end) - 1], b']');
            "]".into()
        }
        Token::Key(text, len, span) => {
            same(*span, text, *len);
            format!("key {text}")
        }
        Token::String(text, len, span) => {
            same(*span, text, *len);
            format!("string {text}")
        }
        Token::Number(text, span) => {
            assert_eq!(text.as_bytes(), slice(*span));
            serde_json::from_str::<Value>(text).unwrap().to_string()
        }
        Token::Literal(literal, span) => {
            assert_eq!(literal.as_str().as_bytes(), slice(*span));
            literal.as_str().into()
        }
    };
    tokens.iter().map(tell).collect()
}

/// serde_json's verdict: well-formed and UTF-8. (`IgnoredAny` judges the grammar alone,
/// without the ranges of numbers and the pairing of surrogates.)
fn serde_accepts(document: &[u8]) -> bool {
    std::str::from_utf8(document).is_ok()
        && serde_json::from_slice::<serde::de::IgnoredAny>(document).is_ok()
}

proptest! {
    #[test]
    fn a_document_gives_the_tokens_that_serde_json_sees(
        source in document_source(),
        places in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let document = source.as_bytes();
        let tokens = lex(document).unwrap();
        let mut wanted = Vec::new();
        expected(&serde_json::from_str(&source).unwrap(), &mut wanted);
        prop_assert_eq!(reported(&tokens, document), wanted);

        prop_assert_eq!(&lex_bytewise(document).unwrap(), &tokens);
        let all = Want::Prefix(usize::MAX);
        let chunks = cut(document, &places);
        prop_assert_eq!(&lex_with(&mut Lexer::new(), all, chunks).unwrap(), &tokens);
    }

    #[test]
    fn a_prefix_is_the_same_however_the_document_is_cut(
        source in string_source(),
        limit in 0_usize..20,
    ) {
        let mut lexer = Lexer::new();
        let whole = lex_with(&mut lexer, Want::Prefix(limit), [source.as_bytes()]).unwrap();
        lexer.reset();
        let bytewise = lex_with(&mut lexer, Want::Prefix(limit), source.as_bytes().chunks(1));
        prop_assert_eq!(&whole, &bytewise.unwrap());

        let contents: String = serde_json::from_str(&source).unwrap();
        let [Token::String(prefix, len, _)] = &whole[..] else { panic!("{whole:?}") };
        prop_assert!(contents.starts_with(prefix.as_str()));
        prop_assert_eq!(*len, contents.len() as u64);
        let next = contents[prefix.len()..].chars().next().map_or(0, char::len_utf8);
        prop_assert!(prefix.len() <= limit);
        prop_assert!(next == 0 || prefix.len() + next > limit);
    }

    #[test]
    fn a_damaged_document_is_refused_where_serde_json_refuses_it(
        source in document_source(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..3),
        places in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut document = source.into_bytes();
        for (place, byte) in damage {
            let place = place % document.len();
            document[place] = byte;
        }
        let verdict = lex(&document);
        prop_assert_eq!(verdict.is_ok(), serde_accepts(&document), "{:?}", verdict);
        prop_assert_eq!(&lex_bytewise(&document), &verdict);
        let all = Want::Prefix(usize::MAX);
        prop_assert_eq!(&lex_with(&mut Lexer::new(), all, cut(&document, &places)), &verdict);
    }

    #[test]
    fn garbage_is_judged_as_serde_json_judges_it(document in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(lex(&document).is_ok(), serde_accepts(&document));
    }

    #[test]
    fn json_like_garbage_is_judged_as_serde_json_judges_it(document in "[\\[\\]{}:,\"\\\\u0-9eE.+\\-tfnrualse \n\t]{0,24}") {
        let verdict = lex(document.as_bytes());
        prop_assert_eq!(verdict.is_ok(), serde_accepts(document.as_bytes()), "{:?}", verdict);
    }

    #[test]
    fn a_document_cut_short_is_not_complete(source in document_source()) {
        let document = source.trim_end().as_bytes();
        prop_assume!(!document[document.len() - 1].is_ascii_digit());
        for len in 0..document.len() {
            let mut lexer = Lexer::new();
            let mut sink = Tokens { want: Want::Nothing, pieces: Vec::new(), tokens: Vec::new() };
            lexer.feed(&document[..len], &mut sink).unwrap();
            prop_assert!(!lexer.is_complete(), "{:?}", &source[..len]);
            prop_assert_eq!(lexer.finish(&mut sink).unwrap_err().kind, JsonErrorKind::UnexpectedEnd);
        }
    }
}

#[test]
fn a_fault_says_what_and_where() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "the document ends before it is complete at byte 0"),
        (b"{", "the document ends before it is complete at byte 1"),
        (
            b"{]",
            "expected a key in double quotes or '}', found ']' at byte 1",
        ),
        (
            b"{\"a\":1,}",
            "expected a key in double quotes, found '}' at byte 7",
        ),
        (
            b"{\"a\" 1}",
            "expected ':' after a key, found '1' at byte 5",
        ),
        (
            b"{\"a\":1 \"b\"",
            "expected ',' or '}', found '\"' at byte 7",
        ),
        (b"[1 2]", "expected ',' or ']', found '2' at byte 3"),
        (b"[,", "expected a value or ']', found ',' at byte 1"),
        (b"[1,]", "expected a value, found ']' at byte 3"),
        (
            b"{}x",
            "expected nothing more after the document, found 'x' at byte 2",
        ),
        (
            b"{'a':1}",
            "expected a key in double quotes or '}', found ''' at byte 1",
        ),
        (b"[01]", "expected ',' or ']', found '1' at byte 2"),
        (
            b"[1.]",
            "expected the rest of a number, found ']' at byte 3",
        ),
        (b"[-]", "expected the rest of a number, found ']' at byte 2"),
        (
            b"[nul]",
            "expected true, false or null, found ']' at byte 4",
        ),
        (b"[True]", "expected a value or ']', found 'T' at byte 1"),
        (b"[NaN]", "expected a value or ']', found 'N' at byte 1"),
        (
            b"[\"\\x\"]",
            "expected a known escape after '\\', found 'x' at byte 3",
        ),
        (
            b"[\"\\u12g4\"]",
            "expected four hexadecimal digits after '\\u', found 'g' at byte 6",
        ),
        (
            b"[\"a\nb\"]",
            "a string holds the control character 0x0a unescaped at byte 3",
        ),
        (b"[\"ab\xff\"]", "a string is not valid UTF-8 at byte 4"),
        (
            b"\xef\xbb\xbf{}",
            "expected a value, found byte 0xef at byte 0",
        ),
    ];
    for (document, message) in cases {
        let shown = String::from_utf8_lossy(document);
        assert_eq!(lex(document).unwrap_err().to_string(), *message, "{shown}");
        let bytewise = lex_bytewise(document).unwrap_err().to_string();
        assert_eq!(bytewise, *message, "{shown}, byte by byte");
    }
}

#[test]
fn broken_utf8_is_refused_at_every_cut() {
    let broken: &[&[u8]] = &[
        b"\x80",
        b"\xc0\x80",
        b"\xc3",
        b"\xc3\x28",
        b"\xe0\x80\x80",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
    ];
    for bytes in broken {
        let document = [&b"\"text "[..], bytes, b"\""].concat();
        for at in 0..document.len() {
            let chunks = cut(&document, &[at]);
            let error = lex_with(&mut Lexer::new(), Want::Nothing, chunks).unwrap_err();
            assert_eq!(
                error.kind,
                JsonErrorKind::BadUtf8,
                "{document:x?} cut at {at}"
            );
        }
    }
}

#[test]
fn a_lone_surrogate_is_let_through_and_shown_as_a_replacement() {
    for (source, shown) in [
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\ude00""#, "\u{fffd}"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        (r#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
        (r#""\ud83d\n""#, "\u{fffd}\n"),
    ] {
        for tokens in [lex(source.as_bytes()), lex_bytewise(source.as_bytes())] {
            let tokens = tokens.unwrap();
            let [Token::String(text, len, _)] = &tokens[..] else {
                panic!("{tokens:?}")
            };
            assert_eq!(
                (text.as_str(), *len),
                (shown, shown.len() as u64),
                "{source}"
            );
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    assert!(lex(&nested(128)).is_ok());
    let error = lex(&nested(129)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nested deeper than 128 levels at byte 128"
    );
    let mut shallow = Lexer::with_max_depth(2);
    assert!(lex_with(&mut shallow, Want::Nothing, [&nested(2)[..]]).is_ok());
    shallow.reset();
    assert!(lex_with(&mut shallow, Want::Nothing, [&nested(3)[..]]).is_err());
    let objects = b"{\"a\":".repeat(100_000);
    assert_eq!(lex(&objects).unwrap_err().kind, JsonErrorKind::TooDeep(128));
}

#[test]
fn kinds_of_container_are_remembered_all_the_way_down() {
    let mut source = String::new();
    for level in 0..128 {
        source.push_str(if level % 3 == 0 { "[" } else { "{\"k\":" });
    }
    source.push('1');
    for level in (0..128).rev() {
        source.push(if level % 3 == 0 { ']' } else { '}' });
    }
    assert!(lex(source.as_bytes()).is_ok());
    for level in 0..128 {
        let mut wrong = source.clone().into_bytes();
        let place = wrong.len() - 1 - level;
        wrong[place] ^= b']' ^ b'}';
        assert!(lex(&wrong).is_err(), "level {level}");
    }
}

#[test]
fn a_long_number_keeps_its_true_length() {
    let source = "1".repeat(1000);
    for tokens in [lex(source.as_bytes()), lex_bytewise(source.as_bytes())] {
        let tokens = tokens.unwrap();
        let span = Span {
            start: 0,
            end: 1000,
        };
        assert_eq!(tokens, [Token::Number("1".repeat(Number::MAX_LEN), span)]);
    }
}

#[test]
fn only_a_plain_integer_that_fits_is_a_u64() {
    for (source, value) in [
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("1e3", None),
        ("1.0", None),
        ("-0", None),
        ("-1", None),
    ] {
        let number = Number {
            bytes: source.as_bytes(),
            span: Span {
                start: 7,
                end: 7 + source.len() as u64,
            },
        };
        assert_eq!(number.as_u64(), value, "{source}");
    }
}

#[test]
fn completion_is_known_before_the_end_and_only_white_space_may_follow() {
    let mut lexer = Lexer::new();
    let mut sink = Tokens {
        want: Want::Nothing,
        pieces: Vec::new(),
        tokens: Vec::new(),
    };
    lexer.feed(b"{\"a\":[1]", &mut sink).unwrap();
    assert!(!lexer.is_complete());
    lexer.feed(b"}", &mut sink).unwrap();
    assert!(lexer.is_complete());
    lexer.feed(b" \r\n\t", &mut sink).unwrap();
    assert!(lexer.is_complete());
    let error = lexer.feed(b"{", &mut sink).unwrap_err();
    assert_eq!(error, JsonError::new(JsonErrorKind::Trailing(b'{'), 13));
}

#[test]
fn a_failed_lexer_stays_failed_until_it_is_reset() {
    let mut lexer = Lexer::new();
    let mut sink = Tokens {
        want: Want::Nothing,
        pieces: Vec::new(),
        tokens: Vec::new(),
    };
    lexer.feed(b"]", &mut sink).unwrap_err();
    let again = lexer.feed(b"{}", &mut sink).unwrap_err();
    assert_eq!(again.kind, JsonErrorKind::Failed);
    assert_eq!(
        lexer.finish(&mut sink).unwrap_err().kind,
        JsonErrorKind::Failed
    );
    assert!(!lexer.is_complete());
    lexer.reset();
    assert!(lex_with(&mut lexer, Want::Nothing, [&b"{}"[..]]).is_ok());
}
