use super::*;
use proptest::prelude::*;

fn key() -> ApiKey {
    ApiKey::generate().unwrap()
}

#[test]
fn a_new_key_has_the_published_form() {
    let key = key();
    let text = key.expose();
    assert_eq!(text.len(), 52);
    assert!(text.starts_with("sk-"), "{text}");
    assert!(
        text[3..].bytes().all(|b| b.is_ascii_alphanumeric()),
        "{text}"
    );
    assert_eq!(ApiKey::parse(text), Ok(key.clone()));
    assert_eq!(key.prefix(), &text[..11]);
}

#[test]
fn no_two_keys_are_alike_and_every_character_is_used() {
    let mut seen = std::collections::HashSet::new();
    let mut letters = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let key = key();
        letters.extend(key.expose()[3..46].bytes());
        assert!(seen.insert(key.expose().to_owned()));
    }
    assert_eq!(letters.len(), 62);
}

#[test]
fn the_checksum_catches_every_single_wrong_character() {
    let key = key();
    let text = key.expose().as_bytes();
    for place in 3..text.len() {
        for other in BASE62.iter().filter(|c| **c != text[place]) {
            let mut typo = text.to_vec();
            typo[place] = *other;
            let typo = String::from_utf8(typo).unwrap();
            assert_eq!(ApiKey::parse(&typo), Err(MalformedKey::Checksum), "{typo}");
        }
    }
}

#[test]
fn the_checksum_catches_every_pair_of_swapped_neighbours() {
    let key = key();
    let text = key.expose().as_bytes();
    for place in 3..text.len() - 1 {
        let mut typo = text.to_vec();
        typo.swap(place, place + 1);
        if typo != text {
            let typo = String::from_utf8(typo).unwrap();
            assert_eq!(ApiKey::parse(&typo), Err(MalformedKey::Checksum), "{typo}");
        }
    }
}

#[test]
fn a_key_with_missing_added_or_foreign_characters_is_no_key() {
    let key = key();
    let text = key.expose();
    let others = [
        String::new(),
        "sk-".into(),
        text[..51].into(),
        format!("{text}0"),
        format!(" {text}"),
        text.replacen("sk-", "pk-", 1),
        text.replacen("sk-", "SK-", 1),
        format!("sk-{}", "%".repeat(49)),
        format!("sk-{}", "é".repeat(24)) + "x",
        "sk-".to_owned() + &"0".repeat(1 << 20),
    ];
    for other in others {
        assert_eq!(
            ApiKey::parse(&other),
            Err(MalformedKey::Shape),
            "{other:.80}"
        );
    }
}

#[test]
fn a_key_never_shows_itself_in_debug_output() {
    let key = key();
    let hasher = KeyHasher::new(b"pepper").unwrap();
    let shown = format!("{key:?} {:?} {hasher:?}", hasher.hash(&key));
    assert!(!shown.contains(&key.expose()[11..]), "{shown}");
    assert!(!shown.contains("pepper"), "{shown}");
}

#[test]
fn an_empty_pepper_is_refused() {
    for pepper in ["", " ", "\n\t "] {
        assert_eq!(KeyHasher::new(pepper.as_bytes()).unwrap_err(), PepperError);
    }
}

#[test]
fn the_hash_is_hmac_sha_256_as_rfc_4231_has_it() {
    let hash = KeyHasher::new(b"Jefe")
        .unwrap()
        .hash_text("what do ya want for nothing?");
    let hex: String = hash.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn another_pepper_gives_another_hash() {
    let key = key();
    let one = KeyHasher::new(b"one").unwrap();
    let two = KeyHasher::new(b"two").unwrap();
    assert_eq!(one.hash(&key), one.hash(&key));
    assert_ne!(one.hash(&key), two.hash(&key));
    assert_ne!(one.fingerprint(), two.fingerprint());
}

proptest! {
    #[test]
    fn any_text_is_judged_without_panicking(text in ".{0,80}") {
        prop_assert!(ApiKey::parse(&text).is_err());
    }
}
