//! What a fit learns, and what it does not let itself be taught.

use super::*;
use proptest::prelude::*;

fn count(base: u64, tools: bool) -> Count {
    Count {
        tokens: base,
        error_p95: 0.3,
        base,
        media: 0,
        tools,
        most: base,
        basis: Basis::Whole,
    }
}

/// Requests of all sizes, the same for every test.
fn bases() -> impl Iterator<Item = u64> {
    (0..200_u64).map(|place| 20 + place * 7919 % 3000)
}

fn learnt(report: impl Fn(u64, bool) -> u64) -> Fit {
    let mut fit = Fit::default();
    for (place, base) in bases().enumerate() {
        let tools = place % 3 == 0;
        assert!(fit.learn(&count(base, tools), report(base, tools)));
    }
    fit
}

fn close(tokens: u64, wanted: u64) -> bool {
    tokens.abs_diff(wanted) <= wanted / 50 + 5
}

#[test]
fn nothing_learnt_changes_nothing() {
    let fit = Fit::default();
    assert_eq!(count(1234, true).refined(&fit), count(1234, true));
}

#[test]
fn a_factor_a_constant_and_what_tools_add_are_learnt_together() {
    let report = |base, tools| base + base / 4 + 30 + if tools { 400 } else { 0 };
    let fit = learnt(report);
    for (base, tools) in [(300, false), (300, true), (6000, false), (20_000, true)] {
        let tokens = count(base, tools).refined(&fit).tokens;
        let wanted = report(base, tools);
        assert!(close(tokens, wanted), "{tokens} for {wanted}: {fit:?}");
    }
    assert!((fit.factor() - 1.25).abs() < 0.01, "{}", fit.factor());
}

#[test]
fn the_error_is_measured_before_it_is_learnt_from() {
    let mut fit = Fit::default();
    for base in bases().take(MIN_ERRORS - 1) {
        fit.learn(&count(base, false), base);
    }
    assert_eq!(fit.error_p95(), None, "too few to say");
    fit.learn(&count(1000, false), 1000);
    assert_eq!(fit.error_p95(), Some(0.0));
    for _ in 0..MAX_ERRORS {
        fit.learn(&count(1000, false), 1000);
    }
    let before = count(1000, false).refined(&fit).error_p95;
    for _ in 0..10 {
        fit.learn(&count(1000, false), 2000);
    }
    let after = count(1000, false).refined(&fit).error_p95;
    assert!(before < 0.01 && after > 0.3, "{before}, then {after}");
}

#[test]
fn one_absurd_report_hardly_moves_the_line() {
    let mut fit = learnt(|base, _| base);
    fit.learn(&count(2000, false), 90_000_000);
    let tokens = count(2000, false).refined(&fit).tokens;
    assert!(close(tokens, 2000), "{tokens}");
}

#[test]
fn rules_that_are_exact_stay_exact_whatever_the_odd_report_says() {
    let mut fit = Fit::default();
    for (place, base) in bases().enumerate() {
        let odd = if place % 10 == 0 { 300 } else { 0 };
        fit.learn(&count(base, false), base + odd);
        if place % 10 == 9 {
            assert_eq!(count(777, false).refined(&fit).tokens, 777, "{fit:?}");
        }
    }
}

#[test]
fn a_model_that_changes_is_followed() {
    let mut fit = learnt(|base, _| base);
    for base in bases().chain(bases()) {
        fit.learn(&count(base, false), base + base / 3);
    }
    let tokens = count(3000, false).refined(&fit).tokens;
    assert!(tokens.abs_diff(4000) < 200, "{tokens}");
}

#[test]
fn what_was_not_counted_whole_teaches_nothing() {
    let mut fit = Fit::default();
    for basis in [Basis::Assumed, Basis::Sample, Basis::Length] {
        let count = Count {
            basis,
            ..count(100, false)
        };
        assert!(!fit.learn(&count, 500));
    }
    assert!(!fit.learn(&count(100, false), 0));
    assert_eq!(fit, Fit::default());
}

#[test]
fn media_are_left_as_their_rules_say() {
    let count = Count {
        tokens: 2000,
        media: 1000,
        ..count(1000, false)
    };
    let mut fit = Fit::default();
    for _ in 0..100 {
        fit.learn(&count, 2200);
    }
    let tokens = count.refined(&fit).tokens;
    assert!(close(tokens, 2200), "{tokens}");
    let text_alone = fit.apply(1000, false);
    assert!(close(text_alone, 1200), "{text_alone}");
}

/// The same but for the last digit of a number that was written and read.
fn is_like(one: &Fit, other: &Fit) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
    near(one.factor(), other.factor())
        && near(one.constant(), other.constant())
        && near(one.tools_constant(), other.tools_constant())
        && one.reports == other.reports
        && one.errors == other.errors
}

#[test]
fn a_kept_fit_goes_on_where_it_was() {
    let fit = learnt(|base, _| base + 50);
    let kept = serde_json::to_string(&fit).unwrap();
    assert!(kept.len() < 4096, "{} bytes", kept.len());
    let back: Fit = serde_json::from_str(&kept).unwrap();
    assert!(is_like(&back, &fit), "{back:?} and not {fit:?}");
}

#[test]
fn a_kept_fit_that_no_reports_can_have_made_is_refused() {
    let kept = |matrix: &str, reports: u64, errors: &str| {
        let text = format!(
            r#"{{"matrix":{matrix},"vector":[0,0,0],"misses":{{"rules":1,"line":1}},
                "reports":{reports},"errors":{errors}}}"#
        );
        serde_json::from_str::<Fit>(&text).map_err(|error| error.to_string())
    };
    assert!(kept("[1,0,1,0,0,1]", 1, "[0.5]").is_ok());
    for (matrix, reports, errors) in [
        ("[-1,0,1,0,0,1]", 1, "[0.5]"),
        ("[1,9,1,0,0,1]", 1, "[0.5]"),
        ("[1e308,1e308,1,0,0,1]", 1, "[0.5]"),
        ("[1,0,1,0,0,1]", 2, "[0.5]"),
        ("[1,0,1,0,0,1]", 1, "[1.5]"),
    ] {
        assert!(kept(matrix, reports, errors).is_err(), "{matrix} {errors}");
    }
}

proptest! {
    /// Whatever is reported: the line stays finite and bounded, memory too, and the same
    /// reports give the same fit.
    #[test]
    fn no_reports_break_a_fit(
        reports in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 0..400)
    ) {
        let learn = || {
            let mut fit = Fit::default();
            for (base, media, reported, tools) in &reports {
                let shift = |it: &u64| it >> (it % 64);
                let count = Count { media: shift(media), ..count(shift(base), *tools) };
                fit.learn(&count, shift(reported));
            }
            fit
        };
        let fit = learn();
        prop_assert_eq!(&fit, &learn());
        prop_assert!((FACTORS.0..=FACTORS.1).contains(&fit.factor()));
        prop_assert!(fit.constant().is_finite() && fit.tools_constant().is_finite());
        prop_assert!(fit.errors.len() <= MAX_ERRORS);
        prop_assert!(fit.error_p95().is_none_or(|it| (0.0..=1.0).contains(&it)));
        for base in [0, 1, 1000, u64::MAX] {
            prop_assert!(fit.apply(base, true) >= base.min(1));
        }
        let kept = serde_json::to_string(&fit).unwrap();
        prop_assert!(is_like(&serde_json::from_str(&kept).unwrap(), &fit));
    }

    #[test]
    fn any_line_in_reach_is_found(factor in 0.5_f64..2.0, constant in 0_u64..500) {
        let report = |base: u64, _| round::nearest(base as f64 * factor) + constant;
        let fit = learnt(report);
        let tokens = count(4000, false).refined(&fit).tokens;
        let wanted = report(4000, false);
        prop_assert!(tokens.abs_diff(wanted) <= wanted / 10, "{} for {}", tokens, wanted);
    }
}
