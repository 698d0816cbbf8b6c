use super::*;

const MS: Duration = Duration::from_millis(1);

/// 40 ms to the head, 100 ms to the first content, 20 ms between events, 1 s in all.
fn deadlines(streams: bool) -> (Instant, Deadlines) {
    let began = Instant::now();
    let bounds = AnswerTimeouts {
        first_byte: 40 * MS,
        first_token: 100 * MS,
        between_events: 20 * MS,
    };
    let deadlines = Deadlines::new(bounds, streams, None, began, began + 1000 * MS);
    (began, deadlines)
}

#[test]
fn each_phase_of_a_stream_has_its_own_end() {
    let (began, mut it) = deadlines(true);
    assert_eq!(it.end(), began + 40 * MS);
    assert!(it.are_over(began + 40 * MS));
    it.note(Progress::Preamble, began + 30 * MS);
    assert_eq!(it.end(), began + 100 * MS);
    assert!(!it.are_over(began + 99 * MS));
    assert!(it.are_over(began + 100 * MS));
    it.note(Progress::Events(3), began + 90 * MS);
    assert_eq!(it.end(), began + 110 * MS);
    it.note(Progress::Events(4), began + 105 * MS);
    assert_eq!(it.end(), began + 125 * MS);
    assert!(
        !it.are_over(began + 999 * MS),
        "the caller may have been slow"
    );
    assert!(it.are_over(began + 1000 * MS));
}

#[test]
fn signs_of_life_move_nothing() {
    let (began, mut it) = deadlines(true);
    for ms in 0..90 {
        it.note(Progress::Preamble, began + ms * MS);
    }
    assert_eq!(it.end(), began + 100 * MS);
    it.note(Progress::Events(7), began + 90 * MS);
    for ms in 91..110 {
        it.note(Progress::Events(7), began + ms * MS);
    }
    assert_eq!(it.end(), began + 110 * MS);
}

#[test]
fn a_whole_answer_has_its_head_and_then_its_pieces() {
    let (began, mut it) = deadlines(false);
    assert_eq!(it.end(), began + 40 * MS);
    it.note(Progress::Piece, began + 39 * MS);
    it.note(Progress::Piece, began + 50 * MS);
    assert_eq!(it.end(), began + 70 * MS);
}

#[test]
fn the_rest_of_an_error_is_awaited_for_ten_seconds_or_until_another_bound() {
    let (began, mut stream) = deadlines(true);
    let mut whole = Deadlines {
        streams: false,
        ..stream
    };
    for it in [&mut stream, &mut whole] {
        it.note(Progress::Rest, began + 30 * MS);
        it.note(Progress::Rest, began + 45 * MS);
        assert!(!it.are_over(began + 999 * MS), "its class is known");
        assert!(it.are_over(began + 1000 * MS));
    }
    assert_eq!(stream.end(), began + 100 * MS);
    assert_eq!(whole.end(), began + 50 * MS);
    whole.bounds.between_events = Duration::MAX;
    whole.request_ends = began + 60_000 * MS;
    assert_eq!(whole.end(), began + 30 * MS + LONGEST_HELD);
}

#[test]
fn a_stream_ends_soon_after_its_last_event() {
    let (began, mut it) = deadlines(true);
    it.note(Progress::Events(3), began + 90 * MS);
    it.note(Progress::Ended, began + 100 * MS);
    it.note(Progress::Ended, began + 110 * MS);
    assert_eq!(it.end(), began + 120 * MS);
    assert!(!it.are_over(began + 999 * MS), "the client may be slow");
    it.bounds.between_events = Duration::MAX;
    it.request_ends = began + 60_000 * MS;
    assert_eq!(it.end(), began + 100 * MS + LONGEST_END);
}

#[test]
fn a_first_token_that_is_due_before_the_head_is_due_counts_for_the_head_too() {
    let (began, mut it) = deadlines(true);
    it.bounds.first_token = 10 * MS;
    assert_eq!(it.end(), began + 10 * MS);
}

#[test]
fn nothing_outlasts_the_request() {
    let (began, mut it) = deadlines(true);
    it.note(Progress::Events(1), began + 995 * MS);
    assert_eq!(it.end(), began + 1000 * MS);
    assert_eq!(it.longest_silence(began + 990 * MS), 10 * MS);
    it.bounds.between_events = Duration::MAX;
    assert_eq!(it.end(), began + 1000 * MS);
}

#[test]
fn one_bound_for_everything_needs_no_watch() {
    let (began, mut it) = deadlines(false);
    assert!(it.need_a_watch(began));
    it.bounds.between_events = it.bounds.first_byte;
    assert!(!it.need_a_watch(began));
    assert!(it.need_a_watch(began + 950 * MS));
    it.streams = true;
    assert!(it.need_a_watch(began));
}

#[test]
fn while_a_body_arrives_its_next_piece_has_a_deadline() {
    let began = Instant::now();
    let bounds = AnswerTimeouts {
        first_byte: 100 * MS,
        first_token: 100 * MS,
        between_events: 100 * MS,
    };
    let mut deadlines = Deadlines::new(bounds, false, Some(10 * MS), began, began + 1000 * MS);
    assert!(deadlines.need_a_watch(began));
    assert_eq!(deadlines.end(), began + 10 * MS);
    deadlines.body_passed(began + 5 * MS, false);
    assert_eq!(deadlines.end(), began + 15 * MS);
    deadlines.body_passed(began + 7 * MS, true);
    assert_eq!(deadlines.end(), began + 107 * MS);
}
