use super::*;
use crate::fault::FaultClass;
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::Header;
use proptest::prelude::*;
use serde_json::json;

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut message = Message::new(payload.to_vec());
    for (name, value) in headers {
        let value = HeaderValue::String((*value).to_owned().into());
        message = message.add_header(Header::new((*name).to_owned(), value));
    }
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}

fn event(data: &str) -> Vec<u8> {
    let payload = json!({"bytes": BASE64_STANDARD.encode(data), "p": "abcdefgh"});
    let headers = [
        (":event-type", "chunk"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    frame(&headers, payload.to_string().as_bytes())
}

fn exception(name: &str, payload: &str) -> Vec<u8> {
    let headers = [(":exception-type", name), (":message-type", "exception")];
    frame(&headers, payload.as_bytes())
}

fn decoded(pieces: &[&[u8]]) -> (String, Option<FaultClass>) {
    let (mut decoder, mut out) = (AmazonFrames::default(), Vec::new());
    let failure = pieces
        .iter()
        .find_map(|it| decoder.push(it, &mut out).err());
    (String::from_utf8(out).unwrap(), failure.map(|it| it.class))
}

const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

#[test]
fn frames_become_server_sent_events_wherever_they_are_cut() {
    let one = event(r#"{"type":"ping"}"#);
    let two = event("{\n\"type\": \"message_stop\"\r\n}");
    let stream = [one, two].concat();
    let expected =
        format!("{PING}event: message_stop\ndata: {{ \"type\": \"message_stop\"  }}\n\n");
    for cut in 0..=stream.len() {
        let (before, after) = stream.split_at(cut);
        assert_eq!(decoded(&[before, after]), (expected.clone(), None), "{cut}");
    }
}

#[test]
fn the_name_of_an_event_of_converse_becomes_its_type() {
    let event = |name, payload: &str| {
        let headers = [(":event-type", name), (":message-type", "event")];
        frame(&headers, payload.as_bytes())
    };
    let stream = [
        event("messageStart", "{\"role\":\"assistant\",\r\n\"p\":\"ab\"}"),
        event("contentBlockStop", " { } "),
    ];
    let expected = "event: messageStart\ndata: {\"type\":\"messageStart\",\"role\":\"assistant\",  \"p\":\"ab\"}\n\nevent: contentBlockStop\ndata: {\"type\":\"contentBlockStop\" } \n\n";
    assert_eq!(decoded(&[&stream.concat()]), (expected.to_owned(), None));
    for (name, payload) in [
        ("a\nb", "{}"),
        ("", "{}"),
        ("messageStart", "[]"),
        ("messageStart", ""),
    ] {
        let (out, class) = decoded(&[&event(name, payload)]);
        let broken = ("", Some(FaultClass::BrokenAnswer));
        assert_eq!((&*out, class), broken, "{name} {payload}");
    }
}

#[test]
fn an_event_without_a_type_has_no_name() {
    let (out, class) = decoded(&[&event(r#"{"choices":[]}"#)]);
    assert_eq!((&*out, class), ("data: {\"choices\":[]}\n\n", None));
}

#[test]
fn an_exception_in_the_stream_has_its_class_and_what_came_before_it_passes() {
    for (name, payload, class) in [
        (
            "throttlingException",
            r#"{"message":"Too many tokens, please wait."}"#,
            FaultClass::RateLimit,
        ),
        (
            "serviceUnavailableException",
            r#"{"message":"Try again."}"#,
            FaultClass::Busy,
        ),
        (
            "modelTimeoutException",
            r#"{"message":"Timed out."}"#,
            FaultClass::Busy,
        ),
        (
            "internalServerException",
            r#"{"message":"Failed."}"#,
            FaultClass::ServerError,
        ),
        (
            "modelStreamErrorException",
            r#"{"message":"Failed.","originalStatusCode":500}"#,
            FaultClass::ServerError,
        ),
        (
            "validationException",
            r#"{"message":"max_tokens: 0"}"#,
            FaultClass::InvalidRequest,
        ),
        (
            "accessDeniedException",
            r#"{"message":"No."}"#,
            FaultClass::Forbidden,
        ),
    ] {
        let stream = [event(r#"{"type":"ping"}"#), exception(name, payload)].concat();
        assert_eq!(
            decoded(&[&stream]),
            (PING.to_owned(), Some(class)),
            "{name}"
        );
    }
    let error = [(":message-type", "error"), (":error-code", "InternalError")];
    assert_eq!(
        decoded(&[&frame(&error, b"")]).1,
        Some(FaultClass::ServerError)
    );
}

#[test]
fn broken_frames_are_broken_answers() {
    let broken = Some(FaultClass::BrokenAnswer);
    let sound = event(r#"{"type":"ping"}"#);
    for at in 0..sound.len() {
        let mut bent = sound.clone();
        bent[at] ^= 0x40;
        let (out, class) = decoded(&[&bent]);
        // A longer frame than came is waited for.
        assert!(
            out.is_empty() && (class.is_none() || class == broken),
            "{at}: {class:?}"
        );
    }
    for payload in [
        "",
        "{}",
        r#"{"bytes":"*"}"#,
        r#"{"bytes":"e30"}"#,
        r#"{"bytes":"W10="}"#,
    ] {
        let headers = [(":event-type", "chunk"), (":message-type", "event")];
        assert_eq!(
            decoded(&[&frame(&headers, payload.as_bytes())]).1,
            broken,
            "{payload}"
        );
    }
    assert_eq!(decoded(&[&event(r#"{"type":"a\nb"}"#)]).1, broken);
    assert_eq!(decoded(&[&frame(&[], b"")]).1, broken);
    for length in [0, 15, LONGEST_FRAME + 1, usize::from(u16::MAX) << 16] {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        assert_eq!(
            decoded(&[&length]).1,
            broken,
            "refused before anything is held"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer_and_no_more_than_a_frame_is_held(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16),
        valid in any::<bool>(),
    ) {
        let (mut decoder, mut out) = (AmazonFrames::default(), Vec::new());
        if valid {
            decoder.push(&event(r#"{"type":"ping"}"#), &mut out).unwrap();
        }
        for piece in &pieces {
            if decoder.push(piece, &mut out).is_err() {
                break;
            }
            prop_assert!(decoder.held.len() <= LONGEST_FRAME);
        }
    }

    #[test]
    fn frames_with_sound_checksums_and_any_content_never_panic(
        headers in prop::collection::vec(("[:a-z-]{1,20}", ".{0,20}"), 0..4),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let mut out = Vec::new();
        let _ = AmazonFrames::default().push(&frame(&headers, &payload), &mut out);
    }
}
