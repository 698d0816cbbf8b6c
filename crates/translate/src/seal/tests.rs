use super::*;
use proptest::prelude::*;

const FORMS: [ReasoningForm; 10] = [
    ReasoningForm::Signature,
    ReasoningForm::Redacted,
    ReasoningForm::Encrypted,
    ReasoningForm::Details,
    ReasoningForm::Shown,
    ReasoningForm::Hidden,
    ReasoningForm::SearchItem,
    ReasoningForm::SearchBlocks,
    ReasoningForm::Annotation,
    ReasoningForm::Citations,
];

fn here() -> Backend {
    Backend::new("north")
}

#[test]
fn a_blob_returns_byte_for_byte_to_the_backend_that_made_it() {
    for form in FORMS {
        for payload in ["EusB+/==", "gAAAA_-", "{\"signature\":\"é\"}", "x"] {
            for item_id in ["", "rs_06fe400e"] {
                let sealed = seal(here(), form, item_id, payload).unwrap();
                let opened = open(here(), &sealed).unwrap();
                assert_eq!(opened.form, form);
                assert_eq!(opened.item_id, item_id);
                assert_eq!(opened.payload, payload);
            }
        }
    }
}

#[test]
fn another_backend_gets_nothing() {
    let sealed = seal(here(), ReasoningForm::Signature, "", "EusB").unwrap();
    assert_eq!(open(Backend::new("south"), &sealed), None);
}

#[test]
fn a_sealed_text_needs_no_escape_in_json_or_in_a_header_and_names_no_backend() {
    let sealed = seal(here(), ReasoningForm::Encrypted, "rs_1", "\u{0}\"\\").unwrap();
    let (tag, rest) = sealed.split_at(TAG.len());
    assert_eq!(tag, TAG);
    assert!(
        rest.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
        "{sealed}"
    );
    let bytes = URL_SAFE_NO_PAD.decode(rest).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("north"));
}

#[test]
fn a_cut_or_garbled_seal_is_none() {
    let sealed = seal(here(), ReasoningForm::Signature, "id", "EusBClsIDRgC").unwrap();
    for end in 0..sealed.len() {
        assert_eq!(open(here(), &sealed[..end]), None, "cut at {end}");
    }
    for place in 0..sealed.len() {
        let mut garbled = sealed.clone().into_bytes();
        garbled[place] = if garbled[place] == b'A' { b'B' } else { b'A' };
        let garbled = String::from_utf8(garbled).unwrap();
        assert_eq!(open(here(), &garbled), None, "changed at {place}");
    }
    assert_eq!(open(here(), &format!("{sealed}=")), None);
    assert_eq!(open(here(), &format!("{sealed}AAAA")), None);
}

#[test]
fn nothing_and_too_much_are_not_sealed() {
    let form = ReasoningForm::Encrypted;
    assert_eq!(seal(here(), form, "rs_1", ""), None);
    assert_eq!(
        seal(here(), form, "", &"x".repeat(MAX_PAYLOAD_BYTES + 1)),
        None
    );
    let largest = "x".repeat(MAX_PAYLOAD_BYTES);
    let longest = "i".repeat(MAX_ITEM_ID_BYTES);
    let sealed = seal(here(), form, &longest, &largest).unwrap();
    let opened = open(here(), &sealed).unwrap();
    assert_eq!(opened.payload, largest);
    assert_eq!(opened.item_id, longest);
    assert_eq!(open(here(), &format!("{sealed}{sealed}")), None);
}

#[test]
fn the_payload_survives_an_item_id_that_is_too_long() {
    let id = "i".repeat(MAX_ITEM_ID_BYTES + 1);
    let sealed = seal(here(), ReasoningForm::Encrypted, &id, "gAAA").unwrap();
    let opened = open(here(), &sealed).unwrap();
    assert_eq!(
        (opened.item_id.as_str(), opened.payload.as_str()),
        ("", "gAAA")
    );
}

proptest! {
    #[test]
    fn any_payload_returns(form in 0..FORMS.len(), id in ".{0,64}", payload in ".{1,300}") {
        let sealed = seal(here(), FORMS[form], &id, &payload).unwrap();
        prop_assert!(is_sealed(&sealed));
        let opened = open(here(), &sealed).unwrap();
        prop_assert_eq!((opened.item_id, opened.payload), (id, payload));
    }

    #[test]
    fn hostile_text_opens_to_nothing(text in ".{0,200}", inner in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(open(here(), &text), None);
        let claimed = format!("{TAG}{}", URL_SAFE_NO_PAD.encode(inner));
        prop_assert_eq!(open(here(), &claimed), None);
    }
}
