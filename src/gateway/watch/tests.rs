use super::*;
use std::os::fd::AsRawFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(3600);

/// The gateway's end and the provider's end of a connection.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (ours, listener.accept().await.unwrap().0)
}

fn watch(ours: &TcpStream, silence: Duration, request: Duration) -> Watch {
    let socket = Socket::of(ours.as_raw_fd()).unwrap();
    let now = Instant::now();
    Watch::begin(socket, false, None, now + silence, now + request).unwrap()
}

async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

#[tokio::test]
async fn a_read_that_waits_too_long_is_ended() {
    let (mut ours, _theirs) = connection().await;
    let begun = Instant::now();
    let watch = watch(&ours, SOON, LATE);
    assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(watch.has_fired());
    assert!(begun.elapsed() >= SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_moment_can_be_moved_either_way() {
    let (mut ours, _theirs) = connection().await;
    let watch = watch(&ours, SOON, LATE);
    watch.set(Instant::now() + 4 * SOON);
    let begun = Instant::now();
    assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(begun.elapsed() >= 3 * SOON, "{:?}", begun.elapsed());

    let (mut ours, _theirs) = connection().await;
    let other = self::watch(&ours, LATE, LATE);
    other.set(Instant::now() + SOON);
    assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(watch.has_fired() && other.has_fired());
}

#[tokio::test]
async fn received_bytes_are_not_silence_but_the_request_ends_all_the_same() {
    let (ours, mut theirs) = connection().await;
    theirs.write_all(b"more").await.unwrap();
    bounded(ours.readable()).await.unwrap();
    let begun = Instant::now();
    let watch = watch(&ours, Duration::ZERO, 3 * SOON);
    // The provider sees the end, whichever side has not read.
    assert_eq!(bounded(theirs.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(begun.elapsed() >= 3 * SOON, "{:?}", begun.elapsed());
    assert!(watch.has_fired());
}

#[tokio::test]
async fn bytes_that_stay_unread_over_http2_put_the_end_off_by_a_second() {
    let (ours, mut theirs) = connection().await;
    theirs.write_all(b"ping").await.unwrap();
    bounded(ours.readable()).await.unwrap();
    let socket = Socket::of(ours.as_raw_fd()).unwrap();
    let now = Instant::now();
    let watch = Watch::begin(socket, true, None, now, now + LATE).unwrap();
    assert_eq!(bounded(theirs.read(&mut [0; 8])).await.unwrap(), 0);
    let took = now.elapsed();
    assert!(took >= Duration::from_millis(CATCHING_UP), "{took:?}");
    assert!(watch.has_fired());
}

#[tokio::test]
async fn a_caller_that_takes_nothing_is_waited_for_and_the_silence_behind_it_is_not() {
    let (mut ours, _theirs) = connection().await;
    let backlog = Backlog::default();
    let piece = backlog.count(bytes::Bytes::from_static(b"piece"));
    let socket = Socket::of(ours.as_raw_fd()).unwrap();
    let now = Instant::now();
    let watch = Watch::begin(socket, true, Some(backlog), now + SOON, now + LATE).unwrap();
    let read = tokio::time::timeout(4 * SOON, ours.read(&mut [0; 8])).await;
    assert!(read.is_err() && !watch.has_fired());
    let is_seen = || watch.0.was_held_up.load(Ordering::Relaxed);
    bounded(async {
        while !is_seen() {
            tokio::time::sleep(SOON / 10).await;
        }
    })
    .await;
    drop(piece);
    let begun = Instant::now();
    assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(watch.has_fired());
    let least = Duration::from_millis(CATCHING_UP) - TICK;
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_request_can_time_out_because_its_caller_does_not_read() {
    for (held, silence, request, was_the_callers) in [
        // Two checks must see the backlog before the request is late.
        (true, LATE, 15 * SOON, true),
        (false, LATE, SOON, false),
        (false, SOON, LATE, false),
    ] {
        let (mut ours, _theirs) = connection().await;
        let backlog = Backlog::default();
        let piece = held.then(|| backlog.count(bytes::Bytes::from_static(b"piece")));
        let socket = Socket::of(ours.as_raw_fd()).unwrap();
        let now = Instant::now();
        let ends = (now + silence, now + request);
        let watch = Watch::begin(socket, false, Some(backlog), ends.0, ends.1).unwrap();
        assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 0);
        assert!(watch.has_fired());
        assert_eq!(watch.was_the_callers(), was_the_callers, "{held}");
        drop(piece);
    }
}

#[tokio::test]
async fn a_connection_that_is_watched_no_more_goes_on() {
    let (mut ours, mut theirs) = connection().await;
    drop(watch(&ours, SOON, SOON));
    let (mut other, _there) = connection().await;
    let watch = watch(&other, 3 * SOON, LATE);
    assert_eq!(bounded(other.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(watch.has_fired());
    theirs.write_all(b"on").await.unwrap();
    assert_eq!(bounded(ours.read(&mut [0; 8])).await.unwrap(), 2);
    drop(ours);
    assert_eq!(
        bounded(theirs.read(&mut [0; 8])).await.unwrap(),
        0,
        "closed with the other"
    );
}

#[test]
fn a_number_that_is_no_descriptor_gives_no_socket() {
    assert!(Socket::of(-1).is_none());
}

#[tokio::test]
async fn small_pieces_are_not_acknowledged_piece_by_piece() {
    let (ours, _theirs) = connection().await;
    let watch = watch(&ours, LATE, LATE);
    let answers_at_once = || rustix::net::sockopt::tcp_quickack(&ours).unwrap();
    assert!(answers_at_once());
    watch.expect_events();
    assert!(!answers_at_once());
}
