use super::*;

/// Tokens of a stream fed in these chunks, with pieces of one value joined.
fn tokens(chunks: &[&[u8]]) -> Vec<String> {
    let mut framer = Framer::new();
    let mut seen: Vec<String> = Vec::new();
    for chunk in chunks {
        let mut rest = *chunk;
        while let Some(token) = framer.next(&mut rest) {
            match (token, seen.last_mut()) {
                (Token::Data(piece) | Token::Name(piece), Some(last)) => {
                    last.push_str(std::str::from_utf8(piece).unwrap());
                }
                (Token::DataLine, _) => seen.push("data=".into()),
                (Token::NameLine, _) => seen.push("name=".into()),
                (Token::CommentEnd, _) => seen.push("comment".into()),
                (Token::BlockEnd, _) => seen.push("end".into()),
                (Token::OtherLine, _) => seen.push("other".into()),
                (Token::ByteOrderMark, _) => seen.push("mark".into()),
                (token, _) => assert_eq!(token, Token::LateLineFeed),
            }
        }
    }
    seen
}

/// Asserts what a stream is read as: in one piece, and byte by byte.
#[track_caller]
fn reads(stream: &[u8], expected: &[&str]) {
    assert_eq!(tokens(&[stream]), expected, "{}", stream.escape_ascii());
    let bytes: Vec<_> = stream.chunks(1).collect();
    assert_eq!(
        tokens(&bytes),
        expected,
        "{} by bytes",
        stream.escape_ascii()
    );
}

#[test]
fn fields_are_read_with_and_without_space_and_value() {
    reads(b"data: a\n\n", &["data=a", "end"]);
    reads(b"data:a\n\n", &["data=a", "end"]);
    reads(b"data:  a \n\n", &["data= a ", "end"]);
    reads(b"data\n\n", &["data=", "end"]);
    reads(b"data:\n\n", &["data=", "end"]);
    reads(
        b"event: x\ndata: a\ndata: b\n\n",
        &["name=x", "data=a", "data=b", "end"],
    );
    reads(
        b"id: 1\nretry: 9\ndatum: x\ndataa: x\n data: x\nData: x\n\n",
        &["other", "other", "other", "other", "other", "other", "end"],
    );
}

#[test]
fn lines_end_in_three_ways() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = "event: x|data: a||: c||data: b||".replace('|', end);
        let expected = ["name=x", "data=a", "end", "comment", "end", "data=b", "end"];
        reads(stream.as_bytes(), &expected);
    }
    reads(
        b"data: a\r\r\ndata: b\n\r\n",
        &["data=a", "end", "data=b", "end"],
    );
}

#[test]
fn a_comment_within_an_event_is_part_of_it() {
    reads(
        b": c\ndata: a\n: d\n\n",
        &["comment", "data=a", "other", "end"],
    );
    reads(b":\n\n", &["comment", "end"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_field() {
    reads(b"\xef\xbb\xbfdata: a\n\n", &["mark", "data=a", "end"]);
    reads(
        b"\xef\xbbdata: a\n\ndata: b\n\n",
        &["other", "end", "data=b", "end"],
    );
    reads(
        b"data: a\n\n\xef\xbb\xbfdata: b\n\n",
        &["data=a", "end", "other", "end"],
    );
}
