use super::*;
use serde_json::{Value, json};

fn written(write: impl FnOnce(&mut Fields<'_>)) -> String {
    // What other lines have left before it is nothing to a line.
    let mut out = b"{}\n".to_vec();
    let mut fields = Fields::begin(&mut out);
    write(&mut fields);
    fields.end();
    String::from_utf8(out.split_off(3)).unwrap()
}

#[test]
fn an_object_without_fields_is_empty() {
    assert_eq!(written(|_| {}), "{}");
}

#[test]
fn every_kind_of_field_reads_as_it_should() {
    let line = written(|fields| {
        fields.word("a", "x");
        fields.optional_word("b", None);
        fields.number("c", u64::MAX);
        fields.optional_number("d", None);
        fields.flag("e", true);
        fields.millis("f", Some(Duration::from_nanos(12_005_999)));
        fields.millis("g", None);
        fields.optional_object("h", Some(7), |seven, inner| {
            inner.number("i", seven);
            inner.flag("j", false);
        });
        fields.optional_object("k", None::<()>, |(), _| {});
    });
    assert_eq!(
        line,
        "{\"a\":\"x\",\"b\":null,\"c\":18446744073709551615,\"d\":null,\"e\":true,\
         \"f\":12.005,\"g\":null,\"h\":{\"i\":7,\"j\":false},\"k\":null}"
    );
}

#[test]
fn numbers_are_written_as_serde_json_writes_them() {
    let powers = (0..20).map(|exponent| 10_u64.saturating_pow(exponent));
    for number in powers.flat_map(|power| [power - 1, power, power + 1]) {
        let line = written(|fields| fields.number("n", number));
        assert_eq!(line, json!({ "n": number }).to_string());
    }
}

#[test]
fn addresses_are_written_as_they_display() {
    for address in [
        "0.0.0.0",
        "127.0.0.1",
        "10.20.100.255",
        "::1",
        "2001:db8::ff00:42:8329",
    ] {
        let line = written(|fields| fields.optional_address("n", address.parse().ok()));
        assert_eq!(line, json!({ "n": address }).to_string());
    }
    let line = written(|fields| fields.optional_address("n", None));
    assert_eq!(line, json!({ "n": null }).to_string());
}

#[test]
fn any_text_comes_back_as_it_was() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..2_000 {
        let length = random.usize(..40);
        // Half of them from the low characters, where what needs an escape is.
        let text: String = std::iter::repeat_with(|| match round % 2 {
            0 => char::from(random.u8(..0x80)),
            _ => random.char(..),
        })
        .take(length)
        .collect();
        let line = written(|fields| {
            fields.text("text", &text);
            fields.optional_text("again", Some(&text));
        });
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed, json!({ "text": text, "again": text }), "{line}");
        assert!(line.bytes().all(|byte| byte >= 0x20), "{line}");
    }
}

#[test]
fn any_span_comes_back_to_the_microsecond() {
    for micros in (0..20)
        .map(|exponent| 7_u64.pow(exponent))
        .chain([0, 999, 1000])
    {
        let span = Duration::from_micros(micros);
        let line = written(|fields| fields.millis("ms", Some(span)));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        let reported = parsed["ms"].as_f64().unwrap() * 1e3;
        let off = (reported - span.as_secs_f64() * 1e6).abs();
        assert!(off <= span.as_secs_f64() * 1e6 * 1e-12, "{line}");
    }
}
