use super::*;
use proptest::prelude::*;
use tollgate_types::{Rates, Weight};

const BOUND: UpperBound = UpperBound {
    input: 1000,
    hidden_input: 0,
    output: 500,
    useful_output: 16,
    plausible_input: 200_000,
    plausible_output: 32_000,
};

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::default()
    }
}

fn weights(input: u32, cache_read: u32, cache_write: u32, output: u32) -> Weights {
    Weights {
        input: Weight::from_thousandths(input),
        cache_read: Weight::from_thousandths(cache_read),
        cache_write: Weight::from_thousandths(cache_write),
        output: Weight::from_thousandths(output),
    }
}

fn charge(state: BillingState, reported: Option<Usage>, delivered: Usage) -> Charge {
    let counts = Counts {
        reported,
        delivered,
        ..Counts::default()
    };
    Charge::by_rule(state, &counts, &BOUND, &Weights::default())
}

fn rates(weights: &Weights) -> Rates {
    Rates::from(weights)
}

#[test]
fn every_kind_of_token_has_its_weight_and_the_sum_is_rounded_up_once() {
    let used = Usage {
        input: 1,
        cache_read: 1,
        cache_write: 1,
        output: 1,
        reasoning: 1,
    };
    assert_eq!(Weights::default().charge(&used), 4);
    assert_eq!(weights(100, 10, 125, 500).charge(&used), 1);
    assert_eq!(weights(1000, 1, 0, 0).charge(&used), 2);
    assert_eq!(weights(0, 0, 0, 0).charge(&used), 0);
}

#[test]
fn the_reported_usage_is_charged() {
    let reported = Some(usage(900, 70));
    for state in [
        BillingState::Completed,
        BillingState::Incomplete,
        BillingState::ClientClosed,
    ] {
        let charge = charge(state, reported, usage(1000, 80));
        assert_eq!((charge.tokens, charge.source), (970, CountSource::Reported));
    }
}

#[test]
fn where_nothing_was_reported_what_was_delivered_counts() {
    let charge = charge(BillingState::ClientClosed, None, usage(1000, 80));
    assert_eq!(charge.tokens, 1080);
    assert_eq!(
        (charge.source, charge.clamped),
        (CountSource::Estimated, false)
    );
}

#[test]
fn without_a_report_what_the_provider_can_have_produced_and_hidden_input_are_charged() {
    let charge = |state, reported, produced| {
        let counts = Counts {
            reported,
            delivered: usage(1000, 80),
            produced,
            hidden_input: 7000,
            ..Counts::default()
        };
        Charge::by_rule(state, &counts, &BOUND, &Weights::default()).tokens
    };
    for state in [BillingState::ClientClosed, BillingState::Incomplete] {
        assert_eq!(charge(state, None, 300), 8300);
        assert_eq!(charge(state, None, 30), 8080);
        assert_eq!(charge(state, Some(usage(900, 70)), 300), 970);
    }
    assert_eq!(charge(BillingState::Rejected, None, 300), 0);
}

#[test]
fn a_report_that_is_lower_than_any_honest_one_is_raised_and_marked() {
    let charge = |reported, input, output| {
        let counts = Counts {
            reported: Some(reported),
            delivered: usage(1000, 80),
            least: Least { input, output },
            ..Counts::default()
        };
        let charge = Charge::by_rule(
            BillingState::Completed,
            &counts,
            &BOUND,
            &Weights::default(),
        );
        (charge.tokens, charge.source, charge.clamped)
    };
    let (reported, estimated) = (CountSource::Reported, CountSource::Estimated);
    assert_eq!(charge(usage(7, 0), 0, 80), (87, estimated, true));
    assert_eq!(charge(usage(0, 5), 1000, 0), (1005, estimated, true));
    assert_eq!(charge(usage(7, 5), 0, 5), (12, reported, false));
    let cached = Usage {
        cache_read: 900,
        ..usage(0, 5)
    };
    assert_eq!(charge(cached, 1000, 5), (1005, estimated, true));
}

#[test]
fn refusals_and_failures_before_any_output_are_free() {
    let reported = Some(usage(900, 70));
    assert_eq!(
        charge(BillingState::Rejected, reported, usage(9, 9)).tokens,
        0
    );
    assert_eq!(
        charge(BillingState::UpstreamFailed, reported, usage(9, 0)).tokens,
        0
    );
    assert_eq!(
        charge(BillingState::UpstreamFailed, None, usage(9, 1)).tokens,
        10
    );
}

#[test]
fn a_report_of_nothing_for_an_answer_with_content_is_no_report() {
    let charge = charge(BillingState::Completed, Some(usage(0, 0)), usage(1000, 80));
    assert_eq!(charge.tokens, 1080);
    assert_eq!(
        (charge.source, charge.clamped),
        (CountSource::Estimated, true)
    );
}

#[test]
fn an_absurd_report_is_cut_down_to_the_bound() {
    let absurd = Usage {
        input: 7,
        cache_read: u64::MAX,
        cache_write: 0,
        output: u64::MAX,
        reasoning: u64::MAX,
    };
    let charge = charge(BillingState::Completed, Some(absurd), usage(1000, 80));
    assert_eq!((charge.tokens, charge.clamped), (1500, true));
    assert_eq!(charge.source, CountSource::Estimated);
    assert_eq!(
        charge.usage,
        Usage {
            reasoning: 500,
            ..usage(1000, 500)
        }
    );
}

#[test]
fn a_report_is_plausible_up_to_what_the_model_can_process() {
    let plausible = |input, output| {
        let charge = clamp(usage(input, output), &BOUND, &Weights::default());
        (charge.usage.input, charge.usage.output, charge.clamped)
    };
    assert_eq!(plausible(200_000, 32_000), (200_000, 32_000, false));
    assert_eq!(plausible(200_001, 80), (200_000, 80, true));
    assert_eq!(plausible(1_600_000, 80), (200_000, 80, true));
    assert_eq!(plausible(1_600_001, 80), (1000, 80, true));
    assert_eq!(plausible(10, 32_001), (10, 32_000, true));
}

#[test]
fn hidden_input_is_reserved_and_takes_nothing_from_the_output() {
    let weights = weights(1000, 100, 1250, 3000);
    let hidden = UpperBound {
        hidden_input: 800,
        ..BOUND
    };
    assert_eq!(
        hidden.amount(&rates(&weights)),
        BOUND.amount(&rates(&weights)) + 1000
    );
    assert_eq!(
        hidden.useful_amount(&rates(&weights)),
        BOUND.useful_amount(&rates(&weights))
    );
    assert_eq!(hidden.output_that_fits(2750, &rates(&weights)), None);
    assert_eq!(hidden.output_that_fits(2749, &rates(&weights)), Some(499));
}

#[test]
fn the_output_that_fits_fits() {
    let weights = weights(1000, 100, 1250, 3000);
    // Input at the heaviest weight: 1250. Output: 500 × 3.
    assert_eq!(BOUND.amount(&rates(&weights)), 2750);
    assert_eq!(BOUND.useful_amount(&rates(&weights)), 1250 + 48);
    assert_eq!(BOUND.output_that_fits(2750, &rates(&weights)), None);
    assert_eq!(BOUND.output_that_fits(2749, &rates(&weights)), Some(499));
    assert_eq!(BOUND.output_that_fits(1300, &rates(&weights)), Some(16));
    assert_eq!(BOUND.output_that_fits(10, &rates(&weights)), Some(0));
}

#[test]
fn of_hidden_input_what_was_reserved_is_charged_at_most() {
    let bound = UpperBound {
        hidden_input: 7000,
        ..BOUND
    };
    let all = Weights::default();
    // The visible input and the output come first.
    assert_eq!(bound.hidden_that_fits(8500, &rates(&all)), 7000);
    assert_eq!(bound.hidden_that_fits(1600, &rates(&all)), 100);
    assert_eq!(bound.hidden_that_fits(1500, &rates(&all)), 0);
    assert_eq!(bound.hidden_that_fits(0, &rates(&all)), 0);
    let free = weights(0, 0, 0, 1000);
    assert_eq!(bound.hidden_that_fits(500, &rates(&free)), 7000);
}

#[test]
fn output_that_costs_nothing_never_binds() {
    let free_output = weights(1000, 0, 0, 0);
    assert_eq!(BOUND.output_that_fits(1000, &rates(&free_output)), None);
}

proptest! {
    /// No number overflows, and no honest usage within the bound costs more than it.
    #[test]
    fn the_bound_bounds(
        input in 0..1_u64 << 40, output in 0..1_u64 << 40,
        cached in 0..=100_u64, used in 0..=100_u64,
        w in proptest::array::uniform4(0..=1_000_000_u32),
    ) {
        let weights = weights(w[0], w[1], w[2], w[3]);
        let bound = UpperBound { input, output, useful_output: 1, ..BOUND };
        let read = input / 100 * cached;
        let within = Usage {
            input: input - read,
            cache_read: read,
            output: output / 100 * used,
            ..Usage::default()
        };
        prop_assert!(weights.charge(&within) <= bound.amount(&rates(&weights)));
        prop_assert!(bound.useful_amount(&rates(&weights)) <= bound.amount(&rates(&weights)));
        let half = bound.amount(&rates(&weights)) / 2;
        if let Some(fits) = bound.output_that_fits(half, &rates(&weights)) {
            let capped = UpperBound { output: fits, ..bound };
            prop_assert!(fits == 0 || capped.amount(&rates(&weights)) <= half);
        }
    }

    #[test]
    fn no_report_however_wild_costs_more_than_is_believable(
        fields in proptest::array::uniform5(any::<u64>()),
    ) {
        let [input, cache_read, cache_write, output, reasoning] = fields;
        let wild = Usage { input, cache_read, cache_write, output, reasoning };
        let charge = charge(BillingState::Completed, Some(wild), usage(0, 0));
        prop_assert!(charge.tokens <= 200_000 + 32_000);
        prop_assert!(charge.usage.reasoning <= charge.usage.output);
    }
}

#[test]
fn usage_in_the_middle_of_a_stream_has_the_ceiling_of_a_report() {
    for state in [BillingState::UpstreamFailed, BillingState::ClientClosed] {
        let charged = charge(state, None, usage(1 << 52, 3));
        assert_eq!(charged.usage, usage(BOUND.input, 3));
        assert!(charged.clamped);
        let charged = charge(state, None, usage(7, 1 << 52));
        assert_eq!(charged.usage, usage(7, BOUND.output));
        assert_eq!(charged.source, CountSource::Estimated);
    }
}
