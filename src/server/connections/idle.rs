//! Limits the time that an unused connection is kept: by a deadline, and by the end of the process.
//!
//! Both waits last as long as the connection. Starting and cancelling them for each request would cost more than
//! reading its head.

use crate::server::stop::{Ending, idle_is_over};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

/// The waits of one connection.
pub(super) struct Idle {
    /// The deadline of an earlier wait; postponed when it fires.
    timer: Option<Pin<Box<Sleep>>>,
    ending: watch::Receiver<Ending>,
    /// Ready when the process closes connections that were last used when the wait began, or before.
    is_over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Idle {
    /// For a new connection.
    pub(super) fn until(ending: watch::Receiver<Ending>) -> Self {
        Self {
            timer: None,
            is_over: over(&ending, Instant::now()),
            ending,
        }
    }

    /// Ready when the connection, last used at `last_used`, was unused until `deadline`, or the process closes
    /// connections that are unused since then. Must not be polled again after that.
    pub(super) fn poll(
        &mut self,
        last_used: Instant,
        deadline: Instant,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_over.as_mut().poll(context).is_ready() {
            // The connection may have been used since this wait began.
            self.is_over = over(&self.ending, last_used);
            if self.is_over.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
        }
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

fn over(
    ending: &watch::Receiver<Ending>,
    last_used: Instant,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(idle_is_over(ending.clone(), last_used.into_std()))
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idle(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::stop::{End, begin_end};
    use std::future::poll_fn;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(3600);
    const PATIENCE: Duration = Duration::from_secs(10);

    /// How long a connection is kept that is unused from now on.
    async fn kept(idle: &mut Idle, time: Duration) -> Duration {
        let begun = Instant::now();
        let deadline = begun + time;
        let over = poll_fn(|context| idle.poll(begun, deadline, context));
        let over = tokio::time::timeout(PATIENCE, over).await;
        over.expect("it is kept for ever");
        begun.elapsed()
    }

    /// A wait that a request has cancelled.
    async fn is_used_within(idle: &mut Idle, time: Duration) {
        let now = Instant::now();
        poll_fn(|context| {
            let _ = idle.poll(now, now + time, context);
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn each_wait_has_its_own_time_whatever_the_one_before_had() {
        let (_ending, ended) = watch::channel(None);
        let [short, longer] = [100, 300].map(Duration::from_millis);
        for (first, second) in [(short, longer), (LONG, short), (longer, longer)] {
            let mut idle = Idle::until(ended.clone());
            is_used_within(&mut idle, first).await;
            let kept = kept(&mut idle, second).await;
            assert!(kept >= second, "{kept:?} instead of {second:?}");
        }
    }

    #[tokio::test]
    async fn no_connection_is_kept_longer_than_the_program_allows() {
        let (ending, ended) = watch::channel(None);
        let mut idle = Idle::until(ended);
        is_used_within(&mut idle, LONG).await;
        begin_end(&ending, End::within(LONG, Duration::ZERO));
        kept(&mut idle, LONG).await;
    }

    #[tokio::test]
    async fn a_connection_that_is_used_while_the_program_ends_is_kept_from_then_on() {
        let (ending, ended) = watch::channel(None);
        let mut idle = Idle::until(ended);
        is_used_within(&mut idle, LONG).await;
        let time = Duration::from_millis(200);
        begin_end(&ending, End::within(LONG, time));
        tokio::time::sleep(2 * time).await;
        let kept_for = kept(&mut idle, LONG).await;
        assert!(kept_for >= time, "{kept_for:?}");
    }

    #[tokio::test]
    async fn a_later_end_brings_the_wait_of_such_a_connection_forward() {
        let (ending, ended) = watch::channel(None);
        let mut idle = Idle::until(ended);
        begin_end(&ending, End::within(LONG, LONG));
        is_used_within(&mut idle, LONG).await;
        begin_end(&ending, End::within(LONG, Duration::ZERO));
        kept(&mut idle, LONG).await;
    }
}
