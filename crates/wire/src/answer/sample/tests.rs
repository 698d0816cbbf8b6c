use super::*;

fn sample_of(text: &str, piece: usize) -> Sample {
    let mut sample = Sample::default();
    for piece in text.as_bytes().chunks(piece) {
        sample.push(piece);
    }
    sample
}

#[test]
fn a_short_text_is_kept_whole() {
    let text = "a word, an \\u00e9 and a \u{1f600}. ".repeat(20);
    for piece in [1, 3, 64, 1000] {
        let kept = sample_of(&text, piece).text();
        assert_eq!(kept, text.replace("\\u00e9", "\u{e9}"), "{piece}");
    }
}

#[test]
fn a_text_that_is_there_as_a_whole_is_sampled_without_reading_all_of_it() {
    for words in [1, 100, 200, 1000, 100_000] {
        let text = "half \\u00e9 \\n".repeat(words);
        for piece in [7, 4096, text.len()] {
            let pieces = text.as_bytes().chunks(piece);
            let sample = Sample::of_pieces(pieces, text.len() as u64);
            let kept = sample.text();
            let (least, most) = (text.len().min(900), RUNS * RUN);
            assert!((least / 5..=most).contains(&kept.len()), "{words}: {kept}");
            assert!(!kept.contains('\\'), "{kept}");
        }
    }
}

#[test]
fn a_long_text_is_sampled_all_over_in_constant_memory() {
    const SECTIONS: usize = 16;
    for words in [40, 500, 40_000] {
        for piece in [5, 64, 100_000] {
            let text: String = (0..SECTIONS)
                .map(|section| format!("{section:04} ").repeat(words))
                .collect();
            let sample = sample_of(&text, piece);
            assert!(sample.kept.capacity() <= 2 * RUNS * RUN);
            is_sampled_all_over(&sample.text(), SECTIONS, &format!("{words} {piece}"));
            let pieces = text.as_bytes().chunks(piece);
            let sample = Sample::of_pieces(pieces, text.len() as u64);
            is_sampled_all_over(&sample.text(), SECTIONS, &format!("{words} {piece}, whole"));
        }
    }
}

fn is_sampled_all_over(kept: &str, sections: usize, case: &str) {
    assert!((300..=RUNS * RUN).contains(&kept.len()), "{case}: {kept}");
    let found: Vec<_> = (0..sections)
        .filter(|section| kept.contains(&format!("{section:04}")))
        .collect();
    // With these lengths a stretch has at most 1.7 sections, and each stretch that has ended has a run.
    assert!(found.first() <= Some(&1), "{case}: {kept}");
    let gaps = found.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.max() <= Some(4), "{case}: {kept}");
    assert!(found.last() >= Some(&(sections - 3)), "{case}: {kept}");
}

#[test]
fn where_a_run_stands_cannot_be_known_beforehand() {
    let text: String = (0..10_000).map(|number| format!("{number:05} ")).collect();
    assert_ne!(sample_of(&text, 6).text(), sample_of(&text, 6).text());
}

#[test]
fn characters_and_escapes_that_a_run_cuts_do_no_harm() {
    for text in ["\u{6771}\u{4eac}".repeat(5000), "\\u6771\\n".repeat(5000)] {
        for piece in [1, 7, 50_000] {
            let kept = sample_of(&text, piece).text();
            assert!(kept.len() > 100, "{kept}");
            assert!(!kept.contains('\u{fffd}'), "{kept}");
        }
    }
}

#[test]
fn white_space_is_sampled_in_the_share_that_it_has() {
    for gap in [" ", "\\n", "\\t", "\\r"] {
        for (word, spaces) in [
            ("abcdefgh", 1),
            ("a_b_c_d_".repeat(8).as_str(), 45),
            ("\u{6771}\\\\", 300),
        ] {
            let text = format!("{word}{}", gap.repeat(spaces)).repeat(4000);
            for piece in [1, 50, 100_000] {
                let kept = sample_of(&text, piece).text();
                let white = kept.chars().filter(char::is_ascii_whitespace).count();
                let share = white as f64 / kept.len() as f64;
                let unescaped = text
                    .replace("\\n", " ")
                    .replace("\\t", " ")
                    .replace("\\r", " ");
                let unescaped = unescaped.replace("\\\\", "\\");
                let white = unescaped.chars().filter(char::is_ascii_whitespace).count();
                let expected = white as f64 / unescaped.len() as f64;
                assert!(
                    (share - expected).abs() < 0.1,
                    "{gap:?} {word} {spaces}: {share} for {expected}"
                );
            }
        }
    }
}

#[test]
fn a_text_of_spaces_alone_is_sampled_within_bounds() {
    let kept = sample_of(&" ".repeat(10_000_000), 100_000).text();
    assert!(kept.len() <= 70_000, "{}", kept.len());
}
