//! The tables of `docs/reference/charging.md`, row by row.

use super::*;
use tollgate_types::Money;

/// A stream of 400 bytes of text that its client gets from a model without reasoning, for 100 tokens of input.
fn stream() -> Facts {
    Facts {
        asked: Asked {
            format: Some(Format::Chat),
            choices: 1,
            streams: true,
            input: 100,
            output_rate: 60,
            ..Asked::default()
        },
        is_worked_on: true,
        is_delivered: true,
        is_stream: true,
        text_bytes: 400,
        ..Facts::default()
    }
}

/// An answer of that model in one piece, before any of it has arrived.
fn whole() -> Facts {
    with(stream(), |it| {
        it.asked.streams = false;
        it.is_delivered = false;
        it.is_stream = false;
        it.text_bytes = 0;
    })
}

/// A request for an open path of a provider, of which the body is not sent yet.
fn open_path() -> Facts {
    Facts {
        fixed: Some(usage(0, 1)),
        ..Facts::default()
    }
}

fn with(mut facts: Facts, change: fn(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

/// The text of [`stream`] in tokens.
const OUTPUT: u64 = 80;
/// How long the providers have worked: 120 tokens at 60 per second.
const RAN: Duration = Duration::from_secs(2);

fn used(facts: &Facts, state: BillingState) -> Ending {
    let output = if facts.text_bytes > 0 { OUTPUT } else { 0 };
    facts.used(state, output, || RAN)
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::default()
    }
}

fn report(input: u64, output: u64) -> ReportedUsage {
    ReportedUsage {
        usage: usage(input, output),
        has_input: true,
        has_output: true,
        ..ReportedUsage::default()
    }
}

#[test]
fn the_body_decides_the_charged_input_of_a_delivered_answer_without_a_report() {
    use BillingState as S;
    for (name, facts, state, expected) in [
        ("left", stream(), S::ClientClosed, true),
        ("broken", stream(), S::UpstreamFailed, true),
        ("without usage", stream(), S::Completed, true),
        ("refused", stream(), S::Rejected, false),
        (
            "nothing delivered",
            Facts {
                is_delivered: false,
                ..stream()
            },
            S::UpstreamFailed,
            false,
        ),
        (
            "not sent",
            Facts {
                is_worked_on: false,
                ..stream()
            },
            S::ClientClosed,
            false,
        ),
        (
            "reported at the start",
            Facts {
                report: report(90, 1),
                ..stream()
            },
            S::ClientClosed,
            false,
        ),
        (
            "fixed",
            Facts {
                fixed: Some(usage(0, 1)),
                ..stream()
            },
            S::ClientClosed,
            false,
        ),
    ] {
        assert_eq!(facts.is_charged_by_body(state), expected, "{name}");
    }
}

#[test]
fn the_state_follows_from_what_the_client_got_and_from_the_failure() {
    use BillingState as S;
    let refused = UpstreamFault::without_answer(FaultClass::InvalidRequest);
    let failed = UpstreamFault::without_answer(FaultClass::ServerError);
    let no_memory = UpstreamFault::without_answer(FaultClass::OutOfMemory);
    let unfit = UpstreamFault::without_answer(FaultClass::UnfitAnswer);
    let here = End::default();
    let asked = End {
        was_asked: true,
        ..here
    };
    let answered = End {
        is_answered: true,
        ..asked
    };
    let of = |fault| End {
        fault: Some(fault),
        ..asked
    };
    let broken = End {
        is_broken: true,
        fault: Some(&failed),
        ..answered
    };
    let stopped = |stop| End {
        stop: Some(stop),
        ..answered
    };
    #[rustfmt::skip]
    let table = [
        ("the gateway refuses", here, S::Rejected),
        ("the gateway answers", End { is_answered: true, ..here }, S::Completed),
        ("the provider answers", answered, S::Completed),
        ("the model is done", stopped(StopReason::Done), S::Completed),
        ("the model reaches its limit", stopped(StopReason::MaxTokens), S::Incomplete),
        ("the provider refuses", of(&refused), S::Rejected),
        ("the provider fails", of(&failed), S::UpstreamFailed),
        ("the gateway lacks memory", of(&no_memory), S::UpstreamFailed),
        ("the body does not end", End { awaits_body: true, ..asked }, S::Rejected),
        ("no failure is known", asked, S::UpstreamFailed),
        ("the answer is unusable", of(&unfit), S::Incomplete),
        ("the answer breaks off", broken, S::UpstreamFailed),
        ("the client does not read", End { client_stalled: true, ..broken }, S::ClientClosed),
        ("the client disconnects", End { client_left: true, ..answered }, S::ClientClosed),
        ("the client disconnects early", End { client_left: true, ..here }, S::ClientClosed),
    ];
    for (case, end, expected) in table {
        assert_eq!(state(&end), expected, "{case}");
    }
}

#[test]
fn a_request_that_no_client_leaves_is_charged_the_final_report_or_else_what_was_delivered() {
    use BillingState as S;
    let reports = |it: &mut Facts| it.report = report(90, 70);
    let ended = with(with(stream(), reports), |it| it.is_complete = true);
    let unreported = with(ended, |it| it.report = ReportedUsage::default());
    let absurd = with(ended, |it| it.report.absurd = true);
    let broken = with(stream(), reports);
    let at_stop = with(broken, |it| it.has_final_usage = true);
    let one_of_two = with(at_stop, |it| it.asked.choices = 2);
    let reasoned = with(stream(), |it| {
        it.report = report(90, 200);
        it.report.usage.reasoning = 60;
    });
    let answered = with(open_path(), |it| {
        it.is_delivered = true;
        it.is_complete = true;
    });
    // The facts, the state, the report that is charged, and the delivered tokens.
    #[rustfmt::skip]
    let table = [
        ("is refused", whole(), S::Rejected, None, (0, 0)),
        ("ends normally", ended, S::Completed, Some((90, 70)), (90, 80)),
        ("ends at its limit", ended, S::Incomplete, Some((90, 70)), (90, 80)),
        ("ends without a report", unreported, S::Completed, None, (100, 80)),
        ("ends with an absurd report", absurd, S::Completed, None, (100, 80)),
        ("fails before the first content", whole(), S::UpstreamFailed, None, (100, 0)),
        ("breaks off", stream(), S::UpstreamFailed, None, (100, 80)),
        ("breaks off after a running total", broken, S::UpstreamFailed, None, (90, 80)),
        ("breaks off after its stop reason", at_stop, S::UpstreamFailed, Some((90, 70)), (90, 80)),
        ("breaks off after one of two answers", one_of_two, S::UpstreamFailed, None, (90, 80)),
        ("breaks off after hidden reasoning", reasoned, S::UpstreamFailed, None, (90, 140)),
        ("an open path answers", answered, S::Completed, Some((0, 1)), (0, 1)),
        ("an open path fails", open_path(), S::UpstreamFailed, None, (0, 0)),
    ];
    for (case, facts, state, reported, delivered) in table {
        let ending = used(&facts, state);
        let reported = reported.map(|(input, output)| usage(input, output));
        let counted = (ending.delivered.total_input(), ending.delivered.output);
        assert_eq!(ending.reported, reported, "{case}");
        assert_eq!(counted, delivered, "{case}");
        assert_eq!((ending.produced, ending.hidden_input), (0, 0), "{case}");
    }
}

#[test]
fn a_request_whose_stream_was_closed_is_charged_its_hidden_use_too() {
    use BillingState as S;
    const ALL: u64 = u64::MAX;
    let unsent = with(whole(), |it| it.is_worked_on = false);
    let two = with(whole(), |it| it.asked.choices = 2);
    let embeddings = with(whole(), |it| it.asked.output_rate = 0);
    let reasons = with(stream(), |it| it.asked.can_hide_output = true);
    let media = with(stream(), |it| it.has_media = true);
    let tools = with(stream(), |it| it.asked.reads_again = true);
    let document = with(stream(), |it| it.asked.has_unmeasured_input = true);
    let stored = with(stream(), |it| it.asked.stored_tokens = 7);
    let reported = |facts| with(facts, |it| it.report = report(90, 5));
    let cut = with(reported(stream()), |it| {
        it.is_complete = true;
        it.is_cut_short = true;
    });
    let unfit = with(whole(), |it| it.is_unfit = true);
    let sent = with(open_path(), |it| it.is_worked_on = true);
    // The facts, the state, the delivered tokens, the produced output, and the hidden input.
    #[rustfmt::skip]
    let table = [
        ("a request that was not sent", unsent, S::ClientClosed, (0, 0), 0, 0),
        ("a stream that shows all", stream(), S::ClientClosed, (100, 80), 80, 0),
        ("a model that reasons", reasons, S::ClientClosed, (100, 80), 120, 0),
        ("sound or pictures", media, S::ClientClosed, (100, 80), 120, 0),
        ("a whole answer", whole(), S::ClientClosed, (100, 0), 120, 0),
        ("two answers", two, S::ClientClosed, (100, 0), 240, 0),
        ("embeddings", embeddings, S::ClientClosed, (100, 0), 0, 0),
        ("hosted tools", tools, S::ClientClosed, (100, 80), 80, ALL),
        ("hosted tools, input reported", reported(tools), S::ClientClosed, (90, 80), 80, ALL),
        ("a document", document, S::ClientClosed, (100, 80), 80, ALL),
        ("a document, input reported", reported(document), S::ClientClosed, (90, 80), 80, 0),
        ("a stored conversation", stored, S::ClientClosed, (100, 80), 80, 7),
        ("an open path", sent, S::ClientClosed, (0, 0), 1, 0),
        ("an upload to an open path", open_path(), S::ClientClosed, (0, 0), 0, 0),
        ("a stop sequence", cut, S::Completed, (90, 80), 80, 0),
        ("an unusable answer", unfit, S::Incomplete, (100, 0), 120, 0),
    ];
    for (case, facts, state, delivered, produced, hidden_input) in table {
        let ending = used(&facts, state);
        let counted = (ending.delivered.total_input(), ending.delivered.output);
        assert_eq!(ending.reported, None, "{case}");
        assert_eq!(counted, delivered, "{case}");
        assert_eq!(ending.produced, produced, "{case}");
        assert_eq!(ending.hidden_input, hidden_input, "{case}");
    }
    let reported = with(unfit, |it| it.report = report(90, 70));
    let ending = used(&reported, S::Incomplete);
    assert_eq!(ending.reported, Some(usage(90, 70)), "unusable, reported");
}

#[test]
fn a_report_is_raised_to_what_its_text_needs_at_least() {
    let long = with(stream(), |it| {
        it.is_complete = true;
        it.text_bytes = 12_800;
    });
    let tools = with(long, |it| it.asked.hosted_tools = 1);
    let held = with(long, |it| it.is_delivered = false);
    #[rustfmt::skip]
    let table = [
        ("a usual report", long, report(90, 3000), (0, 100)),
        ("no output", long, report(90, 0), (0, OUTPUT)),
        ("no input", long, report(0, 3000), (100, 100)),
        ("no output, results of tools", tools, report(90, 0), (0, 0)),
        ("no output, nothing delivered", held, report(90, 0), (0, 0)),
    ];
    for (case, facts, report, (input, output)) in table {
        let facts = Facts { report, ..facts };
        let least = used(&facts, BillingState::Completed).least;
        assert_eq!(least, Least { input, output }, "{case}");
    }
}

#[test]
fn calls_of_tools_that_no_report_has_are_charged() {
    let of = |format, hosted_tools, streams| {
        let mut facts = stream();
        facts.asked = Asked {
            format: Some(format),
            hosted_tools,
            streams,
            rerank_searches: 3,
            ..facts.asked
        };
        facts
    };
    let whole = |format, hosted_tools| of(format, hosted_tools, false);
    let streamed = |format, hosted_tools| of(format, hosted_tools, true);
    let complete = with(whole(Format::Messages, 2), |it| it.is_complete = true);
    let unsent = with(whole(Format::Rerank, 0), |it| it.is_worked_on = false);
    let seen = with(streamed(Format::Messages, 2), |it| {
        it.report = report(90, 70);
        it.report.seen_calls = [4, 0, 0, 0];
    });
    let reported = with(seen, |it| it.is_complete = true);
    #[rustfmt::skip]
    let table = [
        ("no tools", whole(Format::Messages, 0), [0, 0, 0, 0]),
        ("a rerank", whole(Format::Rerank, 0), [0, 0, 0, 3]),
        ("a rerank that was not sent", unsent, [0, 0, 0, 0]),
        ("the option of chat", streamed(Format::Chat, 2), [1, 0, 0, 0]),
        ("before a whole answer", whole(Format::Messages, 2), [2, 0, 0, 0]),
        ("after a whole answer", complete, [0, 0, 0, 0]),
        ("within a stream", streamed(Format::Messages, 2), [0, 0, 0, 0]),
        ("calls that have arrived", seen, [4, 0, 0, 0]),
        ("calls of a final report", reported, [0, 0, 0, 0]),
    ];
    for (case, facts, calls) in table {
        let details = facts.details(ServiceTier::Standard);
        assert_eq!(details.tool_calls, calls, "{case}");
    }
}

#[test]
fn the_dearer_tier_counts_until_the_final_report_names_one() {
    use ServiceTier as T;
    let special = SpecialPrices {
        flex: Weight::from_thousandths(500),
        ..SpecialPrices::default()
    };
    for (said, has_input, asked, expected) in [
        (None, true, T::Flex, T::Flex),
        (Some(T::Standard), true, T::Flex, T::Standard),
        (Some(T::Flex), true, T::Standard, T::Flex),
        (Some(T::Standard), false, T::Flex, T::Standard),
        (Some(T::Flex), false, T::Standard, T::Standard),
    ] {
        let report = ReportedUsage {
            tier: said,
            has_input,
            ..ReportedUsage::default()
        };
        let tier = tier(&report, || asked, || special);
        assert_eq!(tier, expected, "{said:?} {has_input} {asked:?}");
    }
}

#[test]
fn hidden_output_beside_media_has_the_dearer_of_their_prices() {
    let price = |dollars: &str| Some(dollars.parse::<Money>().unwrap());
    for (image, audio, expected) in [
        (price("2"), price("1"), (40, 0)),
        (price("1"), price("2"), (0, 40)),
        (None, None, (0, 40)),
    ] {
        let special = SpecialPrices {
            image_output: image,
            audio_output: audio,
            ..SpecialPrices::default()
        };
        let mut ending = Ending {
            produced: 120,
            ..Ending::unreported(BillingState::ClientClosed, usage(100, OUTPUT))
        };
        price_media(&mut ending, &special);
        let details = ending.details;
        assert_eq!((details.image_output, details.audio_output), expected);
    }
}

#[test]
fn a_stored_response_is_paid_for_once_and_only_if_the_client_gets_it() {
    use BillingState as S;
    let (said, counted) = (usage(90, 70), usage(100, OUTPUT));
    for (state, reported, delivered, was_counted, expected) in [
        (S::Completed, Some(said), counted, false, Some(said)),
        (S::Completed, Some(said), counted, true, Some(said)),
        (S::Incomplete, None, counted, false, Some(counted)),
        (S::Completed, None, counted, true, None),
        (S::Completed, None, Usage::default(), false, None),
        (S::ClientClosed, Some(said), counted, false, None),
        (S::UpstreamFailed, Some(said), counted, false, None),
    ] {
        let ending = Ending {
            reported,
            ..Ending::unreported(state, delivered)
        };
        let payable = payable(&ending, was_counted);
        assert_eq!(payable, expected, "{state} {reported:?} {was_counted}");
    }
}

#[test]
fn only_a_stream_without_reasoning_tools_or_prediction_shows_all_its_output() {
    let facts = |change: fn(&mut RequestFacts)| {
        let mut facts = RequestFacts::default();
        change(&mut facts);
        facts
    };
    let (plain, none) = (facts(|_| {}), ReasoningMode::None);
    for (case, facts, reasoning, expected) in [
        ("plain", &plain, none, false),
        (
            "a model that reasons",
            &plain,
            ReasoningMode::Extended,
            true,
        ),
        ("effort", &facts(|it| it.needs.reasoning = true), none, true),
        ("thinking", &facts(|it| it.thinks = true), none, true),
        ("a prediction", &facts(|it| it.predicts = true), none, true),
        ("hosted tools", &facts(|it| it.hosted_tools = 1), none, true),
        ("compaction", &facts(|it| it.compacts = true), none, true),
        (
            "adaptive thinking",
            &facts(|it| it.thinking = Some(Thinking::Adaptive)),
            none,
            true,
        ),
    ] {
        assert_eq!(can_hide_output(facts, reasoning), expected, "{case}");
    }
}
