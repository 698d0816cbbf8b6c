//! Ends a wait when the client disconnects.
//!
//! During an attempt Pingora watches the client's connection. Before the first attempt and between two of
//! them, this module does.

use pingora_core::Error;
use pingora_proxy::Session;
use std::pin::pin;
use std::task::Poll;

/// Awaits `work`, and drops it if the client disconnects first. A client whose body was not read to its
/// end is not watched: its connection cannot be read without taking a part of the body.
///
/// # Errors
///
/// The client has disconnected.
pub async fn while_connected<T>(
    session: &mut Session,
    work: impl Future<Output = T>,
) -> Result<T, Box<Error>> {
    let mut work = pin!(work);
    // Most work is done without a wait.
    if let Some(done) = at_once(work.as_mut()).await {
        return Ok(done);
    }
    if !session.is_body_done() {
        return Ok(work.await);
    }
    let leaving = session.as_downstream_mut().read_body_or_idle(true);
    tokio::select! {
        biased;
        done = &mut work => Ok(done),
        left = leaving => match left {
            Ok(_) => Ok(work.await),
            Err(mut gone) => {
                gone.set_retry(false);
                Err(gone.into_down())
            }
        },
    }
}

/// The result of `work` if it is there without a wait.
pub async fn at_once<T>(mut work: impl Future<Output = T> + Unpin) -> Option<T> {
    let polled = std::future::poll_fn(|context| Poll::Ready(pin!(&mut work).poll(context)));
    match polled.await {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora_core::protocols::l4::stream::Stream;
    use std::future::{pending, ready};
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{sleep, timeout};

    const PATIENCE: Duration = Duration::from_secs(10);
    const SOON: Duration = Duration::from_millis(50);

    /// A request that was read, and its client.
    async fn request(bytes: &[u8]) -> (Session, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let stream = Stream::from(listener.accept().await.unwrap().0);
        let mut session = Session::new_h1(Box::new(stream));
        let downstream = session.as_downstream_mut();
        assert!(downstream.read_request().await.unwrap());
        downstream.set_pipelining_enabled(true);
        (session, client)
    }

    #[tokio::test]
    async fn a_wait_is_dropped_when_the_client_disconnects() {
        let (mut session, client) = request(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let kept = std::sync::Arc::new(());
        let guard = std::sync::Arc::clone(&kept);
        let work = async move {
            let _guard = guard;
            pending::<()>().await;
        };
        let leave = async {
            sleep(SOON).await;
            drop(client);
        };
        let waited = futures::future::join(while_connected(&mut session, work), leave);
        let (waited, ()) = timeout(PATIENCE, waited).await.expect("in time");
        assert!(waited.is_err());
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
    }

    #[tokio::test]
    async fn a_wait_goes_on_while_the_client_is_connected_and_sends_its_next_request() {
        let (mut session, mut client) = request(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        client.write_all(b"GET /next").await.unwrap();
        let waited = while_connected(&mut session, sleep(4 * SOON)).await;
        assert!(waited.is_ok());
        assert!(while_connected(&mut session, ready(())).await.is_ok());
    }

    #[tokio::test]
    async fn a_wait_takes_nothing_of_a_body_that_was_not_read() {
        let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n";
        let (mut session, mut client) = request(head).await;
        client.write_all(b"body").await.unwrap();
        assert!(while_connected(&mut session, sleep(SOON)).await.is_ok());
        let read = session.read_request_body().await.unwrap();
        assert_eq!(read.as_deref(), Some(&b"body"[..]));
    }
}
