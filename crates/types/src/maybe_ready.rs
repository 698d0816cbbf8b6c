//! A future for values that are usually in memory.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that is in memory, or a future that fetches it. Allocates only in the second case.
pub enum MaybeReady<T> {
    /// The value is in memory.
    Ready(Ready<T>),
    /// The value must be fetched.
    Pending(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> MaybeReady<T> {
    /// A value that is in memory.
    pub fn ready(value: T) -> Self {
        Self::Ready(ready(value))
    }

    /// A value that `future` fetches.
    pub fn pending(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Pending(Box::pin(future))
    }

    /// What `change` makes of the value.
    pub fn map<U: 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> MaybeReady<U>
    where
        T: 'static,
    {
        match self {
            Self::Ready(value) => MaybeReady::ready(change(value.into_inner())),
            Self::Pending(future) => MaybeReady::pending(async { change(future.await) }),
        }
    }
}

impl<T> Future for MaybeReady<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Self::Ready(value) => Pin::new(value).poll(context),
            Self::Pending(future) => future.as_mut().poll(context),
        }
    }
}
