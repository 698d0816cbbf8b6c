//! Carries out the orders that concern how an answer travels: when, in what pieces, and
//! how it ends. What it says is decided before.

use crate::{
    body::{Answer, CutOff},
    connection::{Parting, Switch},
    counters::Underway,
    orders::Orders,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, Response, header};
use std::{io::Write, mem, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time};

/// An answer, ready to be sent: its head and the pieces of its body.
pub(crate) struct Prepared {
    pub(crate) head: http::response::Parts,
    pub(crate) pieces: Vec<Bytes>,
    /// Whether the pieces are events, which travel one by one.
    pub(crate) stream: bool,
}

/// Waits as ordered before the head, and for ever where the answer shall hang.
pub(crate) async fn before_head(orders: &Orders) {
    if orders.hang {
        std::future::pending::<()>().await;
    }
    if !orders.delay.is_zero() {
        time::sleep(orders.delay).await;
    }
}

/// Sends an answer as ordered.
pub(crate) fn send(
    mut prepared: Prepared,
    orders: &Orders,
    switch: &Arc<Switch>,
    underway: Underway,
) -> Response<Answer> {
    if orders.gzip {
        compress(&mut prepared);
    }
    let length: usize = prepared.pieces.iter().map(Bytes::len).sum();
    let promised = (!prepared.stream).then_some(length);
    if !prepared.stream {
        prepared
            .head
            .headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let travels = Travel::of(orders);
    if !prepared.stream && travels == Travel::of(&Orders::default()) {
        let whole = Bytes::from(prepared.pieces.concat());
        return Response::from_parts(prepared.head, Answer::whole(whole, Some(underway)));
    }
    let pieces = match orders.chunk_bytes {
        Some(size) => cut_up(&prepared.pieces, size),
        None => prepared.pieces,
    };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(play(pieces, travels, sender, Arc::clone(switch)));
    Response::from_parts(
        prepared.head,
        Answer::played(receiver, promised, Some(underway)),
    )
}

/// How a body travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Travel {
    pieces_of: Option<usize>,
    pause: Duration,
    cut: Option<usize>,
    by_reset: bool,
    stall_after: Option<usize>,
    pings: Duration,
}

impl Travel {
    fn of(orders: &Orders) -> Self {
        Self {
            pieces_of: orders.chunk_bytes,
            pause: orders.chunk_delay,
            cut: orders.cut,
            by_reset: orders.reset,
            stall_after: orders.stall_after,
            pings: orders.pings,
        }
    }
}

async fn play(
    pieces: Vec<Bytes>,
    travel: Travel,
    sender: mpsc::Sender<Result<Bytes, CutOff>>,
    switch: Arc<Switch>,
) {
    let mut left = travel.cut.unwrap_or(usize::MAX);
    for (index, mut piece) in pieces.into_iter().enumerate() {
        if travel.stall_after == Some(index) {
            return stall(travel.pings, &sender).await;
        }
        if index > 0 && !travel.pause.is_zero() {
            tokio::select! {
                () = time::sleep(travel.pause) => {}
                () = sender.closed() => return,
            }
        }
        piece.truncate(left);
        left -= piece.len();
        if !piece.is_empty() && sender.send(Ok(piece)).await.is_err() {
            return;
        }
        if left == 0 {
            break;
        }
    }
    if travel.stall_after.is_some() {
        stall(travel.pings, &sender).await;
    } else if travel.cut.is_some() {
        cut_off(travel.by_reset, &sender, &switch).await;
    }
}

/// Sends nothing more that says anything. The peer's leaving is the only way out.
async fn stall(pings: Duration, sender: &mpsc::Sender<Result<Bytes, CutOff>>) {
    const COMMENT: Bytes = Bytes::from_static(b": ping\n\n");
    if pings.is_zero() {
        return sender.closed().await;
    }
    loop {
        tokio::select! {
            () = time::sleep(pings) => {}
            () = sender.closed() => return,
        }
        if sender.send(Ok(COMMENT)).await.is_err() {
            return;
        }
    }
}

/// Ends the connection once all that was sent has left.
async fn cut_off(by_reset: bool, sender: &mpsc::Sender<Result<Bytes, CutOff>>, switch: &Switch) {
    const LOOK_AGAIN: Duration = Duration::from_millis(1);
    // Room in the channel means that the last piece was taken out of it.
    let Ok(room) = sender.reserve().await else {
        return;
    };
    while switch.blocked() && !sender.is_closed() {
        time::sleep(LOOK_AGAIN).await;
    }
    if by_reset {
        switch.arrange(Parting::Reset);
    }
    room.send(Err(CutOff));
}

fn compress(prepared: &mut Prepared) {
    let gzip = HeaderValue::from_static("gzip");
    prepared.head.headers.insert(header::CONTENT_ENCODING, gzip);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for piece in &mut prepared.pieces {
        // Writing to memory cannot fail.
        let _ = encoder.write_all(piece);
        let _ = encoder.flush();
        *piece = Bytes::from(mem::take(encoder.get_mut()));
    }
    prepared
        .pieces
        .push(Bytes::from(encoder.finish().unwrap_or_default()));
}

fn cut_up(pieces: &[Bytes], size: usize) -> Vec<Bytes> {
    let mut whole = Bytes::from(pieces.concat());
    let mut cut = Vec::with_capacity(whole.len() / size.max(1) + 1);
    while !whole.is_empty() {
        cut.push(whole.split_to(size.max(1).min(whole.len())));
    }
    cut
}
