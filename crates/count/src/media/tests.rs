//! Sizes out of headers, and the published examples of each rule.

use super::*;
use crate::{Family as _, Tokenizer};
use proptest::prelude::*;
use tollgate_types::MOST_OF_A_MEDIUM;

/// Base64, the plain way.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..=chunk.len() {
            let digit = (bits >> (18 - 6 * place)) & 63;
            out.push(DIGITS[digit as usize].into());
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    file.extend(width.to_be_bytes());
    file.extend(height.to_be_bytes());
    file.extend([8, 6, 0, 0, 0]);
    file
}

/// A JPEG whose frame stands behind other segments.
fn jpeg(width: u16, height: u16, before: &[u16]) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8];
    for length in before {
        file.extend([0xff, 0xe1]);
        file.extend(length.to_be_bytes());
        file.extend(vec![0xaa; usize::from(*length) - 2]);
    }
    file.extend([0xff, 0xc2, 0, 17, 8]);
    file.extend(height.to_be_bytes());
    file.extend(width.to_be_bytes());
    file.extend([3; 8]);
    file
}

fn webp(kind: &[u8; 4], rest: &[u8]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WEBP", kind.as_slice(), rest].concat()
}

#[test]
fn sizes_are_read_from_the_headers_of_four_formats() {
    let size = |width, height| Some(Size { width, height });
    for (file, wanted) in [
        (png(640, 480), size(640, 480)),
        (b"GIF89a\x40\x01\xf0\x00\0\0".to_vec(), size(320, 240)),
        (jpeg(800, 600, &[]), size(800, 600)),
        (jpeg(4000, 3000, &[16, 65_000, 40_000]), size(4000, 3000)),
        (
            webp(b"VP8 ", b"\0\0\0\0\x30\x01\x00\x9d\x01\x2a\x80\x02\xe0\x01"),
            size(640, 480),
        ),
        (
            webp(b"VP8L", b"\0\0\0\0\x2f\x7f\xc2\x77\x00"),
            size(640, 480),
        ),
        (
            webp(b"VP8X", b"\0\0\0\0\0\0\0\0\x7f\x02\x00\xdf\x01\x00"),
            size(640, 480),
        ),
        (b"%PDF-1.7 not an image".to_vec(), None),
        (png(0, 480), None),
        (png(640, 480)[..20].to_vec(), None),
        (Vec::new(), None),
    ] {
        assert_eq!(size_of_image(&base64(&file)), wanted, "{file:?}");
    }
}

proptest! {
    #[test]
    fn no_payload_breaks_the_reading(
        start in prop::sample::select(vec!["iVBORw0KGgo", "R0lGODlh", "/9j/4A", "UklGRgAAAABXRUJQ", ""]),
        rest in ".{0,200}",
    ) {
        let payload = format!("{start}{rest}");
        let tokens = ImageRule::Crops.tokens(size_of_image(&payload), Detail::Full);
        prop_assert!(tokens > 0);
    }

    #[test]
    fn every_rule_has_a_bound_for_any_size(width in any::<u32>(), height in any::<u32>()) {
        let size = Some(Size { width, height });
        for family in Tokenizer::ALL {
            let rule = family.rules().image;
            for detail in [Detail::Low, Detail::Full] {
                let tokens = rule.tokens(size, detail);
                let most = rule.most(detail);
                prop_assert!(tokens <= most, "{:?}: {} of {}", rule, tokens, most);
                prop_assert!(most <= MOST_OF_A_MEDIUM, "{:?}: {}", rule, most);
            }
        }
    }
}

#[test]
fn the_most_of_every_rule_is_reached() {
    let sizes = [(2048, 768), (1536, 1024), (3072, 384), (8000, 8000)];
    for family in Tokenizer::ALL {
        let rule = family.rules().image;
        for detail in [Detail::Low, Detail::Full] {
            let size = |(width, height)| Some(Size { width, height });
            let tokens = sizes.map(|it| rule.tokens(size(it), detail));
            assert_eq!(
                tokens.into_iter().max(),
                Some(rule.most(detail)),
                "{rule:?}"
            );
        }
    }
}

/// OpenAI's guide to images: 1024 × 1024 is 765 tokens, 2048 × 4096 is 1105, low detail 85.
#[test]
fn tiles_cost_what_the_guide_says() {
    let rule = ImageRule::Tiles {
        base: 85,
        tile: 170,
    };
    let tokens = |width, height| rule.tokens(Some(Size { width, height }), Detail::Full);
    assert_eq!(tokens(1024, 1024), 765);
    assert_eq!(tokens(2048, 4096), 1105);
    assert_eq!(tokens(10, 10), 255);
    assert_eq!(rule.tokens(None, Detail::Low), 85);
}

/// The same guide: 1024 × 1024 is 1024 patches, 1800 × 2400 is shrunk to 1452.
#[test]
fn patches_cost_what_the_guide_says() {
    let rule = ImageRule::Patches {
        most: 1536,
        factor: 1.0,
    };
    let tokens = |width, height| rule.tokens(Some(Size { width, height }), Detail::Full);
    assert_eq!(tokens(1024, 1024), 1024);
    assert_eq!(tokens(1800, 2400), 1452);
    assert!(tokens(10_000, 10_000) <= 1536);
}

/// Anthropic's page on vision: 200 × 200 is some 54 tokens, 1000 × 1000 some 1334.
#[test]
fn areas_cost_what_the_page_says() {
    let rule = ImageRule::Area {
        long_side: 1568,
        most: 1600,
    };
    let tokens = |width, height| rule.tokens(Some(Size { width, height }), Detail::Full);
    assert_eq!(tokens(200, 200), 54);
    assert_eq!(tokens(1000, 1000), 1334);
    assert_eq!(tokens(8000, 8000), 1600);
}

/// Google's page on images: small ones are 258 tokens, 960 × 540 is six crops of 360.
#[test]
fn crops_cost_what_the_page_says() {
    let tokens =
        |width, height| ImageRule::Crops.tokens(Some(Size { width, height }), Detail::Full);
    assert_eq!(tokens(384, 384), 258);
    assert_eq!(tokens(960, 540), 6 * 258);
    // As 3072 × 3072.
    assert_eq!(tokens(4096, 4096), 16 * 258);
}

#[test]
fn a_document_costs_by_its_size_and_an_unknown_one_a_few_pages() {
    let rule = DocumentRule {
        bytes_per_page: 1000,
        tokens_per_page: 10,
    };
    assert_eq!(rule.tokens(Some(2001)), 30);
    assert_eq!(rule.tokens(None), 50);
}
