use super::*;

const FIXED: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 11\r\n\r\nhello world";
const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n\
    9\r\ndata: a\n\n\r\n8\r\ndata: b\n\r\n1\r\n\n\r\n12;x=y\r\ndata: c\n\ndata: d\n\n\r\n0\r\n\r\n";

fn read_in_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<(Answer, Vec<u8>, bool)> {
    let mut reader = ResponseReader::counting_events();
    let mut body = Vec::new();
    for piece in pieces {
        reader.feed(piece, |bytes| body.extend_from_slice(bytes))?;
    }
    Ok((
        Answer {
            last_byte: 0,
            ..*reader.answer()
        },
        body,
        reader.is_done(),
    ))
}

#[test]
fn an_answer_with_a_length_ends_at_its_length() {
    let (answer, body, done) = read_in_pieces([FIXED].into_iter()).unwrap();
    assert_eq!(
        (answer.status, answer.body_bytes, answer.http_chunks),
        (200, 11, 0)
    );
    assert_eq!(body, b"hello world");
    assert!(done);
}

#[test]
fn a_chunked_stream_counts_events_apart_from_chunks() {
    let (answer, body, done) = read_in_pieces([STREAM].into_iter()).unwrap();
    assert_eq!(
        (answer.status, answer.http_chunks, answer.events),
        (200, 4, 4)
    );
    assert_eq!(body, b"data: a\n\ndata: b\n\ndata: c\n\ndata: d\n\n");
    assert_eq!(answer.body_bytes, body.len() as u64);
    assert!(done);
}

#[test]
fn cutting_the_bytes_anywhere_changes_nothing() {
    for whole in [FIXED, STREAM] {
        let expected = read_in_pieces([whole].into_iter()).unwrap();
        assert_eq!(read_in_pieces(whole.chunks(1)).unwrap(), expected);
        for cut in 1..whole.len() {
            let (first, second) = whole.split_at(cut);
            assert_eq!(
                read_in_pieces([first, second].into_iter()).unwrap(),
                expected,
                "at {cut}"
            );
        }
    }
}

#[test]
fn an_answer_is_done_with_its_last_byte_and_not_before() {
    for whole in [FIXED, STREAM] {
        let (almost, _) = whole.split_at(whole.len() - 1);
        let (_, _, done) = read_in_pieces([almost].into_iter()).unwrap();
        assert!(!done, "{}", String::from_utf8_lossy(almost));
    }
}

#[test]
fn an_empty_body_is_done_with_its_head() {
    let head: &[u8] = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";
    let (answer, _, done) = read_in_pieces([head].into_iter()).unwrap();
    assert_eq!((answer.status, answer.body_bytes, done), (204, 0, true));
}

#[test]
fn the_next_answer_on_the_connection_starts_afresh() {
    let mut reader = ResponseReader::counting_events();
    reader.feed(STREAM, |_| {}).unwrap();
    reader.reset();
    reader.feed(FIXED, |_| {}).unwrap();
    assert_eq!(
        (reader.answer().events, reader.answer().body_bytes),
        (0, 11)
    );
    assert!(reader.is_done());
}

#[test]
fn an_error_status_is_reported_and_never_taken_for_success() {
    let refusal: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(read_in_pieces([refusal].into_iter()).unwrap().0.status, 503);
}

#[test]
fn an_unknown_answer_is_refused() {
    let many_headers = [
        b"HTTP/1.1 200 OK\r\n".as_slice(),
        &b"a: b\r\n".repeat(20_000),
    ]
    .concat();
    for wrong in [
        b"HTTP/2 200\r\n\r\n".as_slice(),
        b"HTTP/1.1 2x0 OK\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        &many_headers,
    ] {
        let outcome = read_in_pieces([wrong].into_iter());
        let shown = String::from_utf8_lossy(wrong.get(..80).unwrap_or(wrong)).into_owned();
        assert!(
            matches!(outcome, Err(Failure::Malformed(_))),
            "{shown}: {outcome:?}"
        );
    }
}
