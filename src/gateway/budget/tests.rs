use super::*;

const fn allowed(percent: u16, per_second: u32) -> RetryBudgetSettings {
    RetryBudgetSettings {
        percent,
        per_second,
    }
}

fn taken(budget: &RetryBudget, now: u64, allowed: &RetryBudgetSettings) -> usize {
    (0..10_000)
        .take_while(|_| budget.take_at(now, allowed))
        .count()
}

#[test]
fn a_share_of_the_requests_and_a_few_more_can_be_tried_again() {
    let budget = RetryBudget::default();
    for _ in 0..200 {
        budget.note_request_at(10);
    }
    assert_eq!(taken(&budget, 10, &allowed(20, 3)), 40 + 30);
    assert_eq!(taken(&budget, 10, &allowed(20, 3)), 0);
    assert_eq!(
        taken(&budget, 11, &allowed(20, 3)),
        0,
        "the window is the same"
    );
}

#[test]
fn taken_retries_come_back_after_the_window() {
    let budget = RetryBudget::default();
    for now in 10..15 {
        budget.note_request_at(now);
    }
    assert_eq!(taken(&budget, 15, &allowed(100, 0)), 5);
    budget.note_request_at(24);
    assert_eq!(
        taken(&budget, 24, &allowed(100, 0)),
        0,
        "1 request, 5 retries"
    );
    assert_eq!(taken(&budget, 25, &allowed(100, 0)), 1);
    assert_eq!(taken(&budget, 500, &allowed(100, 2)), 20);
}

#[test]
fn nothing_is_allowed_where_nothing_is_set() {
    let budget = RetryBudget::default();
    budget.note_request_at(10);
    assert!(!budget.take_at(10, &allowed(0, 0)));
}

#[test]
fn however_many_ask_at_once_no_more_is_given_than_threads_can_race_for() {
    const THREADS: usize = 8;
    let budget = RetryBudget::default();
    let allowed = allowed(0, 100);
    let given = std::thread::scope(|scope| {
        let asking = [(); THREADS].map(|()| scope.spawn(|| taken(&budget, 10, &allowed)));
        asking.map(|it| it.join().unwrap()).iter().sum::<usize>()
    });
    assert!((1000..1000 + THREADS).contains(&given), "{given}");
}
